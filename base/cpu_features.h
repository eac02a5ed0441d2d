// SPDX-License-Identifier: Apache-2.0
// What the processor can do and the operating system lets it do.
//
// Compiled kernels are made for one of the levels of the x86-64 ABI: x86-64-v3 (AVX2, FMA, F16C,
// BMI) or x86-64-v4 (and AVX-512 F, BW, CD, DQ, VL). A processor below v3 runs kernels in the VM. A
// feature counts only when the system saves its registers (XGETBV), so a VM that masks AVX-512 is
// no v4.
#ifndef KILN_BASE_CPU_FEATURES_H_
#define KILN_BASE_CPU_FEATURES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/strings/string_view.h"
#include "base/target.h"

namespace kiln {

struct CpuFeatures {
  bool sse41 = false, sse42 = false, popcnt = false;
  bool avx = false, avx2 = false, fma = false, f16c = false;
  bool bmi1 = false, bmi2 = false, lzcnt = false, movbe = false;
  bool avx512f = false, avx512bw = false, avx512cd = false, avx512dq = false, avx512vl = false;
  bool avx512vnni = false, avx512bf16 = false, avx512fp16 = false;
  std::string model;  // "AMD EPYC 9B14", for people only: never part of a key
};

// One feature by its name in /proc/cpuinfo's spelling without underscores: "avx2", "avx512bw".
struct CpuFeatureName {
  absl::string_view name;
  bool CpuFeatures::*has;
};
std::span<const CpuFeatureName> AllCpuFeatures();

// The processor this process runs on; found once.
const CpuFeatures& HostCpu();

// Ordered: each level has all features of those before it.
enum class IsaLevel : uint8_t { kBaseline, kV3, kV4 };

// "x86-64", "x86-64-v3", "x86-64-v4", and back; nothing for any other text.
absl::string_view Name(IsaLevel level);
std::optional<IsaLevel> ParseIsaLevel(absl::string_view name);

// The highest level whose features are all there.
IsaLevel LevelOf(const CpuFeatures& cpu);

// The level that kernels run with here: that of HostCpu, or KILN_MAX_ISA of the environment where
// that is lower. Found once; another text in the variable is a warning and no cap.
IsaLevel HostIsa();

// The level as a Target, and back. Only folders that are about the CPU use them.
constexpr Target CpuTarget(IsaLevel level) {
  return {DeviceKind::kCpu, static_cast<uint8_t>(level)};
}
constexpr IsaLevel IsaOf(Target target) { return static_cast<IsaLevel>(target.level); }

}  // namespace kiln

#endif  // KILN_BASE_CPU_FEATURES_H_
