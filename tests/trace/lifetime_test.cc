// SPDX-License-Identifier: Apache-2.0
// What outlives what: frozen functions and the arrays that they captured, a function and its trace,
// arrays and the owners of their memory.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "kiln/trace.h"
#include "kiln/trace_ops.h"
#include "tests/trace/arrays.h"

namespace kiln {
namespace {

class LifetimeTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(SetLazyOptions(OnVm()).ok()); }
};

Array frozen_weight;
Array Frozen(const Array& x) { return x * frozen_weight + 1.0f; }

TEST_F(LifetimeTest, FrozenCallsDoNotRunTheFunction) {
  frozen_weight = Of({2, 3});
  auto frozen = freeze(Frozen, Plain());
  for (int i = 0; i < 5; ++i) {
    const float v = static_cast<float>(i);
    EXPECT_EQ(ValuesOf(frozen(Of({v, v}))), (Floats{2 * v + 1, 3 * v + 1})) << i;
  }
  EXPECT_EQ(frozen.stats().frozen_calls, 3);
  const Array same = Of({5, 6});
  EXPECT_EQ(ValuesOf(frozen(same)), (Floats{11, 19}));
  EXPECT_EQ(TraceErrorOf(frozen(Array::full({2}, 1, DType::kF64)).status()), TraceError::kDtype);
  EXPECT_EQ(ValuesOf(frozen(Of({1, 1}))), (Floats{3, 4}));
  frozen_weight = Of({7, 7});
  const Array gone = frozen(Of({1, 1}));
  EXPECT_EQ(TraceErrorOf(gone.status()), TraceError::kConstant) << gone.status();
  frozen_weight = Array();
}

// Each variant's record refers to what it captured, and that is nobody else.
TEST_F(LifetimeTest, FrozenVariantsSeeThatACapturedArrayIsGone) {
  frozen_weight = Of({2});
  auto frozen = freeze(Frozen, Plain());
  auto other = freeze([](const Array& x) { return x - frozen_weight; }, Plain());
  for (int i = 0; i < 3; ++i) {
    for (const int64_t n : {3, 4}) ASSERT_TRUE(frozen(Array::full({n}, 10)).status().ok());
    ASSERT_TRUE(other(Of({1})).status().ok());
  }
  // A call's results are its caller's alone.
  auto gives = freeze([](const Array& x) { return std::array{x, frozen_weight}; }, Plain());
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(gives(Of({1}))[1].status().ok());
  frozen_weight = Of({100});
  for (const int64_t n : {3, 4}) {
    const Array gone = frozen(Array::full({n}, 10));
    EXPECT_EQ(TraceErrorOf(gone.status()), TraceError::kConstant) << gone.status();
  }
  frozen_weight = Array();
}

// The Traced goes while its function runs: the call ends as it would have.
std::optional<Traced<Array (*)(const Array&)>> short_lived;
TEST_F(LifetimeTest, AFunctionMayDropItsTrace) {
  for (int calls = 0; calls < 3; ++calls) {
    short_lived.emplace(
        +[](const Array& x) {
          const Array y = x * 2.0f;
          static int runs = 0;
          if (runs++ % 4 == 3) short_lived.reset();
          return y + 1.0f;
        },
        Plain(), /*frozen=*/false);
    for (int i = 0; i < 4 && short_lived; ++i)
      EXPECT_EQ(ValuesOf((*short_lived)(Of({1}))), (Floats{3}));
  }
}

// Whoever owns memory may use arrays when it is given back, but not in the middle of a run.
TEST_F(LifetimeTest, OwnersOfMemoryThatUseArraysHarmNone) {
  int freed = 0, refused = 0;
  const Array one = Of({1, 2});
  const auto owned = [&](float* memory) {
    const std::shared_ptr<void> owner(memory, [&](void*) {
      ++freed;
      const ExcludeFromTrace no_scope;
      const Array in = one + 1.0f;
      if (one({0}).item<float>().value_or(0) != 1) ADD_FAILURE() << "what is ready can be sliced";
      const absl::StatusOr<Floats> values = in.to_vector<float>();
      if (values.ok())
        EXPECT_EQ(*values, (Floats{2, 3}));
      else
        refused += absl::StrContains(values.status().message(), "Kiln has called this function");
    });
    return Array::of(Tensor::View(memory, DType::kF32, {2}, {}, owner));
  };
  float memory[2] = {5, 6};
  auto step = trace([](const Array& x) { return x * 2.0f; }, Plain());
  for (int i = 0; i < 20; ++i) {
    const Array held = one * 3.0f;
    Array sum = owned(memory) + one;
    for (int k = 0; k < i; ++k) sum = sum + owned(memory);
    EXPECT_EQ(ValuesOf(sum * 1.0f)[0], static_cast<float>(6 + 5 * i));
    EXPECT_EQ(ValuesOf(held), (Floats{3, 6}));
    EXPECT_EQ(ValuesOf(step(owned(memory))), (Floats{10, 12}));
    // The owner is called while a read cuts.
    auto reads = trace(
        [&](const Array& x) {
          Array y = owned(memory) + x;
          y = y * 2.0f;
          (void)y.eval();
          return y + 1.0f;
        },
        Plain());
    for (int call = 0; call < 3; ++call) EXPECT_EQ(ValuesOf(reads(one)), (Floats{13, 17}));
  }
  ASSERT_TRUE(SetLazyOptions(OnVm()).ok());  // programs give up the inputs that they had last
  EXPECT_GT(freed, 100);
  EXPECT_GT(refused, 0);
}

TEST_F(LifetimeTest, WhatCannotBeFrozenIsAnError) {
  auto reads = freeze([](const Array& x) { return *x.item<float>() > 0 ? x : -x; }, Plain());
  EXPECT_EQ(TraceErrorOf(reads(Of({1})).status()), TraceError::kNotFrozen) << reads.status();
  auto leaves = freeze(
      [](const Array& x) {
        const ExcludeFromTrace scope;
        return x + 1.0f;
      },
      Plain());
  EXPECT_FALSE(leaves(Of({1})).status().ok());
  auto makes = freeze([](const Array& x) { return x + Of({1}); }, Plain());
  EXPECT_EQ(ValuesOf(makes(Of({1}))), (Floats{2}));
  EXPECT_EQ(TraceErrorOf(makes(Of({1})).status()), TraceError::kConstant) << makes.status();
}

}  // namespace
}  // namespace kiln
