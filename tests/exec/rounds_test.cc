// SPDX-License-Identifier: Apache-2.0
// Rounds: which steps they take, and that a program gives the same with them as image by image.
#include "kiln/exec/rounds.h"

#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"
#include "tests/exec/fake_program.h"

namespace kiln {

bool operator==(const Round& a, const Round& b) {
  return a.begin == b.begin && a.end == b.end && a.parts == b.parts;
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

TEST(Rounds, TakeNeighboursThatLeaveTheCaches) {
  EXPECT_THAT(ChooseRounds({Images(8, 40), Images(8, 40)}), ElementsAre(Round{0, 2, 8}));
  EXPECT_THAT(ChooseRounds({Images(8, 3), Images(8, 3)}), IsEmpty());
  EXPECT_THAT(ChooseRounds({Images(1, 40), Images(1, 40)}), IsEmpty());
  EXPECT_THAT(ChooseRounds({Images(8, 40)}), IsEmpty());
  EXPECT_THAT(ChooseRounds({Images(8, 40), Cut(), Images(8, 40), Images(8, 40)}),
              ElementsAre(Round{2, 4, 8}));
}

TEST(Rounds, HaveAsFewPartsAsKeepTheirBytes) {
  EXPECT_THAT(ChooseRounds({Images(12, 15), Images(12, 11)}), ElementsAre(Round{0, 2, 4}));
  EXPECT_THAT(ChooseRounds({Images(7, 15), Images(7, 11)}), ElementsAre(Round{0, 2, 7}));
}

TEST(Rounds, EndWhereSharedOperandsCostMore) {
  const std::vector<Cut> steps = {Images(8, 40), Images(8, 20),          Images(8, 1, 100 << 10),
                                  Images(8, 20), Images(8, 6, 4 * kMiB), Images(8, 1, kMiB)};
  EXPECT_THAT(ChooseRounds(steps), ElementsAre(Round{0, 4, 8}));
}

TEST(Rounds, HoldOnlyWhatFitsTheImages) {
  EXPECT_THAT(ChooseRounds({Loop(12, 9), Loop(16, 9), Images(8, 9), Loop(800, 9), Images(8, 9)}),
              ElementsAre(Round{1, 5, 4}));
  EXPECT_THAT(ChooseRounds({Images(8, 9), Loop(8, 9), Images(4, 9), Loop(4, 9)}),
              ElementsAre(Round{0, 2, 4}, Round{2, 4, 4}));
  EXPECT_THAT(ChooseRounds({Loop(8, 40), Loop(8, 40)}), IsEmpty());
}

// y = -x; fails at the sixth call: in the second part of the second run.
int NegateOrFail(void** argv) {
  static int calls = 0;
  return ++calls == 6 ? 7 : NegateFn(argv);
}
const FakeKernel kNegateOrFail = {"negate_or_fail", kNegate.text, NegateOrFail, {0, 0}};

const std::string kElements = "n*4*160*160";

// Averages, negates, averages and adds the input; then negates. All but the last fits a round.
class Averages {
 public:
  explicit Averages(const FakeKernel& negate) {
    const FakeProgram::Texts shape = {"n", "4", "160", "160"};
    const int x = p_.Input("x", shape), y = p_.Output("y", shape);
    int t[4];
    for (int& b : t) b = p_.Temporary(shape);
    Average(x, t[0], shape);
    p_.Kernel(negate, {t[0]}, {t[1]}, {kElements});
    Average(t[1], t[2], shape);
    p_.Kernel(kMix, {t[2], x}, {t[3]}, {kElements});
    p_.Copy(t[3], y, shape);
    options_.threads = 2;
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

TEST(Rounds, ComputeWhatImagesGiveAlone) {
  constexpr size_t kImage = size_t{4} * 160 * 160, kImages = 8;
  const std::vector<float> x = Random(kImages * kImage);
  Averages batch(kNegate), alone(kNegate);
  Context context = batch.model.NewContext();
  KILN_ASSERT_OK(context.Bind("x", Values(x, {kImages, 4, 160, 160})));
  for (int run = 0; run < 2; ++run) KILN_ASSERT_OK(context.Run());
  const std::vector<float> y = Read(*context.Output("y"));
  EXPECT_THAT(batch.text, HasSubstr("bytes in 4 parts"));
  EXPECT_EQ(context.report().library_launches, 2 * 4);
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

TEST(Rounds, BeginAnewAfterAFailure) {
  const Tensor x = Values(Random(size_t{8} * 4 * 160 * 160), {8, 4, 160, 160});
  Averages fails(kNegateOrFail), works(kNegate);
  Context context = fails.model.NewContext();
  KILN_ASSERT_OK(context.Bind("x", x));
  KILN_ASSERT_OK(context.Run());
  EXPECT_FALSE(context.Run().ok());
  KILN_ASSERT_OK(context.Run());
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> want, works.model.Run({{"x", x}}));
  EXPECT_EQ(Read(*context.Output("y")), Read(want[0]));
}

}  // namespace
}  // namespace kiln
