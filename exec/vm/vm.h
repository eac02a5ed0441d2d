// SPDX-License-Identifier: Apache-2.0
// The block VM: runs a Kernel without compiling it, with the bits that its text defines.
//
//   KILN_ASSIGN_OR_RETURN(std::unique_ptr<VmKernel> vm, VmKernel::Compile(kernel));
//   launcher.Launch(&RunVm, vm.get(), argv);       // argv as for compiled code, see kernel/abi.h
//
// Blocks of a few hundred elements go through one vectorised primitive after the other, so that an
// interpreted step costs little more than its arithmetic. The bits are the same for any instruction
// set, any number of threads, and compiled code.
#ifndef KILN_EXEC_VM_VM_H_
#define KILN_EXEC_VM_VM_H_

#include <memory>

#include "absl/status/statusor.h"
#include "base/cpu_features.h"
#include "exec/vm/large_dim.h"
#include "kernel/kernel.h"

namespace kiln {

namespace vm {
struct Program;
}

// Immutable; any number of threads may run it.
class VmKernel {
 public:
  // kInvalidArgument or kUnimplemented where the kernel does not verify, a function has no
  // expansion for its type, or more than 16 dims are iterated. Takes well under a millisecond.
  // `isa` must not be above HostIsa().
  static absl::StatusOr<std::unique_ptr<VmKernel>> Compile(const Kernel& kernel,
                                                           IsaLevel isa = HostIsa());
  ~VmKernel();

  const vm::Program& program() const { return *program_; }
  // What runs where the innermost dims are short; may be null.
  const vm::Program* wide() const { return wide_.get(); }

 private:
  VmKernel(std::unique_ptr<vm::Program> program, std::unique_ptr<vm::Program> wide);
  std::unique_ptr<vm::Program> program_, wide_;
};

// Results of RunVm besides 0.
inline constexpr int kVmOutOfMemory = -1;
inline constexpr int kVmCancelled = -2;

// A KernelFn: runs the VmKernel in LaunchContext::kernel. An output may lie exactly over an input
// that is only read at the output's own coordinates.
int RunVm(void** argv);

// The same for launches beyond 32 bits (large_dim.h).
int RunLargeVm(void** argv);

}  // namespace kiln

#endif  // KILN_EXEC_VM_VM_H_
