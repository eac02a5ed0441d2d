// SPDX-License-Identifier: Apache-2.0
#include "base/cuda_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/target.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(CudaDevice, NoLibraryIsNoDevice) {
  EXPECT_FALSE(FindCudaDevice("libkiln_there_is_none.so.1").has_value());
  EXPECT_FALSE(FindCudaDevice("libc.so.6").has_value()) << "which has no cuInit";
}

TEST(CudaDevice, LevelsFollowTheCapability) {
  EXPECT_EQ(CudaLevelOf(7, 5), 0);
  EXPECT_EQ(CudaLevelOf(8, 0), 1);
  EXPECT_EQ(CudaLevelOf(8, 9), 1);
  EXPECT_EQ(CudaLevelOf(9, 0), 2);
  EXPECT_EQ(CudaLevelOf(10, 3), 3);
  EXPECT_EQ(CudaLevelOf(11, 0), 3);
  EXPECT_EQ(CudaLevelOf(12, 1), 4);
}

TEST(CudaDevice, RunsWhatIsForItsLevelAndThoseBelow) {
  EXPECT_THAT(CudaFeaturesOf(0), IsEmpty());
  EXPECT_THAT(CudaFeaturesOf(2), ElementsAre("sm_80", "sm_90"));
  EXPECT_THAT(CudaFeaturesOf(4), ElementsAre("sm_80", "sm_90", "sm_100", "sm_120"));
}

TEST(Targets, EachHasANameOfItsOwnAndADevice) {
  std::set<std::string> names;
  for (const TargetRow& row : AllTargets()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(Target::Parse(row.name), row.target);
    EXPECT_EQ(row.target.name(), row.name);
    EXPECT_EQ(ParseDevice(Name(row.target.device)), row.target.device);
  }
}

TEST(Targets, CodeForALevelRunsOnThoseAboveOfTheSameDevice) {
  const auto parse = [](const char* name) { return *Target::Parse(name); };
  EXPECT_EQ(LowestTarget(DeviceKind::kCuda), parse("cuda-sm80"));
  EXPECT_EQ(LowestTarget(), parse("x86-64-v3"));
  EXPECT_TRUE(parse("cuda-sm80").RunsOn(parse("cuda-sm120")));
  EXPECT_FALSE(parse("cuda-sm120").RunsOn(parse("cuda-sm100")));
  EXPECT_FALSE(parse("cuda-sm80").RunsOn(parse("x86-64-v4")));
  EXPECT_FALSE(parse("x86-64-v3").RunsOn(parse("cuda-sm120")));
  EXPECT_FALSE(parse("cuda-sm80").RunsOn({DeviceKind::kCuda, 0})) << "no GPU";
}

}  // namespace
}  // namespace kiln
