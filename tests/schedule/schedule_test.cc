// SPDX-License-Identifier: Apache-2.0
#include "schedule/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "kernel/text.h"
#include "schedule/cpu/templates.h"
#include "schedule/device.h"
#include "tests/schedule/fields.h"

namespace kiln {
namespace {

constexpr DeviceKind kDevice = DeviceKind::kCpu;

absl::StatusOr<Schedule> Parse(absl::string_view text) { return Schedule::Parse(text, kDevice); }

Schedule RandomSchedule(const Template& of, std::mt19937_64& random);

// Gives every field a random value of its range.
class Randomizer : public FieldVisitor {
 public:
  explicit Randomizer(std::mt19937_64& random) : random_(random) {}
  void Int(const char*, int64_t& value, Range range) override { value = In(range); }
  void Flag(const char*, bool& value) override { value = In({0, 1}) != 0; }
  void Dim(const char*, int64_t& dim) override { dim = In({0, 64}); }
  void Dims(const char*, int64_t& count, bool) override { count = In({1, 64}); }
  void List(const char*, std::vector<int64_t>& values, Range range) override {
    values.resize(static_cast<size_t>(In({0, 4})));
    for (int64_t& value : values) value = In(range);
  }
  void Part(const char*, Schedule& part) override { part = RandomSchedule(kRowReduction, random_); }

 private:
  int64_t In(Range range) {
    return std::uniform_int_distribution<int64_t>(range.least, range.most)(random_);
  }
  std::mt19937_64& random_;
};

Schedule RandomSchedule(const Template& of, std::mt19937_64& random) {
  Schedule schedule =
      *Parse(of.name == kRowAndColumn.name ? "row_and_column rows=(row_reduction)" : of.name);
  Randomizer randomizer(random);
  schedule.VisitCopy(randomizer);
  for (int32_t k = 0; k < static_cast<int32_t>(random() % 3); ++k)
    schedule.in_place.emplace_back(k, 2 * k);
  return schedule;
}

TEST(ScheduleTest, EveryTemplateParsesWhatItPrints) {
  std::mt19937_64 random(7);
  for (const Template* of : ModelOf(kDevice).templates()) {
    std::set<std::string> texts;
    for (int round = 0; round < 200; ++round) {
      const Schedule schedule = RandomSchedule(*of, random);
      const auto parsed = Parse(schedule.ToString());
      ASSERT_TRUE(parsed.ok()) << schedule.ToString() << ": " << parsed.status();
      EXPECT_EQ(parsed->ToString(), schedule.ToString());
      EXPECT_EQ(parsed->Values(), schedule.Values());
      EXPECT_EQ(parsed->Info(), schedule.Info());
      texts.insert(schedule.ToString());
    }
    EXPECT_GT(texts.size(), 190u) << of->name;
  }
}

TEST(ScheduleTest, LeavesDefaultsOut) {
  RowReduction rows;
  EXPECT_EQ(Schedule(kRowReduction, rows).ToString(), "row_reduction");
  rows.step = 32;
  rows.stored = {1, 3};
  Schedule schedule(kRowReduction, rows);
  schedule.in_place = {{0, 0}, {2, 1}};
  EXPECT_EQ(schedule.ToString(), "row_reduction step=32 stored=1,3 in_place=0:0,2:1");
  EXPECT_EQ(schedule.As<RowReduction>().step, 32);
}

TEST(ScheduleTest, OrderOfWordsDoesNotCount) {
  EXPECT_EQ(Parse("row_reduction  levels=2   step=32")->ToString(),
            "row_reduction step=32 levels=2");
}

TEST(ScheduleTest, RefusesWhatIsNoSchedule) {
  for (const char* text : {"",
                           "Row",
                           "row_reduction step",
                           "row_reduction step=",
                           "row_reduction step=x",
                           "row_reduction =1",
                           "row_reduction step=1=2",
                           "row_reduction STEP=1",
                           "row_reduction along=1",
                           "row_reduction step=1 step=2",
                           "row_reduction step=0",
                           "row_reduction step=257",
                           "row_reduction in_place=0",
                           "row_reduction in_place=0:",
                           "row_reduction in_place=-1:0",
                           "row_reduction in_place=0:0,",
                           "row_reduction in_place=0:0 in_place=1:0",
                           "row_reduction step=99999999999999999999",
                           "row_reduction stored=1,,2",
                           "row_and_column",
                           "row_and_column rows=row_reduction",
                           "row_and_column rows=(row_reduction",
                           "row_and_column rows=(row_reduction step=0)",
                           "row_and_column rows=(row_and_column rows=(row_reduction))"}) {
    EXPECT_EQ(Parse(text).status().code(), absl::StatusCode::kInvalidArgument)
        << "\"" << text << "\"";
  }
  EXPECT_EQ(Parse("row_reduction step=0").status().message(),
            "schedule: \"step\" is \"0\"; it must be from 1 to 256");
  EXPECT_THAT(std::string(Parse("best").status().message()),
              testing::StartsWith("schedule: \"best\" is no template; there are pointwise, "));
}

TEST(ScheduleTest, FieldsMustNameDimsOfTheKernel) {
  const Kernel kernel = *ParseKernel(
      "kernel v1 math 1\ndims a b\nin   0 f32 [a, b] dense\nout  0 f32 [a, b] dense = "
      "neg(in0[a, b])\n");
  EXPECT_TRUE(Parse("pointwise collapsed=2")->CheckFor(kernel).ok());
  EXPECT_EQ(Parse("pointwise collapsed=3")->CheckFor(kernel).message(),
            "schedule: \"collapsed\" is 3; for this kernel it must be from 1 to 2");
  EXPECT_EQ(Parse("transpose along=1")->CheckFor(kernel).message(),
            "schedule: \"along\" is 1; for this kernel it must be from 0 to 0");
  EXPECT_EQ(Parse("row_reduction")->CheckFor(kernel).code(), absl::StatusCode::kInvalidArgument);
}

TEST(ScheduleTest, NeighboursDifferInOneNumber) {
  std::set<std::string> texts;
  for (const Schedule& other : Parse("deinterleave step=16 task=64 channels=3")->Neighbours())
    texts.insert(other.ToString());
  EXPECT_EQ(texts, (std::set<std::string>{
                       "deinterleave step=32 task=64 channels=3",
                       "deinterleave step=8 task=64 channels=3", "deinterleave task=128 channels=3",
                       "deinterleave task=32 channels=3", "deinterleave task=64 channels=6",
                       "deinterleave task=64", "deinterleave task=64 channels=3 together=1"}));
}

TEST(ScheduleTest, NeighboursAreRightForTheSameExtents) {
  const Schedule schedule = *Parse("staged outer_step=32 levels=2 outer_levels=3 accumulators=32");
  EXPECT_FALSE(schedule.Neighbours().empty());
  for (const Schedule& other : schedule.Neighbours()) {
    for (const char* name : {"levels", "outer_levels", "accumulators", "strided"})
      EXPECT_EQ(FieldOf(other, name, -1), FieldOf(schedule, name, -1)) << other.ToString();
  }
}

TEST(ScheduleTest, PartsMustSuitTheirPartOfTheKernel) {
  const Kernel kernel = *ParseKernel(
      "kernel v1 math 1\ndims a b\nin   0 f32 [a, b] dense\n"
      "s0 : f32 [a] = reduce add over b (in0[a, b])\n"
      "s1 : f32 [b] = reduce add over a (in0[a, b])\n"
      "out  0 f32 [a, b] dense = sub(in0[a, b], s0[a])\nout  1 f32 [b] dense = s1[b]\n");
  EXPECT_TRUE(Parse("row_and_column fused=1 rows=(row_reduction)")->CheckFor(kernel).ok());
  EXPECT_TRUE(Parse("row_and_column rows=(outer_vectorized row=9)")->CheckFor(kernel).ok());
  for (const char* text :
       {"row_and_column fused=1 rows=(outer_vectorized row=9)", "row_and_column rows=(pointwise)",
        "row_and_column rows=(transpose)", "row_and_column rows=(row_reduction dims=3)"})
    EXPECT_EQ(Parse(text)->CheckFor(kernel).code(), absl::StatusCode::kInvalidArgument) << text;
}

TEST(ScheduleTest, SetsAndTheirMembers) {
  EXPECT_EQ(Members({false, true, true}), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(AsFlags({1, 2, 7}, 3), (std::vector<bool>{false, true, true}));
}

TEST(SizeClassTest, ContainsExtentsUpToItsLimits) {
  const SizeClass sizes{{kUnbounded, 4096}};
  EXPECT_TRUE(sizes.Contains(std::vector<int64_t>{1 << 30, 4096}));
  EXPECT_FALSE(sizes.Contains(std::vector<int64_t>{1, 4097}));
  EXPECT_FALSE(sizes.Contains(std::vector<int64_t>{1}));
}

}  // namespace
}  // namespace kiln
