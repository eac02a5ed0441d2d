// SPDX-License-Identifier: Apache-2.0
// MinCut: the minimum cut of a small flow network, by augmenting paths.
#ifndef KILN_FUSION_MIN_CUT_H_
#define KILN_FUSION_MIN_CUT_H_

#include <vector>

namespace kiln {

class MinCut {
 public:
  static constexpr double kNever = 1e30;  // correctness: more than all other capacities together

  // Nodes are [0, nodes).
  explicit MinCut(int nodes) : edges_of_(static_cast<size_t>(nodes)) {}
  // Parallel edges add up.
  void AddEdge(int from, int to, double capacity);

  struct Cut {
    double cost = 0;                   // kNever or more: every cut has such an edge
    std::vector<bool> on_source_side;  // by node; the smallest such set
  };
  // O(nodes edges^2).
  Cut Between(int source, int sink);

 private:
  struct Edge {
    int to;
    double left;  // capacity that no flow takes
  };
  // Edges to nodes by which each was reached from `source` first; -1: none.
  std::vector<int> Reached(int source) const;

  std::vector<Edge> edges_;  // 2 k, and its reverse 2 k + 1
  std::vector<std::vector<int>> edges_of_;
};

}  // namespace kiln

#endif  // KILN_FUSION_MIN_CUT_H_
