// SPDX-License-Identifier: Apache-2.0
#include "base/processors.h"

#include <sched.h>

#include <climits>
#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "tests/base/temp_dir.h"

namespace kiln {
namespace {

// A tree of control groups.
class Groups {
 public:
  void Write(const std::string& file, const std::string& text) {
    const std::filesystem::path path = dir_.File(file);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  int Allow(const std::string& groups) { return QuotaProcessors(groups, dir_.path()); }

 private:
  TempDir dir_;
};

TEST(ProcessorsTest, AQuotaOfVersion2IsRoundedUp) {
  Groups groups;
  groups.Write("cpu.max", "250000 100000\n");
  EXPECT_EQ(groups.Allow("0::/\n"), 3);
  groups.Write("cpu.max", "max 100000\n");
  EXPECT_EQ(groups.Allow("0::/\n"), INT_MAX);
  groups.Write("cpu.max", "1000 100000\n");
  EXPECT_EQ(groups.Allow("0::/\n"), 1);
}

TEST(ProcessorsTest, TheLeastOfTheGroupsAboveHolds) {
  Groups groups;
  groups.Write("a/cpu.max", "200000 100000\n");
  groups.Write("a/b/cpu.max", "max 100000\n");
  groups.Write("a/b/c/cpu.max", "700000 100000\n");
  EXPECT_EQ(groups.Allow("0::/a/b/c\n"), 2);
  EXPECT_EQ(groups.Allow("0::/x\n"), INT_MAX);
}

TEST(ProcessorsTest, AQuotaOfVersion1IsFoundAmongItsControllers) {
  Groups groups;
  groups.Write("cpu/docker/cpu.cfs_quota_us", "400000\n");
  groups.Write("cpu/docker/cpu.cfs_period_us", "100000\n");
  const std::string lines = "3:memory:/docker\n2:cpu,cpuacct:/docker\n0::/\n";
  EXPECT_EQ(groups.Allow(lines), 4);
  groups.Write("cpu/docker/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(groups.Allow(lines), INT_MAX);
}

TEST(ProcessorsTest, NonsenseIsNoQuota) {
  Groups groups;
  for (const char* text : {"", "\n", "x y\n", "0 0\n", "-5 100000\n", "99999999999999999999 1\n"}) {
    groups.Write("cpu.max", text);
    EXPECT_EQ(groups.Allow("0::/\n"), INT_MAX) << text;
  }
  EXPECT_EQ(groups.Allow(""), INT_MAX);
  EXPECT_EQ(groups.Allow("nonsense\n::\n"), INT_MAX);
}

TEST(ProcessorsTest, AreThoseOfTheAffinityMask) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(Processors(), 1);
  sched_setaffinity(0, sizeof before, &before);
  EXPECT_LE(Processors(), CPU_COUNT(&before));
}

}  // namespace
}  // namespace kiln
