// SPDX-License-Identifier: Apache-2.0
#include "base/cpu_features.h"

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

CpuFeatures WithAllFeatures() {
  CpuFeatures cpu;
  for (const CpuFeatureName& feature : AllCpuFeatures()) cpu.*feature.has = true;
  return cpu;
}

TEST(CpuFeaturesTest, LevelNeedsEachOfItsFeatures) {
  EXPECT_EQ(LevelOf(CpuFeatures()), IsaLevel::kBaseline);
  EXPECT_EQ(LevelOf(WithAllFeatures()), IsaLevel::kV4);

  CpuFeatures no_fma = WithAllFeatures();
  no_fma.fma = false;
  EXPECT_EQ(LevelOf(no_fma), IsaLevel::kBaseline);

  CpuFeatures no_vl = WithAllFeatures();
  no_vl.avx512vl = false;
  EXPECT_EQ(LevelOf(no_vl), IsaLevel::kV3);

  CpuFeatures no_vnni = WithAllFeatures();
  no_vnni.avx512vnni = false;
  EXPECT_EQ(LevelOf(no_vnni), IsaLevel::kV4);
}

TEST(CpuFeaturesTest, LevelNamesReadBack) {
  for (const IsaLevel level : {IsaLevel::kBaseline, IsaLevel::kV3, IsaLevel::kV4}) {
    EXPECT_EQ(ParseIsaLevel(Name(level)), level);
  }
  EXPECT_EQ(ParseIsaLevel("x86-64-v2"), std::nullopt);
  EXPECT_EQ(ParseIsaLevel(""), std::nullopt);
}

// The kernel found the same by other code; it spells some names in another way.
TEST(CpuFeaturesTest, AgreesWithProcCpuinfo) {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string line;
  std::set<std::string> flags;
  while (flags.empty() && std::getline(cpuinfo, line)) {
    if (line.rfind("flags", 0) != 0) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    for (std::string word; words >> word;) {
      std::erase(word, '_');
      flags.insert(word == "abm" ? "lzcnt" : word);
    }
  }
  if (flags.empty()) GTEST_SKIP() << "this system's /proc/cpuinfo lists no flags";
  for (const CpuFeatureName& feature : AllCpuFeatures()) {
    EXPECT_EQ(HostCpu().*feature.has, flags.count(std::string(feature.name)) == 1) << feature.name;
  }
}

TEST(CpuFeaturesTest, HostHasAModelNameAndALevel) {
  EXPECT_THAT(HostCpu().model, testing::Not(testing::IsEmpty()));
  EXPECT_LE(HostIsa(), LevelOf(HostCpu()));
}

TEST(CpuFeaturesDeathTest, EnvironmentCapsTheLevel) {
  // HostIsa is found once in a process, so each value is tried in a process of its own.
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        setenv("KILN_MAX_ISA", "x86-64", 1);
        exit(HostIsa() == IsaLevel::kBaseline ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        setenv("KILN_MAX_ISA", "avx2", 1);
        exit(HostIsa() == LevelOf(HostCpu()) ? 0 : 1);
      },
      testing::ExitedWithCode(0), "KILN_MAX_ISA: no level \"avx2\"");
}

}  // namespace
}  // namespace kiln
