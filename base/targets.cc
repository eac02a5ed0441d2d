// SPDX-License-Identifier: Apache-2.0
// The devices and their levels. A new device has a line in the first table and one for each of its
// levels in the second.
#include "base/cpu_features.h"
#include "base/target.h"

namespace kiln {
namespace {

std::vector<std::string> FeaturesOfCpu() {
  std::vector<std::string> features;
  for (const CpuFeatureName& feature : AllCpuFeatures())
    if (HostCpu().*feature.has) features.emplace_back(feature.name);
  return features;
}

constexpr DeviceRow kDevices[] = {
    {DeviceKind::kCpu, "cpu", [] { return static_cast<uint8_t>(HostIsa()); },
     [] { return HostCpu().model; }, FeaturesOfCpu},
};

constexpr TargetRow kTargets[] = {
    {CpuTarget(IsaLevel::kBaseline), "x86-64", "any x86-64; kernels run on the VM"},
    {CpuTarget(IsaLevel::kV3), "x86-64-v3", "AVX2 and FMA"},
    {CpuTarget(IsaLevel::kV4), "x86-64-v4", "AVX-512 F, BW, CD, DQ, VL"},
};

}  // namespace

std::span<const DeviceRow> AllDevices() { return kDevices; }
std::span<const TargetRow> AllTargets() { return kTargets; }

}  // namespace kiln
