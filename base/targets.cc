// SPDX-License-Identifier: Apache-2.0
// The devices and their levels. A new device has a line in the first table and one for each of its
// levels in the second.
#include "base/cpu_features.h"
#include "base/cuda_device.h"
#include "base/target.h"

namespace kiln {
namespace {

std::vector<std::string> FeaturesOfCpu() {
  std::vector<std::string> features;
  for (const CpuFeatureName& feature : AllCpuFeatures())
    if (HostCpu().*feature.has) features.emplace_back(feature.name);
  return features;
}

constexpr Target CudaTarget(uint8_t level) { return {DeviceKind::kCuda, level}; }

constexpr DeviceRow kDevices[] = {
    {DeviceKind::kCpu, "cpu", [] { return static_cast<uint8_t>(HostIsa()); },
     [] { return HostCpu().model; }, FeaturesOfCpu},
    {DeviceKind::kCuda, "cuda", HostCudaLevel, HostCudaModel, HostCudaFeatures},
};

constexpr TargetRow kTargets[] = {
    {CpuTarget(IsaLevel::kBaseline), "x86-64", "any x86-64; kernels run on the VM"},
    {CpuTarget(IsaLevel::kV3), "x86-64-v3", "AVX2 and FMA"},
    {CpuTarget(IsaLevel::kV4), "x86-64-v4", "AVX-512 F, BW, CD, DQ, VL"},
    {CudaTarget(1), "cuda-sm80", "compute capability 8.0: Ampere"},
    {CudaTarget(2), "cuda-sm90", "compute capability 9.0: Hopper"},
    {CudaTarget(3), "cuda-sm100", "compute capability 10.0: Blackwell for data centers"},
    {CudaTarget(4), "cuda-sm120", "compute capability 12.0: Blackwell for workstations"},
};

}  // namespace

std::span<const DeviceRow> AllDevices() { return kDevices; }
std::span<const TargetRow> AllTargets() { return kTargets; }

}  // namespace kiln
