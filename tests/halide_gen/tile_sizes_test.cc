// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/tile_sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "halide_gen/common/worker.h"

namespace kiln {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(TileSizesTest, AreWorkedOutOnceByTheEntry) {
  const CodegenAnswer answer = Serve({.kernel = R"(kernel v1 math 1
dims a b
in   0 f32 [a, b] dense
s0 : f32 [a]    = reduce add over b (in0[a, b])
out  0 f32 [a, b] dense = sub(in0[a, b], s0[a])
)",
                                      .schedule = "row_reduction task=4321",
                                      .target = "x86-64-v3",
                                      .sections = {"stmt"}});
  ASSERT_EQ(answer.outcome, CodegenAnswer::Outcome::kOk) << answer.error;
  const std::string& text = answer.sections[0].second;
  const size_t entry = text.find("external_plus_argv func k (");
  ASSERT_NE(entry, std::string::npos);
  EXPECT_THAT(text.substr(0, entry), Not(HasSubstr("4321")));
  EXPECT_THAT(text.substr(entry), HasSubstr("let tile0v = "));
  EXPECT_THAT(text.substr(entry, text.find('\n', entry) - entry), Not(HasSubstr("tile0v")));
}

// b is made of a; both can be cut into tasks of a third of n.
class TwoFuncsTest : public testing::Test {
 protected:
  TwoFuncsTest() {
    a(x) = x;
    b(x) = a(x) + 1;
  }
  void Cut(Halide::Func func) {
    func.compute_root().split(x, task, inside, Halide::max(n / 3, 1),
                              Halide::TailStrategy::GuardWithIf);
  }

  const Halide::Var x{"x"}, task{"task"}, inside{"inside"};
  const Halide::Param<int32_t> n{"n"};
  Halide::Func a{"a"}, b{"b"};
};

TEST_F(TwoFuncsTest, EqualSizesAreOneVariable) {
  Cut(a);
  Cut(b);
  EXPECT_EQ(RuntimeTileSizes({b}).arguments().size(), 1u);
  a.split(inside, x, inside, 8, Halide::TailStrategy::GuardWithIf);
  EXPECT_EQ(RuntimeTileSizes({a}).arguments().size(), 1u);  // 8 stays what it is
}

TEST_F(TwoFuncsTest, WrappersHaveSizes) {
  a.compute_root();
  Cut(a.in());
  EXPECT_EQ(RuntimeTileSizes({b}).arguments().size(), 1u);
}

}  // namespace
}  // namespace kiln
