// SPDX-License-Identifier: Apache-2.0
// Traces that are called with other extents: one compiled program serves all of them where the
// operations are the same, and results are right in any case.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kiln/runtime.h"
#include "kiln/trace.h"
#include "kiln/trace_ops.h"

namespace kiln {
namespace {

using Floats = std::vector<float>;

CompileOptions Options(CompileMode mode) {
  CompileOptions options;
  options.threads = 1;
  options.compile_mode = mode;
  options.cache.enabled = false;
  return options;
}

TraceOptions Traced(CompileMode mode) {
  TraceOptions options;
  options.compile = Options(mode);
  return options;
}

Array Drawn(std::mt19937_64& random, const std::vector<int64_t>& shape) {
  std::uniform_real_distribution<float> values(-2, 2);
  size_t count = 1;
  for (const int64_t extent : shape) count *= static_cast<size_t>(extent);
  Floats elements(count);
  for (float& element : elements) element = values(random);
  return Array::from(elements.data(), shape);
}

// NaN are equal.
void ExpectSameBits(const Array& got, const Array& want) {
  const absl::StatusOr<Floats> a = got.to_vector<float>(), b = want.to_vector<float>();
  ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
  ASSERT_EQ(got.extents(), want.extents());
  for (size_t i = 0; i < a->size(); ++i) {
    if (std::isnan((*a)[i]) && std::isnan((*b)[i])) continue;
    EXPECT_EQ(std::memcmp(&(*a)[i], &(*b)[i], sizeof(float)), 0) << (*a)[i] << ", not " << (*b)[i];
  }
}

int64_t Compiled() {
  const RuntimeMetrics metrics = Runtime::Default()->metrics();
  return metrics.variants + metrics.kernels_built + metrics.kernels_cached + metrics.kernels_failed;
}

TEST(TraceExtents, OneProgramServesThemAll) {
  ASSERT_TRUE(SetLazyOptions(Options(CompileMode::kNever)).ok());
  const auto f = [](const Array& x, const Array& y) {
    const Array mean = x * (1.0f / static_cast<float>(x.extents()[0]));  // an input of the program
    return softmax(mean * y + 1.0f, {.axis = 1}) + reduce_sum(x, {.axes = {0}, .keepdims = 1});
  };
  auto traced = trace(f, Traced(CompileMode::kBlock));
  std::mt19937_64 random(1);
  const Array y = Drawn(random, {3});
  std::vector<std::pair<Array, Array>> results;  // of each x; the judge compiles as well
  const auto call = [&](int64_t n, int calls) {
    for (int i = 0; i < calls; ++i) {
      const Array x = Drawn(random, {n, 3});
      results.emplace_back(x, traced(x, y));
    }
  };
  call(64, 3);   // compiled for 64
  call(100, 3);  // compiled for all
  const int64_t before = Compiled();
  for (const int64_t n : {7, 33, 1000, 2}) call(n, 3);
  for (int64_t n = 3; n < 20; ++n) call(n, 1);  // more than are kept
  EXPECT_EQ(Compiled(), before);
  EXPECT_EQ(traced.stats().variants, 16);
  for (const auto& [x, got] : results) ExpectSameBits(got, f(x, y));
}

// Attributes that are made of extents themselves are the same operations for all extents.
TEST(TraceExtents, OneProgramServesAttributesMadeOfExtents) {
  ASSERT_TRUE(SetLazyOptions(Options(CompileMode::kNever)).ok());
  const auto f = [](const Array& x, const Array& y, const Array& like) {
    const ArrayDim n = x.shape()[0], m = x.shape()[1];
    const Array differences = x({Slice{1, n}}) - x({Slice{0, n - 1}});
    const Array flat = reshape(exp(x) * y, {.shape = {n * m}});
    const Array wide = reshape(flat, {.shape = x.shape()}) + expand(y, {.shape = like.shape()});
    return wide({Slice{0, wide.shape()[0] - 1}}) * differences + x({n / 2}) - x({n - 1});
  };
  auto traced = trace(f, Traced(CompileMode::kBlock));
  std::mt19937_64 random(3);
  const Array y = Drawn(random, {3});
  std::vector<std::pair<Array, Array>> results;
  const auto call = [&](int64_t n, int calls) {
    for (int i = 0; i < calls; ++i) {
      const Array x = Drawn(random, {n, 3});
      results.emplace_back(x, traced(x, y, x));
    }
  };
  call(64, 3);
  call(100, 3);
  const int64_t before = Compiled();
  for (const int64_t n : {7, 33, 1000, 12}) call(n, 3);
  EXPECT_EQ(Compiled(), before);
  EXPECT_EQ(traced.stats().replays, 6 * 2);
  EXPECT_EQ(traced.stats().compiled, 2);  // for 64, and for all
  for (const auto& [x, got] : results) ExpectSameBits(got, f(x, y, x));
}

// What was an extent in another call is the number that it was, whatever the extent is now.
TEST(TraceExtents, AnExtentOfAnotherCallIsItsNumber) {
  ASSERT_TRUE(SetLazyOptions(Options(CompileMode::kNever)).ok());
  std::optional<ArrayDim> kept;
  const auto f = [&kept](const Array& x) {
    if (!kept) kept = x.shape()[0] - 1;
    return x({Slice{0, *kept}}) * 2.0f;
  };
  auto traced = trace(f, Traced(CompileMode::kBlock));
  std::mt19937_64 random(4);
  for (const int64_t n : {5, 9, 6, 5, 9, 6, 4, 9}) {
    const Array x = Drawn(random, {n});
    const Array got = traced(x);
    ExpectSameBits(got, x({Slice{0, 4}}) * 2.0f);
  }
  EXPECT_TRUE(traced.status().ok()) << traced.status();
}

TEST(TraceExtents, ArithmeticIsThatOfNumbers) {
  const ArrayDim n(7, Dim::Symbol("v0_0"));
  EXPECT_EQ((n * 2 - 3) / 2 + 1, 6);
  EXPECT_EQ(((n - 1) * 2).dim().ToString(), "2*v0_0 - 2");
  EXPECT_FALSE((n - n).known());
  EXPECT_EQ((n - 8) / 2, 0) << "as C++ rounds";
  EXPECT_LT(n, 8);
  EXPECT_EQ(n.number(), 7);
  EXPECT_EQ(ArrayDim(3).dim(), Dim(3));
  EXPECT_EQ(n / 0, INT64_MIN);
  EXPECT_FALSE((n / ArrayDim(0, Dim::Symbol("v1_0"))).known());
  EXPECT_EQ(ArrayDim(INT64_MIN) / -1, INT64_MIN);
  EXPECT_EQ(ArrayDim(INT64_MAX) + 1, INT64_MIN);
  const Ints list = {n, 3};
  ASSERT_NE(list.dims(), nullptr);
  EXPECT_EQ(list.dims()[0].ToString(), "v0_0");
  EXPECT_EQ(list.data()[1], 3);
  EXPECT_EQ((Ints{1, 2}).dims(), nullptr);
}

TEST(TraceExtents, WhatMakesAnotherProgramOfAnExtentIsRight) {
  ASSERT_TRUE(SetLazyOptions(Options(CompileMode::kNever)).ok());
  const auto differences = [](const Array& x) {
    const int64_t n = x.extents()[0];
    return x({Slice{1, n}}) - x({Slice{0, n - 1}});
  };
  auto traced = trace(differences, Traced(CompileMode::kNever));
  // Equal extents at first, and then others: columns are repeated.
  const auto products = [](const Array& a, const Array& b) { return a * b + b; };
  auto multiplied = trace(products, Traced(CompileMode::kNever));
  std::mt19937_64 random(2);
  for (const int64_t n : {4, 6, 9, 4, 6, 9}) {
    const Array x = Drawn(random, {n, 2}), one = Drawn(random, {1, 2}), z = Drawn(random, {n, 2});
    ExpectSameBits(traced(x), differences(x));
    ExpectSameBits(multiplied(x, z), products(x, z));
    ExpectSameBits(multiplied(x, one), products(x, one));
    ExpectSameBits(multiplied(one, z), products(one, z));
  }
}

// Of values that broadcast to [n, 3], with a read now and then.
Array Random(uint64_t seed, const Array& whole, const Array& row, const Array& column) {
  std::mt19937_64 random(seed);
  std::vector<Array> values = {whole, row, column};
  const ArrayDim n = whole.shape()[0];
  const auto some = [&]() -> const Array& { return values[random() % values.size()]; };
  for (int i = 0; i < 10; ++i) {
    const Array a = some(), b = some();
    switch (random() % 11) {
      case 0:
        values.push_back(a + b);
        break;
      case 1:
        values.push_back(a - b * 0.5f);
        break;
      case 2:
        values.push_back(tanh(a * b));
        break;
      case 3:
        values.push_back(max(a, b));
        break;
      case 4:
        values.push_back(softmax(a * whole, {.axis = 1}));
        break;
      case 5:
        values.push_back(reduce_mean(a * whole, {.axes = {0}, .keepdims = 1}));
        break;
      case 6:
        values.push_back(reduce_sum(a, {.axes = {1}, .keepdims = 1}));
        break;
      case 7:
        values.push_back(
            concat({(a * whole)({Slice{n / 2, n}}), (a * whole)({Slice{0, n / 2}})}, {.axis = 0}));
        break;
      case 8:
        values.push_back(transpose(reshape(a * whole, {.shape = {3, n}})));
        break;
      case 9:
        values.push_back(a * static_cast<float>(whole.num_elements()));
        if (random() % 2 == 0) (void)values.back().eval();
        break;
      case 10: {  // read, and slice by the extents of, what only some extents read
        const Array half = (a * whole)({Slice{n / 2, n}});
        if (whole.extents()[0] % 4 < 2) (void)half.eval();
        values.push_back(concat(
            {(b * whole)({Slice{0, half.shape()[0]}}), (b * whole)({Slice{half.shape()[0], n}})},
            {.axis = 0}));
        break;
      }
    }
  }
  return values.back() + values[values.size() - 2];
}

// Where a function reads follows from extents: segments of one end that begin elsewhere.
TEST(TraceExtents, SegmentsThatBeginElsewhereShareNoProgram) {
  ASSERT_TRUE(SetLazyOptions(Options(CompileMode::kNever)).ok());
  const auto f = [](const Array& a) {
    const int64_t n = a.extents()[0];
    const Array b = a * 2.0f;
    if (n < 5) (void)b.eval();
    const Array c = exp(b);
    if (n >= 5) (void)c.eval();
    return c * 3.0f;
  };
  auto traced = trace(f, Traced(CompileMode::kNever));
  std::mt19937_64 random(7);
  for (const int64_t n : {3, 4, 3, 4, 3, 4, 6, 6, 6, 7, 6, 7}) {
    const Array a = Drawn(random, {n});
    ExpectSameBits(traced(a), f(a));
  }
}

// An extent of a value of an earlier segment, which no input of the program tells.
TEST(TraceExtents, ExtentsOfEarlierSegmentsAreNotTakenForNumbers) {
  ASSERT_TRUE(SetLazyOptions(Options(CompileMode::kNever)).ok());
  const auto f = [](const Array& a, const Array& c) {
    const Array b = c * 2.0f;
    (void)b.eval();
    const ArrayDim m = b.shape()[0];
    return a({Slice{m, m + 2}}) * 10.0f;
  };
  auto traced = trace(f, Traced(CompileMode::kNever));
  std::mt19937_64 random(8);
  for (const auto& [n, m] : std::vector<std::pair<int64_t, int64_t>>{
           {10, 5}, {11, 5}, {12, 7}, {12, 7}, {13, 7}, {9, 3}, {12, 7}}) {
    const Array a = Drawn(random, {n}), c = Drawn(random, {m});
    ExpectSameBits(traced(a, c), f(a, c));
  }
}

// An argument of which extents alone are used may have another rank in each call.
TEST(TraceExtents, ArgumentsUsedForTheirExtentsMayHaveAnyRank) {
  ASSERT_TRUE(SetLazyOptions(Options(CompileMode::kNever)).ok());
  TraceOptions options = Traced(CompileMode::kNever);
  const auto f = [](const Array& a, const Array& c) { return a({Slice{0, c.shape()[0]}}); };
  auto traced = trace(f, options);
  std::mt19937_64 random(10);
  const Array a = Drawn(random, {10}), flat = Drawn(random, {2}), rows = Drawn(random, {2, 3}),
              more = Drawn(random, {3, 3}), longer = Drawn(random, {4});
  for (int round = 0; round < 4; ++round)
    for (const Array* const c : {&flat, &rows, &more, &longer}) {
      const Array got = traced(a, *c);
      ASSERT_TRUE(got.status().ok()) << got.status();
      ExpectSameBits(got, f(a, *c));
    }
}

TEST(TraceExtents, LargeNumbersMadeOfExtentsAreNumbers) {
  ASSERT_TRUE(SetLazyOptions(Options(CompileMode::kNever)).ok());
  const auto f = [](const Array& a) {
    return a({Slice{0, ArrayDim(INT64_MIN) / (2 - a.shape()[0])}}) + 1.0f;
  };
  auto traced = trace(f, Traced(CompileMode::kNever));
  std::mt19937_64 random(9);
  for (const int64_t n : {4, 4, 4, 5, 5, 6}) {
    const Array a = Drawn(random, {n});
    ExpectSameBits(traced(a), f(a));
  }
}

TEST(TraceExtents, RandomFunctionsHaveTheBitsOfLazyOnes) {
  ASSERT_TRUE(SetLazyOptions(Options(CompileMode::kNever)).ok());
  for (uint64_t seed = 1; seed <= 24 && !HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const auto f = [=](const Array& a, const Array& b, const Array& c) {
      return Random(seed, a, b, c);
    };
    auto traced = trace(f, Traced(CompileMode::kNever));
    std::mt19937_64 random(seed);
    for (const int64_t n : {5, 9, 2, 1, 17, 5, 3, 8, 7}) {
      for (int call = 0; call < 2; ++call) {
        const Array a = Drawn(random, {n, 3}), b = Drawn(random, {1, 3}), c = Drawn(random, {n, 1});
        ExpectSameBits(traced(a, b, c), f(a, b, c));
      }
    }
    EXPECT_EQ(traced.stats().variants, 8) << traced.status();
  }
}

}  // namespace
}  // namespace kiln
