// SPDX-License-Identifier: Apache-2.0
#include "kiln/dim.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"

namespace kiln {
namespace {

using testing::HasSubstr;

const Dim n = Dim::Symbol("n");
const Dim m = Dim::Symbol("m");

TEST(DimTest, EqualExpressionsHaveOneForm) {
  EXPECT_EQ(n * (m + 2), m * n + n * 2);
  EXPECT_EQ((n + 1) * (n - 1), n * n - 1);
  EXPECT_EQ(n - n, Dim(0));
  EXPECT_FALSE(n + 1 == n + 2);
  EXPECT_TRUE(n.FloorDiv(2) == Dim::Symbol("n").FloorDiv(2));
}

TEST(DimTest, KnowsConstants) {
  EXPECT_EQ((n - n + 7).constant(), 7);
  EXPECT_EQ(n.constant(), std::nullopt);
  EXPECT_TRUE(Dim(0).IsConst(0));
}

TEST(DimTest, PrintsReadably) {
  EXPECT_EQ((n + 1).FloorDiv(2).ToString(), "(n + 1)/2");
  EXPECT_EQ((n * 2 * m - n + 3).ToString(), "2*m*n - n + 3");
  EXPECT_EQ((n.FloorDiv(2) * 3).ToString(), "3*(n/2)");
  EXPECT_EQ((n + 1).Mod(4).ToString(), "(n + 1) % 4");
  EXPECT_EQ(Dim::Min(n, m).ToString(), "min(m, n)");
  EXPECT_EQ(Dim::Symbol("seq len").ToString(), "`seq len`");
  EXPECT_EQ(ToString({n, 3, 224}), "[n, 3, 224]");
  EXPECT_EQ(ToString(Shape{}), "[]");
}

TEST(DimTest, ParsesWhatItPrints) {
  const Dim dims[] = {0,
                      1,
                      -1,
                      INT64_MIN,
                      INT64_MAX,
                      n,
                      n * -1,
                      n * INT64_MIN,
                      n * n * m * 3 - n * 2 + 5,
                      n.FloorDiv(2),
                      Dim(0) - n.FloorDiv(2),
                      m - n.FloorDiv(2) * 3,
                      m * n.FloorDiv(2),
                      n.Mod(3) * m,
                      n.Mod(3).FloorDiv(m),
                      n.FloorDiv(m + 1),
                      Dim::Min(n, m * 2) + Dim::Max(n - 7, m),
                      Dim::Symbol("min"),
                      Dim::Symbol("a`b\\\n"),
                      Dim::Symbol(""),
                      n.FloorDiv(0),
                      Dim(INT64_MAX) * 2};
  for (const Dim& dim : dims) {
    KILN_ASSERT_OK_AND_ASSIGN(const Dim parsed, Dim::Parse(dim.ToString()));
    EXPECT_EQ(parsed, dim) << dim.ToString() << " became " << parsed.ToString();
    EXPECT_EQ(parsed.ToString(), dim.ToString());
  }
}

TEST(DimTest, RefusesOtherText) {
  for (const char* text :
       {"", "n +", "(n", "n)", "min(n)", "9223372036854775808", "n n", "$", "`n"}) {
    EXPECT_THAT(Dim::Parse(text), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
  EXPECT_THAT(Dim::Parse(std::string(100000, '(')),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("nested")));
  EXPECT_THAT(ParseShape("[n, ]"), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(DimTest, ParsesShapes) {
  KILN_ASSERT_OK_AND_ASSIGN(const Shape shape, ParseShape(" [ n , 2*m+1, 3 ] "));
  EXPECT_EQ(shape, (Shape{n, m * 2 + 1, 3}));
  KILN_ASSERT_OK_AND_ASSIGN(const Shape scalar, ParseShape("[]"));
  EXPECT_TRUE(scalar.empty());
}

TEST(DimTest, DividesExactlyWhereItCan) {
  EXPECT_EQ((n * 6).DivideExactly(n * 2), Dim(3));
  EXPECT_EQ((n * m * 12).DivideExactly(m * 4), n * 3);
  EXPECT_EQ((n * 4 + 8).DivideExactly(4), n + 2);
  EXPECT_EQ((n * n - 1).DivideExactly(n + 1), n - 1);
  EXPECT_EQ((n * 4 + 7).DivideExactly(4), std::nullopt);
  EXPECT_EQ(n.DivideExactly(m), std::nullopt);
  EXPECT_EQ(n.DivideExactly(0), std::nullopt);
  EXPECT_EQ(Dim(0).DivideExactly(n), Dim(0));
}

TEST(DimTest, FloorDivisionSimplifies) {
  EXPECT_EQ(Dim(7).FloorDiv(2), Dim(3));
  EXPECT_EQ(Dim(-7).FloorDiv(2), Dim(-4));
  EXPECT_EQ(Dim(7).FloorDiv(-2), Dim(-4));
  EXPECT_EQ((n * 8).FloorDiv(8), n);
  EXPECT_EQ((n * 8 + m + 9).FloorDiv(8), n + 1 + (m + 1).FloorDiv(8));
  EXPECT_EQ((n - 1).FloorDiv(2) + 1, (n + 1).FloorDiv(2));
  EXPECT_EQ((n * 2 + 3).FloorDiv(4).ToString(), "(n + 1)/2");
  EXPECT_EQ((n * 2 + 1).FloorDiv(2), n);
  EXPECT_EQ(n.FloorDiv(2).FloorDiv(3), n.FloorDiv(6));
  EXPECT_EQ((n.FloorDiv(2) + 1).FloorDiv(2), (n + 2).FloorDiv(4));
}

TEST(DimTest, RemainderSimplifies) {
  EXPECT_EQ(Dim(-7).Mod(4), Dim(1));
  EXPECT_EQ(Dim(7).Mod(-4), Dim(-1));
  EXPECT_EQ((n * 8 + 3).Mod(8), Dim(3));
  EXPECT_EQ((n * 8 + m).Mod(8), m.Mod(8));
  EXPECT_EQ(n.Mod(4).Mod(8), n.Mod(4));
  EXPECT_EQ(n.Mod(n), Dim(0));
}

TEST(DimTest, MinimumAndMaximumSimplify) {
  EXPECT_EQ(Dim::Max(n, 0), n);  // symbols are never negative
  EXPECT_EQ(Dim::Max(n + 3, n), n + 3);
  EXPECT_EQ(Dim::Min(n + 3, n), n);
  EXPECT_EQ(Dim::Min(4, 9), Dim(4));
  EXPECT_EQ(Dim::Min(n, m), Dim::Min(m, n));
}

// Every identity above, and more, against plain integers.
TEST(DimTest, SimplificationsKeepTheValue) {
  for (int64_t a = -9; a <= 9; ++a) {
    for (int64_t k = -9; k <= 9; ++k) {
      for (int64_t c : {-6, -3, -1, 1, 2, 4, 6}) {
        const Dim whole = (n * a + m * 3 + k);
        const Dim quotient = whole.FloorDiv(c), rest = whole.Mod(c);
        const Dim nested = (quotient + k).FloorDiv(3);
        const Dim low = Dim::Min(whole, n + m), high = Dim::Max(whole, n + m);
        for (int64_t x = 0; x < 5; ++x) {
          const SymbolValues values = {{"n", x}, {"m", 2 * x + 1}};
          const int64_t w = a * x + 3 * (2 * x + 1) + k;
          const auto floor = [](int64_t p, int64_t q) {
            return p / q - (p % q != 0 && (p < 0) != (q < 0) ? 1 : 0);
          };
          ASSERT_EQ(*quotient.Evaluate(values), floor(w, c)) << quotient.ToString();
          ASSERT_EQ(*rest.Evaluate(values), w - c * floor(w, c)) << rest.ToString();
          ASSERT_EQ(*nested.Evaluate(values), floor(floor(w, c) + k, 3)) << nested.ToString();
          ASSERT_EQ(*low.Evaluate(values), std::min(w, 3 * x + 1));
          ASSERT_EQ(*high.Evaluate(values), std::max(w, 3 * x + 1));
          if (const auto bound = whole.LowerBound()) {
            ASSERT_LE(*bound, w);
          }
          if (const auto bound = whole.UpperBound()) {
            ASSERT_GE(*bound, w);
          }
          if (const auto bound = nested.LowerBound()) {
            ASSERT_LE(*bound, *nested.Evaluate(values));
          }
          if (const auto bound = rest.UpperBound()) {
            ASSERT_GE(*bound, *rest.Evaluate(values));
          }
        }
      }
    }
  }
}

TEST(DimTest, EvaluationNamesWhatIsWrong) {
  EXPECT_THAT((n + m).Evaluate({{"n", 1}}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"m\"")));
  EXPECT_THAT(n.FloorDiv(m).Evaluate({{"n", 1}, {"m", 0}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0")));
  EXPECT_THAT((n * n).Evaluate({{"n", int64_t{1} << 40}}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT((Dim(INT64_MAX) + 1).Evaluate({}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Evaluate(Shape{n, 3}, {{"n", 5}}), IsOk());
}

TEST(DimTest, OverflowStaysAnError) {
  const Dim error = Dim(INT64_MAX) * 2;
  EXPECT_EQ(error.constant(), std::nullopt);
  EXPECT_FALSE((error - error).Evaluate({}).ok());
  EXPECT_FALSE(error.FloorDiv(2).Evaluate({}).ok());
}

TEST(DimTest, HostileExpressionsStaySmall) {
  Dim sum = n;
  for (int i = 0; i < 100; ++i) sum = (sum + Dim::Symbol("s" + std::to_string(i))) * (n + 1);
  EXPECT_TRUE(sum.is_error());
  Dim nested = n;
  for (int i = 0; i < 100000; ++i) nested = (nested + Dim::Symbol("m")).FloorDiv(m + 1) + m;
  EXPECT_TRUE(nested.is_error());
}

TEST(DimTest, SubstitutesAndSimplifies) {
  EXPECT_EQ((n * 2 + m).FloorDiv(2).Substitute({{"m", 4}}), n + 2);
  EXPECT_EQ(Dim::Min(n, m).Substitute({{"m", n + 1}}), n);
  EXPECT_EQ(n.Substitute({{"n", m}, {"m", 3}}), m);  // at once, not one after the other
}

TEST(DimTest, CollectsSymbols) {
  std::set<std::string> symbols;
  (n * 2 + Dim::Min(m, 7).FloorDiv(Dim::Symbol("k") + 1)).CollectSymbols(symbols);
  EXPECT_EQ(symbols, (std::set<std::string>{"k", "m", "n"}));
}

TEST(DimTest, ShapeHelpers) {
  EXPECT_EQ(Product({n, 3, n}), n * n * 3);
  EXPECT_EQ(Product({}), Dim(1));
  EXPECT_EQ(Constant({2, 3}), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(Constant({2, n}), std::nullopt);
  EXPECT_EQ(ToShape({2, 3}), (Shape{2, 3}));
}

// As of a chain of pools whose inputs are joined with another's: each level once made all below it
// anew, twice.
TEST(DimTest, DivisionsNestDeeply) {
  const Dim n = Dim::Symbol("n");
  Dim nested = n;
  int64_t value = 1000;
  for (int level = 0; level < 60; ++level) {
    nested = (nested + n.FloorDiv(5)).FloorDiv(3);
    value = (value + 200) / 3;
  }
  KILN_ASSERT_OK_AND_ASSIGN(const int64_t evaluated, nested.Evaluate({{"n", 1000}}));
  EXPECT_EQ(evaluated, value);
  EXPECT_EQ(nested.Substitute({{"n", 1000}}).constant(), value);
  KILN_ASSERT_OK_AND_ASSIGN(const Dim parsed, Dim::Parse(nested.ToString()));
  EXPECT_EQ(parsed, nested);
}

}  // namespace
}  // namespace kiln
