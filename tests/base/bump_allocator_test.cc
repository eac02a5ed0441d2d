// SPDX-License-Identifier: Apache-2.0
#include "base/bump_allocator.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

namespace kiln {
namespace {

// The judge: each block is filled with a byte of its own when it is taken, and still has it when it
// is let go, whatever was taken and let go meanwhile.
TEST(BumpAllocatorTest, BlocksAreAlignedAndNobodyElses) {
  struct Block {
    std::shared_ptr<void> memory;
    size_t bytes;
    int byte;
  };
  std::mt19937 random(1);
  BumpAllocator allocator;
  std::vector<Block> blocks;
  const auto check = [](const Block& block) {
    const auto* const at = static_cast<const unsigned char*>(block.memory.get());
    for (size_t i = 0; i < block.bytes; ++i) ASSERT_EQ(at[i], block.byte) << i;
  };
  for (int step = 0; step < 400; ++step) {
    if (!blocks.empty() && random() % 3 == 0) {
      const size_t k = random() % blocks.size();
      check(blocks[k]);
      blocks.erase(blocks.begin() + static_cast<ptrdiff_t>(k));
      continue;
    }
    const size_t bytes = random() % (size_t{1} << (random() % 21));
    Block block{allocator.Take(bytes), bytes, static_cast<int>(random() % 256)};
    ASSERT_NE(block.memory, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block.memory.get()) % 64, 0u);
    std::memset(block.memory.get(), block.byte, bytes);
    blocks.push_back(std::move(block));
  }
  for (const Block& block : blocks) check(block);
}

TEST(BumpAllocatorTest, OneLargerThanAPieceLeavesTheRestOfThePieceInUse) {
  BumpAllocator allocator;
  const auto before = allocator.Take(3 << 20);
  const auto large = allocator.Take((40 << 20) - 64);
  const auto after = allocator.Take(1 << 20);
  ASSERT_NE(large, nullptr);
  std::memset(large.get(), 1, (40 << 20) - 64);
  EXPECT_EQ(static_cast<char*>(after.get()) - static_cast<char*>(before.get()), 3 << 20);
}

TEST(BumpAllocatorTest, WhatIsBeyondAllMemoryIsRefused) {
  BumpAllocator allocator;
  EXPECT_EQ(allocator.Take(SIZE_MAX), nullptr);
  EXPECT_EQ(allocator.Take(SIZE_MAX / 4), nullptr);
  EXPECT_NE(allocator.Take(0), nullptr);
}

}  // namespace
}  // namespace kiln
