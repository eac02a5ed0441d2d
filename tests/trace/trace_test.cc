// SPDX-License-Identifier: Apache-2.0
// Arrays, lazy evaluation and traces: what each option and function does.
#include "kiln/trace.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "kiln/runtime.h"
#include "kiln/trace_ops.h"
#include "tests/trace/arrays.h"

namespace kiln {
namespace {

using testing::Test;

class ArrayTest : public Test {
 protected:
  void SetUp() override { ASSERT_TRUE(SetLazyOptions(OnVm()).ok()); }
};

TEST_F(ArrayTest, OperatorsBroadcastAndTakeNumbers) {
  const Array x = Array::from(Floats{1, 2, 3, 4, 5, 6}.data(), {2, 3}), row = Of({10, 20, 30});
  EXPECT_EQ(ValuesOf(x + row), (Floats{11, 22, 33, 14, 25, 36}));
  EXPECT_EQ(ValuesOf(2.0f * x - 1), (Floats{1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(ValuesOf(-x / 2), (Floats{-0.5f, -1, -1.5f, -2, -2.5f, -3}));
  EXPECT_EQ(ValuesOf(where(x > 3, x, 0.0f)), (Floats{0, 0, 0, 4, 5, 6}));
  Array y = row;
  y += 1;
  y *= row;
  EXPECT_EQ(ValuesOf(y), (Floats{110, 420, 930}));
  EXPECT_EQ((x + row).extents(), (std::vector<int64_t>{2, 3}));
}

TEST_F(ArrayTest, SlicesAndPlaces) {
  const Array x = Array::from(Floats{1, 2, 3, 4, 5, 6}.data(), {2, 3});
  EXPECT_EQ(ValuesOf(x({Slice{}, Slice{1, 3}})), (Floats{2, 3, 5, 6}));
  EXPECT_EQ(ValuesOf(x({-1})), (Floats{4, 5, 6}));
  EXPECT_EQ(ValuesOf(x({Slice{}, 0})), (Floats{1, 4}));
  EXPECT_EQ(x({1, 1}).rank(), 0);
  EXPECT_EQ(*x({1, 1}).item<float>(), 5);
  EXPECT_EQ(ValuesOf(x({0, Slice{-1, INT64_MIN, -1}})), (Floats{3, 2, 1}));
  EXPECT_EQ(x({2}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(x({-3}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ArrayTest, NumbersTakeTheTypeBesideThem) {
  const Array i = Array::from(std::vector<int32_t>{1, 2, 3});
  EXPECT_EQ((i + 1).dtype(), DType::kI32);
  EXPECT_EQ(*(i * 2.0).to_vector<int32_t>(), (std::vector<int32_t>{2, 4, 6}));
  EXPECT_NE((i + 0.5).status().message().find("0.5 beside an array of i32"), std::string::npos)
      << (i + 0.5).status();
  EXPECT_FALSE((Array::full({2}, 1, DType::kU8) + 256).status().ok());
  EXPECT_FALSE((Array::full({2}, 1, DType::kU8) - -1).status().ok());
  const Array h = Array::full({2}, 1, DType::kF16);
  EXPECT_EQ((h + 0.1).dtype(), DType::kF16);
}

TEST_F(ArrayTest, NumbersAboveTheSignedOnesKeepTheirSign) {
  constexpr uint64_t kHalf = uint64_t{1} << 63, kAll = ~uint64_t{0};
  const Array u = Array::from(std::vector<uint64_t>{1, 2});
  EXPECT_EQ((u + kHalf).to_vector<uint64_t>().value(),
            (std::vector<uint64_t>{kHalf + 1, kHalf + 2}));
  EXPECT_EQ((u + 0x1p63).to_vector<uint64_t>().value(),
            (std::vector<uint64_t>{kHalf + 1, kHalf + 2}));
  EXPECT_EQ((u < kAll).to_vector<bool>().value(), (std::vector<bool>{true, true}));
  EXPECT_EQ(ValuesOf(Of({1}) * kAll), (Floats{0x1p64f}));
  EXPECT_EQ(where(Of({1}) > 0, kAll, kHalf).item<uint64_t>().value(), kAll);
  EXPECT_EQ(where(Of({1}) > 0, kAll, kHalf).dtype(), DType::kU64);
  const Array i = Array::from(std::vector<int64_t>{1});
  const absl::Status status = (i + kAll).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("18446744073709551615"), std::string::npos) << status;
  EXPECT_FALSE((u + 0x1p64).status().ok());
  EXPECT_FALSE((u + -1).status().ok());
  EXPECT_EQ((i + INT64_MIN).item<int64_t>().value(), INT64_MIN + 1);
}

TEST_F(ArrayTest, FullHasTheValueOrIsAnError) {
  for (const double value : {300.0, -1.0, 2.5, double{NAN}, double{INFINITY}}) {
    const absl::Status status = Array::full({2}, value, DType::kU8).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << value;
    EXPECT_NE(status.message().find("array u8 [2]: filled with"), std::string::npos) << status;
  }
  EXPECT_FALSE(Array::full({1}, 2, DType::kBool).status().ok());
  EXPECT_FALSE(Array::full({1}, 0x1p64, DType::kU64).status().ok());
  EXPECT_EQ(Array::full({1}, 0x1p63, DType::kU64).item<uint64_t>().value(), uint64_t{1} << 63);
  EXPECT_EQ(Array::full({1}, -0x1p63, DType::kI64).item<int64_t>().value(), INT64_MIN);
  EXPECT_EQ(Array::full({1}, -128, DType::kI8).item<int8_t>().value(), -128);
  // Float types: as C++ converts.
  EXPECT_EQ(ValuesOf(Array::full({1}, 1e300)), (Floats{INFINITY}));
  EXPECT_EQ(ValuesOf(Of({1}) + 1e300), (Floats{INFINITY}));
  const Array half = cast(Of({1}), {.to = DType::kF16}) * 70000;
  EXPECT_EQ(ValuesOf(cast(half, {.to = DType::kF32})), (Floats{INFINITY}));
}

TEST_F(ArrayTest, NumbersAsIndicesAndStepsAreWhole) {
  const Array x = Array::from(Floats{1, 2, 3, 4, 5, 6}.data(), {3, 2});
  EXPECT_EQ(ValuesOf(gather(x, 2)), (Floats{5, 6}));
  EXPECT_EQ(ValuesOf(gather(x, -1, {.axis = 1})), (Floats{2, 4, 6}));
  EXPECT_EQ(ValuesOf(take({x, 1, 0})), (Floats{3}));
  EXPECT_FALSE(gather(x, 0.5).status().ok());
  const Array at = Array::from(std::vector<int64_t>{1});
  EXPECT_EQ(scatter_sum(at, 1.0f, {.shape = {2}}).dtype(), DType::kF32);
  const Array half = Array::full({64}, 0.5);
  EXPECT_EQ(ValuesOf(bernoulli(half, {}, 3)).size(), 64u);
  EXPECT_EQ(ValuesOf(dropout(half, {}, 3)[0]).size(), 64u);
  EXPECT_EQ(ValuesOf(random_uniform({.shape = {4}}, 1)),
            ValuesOf(random_uniform({.shape = {4}}, 1)));
}

// Bytes of the heap that are in use.
size_t HeapInUse() { return mallinfo2().uordblks; }

TEST_F(ArrayTest, OtherAttributesEachTimeTakeBoundedMemory) {
  constexpr int64_t kRounds = 20000;
  Floats values(kRounds + 4);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const Array x = Of(values);
  size_t before = 0;
  Array held;
  for (int64_t i = 0; i < kRounds; ++i) {
    if (i == kRounds / 2) before = HeapInUse();
    const Array first = x({Slice{i, i + 3}}), second = x({Slice{i + 1, i + 4}});
    ASSERT_FALSE(reduce_sum(first, {.axes = {i + 1}}).status().ok());
    // Held, without a read, over a place where the table is emptied.
    if (i % 1009 == 0) held = first + second;
    if (i % 1009 != 1000) continue;
    ASSERT_EQ(held({1}).item<float>().value_or(-1), 2 * (i - 1000) + 3) << i;
    ASSERT_EQ((first + second)({1}).item<float>().value_or(-1), 2 * i + 3) << i;
  }
  EXPECT_LT(static_cast<double>(HeapInUse()) - static_cast<double>(before), 8e6);
}

// 256 structures are kept; what only their first run needed is not.
TEST_F(ArrayTest, StructuresThatRanOnceKeepTheirGraphAlone) {
  const Array x = Of(Floats(600));
  const size_t before = HeapInUse();
  for (int64_t i = 0; i < 500; ++i) ASSERT_TRUE((x({Slice{i, i + 3}}) * 2.0f).eval().ok());
  EXPECT_LT(static_cast<double>(HeapInUse()) - static_cast<double>(before), 20e6);
}

TEST_F(ArrayTest, ErrorsAreCarriedToTheRead) {
  const Array bad = Of({1, 2}) + Of({1, 2, 3});
  const Array worse = relu(bad * 2.0f);
  EXPECT_EQ(worse.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(worse.status().message().find("do not broadcast"), std::string::npos) << worse.status();
  EXPECT_NE(worse.status().message().find("trace_test.cc:"), std::string::npos) << worse.status();
  EXPECT_EQ(worse.to_vector<float>().status(), worse.status());
  EXPECT_EQ((Array() + Of({1})).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Array().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Of({1, 2}).item<float>().status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Of({1}).item<int>().status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(Array::from<float>(nullptr, {2}).status().ok());
  EXPECT_FALSE(Array::from(Floats{1}.data(), {-1}).status().ok());
  EXPECT_FALSE(Array::full({INT64_MAX, 4}, 0).status().ok());
  EXPECT_FALSE(Array::full(std::vector<int64_t>(17, 1), 0).status().ok());
}

TEST_F(ArrayTest, OfATensorReadsItsMemoryWithoutACopy) {
  Floats memory = {1, 2, 3, 4};
  // Columns of a 2 x 2 matrix: strided.
  const Array x = Array::of(Tensor::View(memory.data(), DType::kF32, {2, 2}, {1, 2}));
  EXPECT_EQ(x.tensor()->data(), memory.data());
  EXPECT_EQ(ValuesOf(x), (Floats{1, 3, 2, 4}));
  EXPECT_EQ(ValuesOf(x + 1), (Floats{2, 4, 3, 5}));
  memory[0] = 9;
  EXPECT_EQ(ValuesOf(x + 1), (Floats{10, 4, 3, 5}));
}

TEST_F(ArrayTest, WhatWasMovedFromIsEmpty) {
  Array x = Of({1, 2}), y = Of({3, 4});
  x = std::move(y);
  EXPECT_FALSE(y.valid());  // NOLINT: as the header says
  EXPECT_EQ(ValuesOf(x), (Floats{3, 4}));
  Array& same = x;
  x = std::move(same);
  EXPECT_EQ(ValuesOf(x), (Floats{3, 4}));
}

TEST_F(ArrayTest, LazyOperationsRunOnceAndTogether) {
  const LazyStats before = lazy_stats();
  const Array x = Of({1, 2, 3});
  const Array a = x * 3.0f, b = a + x, c = b - 1.0f;
  EXPECT_EQ(lazy_stats().runs, before.runs);
  EXPECT_EQ(ValuesOf(c), (Floats{3, 7, 11}));
  EXPECT_EQ(ValuesOf(a), (Floats{3, 6, 9}));
  EXPECT_EQ(ValuesOf(b), (Floats{4, 8, 12}));
  EXPECT_EQ(lazy_stats().runs, before.runs + 1);
}

// The first run of a structure whose operations are known is one operation at a time.
TEST_F(ArrayTest, ResultsMayBeOperandsOfTheLastOperation) {
  for (int round = 0; round < 3; ++round) {
    const Array x = Of({1, 2});
    Array b = x;
    for (int i = 0; i < 8; ++i) b = b + x;
    const Array c = b + x;
    EXPECT_EQ(ValuesOf(c), (Floats{10, 20}));
    EXPECT_EQ(ValuesOf(b), (Floats{9, 18}));
  }
}

TEST_F(ArrayTest, AValueOfAnotherThreadIsAnErrorUntilItIsThere) {
  const Array x = Of({1, 2});
  const Array pending = x * 2.0f;
  std::thread([&] {
    const absl::Status status = (pending + 1.0f).status();
    EXPECT_EQ(TraceErrorOf(status), TraceError::kThread) << status;
    EXPECT_EQ(TraceErrorOf(pending.eval()), TraceError::kThread);
  }).join();
  ASSERT_TRUE(pending.eval().ok());
  std::thread([&] { EXPECT_EQ(ValuesOf(pending + 1.0f), (Floats{3, 5})); }).join();
  Array left;
  std::thread([&] { left = x + 1.0f; }).join();
  EXPECT_EQ(left.to_vector<float>().status().code(), absl::StatusCode::kFailedPrecondition);
}

// 10,000 rounds with other numbers are a few structures, cut at the same place of the body.
TEST_F(ArrayTest, ALoopIsCutAndFoundAgain) {
  for (const int body : {1, 3, 7}) {
    ASSERT_TRUE(SetLazyOptions(OnVm()).ok());
    const LazyStats before = lazy_stats();
    Array b = Of({1, 2, 3, 4});
    Floats want = {1, 2, 3, 4};
    const Array c = Of({0.5f, 0.25f, 0.125f, 0});
    const int rounds = 10000 / body;
    for (int i = 0; i < rounds; ++i) {
      const float step = 0.001f * static_cast<float>(i % 17);
      b = b + step;
      for (float& w : want) w = w + step;
      for (int k = 1; k < body; ++k) {
        b = k % 2 == 0 ? b * 0.5f : b + c;
        for (size_t e = 0; e < 4; ++e)
          want[e] = k % 2 == 0 ? want[e] * 0.5f : want[e] + ValuesOf(c)[e];
      }
    }
    EXPECT_EQ(ValuesOf(b), want) << body;
    const LazyStats after = lazy_stats();
    EXPECT_LE(after.structures - before.structures, 3) << body;
    EXPECT_LE(after.compiled - before.compiled, 2) << body;
    EXPECT_GT(after.loop_flushes - before.loop_flushes, rounds * body / 100) << body;
  }
}

// Compiled, such a loop is one kernel or two.
TEST_F(ArrayTest, ALoopBuildsFewKernels) {
  CompileOptions options;
  options.threads = 1;
  options.compile_mode = CompileMode::kBlock;
  ASSERT_TRUE(SetLazyOptions(options).ok());
  const auto kernels = [] {
    const RuntimeMetrics metrics = Runtime::Default()->metrics();
    return metrics.kernels_built + metrics.kernels_cached + metrics.kernels_failed;
  };
  const int64_t before = kernels();
  Array b = Of({1, 2, 3, 4});
  Floats want = {1, 2, 3, 4};
  for (int i = 0; i < 10000; ++i) {
    const float step = 0.02f * static_cast<float>(i % 7);
    b = b + step;
    for (float& w : want) w = w + step;
  }
  EXPECT_EQ(ValuesOf(b), want);
  EXPECT_GE(kernels() - before, 1);
  EXPECT_LE(kernels() - before, 3);
}

TEST_F(ArrayTest, OptionsOfLazyEvaluationAreChecked) {
  CompileOptions bad = OnVm();
  bad.graph_opt_level = 7;
  EXPECT_EQ(SetLazyOptions(bad).code(), absl::StatusCode::kInvalidArgument);
}

class TraceTest : public ArrayTest {};

Array Axpy(const Array& a, const Array& x, const Array& y) { return a * x + y; }

TEST_F(TraceTest, RecordsThenReplays) {
  auto traced = trace(Axpy, Plain());
  for (int i = 0; i < 4; ++i) {
    const float a = static_cast<float>(i);
    EXPECT_EQ(ValuesOf(traced(Of({a}), Of({1, 2}), Of({10, 20}))), (Floats{10 + a, 20 + 2 * a}));
  }
  const TraceStats stats = traced.stats();
  EXPECT_EQ(stats.calls, 4);
  EXPECT_EQ(stats.records, 1);
  EXPECT_EQ(stats.replays, 3);
  EXPECT_EQ(stats.runs, 4);
  EXPECT_EQ(stats.operations, 2);
  EXPECT_EQ(stats.segments, 1);
  traced.forget();
  EXPECT_EQ(ValuesOf(traced(Of({2}), Of({1, 2}), Of({10, 20}))), (Floats{12, 24}));
  EXPECT_EQ(traced.stats().records, 2);
}

TEST_F(TraceTest, AReadCutsAndControlFlowIsRecordedAsTaken) {
  auto traced = trace(
      [](const Array& x) {
        const Array sum = reduce_sum(x, {.keepdims = 0});
        const absl::StatusOr<float> s = sum.item<float>();
        return s.ok() && *s > 0 ? x * 2.0f : x - 1.0f;
      },
      Plain());
  EXPECT_EQ(ValuesOf(traced(Of({1, 2}))), (Floats{2, 4}));
  EXPECT_EQ(ValuesOf(traced(Of({3, 4}))), (Floats{6, 8}));
  EXPECT_EQ(traced.stats().segments, 2);
  const Array other = traced(Of({-3, 2}));
  EXPECT_EQ(TraceErrorOf(other.status()), TraceError::kOperation) << other.status();
  EXPECT_EQ(ValuesOf(traced(Of({5, 6}))), (Floats{10, 12}));
}

TEST_F(TraceTest, ShapesAreVariantsOrErrors) {
  const auto last_less_first = [](const Array& x) {
    const int64_t n = x.extents()[0];
    return x({Slice{1, n}}) - x({Slice{0, n - 1}});
  };
  auto traced = trace(last_less_first, Plain());
  EXPECT_EQ(ValuesOf(traced(Of({1, 2, 4}))), (Floats{1, 2}));
  EXPECT_EQ(ValuesOf(traced(Of({1, 2, 4, 8}))), (Floats{1, 2, 4}));
  EXPECT_EQ(ValuesOf(traced(Of({1, 3, 9}))), (Floats{2, 6}));
  EXPECT_EQ(traced.stats().variants, 2);
  EXPECT_EQ(traced.stats().replays, 1);
  for (int n = 2; n < 40; ++n) EXPECT_EQ(traced(Array::full({n}, 1)).num_elements(), n - 1);
  EXPECT_EQ(traced.stats().variants, 16);

  TraceOptions one = Plain();
  one.symbolic_shape = false;
  auto strict = trace(last_less_first, one);
  EXPECT_TRUE(strict(Of({1, 2, 4})).status().ok());
  EXPECT_EQ(TraceErrorOf(strict(Of({1, 2})).status()), TraceError::kShape) << strict.status();
}

TEST_F(TraceTest, CaptureAsConst) {
  float scale = 2;
  Array weight = Of({1, 10});
  TraceOptions options = Plain();
  const auto f = [&](const Array& x) { return x * weight * scale; };
  auto fed = trace(f, options);
  options.capture_as_const = true;
  auto constant = trace(f, options);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(ValuesOf(fed(Of({1, 2}))), (Floats{2, 40}));
    EXPECT_EQ(ValuesOf(constant(Of({1, 2}))), (Floats{2, 40}));
  }
  scale = 3;
  EXPECT_EQ(ValuesOf(fed(Of({1, 2}))), (Floats{3, 60}));
  EXPECT_EQ(TraceErrorOf(constant(Of({1, 2})).status()), TraceError::kConstant);
  scale = 2;
  EXPECT_EQ(ValuesOf(constant(Of({1, 2}))), (Floats{2, 40}));
  weight = Of({2, 20});
  EXPECT_EQ(ValuesOf(fed(Of({1, 2}))), (Floats{4, 80}));
  EXPECT_EQ(TraceErrorOf(constant(Of({1, 2})).status()), TraceError::kConstant);
  weight = Of({1, 2, 3});
  EXPECT_EQ(TraceErrorOf(fed(Of({1, 2})).status()), TraceError::kShape) << fed.status();
}

// A constant, since an operator that pads has to know it: the same in each call.
TEST_F(TraceTest, PadsWithANumber) {
  float fill = 2;
  for (bool TraceOptions::*const option :
       {&TraceOptions::profiling, &TraceOptions::symbolic, &TraceOptions::capture_as_const}) {
    TraceOptions options = Plain();
    options.*option = true;
    auto step = trace(
        [&](const Array& a) {
          return pad(a, {.pads = {1, 2}}, fill) * 3.0f;
        },
        options);
    for (int call = 0; call < 4; ++call)
      EXPECT_EQ(ValuesOf(step(Of({1, 4}))), (Floats{6, 3, 12, 6, 6}));
    fill = 5;
    EXPECT_EQ(TraceErrorOf(step(Of({1, 4})).status()), TraceError::kConstant);
    fill = 2;
  }
  const Array bytes = Array::from(std::vector<uint8_t>{1});
  EXPECT_EQ(*pad(bytes, {.pads = {0, 1}}, 255).to_vector<uint8_t>(),
            (std::vector<uint8_t>{1, 255}));
  EXPECT_EQ(pad(bytes, {.pads = {0, 1}}, 300).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(pad(bytes, {.pads = {0, 1}}, 0.5f).status().code(), absl::StatusCode::kInvalidArgument);
  const Array longs = Array::from(std::vector<int64_t>{1});
  EXPECT_EQ(*pad(longs, {.pads = {1, 0}}, int64_t{1} << 62).to_vector<int64_t>(),
            (std::vector<int64_t>{int64_t{1} << 62, 1}));
  // Every number is the one that is given.
  for (const int64_t n : {(int64_t{1} << 53) + 1, int64_t{16777217}, INT64_MIN, INT64_MAX})
    EXPECT_EQ((*pad(longs, {.pads = {0, 1}}, n).to_vector<int64_t>())[1], n);
  const Array words = Array::from(std::vector<uint32_t>{1});
  EXPECT_EQ((*pad(words, {.pads = {0, 1}}, 4294967295).to_vector<uint32_t>())[1], 4294967295);
  const Array doubles = Array::from(std::vector<double>{1});
  for (const double value : {0.1, 1e300, -1e-300})
    EXPECT_EQ((*pad(doubles, {.pads = {0, 1}}, value).to_vector<double>())[1], value);
  const Array halves = cast(Of({1}), {.to = DType::kBF16});
  EXPECT_EQ(ValuesOf(cast(pad(halves, {.pads = {0, 1}}, 3.7265625000271), {.to = DType::kF32})),
            (Floats{1, 3.734375}));  // rounded once
  EXPECT_EQ(pad(longs, {.pads = {0, 1}}, longs).status().code(), absl::StatusCode::kUnimplemented);
}

TEST_F(TraceTest, SymbolicRunsNothingWhileItRecords) {
  TraceOptions options = Plain();
  options.symbolic = true;
  int64_t runs_inside = -1;
  auto traced = trace(
      [&](const Array& x) {
        const Array y = x * 2.0f;
        EXPECT_EQ(y.extents(), std::vector<int64_t>{2});
        runs_inside = lazy_stats().runs;
        return y + 1.0f;
      },
      options);
  EXPECT_EQ(ValuesOf(traced(Of({1, 2}))), (Floats{3, 5}));
  EXPECT_EQ(ValuesOf(traced(Of({3, 4}))), (Floats{7, 9}));
  EXPECT_EQ(traced.stats().runs, 2);
  auto reads = trace([](const Array& x) { return (x * 2.0f).eval().ok() ? x : x + 1.0f; }, options);
  EXPECT_EQ(TraceErrorOf(reads(Of({1})).status()), TraceError::kRead) << reads.status();
}

TEST_F(TraceTest, RecordOnlyNeverRuns) {
  TraceOptions options = Plain();
  options.record_only = true;
  auto traced = trace(Axpy, options);
  for (int i = 0; i < 2; ++i) {
    const Array y = traced(Of({1}), Of({1, 2, 3}), Of({1, 2, 3}));
    ASSERT_TRUE(traced.status().ok()) << traced.status();
    EXPECT_EQ(y.extents(), std::vector<int64_t>{3});
    EXPECT_TRUE(y.status().ok()) << y.status();
    EXPECT_EQ((y + 1.0f).status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(traced(y, y, y).status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(y.tensor().status().message().find("record_only"), std::string::npos)
        << y.tensor().status();
  }
  EXPECT_EQ(traced.stats().runs, 0);
}

TEST_F(TraceTest, RegionsAreLeftOut) {
  int rounds = 0;
  auto traced = trace(
      [&](const Array& x) {
        Array y = x * 2.0f;
        {
          const ExcludeFromTrace scope;
          for (int i = 0; i <= rounds; ++i) y = y + 1.0f;  // as many as it likes
        }
        return y * 10.0f;
      },
      Plain());
  for (rounds = 0; rounds < 4; ++rounds) {
    const float add = static_cast<float>(rounds + 1);
    EXPECT_EQ(ValuesOf(traced(Of({1, 2}))), (Floats{10 * (2 + add), 10 * (4 + add)}));
  }
  EXPECT_EQ(traced.stats().replays, 3);
  auto helper = exclude_from_trace([](const Array& x) { return *x.item<float>(); });
  auto uses = trace([&](const Array& x) { return x * helper(x + 1.0f); }, Plain());
  EXPECT_EQ(ValuesOf(uses(Of({2}))), (Floats{6}));
  EXPECT_EQ(ValuesOf(uses(Of({3}))), (Floats{12}));
}

TEST_F(TraceTest, AnExceptionOfTheFunctionLeavesTheRecord) {
  bool throws = false;
  Array held;
  auto traced = trace(
      [&](const Array& x) {
        const Array y = x + 1.0f;
        if (throws) held = y;
        if (throws) throw 7;
        return y * 2.0f;
      },
      Plain());
  throws = true;
  EXPECT_THROW(traced(Of({1})), int);
  throws = false;
  EXPECT_EQ(ValuesOf(traced(Of({1}))), (Floats{4}));
  throws = true;
  EXPECT_THROW(traced(Of({1})), int);
  EXPECT_NE(held.status().message().find("exception"), std::string::npos) << held.status();
  EXPECT_EQ(traced.status(), held.status());
  EXPECT_EQ(traced.stats().errors, 2);
  throws = false;
  EXPECT_EQ(ValuesOf(traced(Of({2}))), (Floats{6}));
  EXPECT_EQ(traced.stats().replays, 1);
}

TEST_F(TraceTest, ForgettingDuringACallWaitsForItsEnd) {
  std::function<void()> forget = [] {};
  auto traced = trace(
      [&](const Array& x) {
        const Array y = x + 1.0f;
        forget();
        return *(y * 2.0f).item<float>() > 0 ? y * 3.0f : y;
      },
      Plain());
  const std::function<void()> now = [&] { traced.forget(); };
  const std::function<void()> elsewhere = [&] { std::thread(now).join(); };
  for (const auto& way : {now, elsewhere}) {
    for (int call = 0; call < 4; ++call) {
      forget = call % 2 == 1 ? way : [] {};
      EXPECT_EQ(ValuesOf(traced(Of({1}))), (Floats{6}));
      EXPECT_EQ(traced.stats().variants, call % 2 == 1 ? 0 : 1);
    }
  }
  EXPECT_EQ(traced.stats().records, 4);
  EXPECT_EQ(traced.stats().replays, 4);
}

TEST_F(TraceTest, ARegionThatDoesNotEndInTheCallIsAnError) {
  std::unique_ptr<ExcludeFromTrace> scope;
  bool leaves = true, elsewhere = false;
  auto traced = trace(
      [&](const Array& x) {
        if (leaves) scope = std::make_unique<ExcludeFromTrace>();
        if (elsewhere) std::thread([&] { scope.reset(); }).join();
        return x + 1.0f;
      },
      Plain());
  EXPECT_EQ(TraceErrorOf(traced(Of({1})).status()), TraceError::kExclusion);
  scope.reset();  // the call is over
  elsewhere = true;
  EXPECT_EQ(TraceErrorOf(traced(Of({1})).status()), TraceError::kExclusion);
  elsewhere = false;
  EXPECT_EQ(TraceErrorOf(traced(Of({1})).status()), TraceError::kExclusion);
  leaves = false;
  const Array held = Of({1}) * 2.0f;
  EXPECT_EQ(ValuesOf(traced(held)), (Floats{3}));
  scope.reset();
  EXPECT_EQ(ValuesOf(traced(held)), (Floats{3}));
  EXPECT_EQ(traced.stats().replays, 1);
}

TEST_F(TraceTest, OtherAttributesInEachCallTakeBoundedMemory) {
  int64_t first = 0;
  Floats values(9000, 1);
  auto traced = trace(
      [&](const Array& x) {
        return x({Slice{first, first + 2}}) + x({Slice{0, 2}}) * 2.0f;
      },
      Plain());
  const Array x = Of(values), longer = concat({x, x}, {.axis = 0});
  EXPECT_TRUE(traced(x).status().ok());
  EXPECT_TRUE(traced(longer).status().ok());
  size_t before = 0;
  for (first = 1; first < 8900; ++first) {
    if (first == 4400) before = HeapInUse();
    ASSERT_EQ(TraceErrorOf(traced(x).status()), TraceError::kAttributes);
  }
  EXPECT_LT(static_cast<double>(HeapInUse()) - static_cast<double>(before), 1e6);
  first = 0;
  EXPECT_EQ(ValuesOf(traced(x)), (Floats{3, 3}));
  EXPECT_EQ(ValuesOf(traced(longer)), (Floats{3, 3}));
  EXPECT_EQ(traced.stats().replays, 2);
  // A record that is made now has forms of its own.
  EXPECT_EQ(ValuesOf(traced(concat({longer, x}, {.axis = 0}))), (Floats{3, 3}));
  EXPECT_EQ(ValuesOf(traced(x)), (Floats{3, 3}));
}

TEST_F(TraceTest, OneThatWasMovedFromGivesErrors) {
  auto traced = trace([](const Array& x) { return x + 1.0f; }, Plain());
  auto several = trace([](const Array& x) { return std::vector<Array>{x, x}; }, Plain());
  auto none = trace([](const Array&) {}, Plain());
  auto has = std::move(traced);
  auto has_several = std::move(several);
  auto has_none = std::move(none);
  const absl::Status status = traced(Of({1})).status();  // NOLINT: that is the case
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("moved"), std::string::npos) << status;
  EXPECT_EQ(several(Of({1})).at(0).status(), status);
  none(Of({1}));
  EXPECT_EQ(none.status(), status);
  EXPECT_EQ(traced.stats().calls, 0);
  EXPECT_EQ(traced.get_profile().status(), status);
  traced.forget();
  EXPECT_EQ(ValuesOf(has(Of({1}))), (Floats{2}));
}

Array Doubled(const Array& x) noexcept { return x * 2.0f; }

TEST_F(TraceTest, FunctionsMayBeNoexcept) {
  EXPECT_EQ(ValuesOf(trace(Doubled, Plain())(Of({1}))), (Floats{2}));
  EXPECT_EQ(ValuesOf(freeze(Doubled, Plain())(Of({1}))), (Floats{2}));
  auto by_lambda = trace([](const Array& x) noexcept { return x * 3.0f; }, Plain());
  auto by_mutable = trace([n = 3](const Array& x) mutable noexcept { return x * n; }, Plain());
  EXPECT_EQ(ValuesOf(by_lambda(Of({1}))), (Floats{3}));
  EXPECT_EQ(ValuesOf(by_mutable(Of({1}))), (Floats{3}));
}

TEST_F(TraceTest, AnErrorOfAnOperatorIsTheCalls) {
  auto traced = trace([](const Array& x) { return x + Of({1, 2, 3}); }, Plain());
  EXPECT_EQ(traced(Of({1, 2})).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ValuesOf(traced(Of({1, 1, 1}))), (Floats{2, 3, 4}));
  EXPECT_EQ(traced(Of({1}) + Of({1, 2}) + Of({1, 2, 3})).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(TraceTest, ProfileHasTheLaunches) {
  TraceOptions options = Plain();
  options.profiling = true;
  options.name = "axpy";
  auto traced = trace(Axpy, options);
  EXPECT_FALSE(traced.get_profile().ok());
  for (int i = 0; i < 3; ++i) traced(Of({1}), Of({1, 2}), Of({1, 2}));
  const absl::StatusOr<std::string> text = traced.get_profile();
  ASSERT_TRUE(text.ok()) << text.status();
  const nlohmann::json profile = nlohmann::json::parse(*text);
  EXPECT_EQ(profile["trace"], "axpy");
  EXPECT_EQ(profile["replays"], 2);
  EXPECT_EQ(profile["segments"][0]["operations"].size(), 2u);
  EXPECT_EQ(profile["segments"][0]["operations"][0]["op"], "mul");
  EXPECT_GE(profile["segments"][0]["launches"].size(), 1u);
  EXPECT_FALSE(trace(Axpy, Plain()).get_profile().ok());
}

TEST_F(TraceTest, SeveralResultsAndNone) {
  auto two = trace([](const Array& x) { return std::array<Array, 2>{x + 1.0f, x}; }, Plain());
  for (int i = 0; i < 2; ++i) {
    const std::array<Array, 2> r = two(Of({1}));
    EXPECT_EQ(ValuesOf(r[0]), (Floats{2}));
    EXPECT_EQ(ValuesOf(r[1]), (Floats{1}));
  }
  Array kept;
  auto none = trace([&](const Array& x) { kept = x * 2.0f; }, Plain());
  for (const float v : {1.0f, 2.0f, 3.0f}) {
    none(Of({v}));
    ASSERT_TRUE(none.status().ok()) << none.status();
    EXPECT_EQ(ValuesOf(kept), (Floats{2 * v}));
  }
}

TEST_F(TraceTest, CompiledCodeComesAtSecondSight) {
  TraceOptions options;
  options.compile.threads = 1;
  options.compile.compile_mode = CompileMode::kBlock;
  auto traced = trace([](const Array& x) { return exp(x * 0.5f) + x; }, options);
  const int64_t before =
      Runtime::Default()->metrics().kernels_built + Runtime::Default()->metrics().kernels_cached;
  const Floats first = ValuesOf(traced(Of({1, 2, 3})));
  EXPECT_EQ(
      Runtime::Default()->metrics().kernels_built + Runtime::Default()->metrics().kernels_cached,
      before);
  EXPECT_EQ(ValuesOf(traced(Of({1, 2, 3}))), first);
  EXPECT_GE(
      Runtime::Default()->metrics().kernels_built + Runtime::Default()->metrics().kernels_cached,
      before + (std::getenv("KILN_CODEGEN") == nullptr ? 0 : 1));
  EXPECT_EQ(ValuesOf(traced(Of({1, 2, 3}))), first);
}

}  // namespace
}  // namespace kiln
