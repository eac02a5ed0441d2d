// SPDX-License-Identifier: Apache-2.0
// The merging loop of grouping: clusters of nodes, their order, and the edges along which they
// grow.
//
// Clusters start as single nodes and stand in an order in which they can run. Edges are tried by
// the bytes of traffic they would save, most first, ties by node ids, again until no edge merges. A
// merge must keep the order possible (no path out of the one cluster and into the other), must not
// compute dear elements repeatedly, stays within the caps, and must be legal. Then siblings, which
// read the same large value and none the other's results, merge too: the value is read once.
#ifndef KILN_FUSION_MERGE_H_
#define KILN_FUSION_MERGE_H_

#include <string>
#include <vector>

#include "kiln/base/decision.h"
#include "kiln/fusion/group.h"
#include "kiln/fusion/legality.h"
#include "kiln/fusion/node_facts.h"
#include "kiln/graph/graph.h"

namespace kiln {

class Clusters {
 public:
  Clusters(const Graph& graph, const GraphFacts& facts, const GroupOptions& options);

  // Merges until nothing is left to merge.
  void MergeAll();

  // The clusters, in an order in which they can run: their nodes, ascending.
  std::vector<std::vector<NodeId>> InOrder() const;
  int ClusterOf(NodeId node) const { return of_[static_cast<size_t>(node.v)]; }
  // Why the edge (an index into facts.edges) was not fused at its last trial.
  const std::string& Reason(size_t edge) const { return reasons_[edge]; }
  // The values of `nodes` that others or the user need.
  std::vector<ValueId> Outputs(const std::vector<NodeId>& nodes) const;

 private:
  struct Cluster {
    std::vector<NodeId> nodes;  // ascending; empty: merged away
    int position = 0;           // in order_
    int version = 0;            // grows with each merge
    int reductions = 0;
    int64_t cost = 0;   // of one element of all its nodes that are no reductions
    bool plain = true;  // all scalar nodes of one shape
  };

  int64_t Saved(size_t edge) const;
  void MergeAlongEdges();
  Decision MayMerge(size_t edge);
  Decision MayFuse(NodeId node) const;
  Decision WithinCaps(int a, int b) const;
  Decision MayMergeGreedily(int producer, int consumer) const;
  Decision MayRepeat(int producer, int consumer) const;
  Decision StayApart(int producer, int consumer);
  void Merge(int producer, int consumer);
  bool SameShape(int a, int b) const;
  std::vector<int> Later(int cluster) const;
  std::vector<int> MergedOrder(int producer, int consumer) const;

  // merge_siblings.cc
  void MergeSiblings();
  bool MergeOnePair(ValueId shared, const std::vector<NodeId>& readers);
  bool ReadsAllOf(ValueId shared, int cluster) const;
  bool MayMergeSiblings(int a, int b);
  int64_t Peak(const std::vector<int>& order, int merged_into, int merged_from) const;

  const Graph& graph_;
  const GraphFacts& facts_;
  const GroupOptions options_;
  Legality legality_;
  std::vector<Cluster> clusters_;         // by the node they began with
  std::vector<int> of_;                   // node -> cluster
  std::vector<int> order_;                // clusters; -1: merged away
  std::vector<std::vector<size_t>> out_;  // node -> its outgoing edges
  std::vector<std::vector<size_t>> in_;   // node -> its incoming edges
  std::vector<bool> asked_;               // value -> an output of the graph, itself or by a view
  std::vector<std::string> reasons_;      // by edge
  std::vector<int> descendants_;          // of the producer, found by StayApart, for Merge
};

}  // namespace kiln

#endif  // KILN_FUSION_MERGE_H_
