// SPDX-License-Identifier: Apache-2.0
// Activations as plain arithmetic, which compilers vectorise: steps like those of post_op_rows.h.
//
// Polynomials and splits are those of kernel/math_f32.cc, so errors are as docs/numerics.md has
// them; bits may differ. Fast only where a fused multiply-add is an instruction.
#ifndef KILN_EXEC_LIBRARY_ACTIVATION_STEPS_H_
#define KILN_EXEC_LIBRARY_ACTIVATION_STEPS_H_

#include <bit>
#include <cstdint>

namespace kiln::library {

#define KILN_STEP [[gnu::always_inline]] static inline

struct Activation {
  KILN_STEP float Fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
  // A polynomial, its coefficients from the highest power down.
  template <typename... Rest>
  KILN_STEP float Horner(float x, float sum, Rest... rest) {
    ((sum = Fma(sum, x, rest)), ...);
    return sum;
  }
  // A NaN falls through both.
  KILN_STEP float AtMost(float x, float most) { return x > most ? most : x; }
  KILN_STEP float AtLeast(float x, float least) { return x < least ? least : x; }
  KILN_STEP float WithSign(float magnitude, float x) {
    const uint32_t sign = std::bit_cast<uint32_t>(x) & 0x80000000U;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }

  // e^x = 2^n e^r; `power` is 2^(n + bias - 127).
  struct Parts {
    float r, power;
  };
  KILN_STEP Parts Split(float x, float bias) {
    const float magic = 0x1.8p23F + bias;
    const float sum = Fma(x, 0x1.715476p+0F, magic);
    const float n = sum - magic;
    const float r = Fma(n, 0x1.05c610p-29F, Fma(n, -0x1.62e430p-1F, x));
    return {r, std::bit_cast<float>(std::bit_cast<uint32_t>(sum) << 23)};
  }
  KILN_STEP float Tail(float r) {  // (e^r - 1 - r) / r^2
    return Horner(r, 0x1.6a2420p-10F, 0x1.1239ecp-7F, 0x1.5558f2p-5F, 0x1.555492p-3F,
                  0x1.fffffcp-2F);
  }
  KILN_STEP float LessOne(float r) { return Fma(r * r, Tail(r), r); }          // e^r - 1
  KILN_STEP float Fraction(float r) { return Fma(Fma(Tail(r), r, 1), r, 1); }  // e^r

  // For x <= 0: beyond -105 the power is 0.
  KILN_STEP float ExpNotPositive(float x) {
    const Parts parts = Split(AtLeast(x, -105.3F), 127 + 25);
    return Fraction(parts.r) * parts.power * 0x1p-25F;
  }
  KILN_STEP float Sigmoid(float x) {
    const float e = ExpNotPositive(-__builtin_fabsf(x));
    const float q = e / (e + 1);
    const float base = x < 0 ? e : 1;
    return Fma(-base, q, base);
  }
  KILN_STEP float Tanh(float x) {
    const float t = __builtin_fabsf(x);
    const Parts parts = Split(AtMost(t + t, 20), 127);
    const float m = Fma(parts.power, LessOne(parts.r), parts.power - 1);
    return WithSign(m / (m + 2), x);
  }
  // For x <= 0.
  KILN_STEP float Expm1(float x) {
    const Parts parts = Split(AtLeast(x, -20), 127);
    const float m = Fma(parts.power, LessOne(parts.r), parts.power - 1);
    return __builtin_fabsf(x) < 0x1p-25F ? x : m;
  }
  KILN_STEP float Erf(float x) {
    const float t = __builtin_fabsf(x), square = t * t;
    const float p = Horner(square, -5.96761703e-4F, 4.99119423e-3F, -2.67681349e-2F, 1.12819925e-1F,
                           -3.76125336e-1F, 1.28379166e-1F);
    const float near = Fma(p, t, t);
    const float high = Fma(Fma(-1.72853470e-5F, t, 3.83197126e-4F), square,
                           Fma(-3.88396438e-3F, t, 2.42546219e-2F));
    const float q = Horner(t, high, -1.06777877e-1F, -6.34846687e-1F, -1.28717512e-1F);
    const Parts parts = Split(AtLeast(Fma(q, t, -t), -80), 127);
    const float far = 1 - Fraction(parts.r) * parts.power;
    return WithSign(t <= 0.927734375F ? near : far, x);
  }
};

struct EluStep : Activation {
  KILN_STEP float Apply(float x, float, const float* c) {
    const float below = Expm1(AtMost(x, 0)) * c[0];
    return x > 0 ? x : below;
  }
};
struct GeluErfStep : Activation {
  KILN_STEP float Apply(float x, float, const float*) {
    return x * 0.5F * (Erf(x * 0.70710678F) + 1);
  }
};
// (tanh u + 1) / 2 is the sigmoid of 2 u.
struct GeluTanhStep : Activation {
  KILN_STEP float Apply(float x, float, const float*) {
    return x * Sigmoid((x + x * x * x * 0.044715F) * 1.59576912F);
  }
};
struct SigmoidStep : Activation {
  KILN_STEP float Apply(float x, float, const float*) { return Sigmoid(x); }
};
struct SwishStep : Activation {
  KILN_STEP float Apply(float x, float, const float* c) { return x * Sigmoid(x * c[0]); }
};
struct TanhStep : Activation {
  KILN_STEP float Apply(float x, float, const float*) { return Tanh(x); }
};

#undef KILN_STEP

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_ACTIVATION_STEPS_H_
