// SPDX-License-Identifier: Apache-2.0
// The expansions against libm in long double: all special values and a sample of all f32 bit
// patterns.
#include "kernel/math.h"

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernel/eval.h"
#include "kernel/text.h"

namespace kiln {
namespace {

using Real = long double;

// A function of par0 (and par1) in `type`, expanded.
ScalarExpr Expanded(ScalarOp op, DType type) {
  ScalarExpr expr;
  const Ex x = Param(expr, type, 0);
  expr.set_root(Info(op).arity == 2 ? Apply(op, x, Param(expr, type, 1)).id : Apply(op, x).id);
  return *ExpandMath(expr);
}

class Function {
 public:
  Function(ScalarOp op, DType type) : type_(type), expr_(Expanded(op, type)) {}
  double operator()(double x, double y = 0) {
    const auto leaf = [&](ExprId id, const uint64_t*) {
      return ConstBits(type_, expr_.node(id).ref == 0 ? x : y);
    };
    return ConstValue(type_, EvalScalar(expr_, leaf, scratch_));
  }
  size_t nodes() const { return expr_.nodes().size(); }

 private:
  DType type_;
  ScalarExpr expr_;
  std::vector<uint64_t> scratch_;
};

// Error in units of the last place of `want` in a float with `digits` bits and smallest exponent
// `least`; infinite where one is NaN or infinite and the other is not, or where a zero has the
// wrong sign.
Real UlpError(double got, Real want, int digits, int least, double greatest) {
  constexpr Real kWrong = std::numeric_limits<Real>::infinity();
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0 : kWrong;
  if (want == 0 && got == 0) return std::signbit(got) == std::signbit(want) ? 0 : kWrong;
  if (want == 0) return std::fabs(got) / std::ldexp(Real{1}, least);
  const int exponent = std::max(std::ilogb(want) - (digits - 1), least);
  if (std::isinf(got) || std::isinf(want)) {
    if (std::isinf(got) && std::isinf(want))
      return std::signbit(got) == std::signbit(want) ? 0 : kWrong;
    // A finite value that rounds to infinity, give or take a unit.
    return std::fabs(std::isinf(got) ? want : got) >= greatest * (1 - std::ldexp(1.0, 2 - digits))
               ? 0
               : kWrong;
  }
  return std::fabs(got - want) / std::ldexp(Real{1}, exponent);
}
Real FloatUlp(double got, Real want) {
  return UlpError(got, want, 24, -149, std::numeric_limits<float>::max());
}
Real DoubleUlp(double got, Real want) {
  return UlpError(got, want, 53, -1074, std::numeric_limits<double>::max());
}

struct Case {
  ScalarOp op;
  Real (*reference)(Real);
  double bound;
};

Real Sigmoid(Real x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
Real Rsqrt(Real x) { return 1 / std::sqrt(x); }
Real Softplus(Real x) {
  return (x > 0 ? x : 0) + std::log1p(std::exp(-std::fabs(x))) + (std::isnan(x) ? x : 0);
}

const Case kFloatCases[] = {
    {ScalarOp::kExp, std::exp, 2},     {ScalarOp::kLog, std::log, 2},
    {ScalarOp::kTanh, std::tanh, 3},   {ScalarOp::kErf, std::erf, 3},
    {ScalarOp::kSigmoid, Sigmoid, 2},  {ScalarOp::kRsqrt, Rsqrt, 2},
    {ScalarOp::kSin, std::sin, 2},     {ScalarOp::kCos, std::cos, 2},
    {ScalarOp::kTan, std::tan, 1},     {ScalarOp::kAsin, std::asin, 3},
    {ScalarOp::kAcos, std::acos, 2},   {ScalarOp::kAtan, std::atan, 2},
    {ScalarOp::kSinh, std::sinh, 3},   {ScalarOp::kCosh, std::cosh, 2},
    {ScalarOp::kAsinh, std::asinh, 1}, {ScalarOp::kAcosh, std::acosh, 1},
    {ScalarOp::kAtanh, std::atanh, 1}, {ScalarOp::kExp2, std::exp2, 1},
    {ScalarOp::kExpm1, std::expm1, 2}, {ScalarOp::kLog2, std::log2, 1},
    {ScalarOp::kLog1p, std::log1p, 1}, {ScalarOp::kSoftplus, Softplus, 2},
    {ScalarOp::kErfc, std::erfc, 3},   {ScalarOp::kCbrt, std::cbrt, 1},
};

const Case kDoubleCases[] = {
    {ScalarOp::kExp, std::exp, 1},     {ScalarOp::kLog, std::log, 1},
    {ScalarOp::kTanh, std::tanh, 2},   {ScalarOp::kErf, std::erf, 2},
    {ScalarOp::kSigmoid, Sigmoid, 1},  {ScalarOp::kRsqrt, Rsqrt, 2},
    {ScalarOp::kSin, std::sin, 1},     {ScalarOp::kCos, std::cos, 1},
    {ScalarOp::kTan, std::tan, 3},     {ScalarOp::kAsin, std::asin, 1},
    {ScalarOp::kAcos, std::acos, 1},   {ScalarOp::kAtan, std::atan, 2},
    {ScalarOp::kSinh, std::sinh, 1},   {ScalarOp::kCosh, std::cosh, 1},
    {ScalarOp::kAsinh, std::asinh, 2}, {ScalarOp::kAcosh, std::acosh, 2},
    {ScalarOp::kAtanh, std::atanh, 1}, {ScalarOp::kExp2, std::exp2, 1},
    {ScalarOp::kExpm1, std::expm1, 1}, {ScalarOp::kLog2, std::log2, 1},
    {ScalarOp::kLog1p, std::log1p, 1}, {ScalarOp::kSoftplus, Softplus, 2},
    {ScalarOp::kErfc, std::erfc, 3},   {ScalarOp::kCbrt, std::cbrt, 1},
};

std::vector<double> Specials(bool wide) {
  std::vector<double> values;
  for (const double x : {0.0,
                         0x1p-149,
                         0x1p-140,
                         0x1p-127,
                         0x1p-126,
                         0x1.fffffep-127,
                         1e-20,
                         1e-8,
                         1e-4,
                         0.0625,
                         0.5,
                         0.625,
                         0.7071067,
                         0.7071068,
                         0.927734375,
                         0.99999994,
                         1.0,
                         1.0000001,
                         1.5707964,
                         3.1415927,
                         9.0,
                         10.05,
                         17.0,
                         20.0,
                         87.0,
                         87.33654,
                         88.0,
                         88.72283,
                         88.72284,
                         89.0,
                         100.0,
                         103.27,
                         103.97,
                         104.0,
                         105.0,
                         150.0,
                         1e4,
                         1e9,
                         0x1p50,
                         1.1e15,
                         1e20,
                         1e30,
                         3.4028234663852886e38,
                         std::numeric_limits<double>::infinity()}) {
    values.push_back(x);
    values.push_back(-x);
  }
  values.push_back(std::numeric_limits<double>::quiet_NaN());
  if (!wide) {
    for (double& value : values) value = static_cast<float>(value);
  }
  return values;
}

std::string Label(const Case& c, double x) {
  return std::string(Info(c.op).name) + "(" + std::to_string(x) + ")";
}

TEST(Math, StaysWithinItsBoundOnASampleOfAllFloats) {
  for (const Case& c : kFloatCases) {
    Function f(c.op, DType::kF32);
    Real worst = 0;
    float worst_at = 0;
    const auto check = [&](float x) {
      const Real error = FloatUlp(f(x), c.reference(x));
      if (error > worst) worst = error, worst_at = x;
    };
    for (const double x : Specials(false)) check(static_cast<float>(x));
    for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 43003)
      check(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    for (int i = -20000; i <= 20000; ++i)
      check(static_cast<float>(i) * 0.00617f);  // where networks live
    std::printf("%-9s %3zu nodes, %.2Lf ULP at %a\n", Info(c.op).name, f.nodes(), worst,
                static_cast<double>(worst_at));
    EXPECT_LE(worst, c.bound) << Label(c, worst_at) << " = " << f(worst_at) << ", want "
                              << c.reference(worst_at);
  }
}

TEST(Math, StaysWithinItsBoundOnASampleOfDoubles) {
  for (const Case& c : kDoubleCases) {
    Function f(c.op, DType::kF64);
    Real worst = 0;
    double worst_at = 0;
    const auto check = [&](double x) {
      const Real error = DoubleUlp(f(x), c.reference(x));
      if (error > worst) worst = error, worst_at = x;
    };
    for (const double x : Specials(true)) check(x);
    for (const double x : {0x1p-1074, 0x1p-1030, 1e-300, 709.7, 709.9, -745.0, -745.3, 1e300})
      check(x);
    for (uint64_t i = 0; i < 20000; ++i) check(std::bit_cast<double>(i * 922337203685477ull));
    for (int i = 0; i < 3000; ++i) {  // near 1 and near 0
      check(1 + std::ldexp(i - 1500.5, -i % 50 - 12));
      check(std::ldexp(i + 0.3, -i % 60 - 12));
    }
    for (int i = -20000; i <= 20000; ++i) check(i * 0.00617);
    std::printf("%-9s f64 %3zu nodes, %.2Lf ULP at %a\n", Info(c.op).name, f.nodes(), worst,
                worst_at);
    EXPECT_LE(worst, c.bound) << Label(c, worst_at) << " = " << f(worst_at);
  }
}

void CheckPowers(DType type, double bound) {
  const bool wide = type == DType::kF64;
  Function f(ScalarOp::kPow, type);
  std::vector<double> values = Specials(wide);
  for (const double x : {2.0, -2.0, 3.0, -3.0, 2.5, -2.5, 0.3333333432674408, 1e-3, 127.0, -127.0,
                         16777216.0, 16777217.0, -1.5}) {
    values.push_back(wide ? x : static_cast<float>(x));
  }
  if (wide) values.insert(values.end(), {0x1p-1074, -1023.0, 0x1p53, 0x1.fffffffffffffp1023});
  Real worst = 0;
  const auto check = [&](double x, double y) {
    const Real want = std::pow(static_cast<Real>(x), static_cast<Real>(y));
    const Real error = wide ? DoubleUlp(f(x, y), want) : FloatUlp(f(x, y), want);
    EXPECT_LE(error, bound) << "pow(" << x << ", " << y << ") = " << f(x, y) << ", want " << want;
    worst = std::max(worst, error);
  };
  for (const double x : values) {
    for (const double y : values) check(x, y);
  }
  for (uint64_t bits = 0; bits < 0x7f800000u; bits += 43003) {
    const double x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    check(x, static_cast<float>(static_cast<double>(bits % 2011) / 97 - 10));
    if (wide) check(1 + x * 0x1p-120, std::sqrt(x) * 1e-8);  // near 1 and near 0
  }
  std::printf("pow %s  %3zu nodes, %.2Lf ULP\n", wide ? "f64" : "f32", f.nodes(), worst);
}

TEST(Math, RaisesToPowersAsTheCStandardSays) {
  CheckPowers(DType::kF32, 1);
  CheckPowers(DType::kF64, 2);
}

TEST(Math, MultipliesForSmallLiteralExponents) {
  for (const int n : {1, 2, 3, -1}) {
    ScalarExpr expr;
    const Ex x = Param(expr, DType::kF32, 0);
    expr.set_root(Apply(ScalarOp::kPow, x, x.Like(n)).id);
    EXPECT_LE(ExpandMath(expr)->nodes().size(), 3u) << n;
  }
}

// exp(x - m) of a kernel whose stage m is the maximum of `operand`.
std::vector<uint64_t> ExpBelowMaximum(const char* operand, const std::vector<double>& differences,
                                      size_t& nodes) {
  const absl::StatusOr<Kernel> kernel = ParseKernel(
      absl::StrCat("kernel v1 math 1\ndims a b\nin 0 f32 [a, b] dense\nin 1 f32 [a, b] dense\n"
                   "s0 : f32 [a] = reduce max over b (",
                   operand,
                   "[a, b])\nout 0 f32 [a, b] dense = exp(sub(in0[a, b], s0[a]))\nout 1 f32 [a, b] "
                   "dense = in1[a, b]\n"));
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  const absl::StatusOr<Kernel> expanded = ExpandMath(*kernel);
  EXPECT_TRUE(expanded.ok()) << expanded.status();
  const ScalarExpr& expr = expanded->outputs[0].expr;
  nodes = expr.nodes().size();
  std::vector<uint64_t> scratch, results;
  for (const double x : differences) {
    const auto leaf = [&](ExprId id, const uint64_t*) {
      return ConstBits(DType::kF32, expr.node(id).source == ReadSource::kStage ? 0.0 : x);
    };
    results.push_back(EvalScalar(expr, leaf, scratch));
  }
  return results;
}

TEST(Math, ExpBelowAMaximumIsTheSameInFewerOperations) {
  std::vector<double> below = {0.0,    -0.0,   -103.9, -104.0,    -104.1, -105.2,
                               -105.4, -120.0, -1e30,  -HUGE_VAL, NAN,    -1e-45};
  for (int i = 0; i < 100000; ++i) below.push_back(-i * 1.0437e-3);
  size_t fewer = 0, all = 0;
  EXPECT_EQ(ExpBelowMaximum("in0", below, fewer), ExpBelowMaximum("in1", below, all));
  EXPECT_LT(fewer, all);
  // The maximum of something else bounds nothing.
  EXPECT_EQ(ExpBelowMaximum("in1", {1000.0}, all)[0], ConstBits(DType::kF32, HUGE_VAL));
}

TEST(Math, ExpOfWhatIsFarBelowAMaximumDoesNotUnderflow) {
  size_t nodes = 0;
  for (const char* other : {"in0", "in1"}) {
    std::feclearexcept(FE_UNDERFLOW);
    EXPECT_EQ(ExpBelowMaximum(other, {-105.4, -1e4, -1e30, -HUGE_VAL}, nodes),
              std::vector<uint64_t>(4, 0));
    EXPECT_EQ(std::fetestexcept(FE_UNDERFLOW), 0);
  }
}

TEST(Math, SaysWhatItCannotExpand) {
  EXPECT_TRUE(HasExpansion(ScalarOp::kErf, DType::kF32));
  EXPECT_TRUE(HasExpansion(ScalarOp::kErf, DType::kF64));
  EXPECT_FALSE(HasExpansion(ScalarOp::kErf, DType::kI64));
  EXPECT_FALSE(HasExpansion(ScalarOp::kAdd, DType::kF32));
  ScalarExpr expr;
  expr.set_root(Apply(ScalarOp::kErf, Param(expr, DType::kI64, 0)).id);
  const auto expanded = ExpandMath(expr);
  EXPECT_EQ(expanded.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(expanded.status().message()),
              ::testing::HasSubstr("\"erf\": has no expansion for i64"));
}

TEST(Math, EveryFloatFunctionHasAnExpansionIntoPrimitives) {
  for (int i = 0; i < kNumScalarOps; ++i) {
    const auto op = static_cast<ScalarOp>(i);
    if (!Info(op).function || op == ScalarOp::kPhilox) continue;
    for (const DType type : {DType::kF32, DType::kF64}) {
      ASSERT_TRUE(HasExpansion(op, type)) << Info(op).name;
      const ScalarExpr expr = Expanded(op, type);
      for (const ExprNode& node : expr.nodes()) EXPECT_FALSE(Info(node.op).function);
    }
  }
}

// Philox2x32-10 by the known answers of Random123 (kat_vectors).
TEST(Math, PhiloxGivesTheKnownAnswers) {
  struct Answer {
    uint64_t counter, key, bits;
  };
  constexpr Answer kAnswers[] = {{0, 0, 0x6cd10df2ff1dae59},
                                 {~uint64_t{0}, 0xffffffff, 0xab4fd7ad2c3f628b},
                                 {0x85a308d3243f6a88, 0x13198a2e, 0xf62a4c12dd7ce038},
                                 // Only the low word of the second operand is the key.
                                 {0x85a308d3243f6a88, 0xffffffff13198a2e, 0xf62a4c12dd7ce038}};
  ScalarExpr expr;
  const Ex counter = Param(expr, DType::kU64, 0);
  expr.set_root(Apply(ScalarOp::kPhilox, counter, Param(expr, DType::kU64, 1)).id);
  const absl::StatusOr<ScalarExpr> expanded = ExpandMath(expr);
  ASSERT_TRUE(expanded.ok()) << expanded.status();
  std::vector<uint64_t> scratch;
  for (const Answer& answer : kAnswers) {
    const auto leaf = [&](ExprId id, const uint64_t*) {
      return expanded->node(id).ref == 0 ? answer.counter : answer.key;
    };
    EXPECT_EQ(EvalScalar(*expanded, leaf, scratch), answer.bits);
  }
  EXPECT_FALSE(HasExpansion(ScalarOp::kPhilox, DType::kF32));
  EXPECT_GT(ExpandedSize(ScalarOp::kPhilox, DType::kU64), 100);
}

TEST(MathTest, UlpErrorCanFail) {
  EXPECT_EQ(FloatUlp(1.0, 1.0L + 0x1p-23L), 1);
  EXPECT_TRUE(std::isinf(FloatUlp(0.0, -0.0L)));
  EXPECT_TRUE(std::isinf(FloatUlp(1.0, std::nanl(""))));
  EXPECT_TRUE(std::isinf(FloatUlp(std::numeric_limits<double>::infinity(), 1e30L)));
}

}  // namespace
}  // namespace kiln
