// SPDX-License-Identifier: Apache-2.0
#include "base/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace kiln {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

Tensor Floats(std::vector<float> values, std::vector<int64_t> shape = {}) {
  Tensor t = Tensor::Allocate(
      DType::kF32,
      shape.empty() ? std::vector<int64_t>{static_cast<int64_t>(values.size())} : shape);
  std::copy(values.begin(), values.end(), static_cast<float*>(t.data()));
  return t;
}

TEST(Compare, AcceptsWithinBoundsOnly) {
  EXPECT_TRUE(Compare(Floats({1.1f}), Floats({1.0f}), 0.11, 0).ok);
  EXPECT_FALSE(Compare(Floats({1.1f}), Floats({1.0f}), 0.09, 0).ok);
  EXPECT_TRUE(Compare(Floats({0.1f}), Floats({0.0f}), 0, 0.11).ok);
  EXPECT_FALSE(Compare(Floats({0.1f}), Floats({0.0f}), 10, 0.09).ok);
}

TEST(Compare, TellsSpecialValuesApart) {
  EXPECT_TRUE(Compare(Floats({kNan, kInf, -kInf}), Floats({kNan, kInf, -kInf}), 0, 0).ok);
  for (const auto& [got, want] : std::vector<std::pair<float, float>>{
           {kNan, 0}, {0, kNan}, {kInf, -kInf}, {kInf, 1}, {1, kInf}, {kNan, kInf}}) {
    EXPECT_FALSE(Compare(Floats({got}), Floats({want}), 1e30, 1e30).ok) << got << " " << want;
  }
}

TEST(Compare, CountsAndReports) {
  const Comparison c = Compare(Floats({1, 2, 5}), Floats({1, 4, 4}), 0, 0.5);
  EXPECT_EQ(c.mismatches, 2);
  EXPECT_DOUBLE_EQ(c.max_abs, 2);
  EXPECT_DOUBLE_EQ(c.max_rel, 0.5);
  EXPECT_EQ(c.what, "element 1 is 2, expected 4; 2 of 3 elements differ");
}

TEST(Compare, DemandsEqualTypeAndShape) {
  EXPECT_FALSE(Compare(Floats({1, 2}), Floats({1, 2}, {2, 1}), 1, 1).ok);
  Tensor ints = Tensor::Allocate(DType::kI32, {1});
  *static_cast<int32_t*>(ints.data()) = 1;
  EXPECT_FALSE(Compare(Floats({1}), ints, 1, 1).ok);
}

TEST(Compare, IntegersMustBeEqualWhateverTheBounds) {
  Tensor a = Tensor::Allocate(DType::kI64, {1});
  Tensor b = Tensor::Allocate(DType::kI64, {1});
  *static_cast<int64_t*>(a.data()) = (int64_t{1} << 60) + 1;  // equal as doubles
  *static_cast<int64_t*>(b.data()) = int64_t{1} << 60;
  EXPECT_FALSE(Compare(a, b, 1, 1).ok);
}

TEST(CompareBits, TellsSignedZerosApartButNotNans) {
  EXPECT_FALSE(CompareBits(Floats({-0.0f}), Floats({0.0f})).ok);
  EXPECT_TRUE(Compare(Floats({-0.0f}), Floats({0.0f}), 0, 0).ok);
  EXPECT_TRUE(CompareBits(Floats({-kNan, 1}), Floats({kNan, 1})).ok);
  EXPECT_FALSE(CompareBits(Floats({std::nextafter(1.0f, 2.0f)}), Floats({1.0f})).ok);
}

TEST(DigestOf, IsEqualWhereBitsAre) {
  const auto digest = [](std::initializer_list<float> values, std::vector<int64_t> shape) {
    return ToHex(DigestOf(Floats(values, std::move(shape))));
  };
  // printf 'f32 [2]\n\0\0\200\077\0\0\300\177' | sha256sum
  EXPECT_EQ(digest({1, kNan}, {2}),
            "40683d7a61c6169b7128ac848fc3426faa029ac742171a9446bc0b236008ed79");
  EXPECT_EQ(digest({1, -kNan}, {2}), digest({1, kNan}, {2}));
  EXPECT_NE(digest({0.0f, 1}, {2}), digest({-0.0f, 1}, {2}));
  EXPECT_NE(digest({1, 2}, {2}), digest({1, 2}, {1, 2}));
  Tensor t = Floats({1, 2, 3, 4}, {2, 2});
  const Tensor transposed = Tensor::View(t.data(), DType::kF32, {2, 2}, {1, 2});
  EXPECT_EQ(ToHex(DigestOf(transposed)), digest({1, 3, 2, 4}, {2, 2}));
  for (const auto& [type, bits] :
       {std::pair(DType::kF16, 0xfe01), std::pair(DType::kBF16, 0xff81)}) {
    Tensor one = Tensor::Allocate(type, {1}), other = Tensor::Allocate(type, {1});
    *static_cast<uint16_t*>(one.data()) = static_cast<uint16_t>(bits);
    *static_cast<uint16_t*>(other.data()) = static_cast<uint16_t>(bits & 0x7fff);
    EXPECT_EQ(ToHex(DigestOf(one)), ToHex(DigestOf(other)));
  }
}

TEST(Compare, ReadsStridedViews) {
  Tensor t = Floats({1, 2, 3, 4}, {2, 2});
  const Tensor transposed = Tensor::View(t.data(), DType::kF32, {2, 2}, {1, 2});
  EXPECT_TRUE(CompareBits(transposed, Floats({1, 3, 2, 4}, {2, 2})).ok);
}

TEST(StandardDeviation, IgnoresWhatIsNotFinite) {
  EXPECT_DOUBLE_EQ(StandardDeviation(Floats({1, 3, kNan})), 1);
}

}  // namespace
}  // namespace kiln
