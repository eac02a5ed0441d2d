// SPDX-License-Identifier: Apache-2.0
#include "bench/ulp/functions.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kiln::ulp {
namespace {

template <typename T>
T Sigmoid(T x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}
template <typename T>
T Rsqrt(T x) {
  return 1 / std::sqrt(x);
}
template <typename T>
T Softplus(T x) {
  return std::isnan(x) ? x : (x > 0 ? x : 0) + std::log1p(std::exp(-std::fabs(x)));
}
template <typename T>
T Quotient(T x, T y) {
  return x / y;
}

struct Format {
  int digits, least;  // bits of the significand; exponent of the smallest denormal
  long double greatest;
};

Format FormatOf(DType type) {
  switch (type) {
    case DType::kF64:
      return {53, -1074, std::numeric_limits<double>::max()};
    case DType::kF16:
      return {11, -24, 65504};
    case DType::kBF16:
      return {8, -133, 0x1.fep127L};
    default:
      return {24, -149, std::numeric_limits<float>::max()};
  }
}

constexpr Function kFunctions[] = {
    {ScalarOp::kSqrt, true, std::sqrt, std::sqrt, 0.5, 0.5},
    {ScalarOp::kExp, true, std::exp, std::exp, 2, 2},
    {ScalarOp::kLog, true, std::log, std::log, 2, 2},
    {ScalarOp::kSigmoid, true, Sigmoid<double>, Sigmoid<long double>, 2, 2},
    {ScalarOp::kTanh, true, std::tanh, std::tanh, 3, 3},
    {ScalarOp::kErf, true, std::erf, std::erf, 3, 3},
    {ScalarOp::kRsqrt, true, Rsqrt<double>, Rsqrt<long double>, 3, 3},
    {ScalarOp::kSoftplus, true, Softplus<double>, Softplus<long double>, 3, 3},
    {ScalarOp::kSin, true, std::sin, std::sin, 3, 3},
    {ScalarOp::kCos, true, std::cos, std::cos, 3, 3},
    {ScalarOp::kTan, true, std::tan, std::tan, 3, 3},
    {ScalarOp::kAsin, true, std::asin, std::asin, 3, 3},
    {ScalarOp::kAcos, true, std::acos, std::acos, 3, 3},
    {ScalarOp::kAtan, true, std::atan, std::atan, 3, 3},
    {ScalarOp::kSinh, true, std::sinh, std::sinh, 3, 3},
    {ScalarOp::kCosh, true, std::cosh, std::cosh, 3, 3},
    {ScalarOp::kAsinh, true, std::asinh, std::asinh, 3, 3},
    {ScalarOp::kAcosh, true, std::acosh, std::acosh, 3, 3},
    {ScalarOp::kAtanh, true, std::atanh, std::atanh, 3, 3},
    {ScalarOp::kExp2, false, std::exp2, std::exp2, 3, 3},
    {ScalarOp::kExpm1, false, std::expm1, std::expm1, 3, 3},
    {ScalarOp::kLog2, false, std::log2, std::log2, 3, 3},
    {ScalarOp::kLog1p, false, std::log1p, std::log1p, 3, 3},
    {ScalarOp::kErfc, false, std::erfc, std::erfc, 3, 3},
    {ScalarOp::kCbrt, false, std::cbrt, std::cbrt, 3, 3},
    {ScalarOp::kDiv, true, nullptr, nullptr, 0.5, 0.5, Quotient<double>, Quotient<long double>},
    {ScalarOp::kPow, true, nullptr, nullptr, 8, 8, std::pow, std::pow},
};

}  // namespace

std::span<const Function> Functions() { return kFunctions; }

double Function::Bound(DType type) const {
  if (type == DType::kF64) return bound64;
  // Halves are computed in f32 and rounded once more.
  return type == DType::kF32 ? bound32 : std::min(bound32, 1.0);
}

bool IsNearest(DType type, double got, double want) {
  if (type == DType::kF32) return static_cast<float>(want) == got && want != 0;
  // The unit is at least |got| * 2^-digits, up to twice that, and more for denormals.
  return std::fabs(got - want) <= std::fabs(got) * std::ldexp(0.5, -FormatOf(type).digits) &&
         want != 0;
}

double Error(DType type, double got, long double want) {
  constexpr double kWrong = std::numeric_limits<double>::infinity();
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0 : kWrong;
  if (want == 0 && got == 0) return std::signbit(got) == std::signbit(want) ? 0 : kWrong;
  const Format format = FormatOf(type);
  if (std::isinf(got) || std::isinf(want)) {
    if (std::signbit(got) != std::signbit(want)) return kWrong;
    if (std::isinf(got) && std::isinf(want)) return 0;
    // A finite value that rounds to infinity, give or take a unit.
    const long double finite = std::fabs(std::isinf(got) ? want : static_cast<long double>(got));
    return finite >= format.greatest * (1 - std::ldexp(1.0L, 2 - format.digits)) ? 0 : kWrong;
  }
  const int exponent =
      want == 0 ? format.least : std::max(std::ilogb(want) - (format.digits - 1), format.least);
  return static_cast<double>(std::fabs(got - want) / std::ldexp(1.0L, exponent));
}

}  // namespace kiln::ulp
