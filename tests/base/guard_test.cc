// SPDX-License-Identifier: Apache-2.0
#include "base/guard.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"

namespace kiln {
namespace {

const Dim n = Dim::Symbol("n");
const Dim m = Dim::Symbol("m");

TEST(GuardTest, ParsesWhatItPrints) {
  const struct {
    Guard guard;
    const char* text;
  } cases[] = {
      {Guard::Equal(n, 4), "n == 4"},
      {Guard::NotEqual(n + 1, 1), "n + 1 != 1"},
      {Guard::Divisible(n, 8), "n % 8 == 0"},
      {Guard::Divisible(n + 1, 8), "(n + 1) % 8 == 0"},
      {Guard::Same(n, m * 2), "2*m == n"},
      {Guard::Less(n * m, 2147483648), "m*n < 2147483648"},
      {Guard::AtLeast(n - 3, 0), "n - 3 >= 0"},
      {Guard::Present("bias"), "present bias"},
      {Guard::Absent("a b:0"), "absent `a b:0`"},
      {Guard::Value("x", std::string("\x0a\0\xff", 3)), "value x == 0a00ff"},
      {Guard::Same(Dim::Symbol("a==b"), n), "`a==b` == n"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(c.guard.ToString(), c.text);
    KILN_ASSERT_OK_AND_ASSIGN(const Guard parsed, Guard::Parse(c.text));
    EXPECT_EQ(parsed, c.guard) << c.text;
  }
}

TEST(GuardTest, RefusesOtherText) {
  for (const char* text : {"", "n", "n = 4", "n < m", "n > 4", "present", "present a b", "value x",
                           "value x == 0", "== 4", "n == "}) {
    EXPECT_THAT(Guard::Parse(text), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
}

TEST(GuardTest, SameAsANumberIsEqual) {
  EXPECT_EQ(Guard::Same(3, n), Guard::Equal(n, 3));
  EXPECT_EQ(Guard::Same(m, n), Guard::Same(n, m));
}

TEST(GuardTest, HoldsByValue) {
  const SymbolValues values = {{"n", 8}, {"m", 3}};
  EXPECT_EQ(*Guard::Equal(n, 8).Holds(values), true);
  EXPECT_EQ(*Guard::Equal(n, 7).Holds(values), false);
  EXPECT_EQ(*Guard::NotEqual(n, 1).Holds(values), true);
  EXPECT_EQ(*Guard::Divisible(n, 4).Holds(values), true);
  EXPECT_EQ(*Guard::Divisible(m, 4).Holds(values), false);
  EXPECT_EQ(*Guard::Same(n, m + 5).Holds(values), true);
  EXPECT_EQ(*Guard::Less(n, 8).Holds(values), false);
  EXPECT_EQ(*Guard::AtLeast(n, 8).Holds(values), true);
  EXPECT_THAT(Guard::Present("x").Holds(values), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(Guard::Equal(Dim::Symbol("k"), 1).Holds(values),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST(GuardTest, KnowsWhatNeedsNoValues) {
  EXPECT_EQ(Guard::Equal(4, 4).Static(), true);
  EXPECT_EQ(Guard::Equal(4, 5).Static(), false);
  EXPECT_EQ(Guard::Equal(n, 4).Static(), std::nullopt);
  EXPECT_EQ(Guard::NotEqual(n + 2, 1).Static(), true);
  EXPECT_EQ(Guard::Same(n, n).Static(), true);
  EXPECT_EQ(Guard::Same(n, n + 1).Static(), false);
  EXPECT_EQ(Guard::Same(n, m).Static(), std::nullopt);
  EXPECT_EQ(Guard::Divisible(n * 8, 4).Static(), true);
  EXPECT_EQ(Guard::Divisible(n * 4 + 2, 4).Static(), false);
  EXPECT_EQ(Guard::AtLeast(n, 0).Static(), true);
  EXPECT_EQ(Guard::AtLeast(n - 1, 0).Static(), std::nullopt);
  EXPECT_EQ(Guard::Less(n.Mod(4), 4).Static(), true);
  EXPECT_EQ(Guard::Less(n + 4, 4).Static(), false);
  EXPECT_EQ(Guard::Absent("x").Static(), std::nullopt);
}

}  // namespace
}  // namespace kiln
