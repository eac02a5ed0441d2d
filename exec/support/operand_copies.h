// SPDX-License-Identifier: Apache-2.0
// Copies of a launch's operands, for a kernel that runs where its operands are not: the VM, of
// operands on a device, and device code, of operands in the host's memory.
//
//   OperandCopies copies(argv, ArgumentCounts::Of(kernel));
//   copies.Place(addresses);             // one for each operand, of copies.sizes()[i] bytes
//   run(copies.argv());                  // after what is read has been copied there
//
// An operand is copied from its first byte to its last, gaps included; those of outputs are there
// before and after.
#ifndef KILN_EXEC_SUPPORT_OPERAND_COPIES_H_
#define KILN_EXEC_SUPPORT_OPERAND_COPIES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exec/support/compute_device.h"
#include "kernel/abi.h"
#include "kernel/kernel.h"

namespace kiln {

// How many arguments of each kind a kernel has (kernel/abi.h).
struct ArgumentCounts {
  size_t inputs = 0, dims = 0, params = 0, outputs = 0;
  static ArgumentCounts Of(const Kernel& kernel) {
    return {kernel.inputs.size(), kernel.dims.size(), kernel.params.size(), kernel.outputs.size()};
  }
};

class OperandCopies {
 public:
  // `argv` and what it points to must outlive it.
  OperandCopies(void** argv, const ArgumentCounts& counts);

  // Inputs, then outputs.
  struct Operand {
    uint8_t* data = nullptr;  // the original's first byte, by address
    size_t bytes = 0;
    size_t before = 0;  // bytes ahead of the first element, where strides are negative
    bool output = false;
    bool gaps = false;  // bytes between the elements, which are not the operand's
  };
  std::span<const Operand> operands() const { return operands_; }
  // Where the copies lie.
  void Place(std::span<void* const> copies);
  // The launch with the copies. argv[0] is the original's.
  void** argv() { return argv_.data(); }

 private:
  std::vector<Operand> operands_;
  std::vector<BufferArg> buffers_;
  std::vector<void*> argv_;
};

// Device code on operands in memory of the host: each is copied to memory of its own on the device,
// and outputs back. argv[0] must be a context with the kernel. The code's result; errors of the
// device.
absl::StatusOr<int> RunWithCopiesOnDevice(KernelFn code, void** argv, const ArgumentCounts& counts,
                                          ComputeDevice& device, DeviceQueue& queue);

}  // namespace kiln

#endif  // KILN_EXEC_SUPPORT_OPERAND_COPIES_H_
