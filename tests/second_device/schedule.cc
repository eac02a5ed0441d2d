// SPDX-License-Identifier: Apache-2.0
// How kernels are scheduled and priced for the second device, and the table with it.
#include "schedule/schedule.h"
#include "schedule/cpu/device.h"
#include "schedule/cpu/elementwise.h"
#include "schedule/cpu/picture.h"
#include "schedule/cpu/price.h"
#include "tests/second_device/device.h"

namespace kiln {
namespace {

struct ScalarLoops : FieldsOf<ScalarLoops> {
  void Visit(FieldVisitor&) override {}
  LoopSummary Loops(const Kernel&) const override { return {.step = 1}; }
  LaunchInfo Info() const override { return {.step = 1, .columns = 1, .in_place = {}}; }
};

Decision Accepts(const Kernel& kernel) {
  for (const KernelOutput& output : kernel.outputs)
    if (output.layout != Layout::kDense) return Decision::No("an output is not dense");
  return AcceptsElementwise(kernel);
}

std::vector<Schedule> Candidates(const Kernel&, const SizeClass&, const Machine&) {
  return {Schedule(kScalarLoops, ScalarLoops())};
}

std::span<const Template* const> Templates() {
  static constexpr const Template* kTemplates[] = {&kScalarLoops};
  return kTemplates;
}

const Machine& MachineOf(Target) {
  static const Machine kMachine = [] {
    Machine machine = ShippedMachine(LowestTarget(DeviceKind::kCpu));
    machine.target = kScalarTarget;
    machine.vector_bytes = 4;
    machine.add_ns *= 8;
    return machine;
  }();
  return kMachine;
}

}  // namespace

const Template kScalarLoops = {"scalar_loops", "element-wise, a loop for each dim", Accepts,
                               Candidates, Make<ScalarLoops>};

const DeviceModel kScalarModel = {
    .device = kScalarDevice,
    .fuses = Accepts,
    .templates = Templates,
    .caps = {.buffers = 8, .numbers = 8, .compile_work = 400},
    .layout = ActivationLayout::kChannelsFirst,
    .open_extents = kCpuModel.open_extents,
    .price = CpuPriceOf,
    .picture = CpuPicture,
    .probe = [](Machine&) {},
    .machine = MachineOf,
};

std::span<const DeviceModel* const> AllDeviceModels() {
  static constexpr const DeviceModel* kModels[] = {&kCpuModel, &kScalarModel};
  return kModels;
}

}  // namespace kiln
