// SPDX-License-Identifier: Apache-2.0
// Rounds: which steps they take, and that a program gives the same with them as image by image.
#include "exec/batch_tiling.h"

#include <cstdint>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "exec/plan_info.h"
#include "exec/support/pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"
#include "tests/exec/fake_program.h"

namespace kiln {

bool operator==(const BatchTiling& a, const BatchTiling& b) {
  return a.begin == b.begin && a.end == b.end && a.parts == b.parts && a.lanes == b.lanes;
}

namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr int64_t kMiB = int64_t{1} << 20;

Cut Images(int64_t count, int64_t cut_mib, int64_t shared = 0) {
  return {count, true, {}, cut_mib * kMiB, shared};
}
Cut Loop(int64_t extent, int64_t cut_mib) { return {extent, false, {}, cut_mib * kMiB, 0}; }

TEST(BatchTiling, TakeNeighboursThatLeaveTheCaches) {
  EXPECT_THAT(ChooseBatchTilings({Images(8, 40), Images(8, 40)}, 1),
              ElementsAre(BatchTiling{0, 2, 8}));
  EXPECT_THAT(ChooseBatchTilings({Images(8, 3), Images(8, 3)}, 1), IsEmpty());
  EXPECT_THAT(ChooseBatchTilings({Images(1, 40), Images(1, 40)}, 1), IsEmpty());
  EXPECT_THAT(ChooseBatchTilings({Images(8, 40)}, 1), IsEmpty());
  EXPECT_THAT(ChooseBatchTilings({Images(8, 40), Cut(), Images(8, 40), Images(8, 40)}, 1),
              ElementsAre(BatchTiling{2, 4, 8}));
}

TEST(BatchTiling, HaveAsFewPartsAsKeepTheirBytes) {
  EXPECT_THAT(ChooseBatchTilings({Images(12, 15), Images(12, 11)}, 1),
              ElementsAre(BatchTiling{0, 2, 4}));
  EXPECT_THAT(ChooseBatchTilings({Images(7, 15), Images(7, 11)}, 1),
              ElementsAre(BatchTiling{0, 2, 7}));
  // Lanes walk their parts at once.
  EXPECT_THAT(ChooseBatchTilings({Images(12, 15), Images(12, 11)}, 2),
              ElementsAre(BatchTiling{0, 2, 12, 2}));
  EXPECT_THAT(ChooseBatchTilings({Images(16, 15), Images(16, 11)}, 2),
              ElementsAre(BatchTiling{0, 2, 8, 2}));
}

TEST(BatchTiling, HaveLanesThatAreSeldomIdle) {
  const auto tilings = [](int64_t images, int threads) {
    return ChooseBatchTilings({Images(images, 60), Images(images, 60)}, threads);
  };
  EXPECT_THAT(tilings(8, 2), ElementsAre(BatchTiling{0, 2, 8, 2}));
  EXPECT_THAT(tilings(8, 3), ElementsAre(BatchTiling{0, 2, 8, 3}));  // 2, 3 and 3 parts
  EXPECT_THAT(tilings(7, 8), ElementsAre(BatchTiling{0, 2, 7, 7}));
  EXPECT_THAT(tilings(3, 2),
              ElementsAre(BatchTiling{0, 2, 3, 1}));  // a lane would idle for a turn of two
  EXPECT_THAT(tilings(8, 6), ElementsAre(BatchTiling{0, 2, 8, 1}));
  EXPECT_THAT(tilings(4, 8), ElementsAre(BatchTiling{0, 2, 4, 1}));
  EXPECT_THAT(ChooseBatchTilings({Images(12, 15), Images(12, 15)}, 5),
              ElementsAre(BatchTiling{0, 2, 4, 1}));
  // 4 parts would do for two lanes, not for three.
  EXPECT_THAT(ChooseBatchTilings({Images(12, 8), Images(12, 8)}, 2),
              ElementsAre(BatchTiling{0, 2, 4, 2}));
  EXPECT_THAT(ChooseBatchTilings({Images(12, 8), Images(12, 8)}, 3),
              ElementsAre(BatchTiling{0, 2, 6, 3}));
}

TEST(BatchTiling, EndWhereSharedOperandsCostMore) {
  const std::vector<Cut> steps = {Images(8, 40), Images(8, 20),          Images(8, 1, 100 << 10),
                                  Images(8, 20), Images(8, 6, 4 * kMiB), Images(8, 1, kMiB)};
  EXPECT_THAT(ChooseBatchTilings(steps, 1), ElementsAre(BatchTiling{0, 4, 8}));
  EXPECT_THAT(ChooseBatchTilings(steps, 8), ElementsAre(BatchTiling{0, 4, 8, 8}));
}

TEST(BatchTiling, HoldOnlyWhatFitsTheImages) {
  EXPECT_THAT(
      ChooseBatchTilings({Loop(12, 9), Loop(16, 9), Images(8, 9), Loop(800, 9), Images(8, 9)}, 1),
      ElementsAre(BatchTiling{1, 5, 4}));
  EXPECT_THAT(ChooseBatchTilings({Images(8, 9), Loop(8, 9), Images(4, 9), Loop(4, 9)}, 1),
              ElementsAre(BatchTiling{0, 2, 4}, BatchTiling{2, 4, 4}));
  EXPECT_THAT(ChooseBatchTilings({Loop(8, 40), Loop(8, 40)}, 1), IsEmpty());
}

TEST(BatchTiling, LanesTakeAllPartsOnce) {
  for (const BatchTiling& tiling :
       {BatchTiling{0, 2, 8, 3}, BatchTiling{0, 2, 7, 7}, BatchTiling{0, 2, 15, 8}}) {
    EXPECT_EQ(FirstPart(tiling, 0), 0);
    EXPECT_EQ(FirstPart(tiling, tiling.lanes), tiling.parts);
    const int64_t last = tiling.parts - FirstPart(tiling, tiling.lanes - 1);
    for (int64_t lane = 0; lane < tiling.lanes; ++lane) {
      const int64_t parts = FirstPart(tiling, lane + 1) - FirstPart(tiling, lane);
      EXPECT_GT(parts, 0);
      EXPECT_LE(parts, last);
    }
  }
}

// What is negated by whom, from run to run.
struct Note {
  int member;
  uintptr_t begin, end;  // of what is written
};
struct Notes {
  std::mutex mutex;
  std::vector<Note> all;
};
Notes& TheNotes() {
  static Notes notes;
  return notes;
}

// y = -x, where it lies and on which thread is noted.
int NegateAndNote(void** argv) {
  const auto begin = reinterpret_cast<uintptr_t>(Out(argv, 3));
  const auto n = static_cast<uintptr_t>(*static_cast<int32_t*>(argv[2]));
  const std::lock_guard<std::mutex> lock(TheNotes().mutex);
  TheNotes().all.push_back({Pool::Member(), begin, begin + n * sizeof(float)});
  return NegateFn(argv);
}
const FakeKernel kNegateAndNote = {"negate_and_note", kNegate.text, NegateAndNote, {}};

// y = -x; fails for what begins with a number below zero.
int NegateOrFail(void** argv) { return In(argv, 0)[0] < 0 ? 7 : NegateFn(argv); }
const FakeKernel kNegateOrFail = {"negate_or_fail", kNegate.text, NegateOrFail, {0, 0}};

const std::string kElements = "n*4*160*160";

// Averages, negates, averages and adds the input; then negates. All but the last fits a tiling.
class Averages {
 public:
  explicit Averages(const FakeKernel& negate, int threads = 2) {
    const FakeProgram::Texts shape = {"n", "4", "160", "160"};
    const int x = p_.Input("x", shape), y = p_.Output("y", shape);
    int t[4];
    for (int& b : t) b = p_.Temporary(shape);
    Average(x, t[0], shape);
    p_.Kernel(negate, {t[0]}, {t[1]}, {kElements});
    Average(t[1], t[2], shape);
    p_.Kernel(kMix, {t[2], x}, {t[3]}, {kElements});
    p_.Copy(t[3], y, shape);
    options_.threads = threads;
    options_.on_plan = [this](const PlanInfo& plan) { text = plan.text; };
    model = *Model::Create(p_.Provider(), options_);
  }

  std::string text;
  Model model;

 private:
  void Average(int from, int to, const FakeProgram::Texts& shape) {
    program::LibraryThunk& pool = p_.Library("average_pool");
    FakeProgram::Ref(*pool.add_inputs(), from, shape);
    FakeProgram::Ref(*pool.add_outputs(), to, shape);
    for (const auto& [name, values] :
         {std::pair<const char*, std::vector<int64_t>>{"kernel", {3, 3}}, {"pads", {1, 1, 1, 1}}}) {
      program::Attribute& attribute = *pool.add_attributes();
      attribute.set_name(name);
      for (const int64_t value : values) attribute.add_ints(value);
    }
  }

  FakeProgram p_;
  RunOptions options_;
};

std::vector<float> Random(size_t count) {
  std::mt19937 random(1);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random() % 1000) / 100;
  return values;
}

constexpr size_t kImage = size_t{4} * 160 * 160, kImages = 8;

// For threads, what the plan says.
class LanesTest : public testing::TestWithParam<std::pair<int, const char*>> {
 protected:
  const int threads_ = GetParam().first;
};
INSTANTIATE_TEST_SUITE_P(Rounds, LanesTest,
                         testing::Values(std::pair(1, "bytes in 4 parts\n"),
                                         std::pair(2, "bytes in 8 parts on 2 lanes\n"),
                                         std::pair(3, "bytes in 8 parts on 3 lanes\n"),
                                         std::pair(6, "bytes in 4 parts\n"),
                                         std::pair(8, "bytes in 8 parts on 8 lanes\n")));

TEST_P(LanesTest, ComputeWhatImagesGiveAlone) {
  const std::vector<float> x = Random(kImages * kImage);
  Averages batch(kNegate, threads_), alone(kNegate);
  Context context = batch.model.NewContext();
  KILN_ASSERT_OK(context.Bind("x", Values(x, {kImages, 4, 160, 160})));
  for (int run = 0; run < 2; ++run) KILN_ASSERT_OK(context.Run());
  const std::vector<float> y = Read(*context.Output("y"));
  EXPECT_THAT(batch.text, HasSubstr(GetParam().second));
  const int64_t parts = batch.text.find("in 8 parts") == std::string::npos ? 4 : 8;
  EXPECT_EQ(context.report().library_launches, 2 * parts);
  for (size_t image = 0; image < kImages; ++image) {
    const auto begin = static_cast<ptrdiff_t>(image * kImage);
    const std::vector<float> one(x.begin() + begin, x.begin() + begin + kImage);
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got,
                              alone.model.Run({{"x", Values(one, {1, 4, 160, 160})}}));
    EXPECT_THAT(alone.text, Not(HasSubstr("parts")));
    const std::vector<float> of_batch(y.begin() + begin, y.begin() + begin + kImage);
    ASSERT_EQ(Read(got[0]), of_batch) << image;
  }
}

TEST_P(LanesTest, FailAndBeginAnew) {
  std::vector<float> x = Random(kImages * kImage);
  Averages model(kNegateOrFail, threads_), works(kNegate);
  Context context = model.model.NewContext();
  const auto run = [&] {
    KILN_RETURN_IF_ERROR(context.Bind("x", Values(x, {kImages, 4, 160, 160})));
    return context.Run();
  };
  for (const size_t image : {size_t{0}, size_t{2}, kImages - 2}) {
    const float before = std::exchange(x[image * kImage], -1e6F);
    EXPECT_THAT(run(), StatusIs(absl::StatusCode::kInternal,
                                HasSubstr("\"negate_or_fail_1\": the kernel failed with code 7")))
        << image;
    x[image * kImage] = before;
    KILN_ASSERT_OK(run());
  }
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> want,
                            works.model.Run({{"x", Values(x, {kImages, 4, 160, 160})}}));
  EXPECT_EQ(Read(*context.Output("y")), Read(want[0]));
}

TEST_P(LanesTest, WriteNoThreadsMemoryButTheirOwn) {
  Averages model(kNegateAndNote, threads_);
  TheNotes().all.clear();
  KILN_ASSERT_OK(
      model.model.Run({{"x", Values(Random(kImages * kImage), {kImages, 4, 160, 160})}}));
  const std::vector<Note>& notes = TheNotes().all;
  std::set<int> members;
  for (const Note& note : notes) members.insert(note.member);
  EXPECT_EQ(members.size(), model.text.find("lanes") == std::string::npos ? 1U : threads_);
  for (const Note& a : notes) {
    for (const Note& b : notes) {
      EXPECT_TRUE(a.member == b.member || a.end <= b.begin || b.end <= a.begin);
    }
  }
}

TEST(BatchTiling, TimesAreThoseOfTheRound) {
  Averages model(kNegate);
  Context context = model.model.NewContext();
  KILN_ASSERT_OK(context.Bind("x", Values(Random(kImages * kImage), {kImages, 4, 160, 160})));
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<ThunkTime> times, context.Profile());
  ASSERT_EQ(times.size(), 5U);
  for (const ThunkTime& time : times) EXPECT_GT(time.ms, 0) << time.name;
}

}  // namespace
}  // namespace kiln
