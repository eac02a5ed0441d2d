// SPDX-License-Identifier: Apache-2.0
#include "base/tensor.h"

#include <cstdint>
#include <numeric>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

using testing::ElementsAre;

TEST(TensorTest, ChecksTheBytesOfAShape) {
  EXPECT_EQ(CheckedBytes(DType::kF32, {}), 4);
  EXPECT_EQ(CheckedBytes(DType::kF64, {2, 3}), 48);
  EXPECT_EQ(CheckedBytes(DType::kF32, {5, 0}), 0);
  EXPECT_EQ(CheckedBytes(DType::kF32, {-1}), -1);
  EXPECT_EQ(CheckedBytes(DType::kF32, {0, -1}), -1);
  EXPECT_EQ(CheckedBytes(DType::kF32, {INT64_MAX / 4}), INT64_MAX / 4 * 4);
  EXPECT_EQ(CheckedBytes(DType::kF32, {INT64_MAX / 4 + 1}), -1);
}

TEST(TensorTest, RefusesEmptyShapesWhoseStridesWouldOverflow) {
  EXPECT_EQ(CheckedBytes(DType::kU8, {0, INT64_MAX, INT64_MAX}), -1);
  EXPECT_EQ(CheckedBytes(DType::kU8, {INT64_MAX, INT64_MAX, 0}), -1);
}

TEST(TensorTest, CloneOfAStridedViewIsDense) {
  std::vector<int32_t> data(6);
  std::iota(data.begin(), data.end(), 0);
  const Tensor transposed = Tensor::View(data.data(), DType::kI32, {3, 2}, {1, 3});
  EXPECT_FALSE(transposed.is_dense());
  const Tensor copy = transposed.Clone();
  EXPECT_TRUE(copy.is_dense());
  const auto* values = static_cast<const int32_t*>(copy.data());
  EXPECT_THAT(std::vector<int32_t>(values, values + 6), ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST(TensorTest, AllocatesAlignedMemoryEvenForNothing) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{}, {0}, {3}, {2, 0, 4}}) {
    const Tensor t = Tensor::Allocate(DType::kF64, shape);
    ASSERT_NE(t.data(), nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(t.data()) % 64, 0u);
    EXPECT_TRUE(t.is_dense());
  }
}

TEST(TensorTest, ViewsKeepTheirOwnerAlive) {
  auto owner = std::make_shared<std::vector<float>>(4);
  const std::weak_ptr<void> watch = owner;
  {
    const Tensor view = Tensor::View(owner->data(), DType::kF32, {4}, {}, owner);
    owner.reset();
    EXPECT_FALSE(watch.expired());
  }
  EXPECT_TRUE(watch.expired());
}

}  // namespace
}  // namespace kiln
