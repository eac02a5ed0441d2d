// SPDX-License-Identifier: Apache-2.0
#include "schedule/cuda/device.h"

#include <array>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "schedule/cuda/library.h"
#include "schedule/cuda/machine_files.h"
#include "schedule/cuda/price.h"
#include "schedule/cuda/templates.h"

namespace kiln {
namespace {

constexpr int64_t kOpenOnGpu[] = {16, 1024, 1 << 20};  // speed
constexpr size_t kMostBuffers = 16;                    // compile time
constexpr size_t kMostNumbers = 64;                    // compile time
constexpr int64_t kMostOfWork = 800;                   // compile time: some 0.4 s

Machine ShippedGpu(const char* text) {
  absl::StatusOr<Machine> machine = ParseMachine(text);
  if (!machine.ok()) std::abort();  // files of the build; a test parses them
  return *std::move(machine);
}

const Machine& MachineOfLevel(Target target) {
  static const std::array<Machine, 4> kMachines = {
      ShippedGpu(kMachineFileA100), ShippedGpu(kMachineFileH100), ShippedGpu(kMachineFileB200),
      ShippedGpu(kMachineFileRtx)};
  for (const Machine& machine : kMachines)
    if (machine.target == target) return machine;
  return kMachines[0];
}

std::span<const Template* const> CudaTemplates() {
#define KILN_POINTER(Name) &k##Name,
  static constexpr const Template* kTemplates[] = {KILN_CUDA_TEMPLATES(KILN_POINTER)};
#undef KILN_POINTER
  return kTemplates;
}

Decision FusesOnGpu(const Kernel& kernel) {
  std::string reasons;
  for (const Template* of : CudaTemplates()) {
    if (of == &kDeviceStages) continue;
    const Decision accepted = of->Accepts(kernel);
    if (accepted) return accepted;
    absl::StrAppend(&reasons, reasons.empty() ? "" : "; ", of->name, ": ", accepted.reason());
  }
  return Decision::No(reasons);
}

}  // namespace

const DeviceModel kCudaModel = {
    .device = DeviceKind::kCuda,
    .fuses = FusesOnGpu,
    .templates = CudaTemplates,
    .caps = {.buffers = kMostBuffers, .numbers = kMostNumbers, .compile_work = kMostOfWork},
    .layout = ActivationLayout::kChannelsFirst,
    .library = CudaLibraryOf,
    .takes_post_op = CudaLibraryTakes,
    .open_extents = kOpenOnGpu,
    .price = CudaPriceOf,
    .picture = CudaPicture,
    .probe = [](Machine&) {},
    .machine = MachineOfLevel,
};

}  // namespace kiln
