// SPDX-License-Identifier: Apache-2.0
#include "exec/binding.h"

#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace kiln {
namespace {

TEST(BoundMemory, FindsTwoPortsThatOverlap) {
  BoundMemory memory;
  memory.Add({100, 200}, 0);
  memory.Add({0, 100}, 1);
  memory.Add({150, 150}, 2);  // empty
  EXPECT_EQ(memory.SortApart(), std::nullopt);
  memory.Add({199, 300}, 3);
  EXPECT_EQ(memory.SortApart(), std::pair(size_t{0}, size_t{3}));
  memory.Clear();
  EXPECT_FALSE(memory.Overlaps({0, 1000}));
}

TEST(BoundMemory, FindsOverlapsAsAPlainLoopDoes) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<MemoryRange> ranges;
    BoundMemory joined;
    for (size_t i = 0; i < random() % 8; ++i) {
      const uintptr_t begin = random() % 60;
      ranges.push_back({begin, begin + random() % 12});
      joined.Add(ranges.back(), i);
    }
    joined.SortJoined();
    for (uintptr_t begin = 0; begin < 80; ++begin) {
      for (const uintptr_t size : {uintptr_t{0}, uintptr_t{1}, uintptr_t{7}}) {
        const MemoryRange range = {begin, begin + size};
        bool want = false;
        for (const MemoryRange& other : ranges) want |= Overlap(range, other);
        ASSERT_EQ(joined.Overlaps(range), want) << round << " " << begin << " " << size;
      }
    }
  }
}

TEST(Overlap, CountsGapsAndNegativeStridesAndNoEmptyTensors) {
  float memory[16] = {};
  const Tensor reversed = Tensor::View(memory + 7, DType::kF32, {4}, {-2});
  EXPECT_TRUE(Overlap(reversed, Tensor::View(memory + 1, DType::kF32, {1})));
  EXPECT_TRUE(Overlap(reversed, Tensor::View(memory + 2, DType::kF32, {1})));
  EXPECT_FALSE(Overlap(reversed, Tensor::View(memory, DType::kF32, {1})));
  EXPECT_FALSE(Overlap(reversed, Tensor::View(memory + 8, DType::kF32, {1})));
  EXPECT_FALSE(Overlap(Tensor::View(memory, DType::kF32, {16}),
                       Tensor::View(memory + 3, DType::kF32, {0, 2})));
}

}  // namespace
}  // namespace kiln
