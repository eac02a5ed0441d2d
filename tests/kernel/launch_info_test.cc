// SPDX-License-Identifier: Apache-2.0
#include "kernel/launch_info.h"

#include <gtest/gtest.h>

#include <random>

namespace kiln {
namespace {

TEST(LaunchInfoTest, ParsesWhatItPrints) {
  std::mt19937 random(3);
  const auto number = [&] { return static_cast<int64_t>(1 + random() % (1 << 30)); };
  for (int round = 0; round < 100; ++round) {
    LaunchInfo info{number(), number(), number(), number(), {}};
    for (int32_t k = 0; k < round % 4; ++k) info.in_place.emplace_back(k, 3 * k);
    const auto parsed = LaunchInfo::Parse(info.ToString());
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, info);
  }
  EXPECT_EQ((LaunchInfo{32, 64, 100, 1, {{0, 0}, {2, 1}}}).ToString(),
            "step=32 columns=64 task=100 row_step=1 in_place=0:0,2:1");
}

TEST(LaunchInfoTest, RefusesOtherWords) {
  for (const char* text : {"step", "step=", "step=0", "step=-1", "step=x", "steps=1", "in_place=0",
                           "in_place=0:0 in_place=0:0", "step=1073741825", "=1"})
    EXPECT_EQ(LaunchInfo::Parse(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
}

}  // namespace
}  // namespace kiln
