// SPDX-License-Identifier: Apache-2.0
#include "fusion/min_cut.h"

#include <algorithm>

namespace kiln {
namespace {

constexpr double kNothing = 1e-9;  // correctness: what rounding may leave of an edge

}  // namespace

void MinCut::AddEdge(int from, int to, double capacity) {
  edges_of_[static_cast<size_t>(from)].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({to, capacity});
  edges_of_[static_cast<size_t>(to)].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({from, 0});
}

std::vector<int> MinCut::Reached(int source) const {
  std::vector<int> by(edges_of_.size(), -1);
  std::vector<int> open = {source};
  for (size_t i = 0; i < open.size(); ++i) {
    for (const int e : edges_of_[static_cast<size_t>(open[i])]) {
      const Edge& edge = edges_[static_cast<size_t>(e)];
      if (edge.left <= kNothing || edge.to == source || by[static_cast<size_t>(edge.to)] >= 0)
        continue;
      by[static_cast<size_t>(edge.to)] = e;
      open.push_back(edge.to);
    }
  }
  return by;
}

MinCut::Cut MinCut::Between(int source, int sink) {
  Cut cut;
  for (;;) {
    const std::vector<int> by = Reached(source);
    if (by[static_cast<size_t>(sink)] < 0 || cut.cost >= kNever) {
      for (const int e : by) cut.on_source_side.push_back(e >= 0);
      cut.on_source_side[static_cast<size_t>(source)] = true;
      return cut;
    }
    const auto along = [&](auto&& visit) {
      for (int node = sink; node != source;) {
        const int e = by[static_cast<size_t>(node)];
        visit(e);
        node = edges_[static_cast<size_t>(e ^ 1)].to;
      }
    };
    double flow = kNever;
    along([&](int e) { flow = std::min(flow, edges_[static_cast<size_t>(e)].left); });
    along([&](int e) {
      edges_[static_cast<size_t>(e)].left -= flow;
      edges_[static_cast<size_t>(e ^ 1)].left += flow;
    });
    cut.cost += flow;
  }
}

}  // namespace kiln
