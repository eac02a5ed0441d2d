// SPDX-License-Identifier: Apache-2.0
// Orders of launches: on small graphs against all orders there are, on random programs against the
// order that was given, and on long ones against the clock of the steps: n log n of them.
// KILN_ORDERS random graphs from KILN_ORDER_SEED on.
#include "exec/launch_order.h"

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "exec/plan_verifier.h"
#include "gtest/gtest.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/exec/placement_problem.h"

namespace kiln {
namespace {

using Space = PlacementProblem::Space;

int64_t BoundInOrder(const PlacementProblem& p) {
  const auto placed = PlaceInOrder(p);
  KILN_EXPECT_OK(placed);
  return placed.ok() ? placed->memory.lower_bound : -1;
}

// a and b are large, c and d small: b is made once a has gone.
TEST(LaunchOrder, MakesWhatIsLargeWhenItIsNeeded) {
  HandProblem p;
  const int32_t x = p.Add(Space::kInput), y = p.Add(Space::kOutput);
  const int32_t a = p.Add(Space::kTemporary, 1024), b = p.Add(Space::kTemporary, 1024),
                c = p.Add(Space::kTemporary, 64), d = p.Add(Space::kTemporary, 64);
  p.Do({x}, {a});
  p.Do({x}, {b});
  p.Do({a}, {c});
  p.Do({b}, {d});
  p.Do({c, d}, {y});
  EXPECT_EQ(BoundInOrder(p), 1024 + 1024 + 64);
  KILN_ASSERT_OK_AND_ASSIGN(const Placement placed, PlaceBuffers(p));
  EXPECT_EQ(placed.memory.lower_bound, 1024 + 64 + 64);
  EXPECT_EQ(placed.memory.peak, placed.memory.lower_bound);
  KILN_EXPECT_OK(VerifyPlacement(p, placed));
  // The same bound by another order is no reason to change it.
  p.buffers[static_cast<size_t>(c)].bytes = p.buffers[static_cast<size_t>(d)].bytes = 1024;
  p.steps.clear();
  p.Do({x}, {a});
  p.Do({x}, {b});
  p.Do({a}, {c}).in_place = {{0, 0}};
  p.Do({b}, {d}).in_place = {{0, 0}};
  p.Do({c, d}, {y});
  KILN_ASSERT_OK_AND_ASSIGN(const Placement same, PlaceBuffers(p));
  EXPECT_EQ(same.order, (LaunchOrder{0, 1, 2, 3, 4}));
}

TEST(LaunchOrder, KeepsRepeatsInTheirPlace) {
  HandProblem p;
  const int32_t x = p.Add(Space::kInput), y = p.Add(Space::kOutput);
  const int32_t a = p.Add(Space::kTemporary, 1024), b = p.Add(Space::kTemporary, 1024),
                c = p.Add(Space::kTemporary, 64), d = p.Add(Space::kTemporary, 64),
                e = p.Add(Space::kTemporary, 64), f = p.Add(Space::kTemporary, 64);
  p.Do({x}, {a});
  p.Do({x}, {b});
  p.Do({x}, {e});
  p.Do({e}, {f});
  p.Do({a}, {c});
  p.Do({b}, {d});
  p.Do({c, d, f}, {y});
  const int64_t bound = BoundInOrder(p);
  p.repeats = {{2, 4}};
  KILN_ASSERT_OK_AND_ASSIGN(const Placement placed, PlaceBuffers(p));
  EXPECT_EQ(placed.order, (LaunchOrder{0, 1, 2, 3, 4, 5, 6}));
  p.repeats.clear();
  KILN_ASSERT_OK_AND_ASSIGN(const Placement other, PlaceBuffers(p));
  EXPECT_LT(other.memory.lower_bound, bound);
}

TEST(LaunchOrder, StepsThatTouchTheSameBytesStayInOrder) {
  HandProblem p;
  const int32_t x = p.Add(Space::kInput), y = p.Add(Space::kOutput);
  const int32_t a = p.Add(Space::kTemporary), v = p.Add(Space::kTemporary),
                b = p.Add(Space::kTemporary);
  p.Do({x}, {a});
  p.Do({a}, {v}, /*view=*/true);
  p.Do({v}, {b});
  p.Do({x}, {a});  // over what v shows
  p.Do({a, b}, {y});
  EXPECT_EQ(StepsAfter(p),
            (std::vector<std::vector<int32_t>>{{1, 2, 3, 4}, {2, 3}, {3, 4}, {4}, {}}));
}

// A random graph of launches, each of which makes one value or two of those before it.
HandProblem RandomGraph(std::mt19937_64& random, int64_t steps) {
  HandProblem p;
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
  };
  std::vector<int32_t> known = {p.Add(Space::kInput)};
  std::vector<bool> read = {true};
  for (int64_t i = 0; i < steps; ++i) {
    std::vector<int32_t> reads;
    for (int64_t k = 0; k <= below(2); ++k) {
      const auto at = static_cast<size_t>(below(static_cast<int64_t>(known.size())));
      if (std::find(reads.begin(), reads.end(), known[at]) == reads.end())
        reads.push_back(known[at]);
      read[at] = true;
    }
    std::vector<int32_t> writes;
    for (int64_t k = 0; k <= below(5) / 4; ++k)
      writes.push_back(p.Add(Space::kTemporary, 64 * (1 + below(below(2) == 0 ? 3 : 20))));
    PlacementProblem::Step& step = p.Do(reads, writes);
    if (below(4) == 0) step.scratch = 64 * (1 + below(10));
    const bool alike = p.buffers[static_cast<size_t>(reads[0])].bytes ==
                       p.buffers[static_cast<size_t>(writes[0])].bytes;
    if (alike && below(2) == 0) step.in_place = {{0, 0}};
    known.insert(known.end(), writes.begin(), writes.end());
    read.resize(known.size());
  }
  std::vector<int32_t> left;
  for (size_t i = 0; i < known.size(); ++i) {
    if (!read[i]) left.push_back(known[i]);
  }
  p.Do(left, {p.Add(Space::kOutput)});
  return p;
}

// The least bound of all orders.
int64_t LeastBound(const PlacementProblem& p) {
  const std::vector<std::vector<int32_t>> after = StepsAfter(p);
  std::vector<int> waits(p.steps.size());
  for (const std::vector<int32_t>& steps : after) {
    for (const int32_t t : steps) ++waits[static_cast<size_t>(t)];
  }
  int64_t least = INT64_MAX;
  LaunchOrder order;
  const std::function<void()> extend = [&] {
    if (order.size() == p.steps.size()) least = std::min(least, BoundInOrder(InOrder(p, order)));
    for (size_t t = 0; t < p.steps.size(); ++t) {
      if (waits[t] != 0) continue;
      waits[t] = -1;
      for (const int32_t next : after[t]) --waits[static_cast<size_t>(next)];
      order.push_back(static_cast<int32_t>(t));
      extend();
      order.pop_back();
      for (const int32_t next : after[t]) ++waits[static_cast<size_t>(next)];
      waits[t] = 0;
    }
  };
  extend();
  return least;
}

TEST(LaunchOrder, IsNeverWorseThanTheGivenOneAndOftenTheBest) {
  const uint64_t seed = FromEnvironment("KILN_ORDER_SEED", 1);
  const uint64_t count = FromEnvironment("KILN_ORDERS", 300);
  uint64_t best = 0, given_best = 0;
  double over = 0, given_over = 0;
  for (uint64_t k = 0; k < count; ++k) {
    SCOPED_TRACE(absl::StrCat("KILN_ORDER_SEED=", seed + k, " KILN_ORDERS=1"));
    std::mt19937_64 random(seed + k);
    const HandProblem p = RandomGraph(random, 3 + static_cast<int64_t>(random() % 4));
    KILN_ASSERT_OK_AND_ASSIGN(const Placement placed, PlaceBuffers(p));
    KILN_ASSERT_OK(VerifyPlacement(p, placed));
    const int64_t given = BoundInOrder(p), made = placed.memory.lower_bound, least = LeastBound(p);
    ASSERT_LE(made, given);
    ASSERT_GE(made, least);
    ASSERT_EQ(BoundInOrder(InOrder(p, placed.order)), made);
    best += made == least ? 1 : 0;
    given_best += given == least ? 1 : 0;
    if (least == 0) continue;
    over += static_cast<double>(made) / static_cast<double>(least) - 1;
    given_over += static_cast<double>(given) / static_cast<double>(least) - 1;
  }
  RecordProperty("best", absl::StrCat(best, " of ", count, "; given ", given_best));
  std::printf("least bound: given order %d of %d, mean %.2f %% above; made order %d, %.2f %%\n",
              static_cast<int>(given_best), static_cast<int>(count),
              100 * given_over / static_cast<double>(count), static_cast<int>(best),
              100 * over / static_cast<double>(count));
  if (count < 100) return;
  EXPECT_GT(best, count * 9 / 10);
}

TEST(LaunchOrder, SomeThousandsOfStepsAreCheap) {
  std::mt19937_64 random(1);
  const HandProblem p = RandomGraph(random, 5000);
  std::vector<int32_t> roots;
  for (size_t b = 0; b < p.buffers.size(); ++b)
    roots.push_back(p.buffers[b].space == Space::kTemporary ? static_cast<int32_t>(b) : -1);
  const std::vector<LaunchOrder> orders = OrdersToTry(p, roots);
  for (LaunchOrder order : orders) {
    ASSERT_EQ(order.size(), p.steps.size());
    KILN_EXPECT_OK(PlaceInOrder(InOrder(p, order)));
    std::sort(order.begin(), order.end());
    for (size_t t = 0; t < order.size(); ++t) ASSERT_EQ(order[t], static_cast<int32_t>(t));
  }
  EXPECT_EQ(OrdersToTry(p, roots), orders);
}

}  // namespace
}  // namespace kiln
