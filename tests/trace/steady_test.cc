// SPDX-License-Identifier: Apache-2.0
// What calls do not cost: memory for operations, the compiler in the way of a second call, a
// program for each place of an array that is looked at.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "kiln/trace.h"
#include "kiln/trace_ops.h"
#include "tests/compiler/counted_malloc.h"
#include "tests/trace/arrays.h"

namespace kiln {
namespace {

template <int kOperations>
Array Chain(const Array& a, const Array& b) {
  Array r = a;
  for (int i = 0; i < kOperations / 2; ++i) r = (r + b) * 0.5f;
  return r;
}

// Of 1,000 calls, after some that let everything grow.
int64_t AllocationsOf(const std::function<void()>& call) {
  for (int i = 0; i < 8; ++i) call();
  const Allocations before = CountedAllocations();
  for (int i = 0; i < 1000; ++i) call();
  return (CountedAllocations() - before).others;
}

TEST(TraceSteady, ReplaysTakeNoMemory) {
  const Array b = Array::full({4}, 0.25);
  Array a = Array::full({4}, 0.5);
  auto few = trace(Chain<8>, Plain()), many = trace(Chain<64>, Plain());
  EXPECT_EQ(AllocationsOf([&] { few(a, b); }), 0);
  EXPECT_EQ(AllocationsOf([&] { many(a, b); }), 0);
  // Two blocks of memory in turn: they are bound anew by each call, whatever it computes.
  const int64_t bound = AllocationsOf([&] { a = few(a, b); });
  EXPECT_LE(bound, 6 * 1000);
  EXPECT_EQ(AllocationsOf([&] { a = many(a, b); }), bound);
  EXPECT_TRUE(a.status().ok()) << a.status();
}

TEST(TraceSteady, FrozenCallsTakeNoMemory) {
  const Array b = Array::full({4}, 0.25);
  Array a = Array::full({4}, 0.5);
  auto few = freeze(Chain<8>, Plain()), many = freeze(Chain<64>, Plain());
  EXPECT_EQ(AllocationsOf([&] { many(a, b); }), 0);
  EXPECT_EQ(AllocationsOf([&] { a = many(a, b); }), AllocationsOf([&] { a = few(a, b); }));
  EXPECT_TRUE(a.status().ok()) << a.status();
}

TEST(TraceSteady, LazyOperationsTakeNoMemory) {
  ASSERT_TRUE(SetLazyOptions(OnVm()).ok());
  const Array b = Array::full({4}, 0.25);
  Array a = Array::full({4}, 0.5);
  EXPECT_EQ(AllocationsOf([&] { (void)Chain<24>(a, b).eval(); }), 0);
  const auto loop = [&](Array (*chain)(const Array&, const Array&)) {
    return AllocationsOf([&] {
      a = chain(a, b);
      (void)a.eval();
    });
  };
  EXPECT_EQ(loop(Chain<24>), loop(Chain<8>));
}

// A result that is held stays as it is, whatever later calls compute.
TEST(TraceSteady, HeldResultsAreNotOverwritten) {
  auto doubled = trace([](const Array& x) { return x + x; }, Plain());
  std::vector<Array> held;
  std::vector<Tensor> tensors;
  for (int i = 0; i < 40; ++i) {
    const Array result = doubled(Array::full({3}, i));
    if (i % 3 == 0) held.push_back(result);
    if (i % 3 == 1) tensors.push_back(*result.tensor());
  }
  for (size_t k = 0; k < held.size(); ++k)
    EXPECT_EQ(*held[k].to_vector<float>(), Floats(3, 6.0f * static_cast<float>(k)));
  for (size_t k = 0; k < tensors.size(); ++k)
    EXPECT_EQ(static_cast<const float*>(tensors[k].data())[2], 6.0f * static_cast<float>(k) + 2);
}

// ---- The second call.

// The thread on which a program of all operations is compiled, when it is.
struct CompilingThread {
  TraceOptions Options() {
    TraceOptions options = Plain();
    options.compile.compile_mode = CompileMode::kBackground;
    options.compile.dump = [this](const std::string& stage, const std::string&,
                                  const std::string&) {
      if (stage != "graph") return;
      thread = std::this_thread::get_id();
      ++compiled;
    };
    return options;
  }
  // Calls until it is compiled, and then some times.
  void CallUntilCompiled(const std::function<void()>& call) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (compiled == 0 && std::chrono::steady_clock::now() < end) call();
    for (int i = 0; i < 20; ++i) call();
  }
  std::atomic<int> compiled{0};
  std::thread::id thread;
};

TEST(TraceSteady, SecondSightIsCompiledBesideTheProgram) {
  CompilingThread compiling;
  auto step = trace(Chain<16>, compiling.Options());
  const Array a = Array::full({2}, 0.5), b = Array::full({2}, 0.25);
  const Floats first = *step(a, b).to_vector<float>();
  EXPECT_EQ(compiling.compiled, 0);
  compiling.CallUntilCompiled([&] { EXPECT_EQ(*step(a, b).to_vector<float>(), first); });
  EXPECT_GE(compiling.compiled, 1);
  EXPECT_NE(compiling.thread, std::this_thread::get_id());
}

TEST(TraceSteady, AThreadThatEndsLeavesItsFunctionsToOthers) {
  CompilingThread compiling;
  auto step = trace(Chain<16>, compiling.Options());
  const Array a = Array::full({2}, 0.5), b = Array::full({2}, 0.25);
  Floats first;
  std::thread([&] {
    first = *step(a, b).to_vector<float>();
    EXPECT_EQ(*step(a, b).to_vector<float>(), first);
  }).join();
  compiling.CallUntilCompiled([&] { EXPECT_EQ(*step(a, b).to_vector<float>(), first); });
  EXPECT_GE(compiling.compiled, 1);
}

// ---- Slices of arrays that have their elements.

TEST(TraceSteady, PlacesOfAnArrayAreNoPrograms) {
  ASSERT_TRUE(SetLazyOptions(OnVm()).ok());
  Floats values(600);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const Array x = Array::from(values.data(), {30, 20});
  const LazyStats before = lazy_stats();
  for (int64_t i = 0; i < 30; ++i) {
    EXPECT_EQ(*x({i, -1}).item<float>(), static_cast<float>(20 * i + 19));
    EXPECT_EQ(x({i}).tensor()->data(), static_cast<float*>(x.tensor()->data()) + 20 * i)
        << "a row is a view";
  }
  EXPECT_EQ(*x({Slice{}, 3}).to_vector<float>(), *x({Slice{0, 30}, 3}).to_vector<float>());
  EXPECT_EQ(lazy_stats().structures, before.structures);
  EXPECT_EQ(lazy_stats().operations, before.operations);
}

// Against the operator, which an array without elements asks.
TEST(TraceSteady, SlicesOfElementsAreThoseOfTheOperator) {
  ASSERT_TRUE(SetLazyOptions(OnVm()).ok());
  std::mt19937_64 random(1);
  const auto draw = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  constexpr int64_t kFar[] = {INT64_MIN, INT64_MIN + 1, -1000, 1000, INT64_MAX - 1, INT64_MAX};
  const auto bound = [&] { return random() % 6 == 0 ? kFar[random() % 6] : draw(-6, 6); };
  for (int round = 0; round < 300; ++round) {
    std::vector<int64_t> shape(static_cast<size_t>(draw(1, 2)));
    for (int64_t& extent : shape) extent = draw(random() % 8 == 0 ? 0 : 1, 5);
    const Array whole = Array::of(
        *(iota({.shape = shape, .axis = 0}) * 10 + iota({.shape = shape, .axis = -1})).tensor());
    const auto index = [&] {
      if (random() % 4 == 0) return Index(draw(-6, 6));
      const int64_t step = draw(-3, 3);
      return Index(Slice{bound(), bound(), random() % 3 == 0 ? step : 1});
    };
    const Index i = index(), j = index();
    const Array pending = whole + 0;
    const Array is = shape.size() == 1 ? whole({i}) : whole({i, j});
    const Array want = shape.size() == 1 ? pending({i}) : pending({i, j});
    ASSERT_EQ(is.status().ok(), want.status().ok()) << is.status() << want.status();
    if (!is.status().ok()) continue;
    ASSERT_EQ(is.extents(), want.extents());
    ASSERT_EQ(*is.to_vector<int64_t>(), *want.to_vector<int64_t>());
  }
}

TEST(TraceSteady, SlicesInATraceAreRecorded) {
  int64_t place = 0;
  auto row = trace([&](const Array& x) { return x({place}); }, Plain());
  const Array x = Array::full({3, 2}, 1);
  ASSERT_TRUE(row(x).status().ok());
  place = 1;
  EXPECT_EQ(TraceErrorOf(row(x).status()), TraceError::kAttributes);
}

}  // namespace
}  // namespace kiln
