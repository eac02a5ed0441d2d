// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "schedule/scheduler.h"

namespace kiln {
namespace {

TEST(ParamsTest, PrintsAsDocumented) {
  const Params params{"row", {{"lanes", 16}, {"levels", 1}}, {{0, 0}, {2, 1}}};
  EXPECT_EQ(params.ToString(), "row lanes=16 levels=1 inplace=0:0,2:1");
}

TEST(ParamsTest, ParsesWhatItPrints) {
  const Params params{"general", {{"grain", 32768}, {"keep0", (int64_t{1} << 59) + 1}}, {{3, 1}}};
  const auto parsed = Params::Parse(params.ToString());
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, params);
}

TEST(ParamsTest, SortsValuesByName) {
  const auto parsed = Params::Parse("row  levels=1   lanes=16");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->ToString(), "row lanes=16 levels=1");
}

TEST(ParamsTest, GetsValuesOrADefault) {
  const Params params{"row", {{"lanes", 16}}, {}};
  EXPECT_EQ(params.Get("lanes", 1), 16);
  EXPECT_EQ(params.Get("levels", 3), 3);
}

TEST(ParamsTest, RefusesWhatIsNoParams) {
  for (const char* text :
       {"", "Row", "row lanes", "row lanes=", "row lanes=x", "row =1", "row lanes=1=2",
        "row LANES=1", "row lanes=1 lanes=2", "row inplace=0", "row inplace=0:", "row inplace=-1:0",
        "row inplace=0:0,", "row inplace=0:0 inplace=1:0", "row lanes=99999999999999999999"}) {
    const auto parsed = Params::Parse(text);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << "\"" << text << "\"";
  }
}

TEST(SizeClassTest, ContainsExtentsUpToItsLimits) {
  const SizeClass sizes{{kUnbounded, 4096}};
  EXPECT_TRUE(sizes.Contains(std::vector<int64_t>{1 << 30, 4096}));
  EXPECT_FALSE(sizes.Contains(std::vector<int64_t>{1, 4097}));
  EXPECT_FALSE(sizes.Contains(std::vector<int64_t>{1}));
}

}  // namespace
}  // namespace kiln
