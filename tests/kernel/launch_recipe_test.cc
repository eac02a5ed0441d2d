// SPDX-License-Identifier: Apache-2.0
// Launch recipes: random terms against an evaluation of their own, and texts that are none.
#include "kernel/launch_recipe.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/base/status_matchers.h"

namespace kiln {
namespace {

class Facts : public LaunchFacts {
 public:
  absl::StatusOr<int64_t> Extent(int64_t dim) const override {
    if (dim > 2) return absl::InvalidArgumentError("no such dim");
    return 5 + 7 * dim;
  }
  absl::StatusOr<int64_t> Stride(LaunchOperand operand, int64_t axis) const override {
    return 100 * operand.number + axis;
  }
  absl::StatusOr<int64_t> Address(LaunchOperand operand) const override {
    return operand.kind == LaunchOperand::Kind::kInput ? 0x1230 : 0x7000;
  }
};

// A random term and its value; nothing for a division by zero.
std::optional<int64_t> RandomTerm(std::mt19937& random, int depth, std::string& text) {
  if (depth == 0 || random() % 4 == 0) {
    switch (random() % 4) {
      case 0:
        text = absl::StrCat("extent", 1);
        return 12;
      case 1:
        text = "(stride in2 1)";
        return 201;
      case 2:
        text = "(align in0)";
        return 16;
      default:
        break;
    }
    constexpr int64_t kEnds[] = {INT64_MIN, INT64_MIN + 1, INT64_MAX};
    const int64_t number = random() % 8 == 0 ? kEnds[random() % std::size(kEnds)]
                                             : static_cast<int64_t>(random() % 41) - 20;
    text = absl::StrCat(number);
    return number;
  }
  static constexpr const char* kOps[] = {"+",  "-",  "*", "/",  "%",   "min", "max",
                                         "==", "!=", "<", "<=", "and", "or"};
  const char* const op = kOps[random() % std::size(kOps)];
  std::string left, right;
  const auto a = RandomTerm(random, depth - 1, left), b = RandomTerm(random, depth - 1, right);
  text = absl::StrCat("(", op, " ", left, " ", right, ")");
  if (!a || !b) return std::nullopt;
  const std::string name = op;
  const __int128 x = *a, y = *b;
  if (name == "+") return static_cast<int64_t>(x + y);
  if (name == "-") return static_cast<int64_t>(x - y);
  if (name == "*") return static_cast<int64_t>(x * y);
  if (name == "min") return std::min(*a, *b);
  if (name == "max") return std::max(*a, *b);
  if (name == "==") return *a == *b;
  if (name == "!=") return *a != *b;
  if (name == "<") return *a < *b;
  if (name == "<=") return *a <= *b;
  if (name == "and") return *a != 0 && *b != 0;
  if (name == "or") return *a != 0 || *b != 0;
  if (*b == 0) return std::nullopt;
  __int128 quotient = x / y;
  while (quotient * y > x && y > 0) --quotient;
  while (quotient * y < x && y < 0) --quotient;
  return static_cast<int64_t>(name == "/" ? quotient : x - quotient * y);
}

TEST(LaunchExpr, RandomTermsHaveTheirValues) {
  std::mt19937 random(1);
  for (int k = 0; k < 3000; ++k) {
    std::string text;
    const std::optional<int64_t> want = RandomTerm(random, 4, text);
    KILN_ASSERT_OK_AND_ASSIGN(const LaunchExpr expr, LaunchExpr::Parse(text));
    EXPECT_EQ(expr.ToString(), text);
    const absl::StatusOr<int64_t> got = expr.Evaluate(Facts());
    ASSERT_EQ(got.ok(), want.has_value()) << text << ": " << got.status();
    if (want) {
      EXPECT_EQ(*got, *want) << text;
    }
  }
}

TEST(LaunchExpr, OddOnesAreErrorsOrRight) {
  const auto value = [](const char* text) { return *LaunchExpr::Parse(text)->Evaluate(Facts()); };
  EXPECT_EQ(value("(not 0)"), 1);
  EXPECT_EQ(value("(align out0)"), 256);
  EXPECT_EQ(value("(/ -9223372036854775808 -1)"), INT64_MIN);
  EXPECT_EQ(value("(* 9223372036854775807 2)"), -2);
  EXPECT_FALSE(LaunchExpr::Parse("extent7")->Evaluate(Facts()).ok());
  EXPECT_EQ(LaunchExpr::Parse("(* 16 (min 8 9))")->Constant(), 128);
  for (const char* text : {"extent0", "(* 0 (stride in0 1))", "(align out0)", "(/ 1 0)"})
    EXPECT_EQ(LaunchExpr::Parse(text)->Constant(), std::nullopt) << text;
  for (const char* text : {"", "(", "()", "(+ 1)", "(+ 1 2", "(+ 1 2) 3", "(pow 1 2)", "extent",
                           "extent-1", "(align)", "(align x0)", "(stride in0)", "in0", "1.5"})
    EXPECT_THAT(LaunchExpr::Parse(text), StatusIs(absl::StatusCode::kDataLoss)) << text;
  std::string deep = "1";
  for (int k = 0; k < 300; ++k) deep = absl::StrCat("(+ ", deep, " 1)");
  EXPECT_THAT(LaunchExpr::Parse(deep), StatusIs(absl::StatusCode::kDataLoss));
  std::string wide = "1";  // each operand waits for the one to its right
  for (int k = 0; k < 100; ++k) wide = absl::StrCat("(+ 1 ", wide, ")");
  EXPECT_THAT(LaunchExpr::Parse(wide), StatusIs(absl::StatusCode::kDataLoss));
}

constexpr char kText[] =
    "kiln launch 1\nscratch (* 4 extent0)\nlaunch k0\nwhen (== (% extent1 4) 0)\n"
    "grid (/ (+ extent0 7) 8) 1 1\nblock 16 8 1\nshared 0\narg buffer in0\narg i32 extent1\n"
    "arg i64 (stride out0 1)\narg param 0\narg buffer scratch0\n";

TEST(LaunchRecipe, IsItsText) {
  KILN_ASSERT_OK_AND_ASSIGN(const LaunchRecipe recipe, LaunchRecipe::Parse(kText));
  EXPECT_EQ(recipe.ToString(), kText);
  EXPECT_EQ(recipe.launches[0].arguments.size(), 5u);
}

// Bytes changed, lost or doubled: an error, or a recipe that is its text.
TEST(LaunchRecipe, HasALimitedLength) {
  const std::string head = "kiln launch 1\n",
                    launch = "launch k0\ngrid 1 1 1\nblock 1 1 1\nshared 0\n";
  std::string many = head;
  for (int k = 0; k < 256; ++k) many += launch;
  ASSERT_TRUE(LaunchRecipe::Parse(many).ok());
  EXPECT_EQ(LaunchRecipe::Parse(many + launch).status().message(),
            "line 1026: has more than 256 launches");
  EXPECT_TRUE(LaunchRecipe::Parse(head + std::string((1 << 20) - head.size(), '\n')).ok());
  EXPECT_EQ(
      LaunchRecipe::Parse(head + std::string((1 << 20) + 1 - head.size(), '\n')).status().message(),
      "launch: has 1048577 bytes, at most 1048576 are read");
  const absl::Status odd = LaunchRecipe::Parse(head + std::string(1000, 'x')).status();
  EXPECT_LT(odd.message().size(), 200u);
}

TEST(LaunchRecipe, OtherTextsAreRefusedOrRead) {
  std::mt19937 random(2);
  for (int k = 0; k < 5000; ++k) {
    std::string text = kText;
    for (size_t n = 1 + random() % 3; n > 0; --n) {
      const size_t at = random() % text.size();
      const int how = static_cast<int>(random() % 3);
      if (how == 0) text[at] = static_cast<char>(random() % 128);
      if (how == 1) text.erase(at, 1 + random() % 5);
      if (how == 2) text.insert(at, text.substr(random() % text.size(), 1 + random() % 9));
      if (text.empty()) text = "x";
    }
    const absl::StatusOr<LaunchRecipe> recipe = LaunchRecipe::Parse(text);
    if (!recipe.ok()) {
      EXPECT_THAT(recipe.status(), StatusIs(absl::StatusCode::kDataLoss));
      continue;
    }
    KILN_ASSERT_OK_AND_ASSIGN(const LaunchRecipe again, LaunchRecipe::Parse(recipe->ToString()));
    EXPECT_EQ(again.ToString(), recipe->ToString());
  }
}

}  // namespace
}  // namespace kiln
