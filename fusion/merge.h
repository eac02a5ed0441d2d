// SPDX-License-Identifier: Apache-2.0
// The merging loop of grouping: clusters of nodes, their order, and the edges along which they
// grow.
//
// Clusters start as single nodes and stand in an order in which they can run. Edges wait in a queue
// by the time that merging along them is estimated to save, most first, ties by their number; a
// merge changes the estimates of the edges at the merged cluster, and of no others. A merge must
// keep the order possible (no path out of the one cluster and into the other), stay within the
// caps, not raise the peak of live memory, be legal (legality.h), and pay by the price of the
// kernels that result: computing expensive elements again and again does not. Then siblings, which
// read the same large value and none the other's results, merge too: the value is read once.
#ifndef KILN_FUSION_MERGE_H_
#define KILN_FUSION_MERGE_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/decision.h"
#include "fusion/group.h"
#include "fusion/legality.h"
#include "fusion/live_set.h"
#include "fusion/node_analysis.h"
#include "graph/graph.h"

namespace kiln {

class Clusters {
 public:
  Clusters(const Graph& graph, const GraphAnalysis& analysis, const GroupOptions& options,
           KnownVerdicts& known);

  // Merges until nothing is left to merge.
  void MergeAll();

  // The clusters, in an order in which they can run: their nodes, ascending.
  std::vector<std::vector<NodeId>> InOrder() const;
  int ClusterOf(NodeId node) const { return of_[static_cast<size_t>(node.v)]; }
  // Why the edge (an index into analysis.edges) was not fused at its last trial.
  const std::string& Reason(size_t edge) const { return reasons_[edge]; }
  // The values of `nodes` that others or the user need.
  std::vector<ValueId> Outputs(const std::vector<NodeId>& nodes) const;

 private:
  // A value that a cluster reads, made by it or not.
  struct Read {
    ValueId value;
    int times = 0;  // edges to nodes of the cluster
    int64_t bytes = 0;
    bool number = false;  // of one element
  };
  struct Walk {
    double bytes = 0;
    size_t buffers = 0, numbers = 0;  // as GroupCaps has them
  };
  struct Cluster {
    std::vector<NodeId> nodes;  // ascending; empty: merged away
    int position = 0;           // in order_
    int reductions = 0;
    bool plain = true;           // all scalar nodes of one shape
    double compute_ns = 0;       // estimated
    std::vector<Read> reads;     // by value
    std::optional<Price> price;  // of its kernel, once asked for
  };

  // ---- merge.cc: the queue, order and state.
  void Start(size_t node);
  void MergeForced();
  void MergeAlongEdges();
  void Enqueue(size_t edge);
  void EnqueueAround(int cluster);
  bool IsForced(size_t edge) const;
  Decision MayMerge(size_t edge, bool forced);
  Decision MayFuse(NodeId node) const;
  Decision StayApart(int producer, int consumer);
  void Merge(int producer, int consumer);
  std::vector<int> Later(int cluster) const;
  std::vector<int> Earlier(int cluster) const;
  std::vector<int> MergedOrder(int producer, int consumer) const;

  // ---- merge_rules.cc: what a merge must obey, and what it saves.
  Decision WithinCaps(int a, int b) const;
  Decision MayMergeGreedily(int producer, int consumer) const;
  Decision LegalAndPays(int a, int b, bool must_pay);
  Decision KeepsPeak(int a, int b);
  bool SameShape(int a, int b) const;
  double Saved(int a, int b) const;
  Walk WalkOf(const std::vector<Read>& reads, const std::vector<int>& makers) const;
  static std::vector<Read> JoinedReads(const std::vector<Read>& a, const std::vector<Read>& b);
  Price PriceOfCluster(int cluster);
  bool IsWrittenInParts(const Group& group) const;
  Group Alone(int cluster) const;
  Group Joined(int a, int b) const;
  std::vector<int64_t> LiveAfter(int a, int b);

  // ---- merge_siblings.cc
  void MergeSiblings();
  bool ReadsAllOf(ValueId shared, int cluster) const;
  bool MayMergeSiblings(int a, int b);

  const Graph& graph_;
  const GraphAnalysis& analysis_;
  const GroupOptions options_;
  const Machine& machine_;
  Legality legality_;
  std::vector<Cluster> clusters_;         // by the node they began with
  std::vector<int> of_;                   // node -> cluster
  std::vector<int> order_;                // clusters; -1: merged away
  std::vector<std::vector<size_t>> out_;  // node -> its outgoing edges
  std::vector<std::vector<size_t>> in_;   // node -> its incoming edges
  std::vector<bool> asked_;               // value -> an output of the graph, itself or by a view
  std::vector<int> uses_;                 // value -> edges that read it
  std::vector<std::string> reasons_;      // by edge
  std::vector<int> between_;              // found by StayApart, for MergedOrder
  bool needed_first_ = false;             // between_ is what the consumer needs
  int via_ = -1;                          // the cluster that StayApart met on a path
  std::optional<LiveSet> live_;

  std::set<std::pair<int64_t, size_t>> queue_;  // -ns saved, edge
  std::vector<int64_t> queued_as_;              // by edge; 0: not queued
  std::map<int, std::vector<size_t>> blocked_;  // cluster -> edges around which a path leads there
};

}  // namespace kiln

#endif  // KILN_FUSION_MERGE_H_
