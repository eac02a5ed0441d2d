// SPDX-License-Identifier: Apache-2.0
#include "exec/kernel_function.h"

#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "exec/support/operand_copies.h"
#include "exec/vm/vm.h"

namespace kiln {
namespace {

struct DeviceVm {
  std::shared_ptr<const VmKernel> vm;
  ArgumentCounts counts;
};

int RunDeviceVm(void** argv) {
  LaunchContext context = **static_cast<LaunchContext**>(argv[0]);
  const auto& kernel = *static_cast<const DeviceVm*>(context.kernel);
  auto& queue = *static_cast<DeviceQueue*>(context.stream);
  const auto failed = [&](absl::Status status) {
    queue.SetError(std::move(status));
    return -1;
  };
  OperandCopies copies(argv, kernel.counts);
  std::vector<std::vector<uint64_t>> memory;
  std::vector<void*> places;
  for (const OperandCopies::Operand& operand : copies.operands()) {
    places.push_back(memory.emplace_back(operand.bytes / sizeof(uint64_t) + 1).data());
    // An output is written whole; what lies between its elements stays as it is.
    if (operand.bytes == 0 || (operand.output && !operand.gaps)) continue;
    absl::Status copied = queue.CopyOut(places.back(), operand.data, operand.bytes);
    if (!copied.ok()) return failed(std::move(copied));
  }
  if (absl::Status copied = queue.WaitForCopies(); !copied.ok()) return failed(std::move(copied));
  copies.Place(places);
  context.kernel = kernel.vm.get();
  LaunchContext* self = &context;
  copies.argv()[0] = &self;
  if (const int result = RunVm(copies.argv()); result != 0) return result;
  for (size_t i = 0; i < places.size(); ++i) {
    const OperandCopies::Operand& operand = copies.operands()[i];
    if (!operand.output || operand.bytes == 0) continue;
    absl::Status copied = queue.CopyIn(operand.data, places[i], operand.bytes);
    if (!copied.ok()) return failed(std::move(copied));
  }
  return 0;
}

}  // namespace

std::shared_ptr<const KernelFunction> CompiledFunction(LoadedKernel loaded, DeviceKind device) {
  auto owner = std::make_shared<const LoadedKernel>(std::move(loaded));
  const LoadedKernel& code = *owner;
  return std::make_shared<const KernelFunction>(
      KernelFunction{code.function(), code.self(), /*vm=*/false, std::move(owner), device});
}

absl::StatusOr<std::shared_ptr<const KernelFunction>> VmFunction(const Kernel& kernel,
                                                                 DeviceKind device, KernelFn run) {
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<const VmKernel> vm, VmKernel::Compile(kernel));
  if (OnHost(device)) {
    const void* const self = vm.get();
    return std::make_shared<const KernelFunction>(KernelFunction{
        run != nullptr ? run : &RunVm, self, /*vm=*/true, std::move(vm), DefaultDevice()});
  }
  auto owner =
      std::make_shared<const DeviceVm>(DeviceVm{std::move(vm), ArgumentCounts::Of(kernel)});
  const void* const self = owner.get();
  return std::make_shared<const KernelFunction>(
      KernelFunction{&RunDeviceVm, self, /*vm=*/true, std::move(owner), device});
}

}  // namespace kiln
