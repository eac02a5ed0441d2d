// SPDX-License-Identifier: Apache-2.0
#include "fusion/min_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace kiln {
namespace {

struct Arrow {
  int from, to;
  double capacity;
};

double CostOf(const std::vector<Arrow>& arrows, const std::vector<bool>& side) {
  double cost = 0;
  for (const Arrow& arrow : arrows) {
    if (side[static_cast<size_t>(arrow.from)] && !side[static_cast<size_t>(arrow.to)])
      cost += arrow.capacity;
  }
  return cost;
}

MinCut::Cut CutOf(int nodes, const std::vector<Arrow>& arrows) {
  MinCut network(nodes);
  for (const Arrow& arrow : arrows) network.AddEdge(arrow.from, arrow.to, arrow.capacity);
  return network.Between(0, 1);
}

// Against all cuts of networks of up to 8 nodes, and the smallest source side of equal ones.
TEST(MinCut, IsTheCheapestOfAllCuts) {
  std::mt19937 random(1);
  const auto draw = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int trial = 0; trial < 2000; ++trial) {
    const int nodes = 2 + draw(7);
    std::vector<Arrow> arrows;
    for (int k = draw(20); k > 0; --k)
      arrows.push_back({draw(nodes), draw(nodes), static_cast<double>(draw(6))});
    double least = MinCut::kNever;
    int fewest = nodes;
    for (int set = 0; set < 1 << (nodes - 2); ++set) {
      std::vector<bool> side = {true, false};
      for (int i = 2; i < nodes; ++i) side.push_back((set >> (i - 2)) % 2 != 0);
      const double cost = CostOf(arrows, side);
      const int size = static_cast<int>(std::count(side.begin(), side.end(), true));
      if (cost < least) fewest = nodes;
      least = std::min(least, cost);
      if (cost == least) fewest = std::min(fewest, size);
    }
    const MinCut::Cut cut = CutOf(nodes, arrows);
    ASSERT_EQ(cut.cost, least) << "trial " << trial;
    ASSERT_EQ(CostOf(arrows, cut.on_source_side), least) << "trial " << trial;
    ASSERT_EQ(std::count(cut.on_source_side.begin(), cut.on_source_side.end(), true), fewest);
  }
}

TEST(MinCut, SaysWhereThereIsNone) {
  EXPECT_GE(CutOf(3, {{0, 2, MinCut::kNever}, {2, 1, MinCut::kNever}}).cost, MinCut::kNever);
  EXPECT_EQ(CutOf(3, {{0, 2, MinCut::kNever}, {2, 1, 4}}).cost, 4);
  EXPECT_EQ(CutOf(2, {}).cost, 0);
}

}  // namespace
}  // namespace kiln
