// SPDX-License-Identifier: Apache-2.0
// The expansion of fmod gives the bits of C's, NaN aside.
//
//   KILN_FMODS   pairs of each kind: 20,000 unless given
//   KILN_SEED    of their random numbers
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernel/eval.h"
#include "kernel/math.h"
#include "tests/base/environment.h"

namespace kiln {
namespace {

template <typename T>
class FmodTest : public testing::Test {
 public:
  static constexpr DType kType = sizeof(T) == 8 ? DType::kF64 : DType::kF32;
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

  FmodTest() {
    ScalarExpr expr;
    const Ex x = Param(expr, kType, 0);
    expr.set_root(Apply(ScalarOp::kFmod, x, Param(expr, kType, 1)).id);
    expr_ = *ExpandMath(expr);
  }

  void Check(T x, T y) {
    const auto leaf = [&](ExprId id, const uint64_t*) {
      return ConstBits(kType, expr_.node(id).ref == 0 ? x : y);
    };
    const auto got = static_cast<T>(ConstValue(kType, EvalScalar(expr_, leaf, scratch_)));
    const T want = std::fmod(x, y);
    if (std::isnan(want) && std::isnan(got)) return;
    ASSERT_EQ(std::bit_cast<Bits>(got), std::bit_cast<Bits>(want))
        << std::hexfloat << "fmod(" << x << ", " << y << ") is " << want << ", got " << got;
  }

 private:
  ScalarExpr expr_;
  std::vector<uint64_t> scratch_;
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(FmodTest, Types);

TYPED_TEST(FmodTest, OfSpecialNumbers) {
  using Limits = std::numeric_limits<TypeParam>;
  std::vector<TypeParam> values;
  for (const TypeParam v : {TypeParam(0), Limits::denorm_min(), Limits::min(), Limits::max(),
                            Limits::infinity(), Limits::quiet_NaN(), TypeParam(1), TypeParam(3),
                            TypeParam(1.5), TypeParam(7), Limits::epsilon(), TypeParam(0x1p52)}) {
    for (const TypeParam near : {v, std::nextafter(v, TypeParam(0)), std::nextafter(v, v + 1)}) {
      values.push_back(near);
      values.push_back(-near);
    }
  }
  for (const TypeParam x : values) {
    for (const TypeParam y : values) this->Check(x, y);
  }
}

TYPED_TEST(FmodTest, OfRandomNumbers) {
  using Bits = typename FmodTest<TypeParam>::Bits;
  std::mt19937_64 random(FromEnvironment("KILN_SEED", 1));
  const auto any = [&] { return std::bit_cast<TypeParam>(static_cast<Bits>(random())); };
  for (int64_t i = FromEnvironment("KILN_FMODS", 20000); i > 0; --i) {
    const TypeParam y = any();
    this->Check(any(), y);
    // Multiples of y, rounded, and their neighbours: quotients of any size.
    const int size = static_cast<int>(random() % 110);
    const TypeParam multiple = y * static_cast<TypeParam>(std::ldexp(random() % 1000, size));
    this->Check(multiple, y);
    this->Check(std::nextafter(multiple, TypeParam(0)), y);
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace kiln
