// SPDX-License-Identifier: Apache-2.0
#include "schedule/cpu/device.h"

#include <cstdlib>

#include "base/cpu_features.h"
#include "schedule/cpu/machine_files.h"
#include "schedule/cpu/schedulers.h"
#include "schedule/cpu/templates.h"

namespace kiln {
namespace {

constexpr size_t kMaxBuffers = 16;
constexpr int64_t kMaxWork = 800;  // some 0.4 s

// Files of the build; a test parses them.
Machine Shipped(absl::string_view text) {
  absl::StatusOr<Machine> machine = ParseMachine(text);
  if (!machine.ok()) std::abort();
  return *std::move(machine);
}

const Machine& MachineOf(Target target) {
  static const Machine kMachineV3 = Shipped(kMachineFileV3);
  static const Machine kMachineV4 = Shipped(kMachineFileV4);
  return IsaOf(target) == IsaLevel::kV4 ? kMachineV4 : kMachineV3;
}

std::span<const Template* const> Templates() {
#define KILN_POINTER(Name) &k##Name,
  static constexpr const Template* kTemplates[] = {KILN_CPU_TEMPLATES(KILN_POINTER)};
#undef KILN_POINTER
  return kTemplates;
}

}  // namespace

std::span<const Scheduler> CpuSchedulers() {
  static const Scheduler kSchedulers[] = {kPointwiseScheduler, kRowScheduler,   kColumnScheduler,
                                          kCrossScheduler,     kSweepScheduler, kGeneralScheduler};
  return kSchedulers;
}

const DeviceModel kCpuModel = {
    .device = DeviceKind::kCpu,
    .templates = Templates,
    .schedulers = CpuSchedulers,
    .caps = {.buffers = kMaxBuffers, .compile_work = kMaxWork},
    .layout = ActivationLayout::kChannelsLast,
    .machine = MachineOf,
};

}  // namespace kiln
