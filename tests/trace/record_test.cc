// SPDX-License-Identifier: Apache-2.0
// What a record has beside operations: constants, which are folded, and calls that failed.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kiln/trace.h"
#include "kiln/trace_ops.h"
#include "tests/trace/arrays.h"

namespace kiln {
namespace {

class TraceRecordTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(SetLazyOptions(OnVm()).ok()); }
};

TEST_F(TraceRecordTest, CapturedConstantsAreFolded) {
  const Array a = Array::from(Floats{1, 2, 3, 4, 5, 6}.data(), {3, 2});
  const Array b = Array::full({3, 2}, 0.5);
  float scale = 0.25f;
  // All but the last operation is known when the program is compiled.
  const auto f = [&](const Array& x) { return x + exp(a * scale) * b; };
  const auto bytes_moved = [&](bool constant) {
    TraceOptions options = Plain();
    options.profiling = true;
    options.capture_as_const = constant;
    auto traced = trace(f, options);
    const Array x = Array::full({3, 2}, 1);
    const Floats first = ValuesOf(traced(x));
    for (int i = 0; i < 2; ++i) EXPECT_EQ(ValuesOf(traced(x)), first);
    const absl::StatusOr<std::string> text = traced.get_profile();
    EXPECT_TRUE(text.ok()) << text.status();
    const nlohmann::json profile = nlohmann::json::parse(text.value_or("{}"));
    int64_t bytes = 0;
    for (const auto& launch : profile["segments"][0]["launches"])
      bytes += launch["bytes"].get<int64_t>();
    return bytes;
  };
  constexpr int64_t kBytes = 3 * 2 * sizeof(float);
  EXPECT_EQ(bytes_moved(true), 3 * kBytes);  // x, a constant and the result
  EXPECT_EQ(bytes_moved(false), 4 * kBytes + static_cast<int64_t>(sizeof(float)));  // a, b, scale
}

TEST_F(TraceRecordTest, AFunctionMayGoOnWithoutACallThatFailed) {
  Array other = Of({1, 2, 3});
  int failures = 0;
  auto traced = trace(
      [&](const Array& x) {
        Array sum = x + other;
        if (!sum.status().ok()) {
          ++failures;
          sum = x + reduce_sum(other, {.keepdims = 0});
        }
        return sum * 2.0f;
      },
      Plain());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ValuesOf(traced(Of({1, 2}))), (Floats{14, 16}));
  EXPECT_EQ(failures, 3);
  EXPECT_EQ(traced.stats().replays, 2);
  EXPECT_EQ(traced.stats().operations, 3);
  // Where the call goes well it is an operation, which the record has not there.
  other = Of({1, 2});
  EXPECT_TRUE(TraceErrorOf(traced(Of({1, 2})).status()).has_value());
  // And the other way round: what failed is the call's error, also where nobody looks at it.
  float number = 1;
  auto numbers = trace(
      [&](const Array& x) {
        const Array next = cast(x, {.to = DType::kI32}) + number;
        return next.status().ok() ? next : cast(x, {.to = DType::kI32});
      },
      Plain());
  EXPECT_TRUE(numbers(Of({1, 2})).status().ok());
  number = 0.5f;
  const absl::Status status = numbers(Of({1, 2})).status();
  EXPECT_NE(status.message().find("0.5 beside an array of i32"), std::string::npos) << status;
  number = 2;
  EXPECT_TRUE(numbers(Of({1, 2})).status().ok());
}

}  // namespace
}  // namespace kiln
