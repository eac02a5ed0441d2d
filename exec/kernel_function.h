// SPDX-License-Identifier: Apache-2.0
// KernelFunction: one executable form of a kernel, compiled code or the VM.
//
//   VmFunction(kernel, DeviceKind::kCpu)    RunVm, of operands in the host's memory
//   VmFunction(kernel, DeviceKind::kCuda)   the same of operands on a device, which are copied to
//                                           the host, and what the VM has written back: for
//                                           launches that no code of the device is for, or until
//                                           there is some
#ifndef KILN_EXEC_KERNEL_FUNCTION_H_
#define KILN_EXEC_KERNEL_FUNCTION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "base/target.h"
#include "exec/support/device.h"
#include "kernel/abi.h"
#include "kernel/kernel.h"

namespace kiln {

// `self` goes to LaunchContext::kernel (the VmKernel for the VM, null for code of the CPU).
struct KernelFunction {
  KernelFn run = nullptr;
  const void* self = nullptr;
  bool vm = false;
  std::shared_ptr<const void> owner;    // keeps code or VmKernel alive
  DeviceKind device = DefaultDevice();  // where operands lie
};

std::shared_ptr<const KernelFunction> CompiledFunction(LoadedKernel loaded, DeviceKind device);

// `run`: another than RunVm, of operands in the host's memory. As VmKernel::Compile.
absl::StatusOr<std::shared_ptr<const KernelFunction>> VmFunction(const Kernel& kernel,
                                                                 DeviceKind device,
                                                                 KernelFn run = nullptr);

}  // namespace kiln

#endif  // KILN_EXEC_KERNEL_FUNCTION_H_
