// SPDX-License-Identifier: Apache-2.0
#include "base/cpu_features.h"

#include <cpuid.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "absl/strings/ascii.h"
#include "base/log.h"

namespace kiln {
namespace {

constexpr CpuFeatureName kFeatures[] = {
    {"sse41", &CpuFeatures::sse41},
    {"sse42", &CpuFeatures::sse42},
    {"popcnt", &CpuFeatures::popcnt},
    {"avx", &CpuFeatures::avx},
    {"avx2", &CpuFeatures::avx2},
    {"fma", &CpuFeatures::fma},
    {"f16c", &CpuFeatures::f16c},
    {"bmi1", &CpuFeatures::bmi1},
    {"bmi2", &CpuFeatures::bmi2},
    {"lzcnt", &CpuFeatures::lzcnt},
    {"movbe", &CpuFeatures::movbe},
    {"avx512f", &CpuFeatures::avx512f},
    {"avx512bw", &CpuFeatures::avx512bw},
    {"avx512cd", &CpuFeatures::avx512cd},
    {"avx512dq", &CpuFeatures::avx512dq},
    {"avx512vl", &CpuFeatures::avx512vl},
    {"avx512vnni", &CpuFeatures::avx512vnni},
    {"avx512bf16", &CpuFeatures::avx512bf16},
    {"avx512fp16", &CpuFeatures::avx512fp16},
};

struct Registers {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

// Zeros when the processor does not have the leaf.
Registers Cpuid(uint32_t leaf, uint32_t subleaf = 0) {
  Registers r;
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}

bool Bit(uint32_t word, int bit) { return (word >> bit & 1) != 0; }

// Which register files the operating system saves; the caller has seen OSXSAVE.
uint64_t Xcr0() {
  uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

std::string ModelName() {
  if (Cpuid(0x80000000).eax < 0x80000004) return "unknown";
  char brand[49] = {};
  for (uint32_t i = 0; i < 3; ++i) {
    const Registers r = Cpuid(0x80000002 + i);
    std::memcpy(brand + 16 * i, &r, sizeof r);
  }
  std::string model = brand;
  absl::RemoveExtraAsciiWhitespace(&model);
  return model;
}

CpuFeatures Detect() {
  CpuFeatures cpu;
  const Registers leaf1 = Cpuid(1), leaf7 = Cpuid(7), leaf7_1 = Cpuid(7, 1);
  const Registers extended = Cpuid(0x80000001);
  const uint64_t saved = Bit(leaf1.ecx, 27) ? Xcr0() : 0;
  const bool ymm = (saved & 0x06) == 0x06;  // SSE and AVX state
  const bool zmm = (saved & 0xe6) == 0xe6;  // and opmask, upper halves, registers 16 to 31

  cpu.sse41 = Bit(leaf1.ecx, 19);
  cpu.sse42 = Bit(leaf1.ecx, 20);
  cpu.popcnt = Bit(leaf1.ecx, 23);
  cpu.movbe = Bit(leaf1.ecx, 22);
  cpu.bmi1 = Bit(leaf7.ebx, 3);
  cpu.bmi2 = Bit(leaf7.ebx, 8);
  cpu.lzcnt = Bit(extended.ecx, 5);
  cpu.avx = ymm && Bit(leaf1.ecx, 28);
  cpu.fma = ymm && Bit(leaf1.ecx, 12);
  cpu.f16c = ymm && Bit(leaf1.ecx, 29);
  cpu.avx2 = ymm && Bit(leaf7.ebx, 5);
  cpu.avx512f = zmm && Bit(leaf7.ebx, 16);
  cpu.avx512dq = zmm && Bit(leaf7.ebx, 17);
  cpu.avx512cd = zmm && Bit(leaf7.ebx, 28);
  cpu.avx512bw = zmm && Bit(leaf7.ebx, 30);
  cpu.avx512vl = zmm && Bit(leaf7.ebx, 31);
  cpu.avx512vnni = zmm && Bit(leaf7.ecx, 11);
  cpu.avx512bf16 = zmm && Bit(leaf7_1.eax, 5);
  cpu.avx512fp16 = zmm && Bit(leaf7.edx, 23);
  cpu.model = ModelName();
  return cpu;
}

IsaLevel DetectLevel() {
  const IsaLevel host = LevelOf(HostCpu());
  const char* cap = secure_getenv("KILN_MAX_ISA");
  if (cap == nullptr || *cap == '\0') return host;
  if (const std::optional<IsaLevel> level = ParseIsaLevel(cap)) return std::min(host, *level);
  LogWarning("KILN_MAX_ISA: no level \"", cap, "\"; use x86-64, x86-64-v3 or x86-64-v4");
  return host;
}

}  // namespace

std::span<const CpuFeatureName> AllCpuFeatures() { return kFeatures; }

const CpuFeatures& HostCpu() {
  static const CpuFeatures* const cpu = new CpuFeatures(Detect());
  return *cpu;
}

absl::string_view Name(IsaLevel level) { return CpuTarget(level).name(); }

std::optional<IsaLevel> ParseIsaLevel(absl::string_view name) {
  const std::optional<Target> target = Target::Parse(name);
  if (!target || target->device != DeviceKind::kCpu) return std::nullopt;
  return IsaOf(*target);
}

IsaLevel LevelOf(const CpuFeatures& cpu) {
  const bool v3 = cpu.sse41 && cpu.sse42 && cpu.popcnt && cpu.avx && cpu.avx2 && cpu.fma &&
                  cpu.f16c && cpu.bmi1 && cpu.bmi2 && cpu.lzcnt && cpu.movbe;
  if (!v3) return IsaLevel::kBaseline;
  const bool v4 = cpu.avx512f && cpu.avx512bw && cpu.avx512cd && cpu.avx512dq && cpu.avx512vl;
  return v4 ? IsaLevel::kV4 : IsaLevel::kV3;
}

IsaLevel HostIsa() {
  static const IsaLevel level = DetectLevel();
  return level;
}

}  // namespace kiln
