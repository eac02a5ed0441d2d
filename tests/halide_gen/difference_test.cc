// SPDX-License-Identifier: Apache-2.0
// The comparison that all other tests here rely on must be able to fail.
#include "tests/halide_gen/difference.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernel/naive.h"

namespace kiln {
namespace {

HostArray Of(DType type, std::vector<double> values) {
  HostArray array = HostArray::Make(type, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) {
    StoreElement(array.bytes.data(), type, static_cast<int64_t>(i),
                 ConstBits(ComputeType(type), values[i]));
  }
  return array;
}

TEST(DifferenceTest, EqualBytesAndAnyTwoNansAreEqual) {
  HostArray other = Of(DType::kF32, {1, std::nan("")});
  other.bytes[4] ^= 1;  // another payload
  EXPECT_EQ(Difference(other, Of(DType::kF32, {1, std::nan("")})), "");
}

TEST(DifferenceTest, FindsOneBitTheSignOfZeroAndNans) {
  for (const DType type : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    HostArray bit = Of(type, {1, 2});
    bit.bytes[SizeOf(type)] ^= 1;
    EXPECT_NE(Difference(bit, Of(type, {1, 2})), "");
    EXPECT_NE(Difference(Of(type, {-0.0}), Of(type, {0.0})), "");
    EXPECT_NE(Difference(Of(type, {std::nan("")}), Of(type, {0.0})), "");
    EXPECT_NE(Difference(Of(type, {0.0}), Of(type, {std::nan("")})), "");
  }
  EXPECT_NE(Difference(Of(DType::kI8, {3}), Of(DType::kI8, {-3})), "");
}

TEST(DifferenceTest, FindsWritesBehindTheLastElement) {
  HostArray array = Of(DType::kF32, {1});
  array.bytes[5] = 1;
  EXPECT_NE(Difference(array, Of(DType::kF32, {1})), "");
}

}  // namespace
}  // namespace kiln
