// SPDX-License-Identifier: Apache-2.0
// Activations over rows against functions of the C++ library in double.
#include "exec/library/post_op_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace kiln::library {
namespace {

constexpr float kNumbers[2] = {0.7F, 0};

struct Function {
  const char* name;
  double (*value)(double);
  float at_minus_infinity;
};

constexpr Function kFunctions[] = {
    {"elu", [](double x) { return x > 0 ? x : std::expm1(x) * kNumbers[0]; }, -kNumbers[0]},
    {"gelu_erf", [](double x) { return x * 0.5 * std::erfc(-x * M_SQRT1_2); }, NAN},
    {"gelu_tanh",
     [](double x) {
       return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
     },
     NAN},
    {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, 0},
    {"swish", [](double x) { return x / (1 + std::exp(-x * kNumbers[0])); }, NAN},
    {"tanh", [](double x) { return std::tanh(x); }, -1},
};

class PostOpRowsTest : public testing::TestWithParam<Function> {
 protected:
  void SetUp() override {
    row_ = FindPostOpRow(GetParam().name);
    if (row_ == nullptr) GTEST_SKIP() << "the rows need AVX2 and FMA";
  }
  std::vector<float> Of(std::vector<float> x) const {
    const float none = 0;
    row_(x.data(), &none, 0, static_cast<int64_t>(x.size()), kNumbers);
    return x;
  }
  PostOpRow row_ = nullptr;
};

std::vector<float> Arguments() {
  std::vector<float> x;
  for (float v = -30; v < 30; v += 0.00037F) x.push_back(v);
  for (float v = 1e-38F; v < 1; v *= 1.01F) x.insert(x.end(), {v, -v});
  return x;
}

// 1 + erf and the like cancel below 0: there errors are shares of |x|.
TEST_P(PostOpRowsTest, IsNearTheFunction) {
  const std::vector<float> x = Arguments(), y = Of(x);
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = GetParam().value(x[i]);
    const double scale = std::max(std::abs(want), x[i] < 0 ? std::abs(1.0 * x[i]) : 0);
    ASSERT_LE(std::abs(y[i] - want), 0x1p-22 * scale + 0x1p-149) << x[i];
  }
}

TEST_P(PostOpRowsTest, BitsDoNotDependOnThePlace) {
  const std::vector<float> x = Arguments(), y = Of(x);
  for (size_t n = 1; n < 40; ++n) {
    const std::vector<float> part(x.begin() + static_cast<ptrdiff_t>(7 * n),
                                  x.begin() + static_cast<ptrdiff_t>(8 * n));
    const std::vector<float> got = Of(part);
    EXPECT_EQ(std::memcmp(got.data(), y.data() + 7 * n, n * sizeof(float)), 0) << n;
  }
}

TEST_P(PostOpRowsTest, NanInfinityAndZero) {
  const std::vector<float> y = Of({NAN, INFINITY, -INFINITY, 0, -0.0F, 300, -300});
  const bool bounded = GetParam().value(100) < 2;
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], bounded ? 1 : INFINITY);
  if (std::isnan(GetParam().at_minus_infinity))
    EXPECT_TRUE(std::isnan(y[2]) || y[2] == 0) << y[2];
  else
    EXPECT_EQ(y[2], GetParam().at_minus_infinity);
  EXPECT_EQ(y[3], GetParam().value(0));
  EXPECT_EQ(std::signbit(y[4]), GetParam().value(0) == 0);
  EXPECT_EQ(y[5], bounded ? 1 : 300);
  EXPECT_NEAR(y[6], std::isnan(GetParam().at_minus_infinity) ? 0 : GetParam().at_minus_infinity,
              1e-7);
}

INSTANTIATE_TEST_SUITE_P(Activations, PostOpRowsTest, testing::ValuesIn(kFunctions),
                         [](const auto& function) { return std::string(function.param.name); });

}  // namespace
}  // namespace kiln::library
