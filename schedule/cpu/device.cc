// SPDX-License-Identifier: Apache-2.0
#include "schedule/cpu/device.h"

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/cpu_features.h"
#include "schedule/cpu/elementwise.h"
#include "schedule/cpu/machine_files.h"
#include "schedule/cpu/picture.h"
#include "schedule/cpu/price.h"
#include "schedule/cpu/probe.h"
#include "schedule/cpu/templates.h"
#include "schedule/reductions.h"

namespace kiln {
namespace {

constexpr int64_t kOpenExtents[] = {16, 256, 4096};  // speed
constexpr size_t kMaxBuffers = 16;                   // compile time
constexpr size_t kMaxNumbers = 64;                   // compile time
constexpr int64_t kMaxWork = 800;                    // compile time: some 0.4 s

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

Decision Fuses(const Kernel& kernel) {
  if (Scatters(kernel)) return kScatter.Accepts(kernel);
  constexpr struct {
    const char* name;
    Decision (*accepts)(const Kernel& kernel);
  } kForms[] = {{"element-wise", AcceptsElementwise},
                {"rows", AcceptsRows},
                {"columns", AcceptsColumns},
                {"rows and columns", AcceptsRowAndColumn},
                {"streams", AcceptsStreams}};
  std::string reasons;
  for (const auto& form : kForms) {
    const Decision accepted = form.accepts(kernel);
    if (accepted) return accepted;
    absl::StrAppend(&reasons, reasons.empty() ? "" : "; ", form.name, ": ", accepted.reason());
  }
  return Decision::No(reasons);
}

}  // namespace

const DeviceModel kCpuModel = {
    .device = DeviceKind::kCpu,
    .fuses = Fuses,
    .templates = Templates,
    .caps = {.buffers = kMaxBuffers, .numbers = kMaxNumbers, .compile_work = kMaxWork},
    .layout = ActivationLayout::kChannelsLast,
    .library = nullptr,
    .takes_post_op = nullptr,
    .open_extents = kOpenExtents,
    .price = CpuPriceOf,
    .picture = CpuPicture,
    .probe = ProbeCpu,
    .machine = MachineOf,
};

}  // namespace kiln
