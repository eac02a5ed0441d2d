// SPDX-License-Identifier: Apache-2.0
#include "tools/machine_limits.h"

#include <cstdint>
#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"
#include "tests/base/temp_dir.h"

namespace kiln {
namespace {

TEST(MachineLimits, MemoryOfAGroupIsTheLeastOfThoseAboveIt) {
  const TempDir root;
  std::filesystem::create_directories(root.File("a/b"));
  std::ofstream(root.File("a/memory.max")) << "1048576\n";
  std::ofstream(root.File("a/b/memory.max")) << "max\n";
  EXPECT_EQ(GroupMemoryLimit("0::/a/b\n", root.path()), 1048576);
  EXPECT_EQ(GroupMemoryLimit("0::/\n", root.path()), INT64_MAX);
  EXPECT_EQ(GroupMemoryLimit("nonsense", root.path()), INT64_MAX);
}

TEST(MachineLimits, MemoryOfVersionOneHasAMountOfItsOwn) {
  const TempDir root;
  std::filesystem::create_directories(root.File("memory/c"));
  std::ofstream(root.File("memory/c/memory.limit_in_bytes")) << "4096\n";
  EXPECT_EQ(GroupMemoryLimit("4:memory:/c\n2:cpu,cpuacct:/c\n", root.path()), 4096);
}

TEST(MachineLimits, TheChosenWordStandsInBrackets) {
  EXPECT_EQ(ChosenWord("always [madvise] never\n"), "madvise");
  EXPECT_EQ(ChosenWord("always madvise never"), "");
  EXPECT_EQ(ChosenWord("]["), "");
}

}  // namespace
}  // namespace kiln
