// SPDX-License-Identifier: Apache-2.0
// The tables of base/targets.cc with a second device.
#include "base/cpu_features.h"
#include "tests/second_device/device.h"

namespace kiln {
namespace {

constexpr DeviceRow kDevices[] = {
    {DeviceKind::kCpu, "cpu", [] { return static_cast<uint8_t>(HostIsa()); },
     [] { return HostCpu().model; }, [] { return std::vector<std::string>(); }},
    {kScalarDevice, "cpu-scalar", [] { return static_cast<uint8_t>(HostIsa() >= IsaLevel::kV3); },
     [] { return HostCpu().model; }, [] { return std::vector<std::string>(); }},
};

constexpr TargetRow kTargets[] = {
    {CpuTarget(IsaLevel::kBaseline), "x86-64", "any x86-64; kernels run on the VM"},
    {CpuTarget(IsaLevel::kV3), "x86-64-v3", "AVX2 and FMA"},
    {CpuTarget(IsaLevel::kV4), "x86-64-v4", "AVX-512 F, BW, CD, DQ, VL"},
    {kScalarTarget, "cpu-scalar", "one element at a time"},
};

}  // namespace

std::span<const DeviceRow> AllDevices() { return kDevices; }
std::span<const TargetRow> AllTargets() { return kTargets; }

}  // namespace kiln
