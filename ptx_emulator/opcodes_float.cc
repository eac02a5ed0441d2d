// SPDX-License-Identifier: Apache-2.0
// Arithmetic of f32 and f64. The host rounds to nearest (block.cc sees to it); other directions are
// set around one operation, whose operands and result are volatile so that it stays between.
#include <cfenv>
#include <cmath>

#include "ptx_emulator/row.h"

namespace kiln::ptx {
namespace {

enum class FloatOp { kAdd, kSub, kMul, kDiv, kFma, kSqrt };

template <FloatOp op, typename T>
T Exact(T a, T b, T c) {
  switch (op) {
    case FloatOp::kAdd:
      return a + b;
    case FloatOp::kSub:
      return a - b;
    case FloatOp::kMul:
      return a * b;
    case FloatOp::kDiv:
      return a / b;
    case FloatOp::kFma:
      return std::fma(a, b, c);
    case FloatOp::kSqrt:
      return std::sqrt(a);
  }
  return a;
}

template <int kDirection, FloatOp op, typename T>
T Rounded(T a, T b, T c) {
  if constexpr (kDirection == FE_TONEAREST) {
    return Exact<op>(a, b, c);
  } else {
    const volatile T x = a, y = b, z = c;
    std::fesetround(kDirection);
    const volatile T result = Exact<op, T>(x, y, z);
    std::fesetround(FE_TONEAREST);
    return result;
  }
}

template <typename T>
T Saturated(T value) {
  return value > 0 ? (value < 1 ? value : T{1}) : T{0};  // NaN and -0: +0
}

template <int kDirection, typename T>
void AddRounded(OpcodeTable& table, const std::string& suffix) {
  const auto binary = [&]<FloatOp op>(const char* name) {
    Add(table, name + suffix, [](T a, T b) { return Rounded<kDirection, op>(a, b, T{0}); });
    if constexpr (sizeof(T) == 4 && op != FloatOp::kDiv) {
      std::string saturated = name + suffix;
      saturated.insert(saturated.rfind('.'), ".sat");
      Add(table, saturated,
          [](T a, T b) { return Saturated(Rounded<kDirection, op>(a, b, T{0})); });
    }
  };
  binary.template operator()<FloatOp::kAdd>("add");
  binary.template operator()<FloatOp::kSub>("sub");
  binary.template operator()<FloatOp::kMul>("mul");
  if (suffix[1] == 'f') return;  // the rest has no form without a rounding
  binary.template operator()<FloatOp::kDiv>("div");
  for (const char* name : {"fma", "mad"}) {
    Add(table, name + suffix,
        [](T a, T b, T c) { return Rounded<kDirection, FloatOp::kFma>(a, b, c); });
  }
  Add(table, "rcp" + suffix, [](T a) { return Rounded<kDirection, FloatOp::kDiv>(T{1}, a, T{0}); });
  Add(table, "sqrt" + suffix,
      [](T a) { return Rounded<kDirection, FloatOp::kSqrt>(a, T{0}, T{0}); });
}

// -0 is less than +0; one NaN gives the other operand.
template <typename T>
T Least(T a, T b) {
  if (a != a) return b;
  if (b != b) return a;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

template <typename T>
T Greatest(T a, T b) {
  if (a != a) return b;
  if (b != b) return a;
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

template <typename T>
void AddFloats(OpcodeTable& table, const std::string& type) {
  using U = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  static constexpr U kSign = U{1} << (8 * sizeof(T) - 1);
  AddRounded<FE_TONEAREST, T>(table, type);
  AddRounded<FE_TONEAREST, T>(table, ".rn" + type);
  AddRounded<FE_TOWARDZERO, T>(table, ".rz" + type);
  AddRounded<FE_DOWNWARD, T>(table, ".rm" + type);
  AddRounded<FE_UPWARD, T>(table, ".rp" + type);
  Add(table, "neg" + type, [](T a) { return std::bit_cast<T>(std::bit_cast<U>(a) ^ kSign); });
  Add(table, "abs" + type, [](T a) { return std::bit_cast<T>(std::bit_cast<U>(a) & ~kSign); });
  Add(table, "copysign" + type, [](T a, T b) {
    return static_cast<U>((std::bit_cast<U>(a) & kSign) | (std::bit_cast<U>(b) & ~kSign));
  });
  Add(table, "min" + type, [](T a, T b) { return Least(a, b); });
  Add(table, "max" + type, [](T a, T b) { return Greatest(a, b); });
  if constexpr (sizeof(T) == 4) {
    Add(table, "min.NaN" + type, [](T a, T b) { return a != a || b != b ? T{NAN} : Least(a, b); });
    Add(table, "max.NaN" + type,
        [](T a, T b) { return a != a || b != b ? T{NAN} : Greatest(a, b); });
  }
  Add(table, "testp.finite" + type, [](T a) { return std::isfinite(a); });
  Add(table, "testp.infinite" + type, [](T a) { return std::isinf(a); });
  Add(table, "testp.number" + type, [](T a) { return a == a; });
  Add(table, "testp.notanumber" + type, [](T a) { return a != a; });
  Add(table, "testp.normal" + type, [](T a) { return std::isnormal(a); });
  Add(table, "testp.subnormal" + type, [](T a) { return std::fpclassify(a) == FP_SUBNORMAL; });
}

#if defined(__x86_64__)
// fma without a call for each lane, where the host has the instruction.
__attribute__((target("avx2,fma"))) void FmaRow(uint64_t* d, const uint64_t* a, const uint64_t* b,
                                                const uint64_t* c, const uint64_t*, uint32_t mask) {
  uint64_t out[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    const float value = __builtin_fmaf(std::bit_cast<float>(static_cast<uint32_t>(a[lane])),
                                       std::bit_cast<float>(static_cast<uint32_t>(b[lane])),
                                       std::bit_cast<float>(static_cast<uint32_t>(c[lane])));
    out[lane] = value != value ? kNan32 : std::bit_cast<uint32_t>(value);
  }
  for (int lane = 0; lane < kLanes; ++lane) d[lane] = (mask >> lane & 1) != 0 ? out[lane] : d[lane];
}
#endif

}  // namespace

void AddFloatOpcodes(OpcodeTable& table) {
  AddFloats<float>(table, ".f32");
  AddFloats<double>(table, ".f64");
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    table["fma.rn.f32"].function = &FmaRow;
  }
#endif
}

}  // namespace kiln::ptx
