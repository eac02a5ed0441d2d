// SPDX-License-Identifier: Apache-2.0
#include "kiln/fusion/merge.h"

#include <algorithm>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "kiln/graph/op.h"

namespace kiln {
namespace {

constexpr size_t kMaxNodes = 64;
constexpr int kMaxReductions = 8;
constexpr int64_t kMaxCheapRepeats = 2;  // of an element found by index arithmetic

// `node`, of that kind, is no part of a kernel. `stopped` tells why a library call ended before the
// other node, if it did.
std::string KindReason(const Node& node, Group::Kind kind, const std::string& stopped) {
  return absl::StrCat("\"", node.op->name, "\" runs as a ", Name(kind), " operator",
                      stopped.empty() ? "" : "; no post-op: ", stopped);
}

}  // namespace

Clusters::Clusters(const Graph& graph, const GraphFacts& facts, const GroupOptions& options)
    : graph_(graph), facts_(facts), options_(options), legality_(graph, facts) {
  const size_t nodes = graph.nodes().size();
  clusters_.resize(nodes);
  of_.assign(nodes, -1);
  out_.resize(nodes);
  in_.resize(nodes);
  reasons_.resize(facts.edges.size());
  for (size_t i = 0; i < nodes; ++i) {
    const NodeFacts& node = facts.nodes[i];
    if (!node.live || node.kind == Group::Kind::kView) continue;
    std::vector<NodeId> members = {NodeId{static_cast<int32_t>(i)}};
    if (node.call >= 0) {
      // A call stands where its last node does: all that it reads is made before.
      members = facts.calls[static_cast<size_t>(node.call)].nodes;
      std::sort(members.begin(), members.end());
      if (members.back().v != static_cast<int32_t>(i)) continue;
    }
    for (const NodeId member : members) of_[static_cast<size_t>(member.v)] = static_cast<int>(i);
    clusters_[i] = {.nodes = std::move(members),
                    .position = static_cast<int>(order_.size()),
                    .reductions = node.reduces ? 1 : 0,
                    .cost = node.reduces ? 0 : node.cost,
                    .plain = node.plain};
    order_.push_back(static_cast<int>(i));
  }
  for (size_t e = 0; e < facts.edges.size(); ++e) {
    out_[static_cast<size_t>(facts.edges[e].producer.v)].push_back(e);
    in_[static_cast<size_t>(facts.edges[e].consumer.v)].push_back(e);
  }
  asked_.assign(graph.values().size(), false);
  for (const Graph::Output& output : graph.outputs()) {
    asked_[static_cast<size_t>(facts.root[static_cast<size_t>(output.value.v)].v)] = true;
  }
}

std::vector<std::vector<NodeId>> Clusters::InOrder() const {
  std::vector<std::vector<NodeId>> in_order;
  for (const int cluster : order_) {
    if (cluster >= 0) in_order.push_back(clusters_[static_cast<size_t>(cluster)].nodes);
  }
  return in_order;
}

std::vector<ValueId> Clusters::Outputs(const std::vector<NodeId>& nodes) const {
  std::set<ValueId> outputs;
  for (const NodeId id : nodes) {
    for (const ValueId value : graph_.node(id).outputs) {
      if (asked_[static_cast<size_t>(value.v)]) outputs.insert(value);
    }
    for (const size_t e : out_[static_cast<size_t>(id.v)]) {
      const DataEdge& edge = facts_.edges[e];
      if (!std::binary_search(nodes.begin(), nodes.end(), edge.consumer))
        outputs.insert(edge.value);
    }
  }
  return {outputs.begin(), outputs.end()};
}

void Clusters::MergeAll() {
  MergeAlongEdges();
  if (options_.rules == FusionRules::kPriced) MergeSiblings();
}

void Clusters::MergeAlongEdges() {
  std::vector<size_t> by_benefit(facts_.edges.size());
  for (size_t e = 0; e < by_benefit.size(); ++e) by_benefit[e] = e;
  std::stable_sort(by_benefit.begin(), by_benefit.end(),
                   [&](size_t a, size_t b) { return Saved(a) > Saved(b); });
  std::vector<std::pair<int, int>> tried(by_benefit.size(),
                                         {-1, -1});  // versions at the last trial
  for (bool merged = true; merged;) {
    merged = false;
    for (const size_t e : by_benefit) {
      const int a = ClusterOf(facts_.edges[e].producer);
      const int b = ClusterOf(facts_.edges[e].consumer);
      const std::pair versions(clusters_[static_cast<size_t>(a)].version,
                               clusters_[static_cast<size_t>(b)].version);
      if (a == b) continue;
      // A way around may have closed since, so a trial that failed for that is made again.
      if (tried[e] == versions && reasons_[e].rfind("a path", 0) != 0) continue;
      tried[e] = versions;
      const Decision decision = MayMerge(e);
      reasons_[e] = decision.reason();
      if (!decision) continue;
      Merge(a, b);
      merged = true;
    }
  }
}

// Bytes of traffic that fusing the edge saves: the read, and the write too if nobody else reads the
// value.
int64_t Clusters::Saved(size_t e) const {
  const DataEdge& edge = facts_.edges[e];
  const std::vector<size_t>& readers = out_[static_cast<size_t>(edge.producer.v)];
  const auto of_value = [&](size_t other) { return facts_.edges[other].value == edge.value; };
  const bool alone = !asked_[static_cast<size_t>(edge.value.v)] &&
                     std::count_if(readers.begin(), readers.end(), of_value) == 1;
  return alone ? 2 * edge.bytes : edge.bytes;
}

Decision Clusters::MayMerge(size_t e) {
  const DataEdge& edge = facts_.edges[e];
  if (const NodeFacts& from = facts_.nodes[static_cast<size_t>(edge.producer.v)];
      from.kind != Group::Kind::kKernel) {
    const std::string stopped =
        from.call < 0 ? "" : facts_.calls[static_cast<size_t>(from.call)].stopped;
    return Decision::No(KindReason(graph_.node(edge.producer), from.kind, stopped));
  }
  Decision decision = MayFuse(edge.producer).And(MayFuse(edge.consumer));
  if (!decision) return decision;
  const int a = ClusterOf(edge.producer);
  const int b = ClusterOf(edge.consumer);
  decision = WithinCaps(a, b);
  if (decision && options_.rules == FusionRules::kGreedy) decision = MayMergeGreedily(a, b);
  if (!decision) return decision;
  return MayRepeat(a, b).And(StayApart(a, b));
}

// Whether the node may be in a kernel with others at all.
Decision Clusters::MayFuse(NodeId id) const {
  const Node& node = graph_.node(id);
  const NodeFacts& facts = facts_.nodes[static_cast<size_t>(id.v)];
  if (facts.kind != Group::Kind::kKernel) return Decision::No(KindReason(node, facts.kind, ""));
  if (options_.level < 3)
    return Decision::No(absl::StrCat("optimisation level ", options_.level, " does not fuse"));
  if (options_.jit_level < 1) return Decision::No("jit level 0 does not fuse");
  if (options_.alone.count(node.name) != 0)
    return Decision::No(absl::StrCat("\"", node.name, "\" stands alone by option"));
  return Decision::Yes();
}

Decision Clusters::WithinCaps(int a, int b) const {
  const Cluster& first = clusters_[static_cast<size_t>(a)];
  const Cluster& second = clusters_[static_cast<size_t>(b)];
  const int reductions = first.reductions + second.reductions;
  if (options_.jit_level < 2 && reductions > 0)
    return Decision::No("jit level 1 does not fuse reductions");
  if (reductions > kMaxReductions) {
    return Decision::No(absl::StrCat("together they have ", reductions,
                                     " reductions, the limit is ", kMaxReductions));
  }
  if (const size_t nodes = first.nodes.size() + second.nodes.size(); nodes > kMaxNodes) {
    return Decision::No(
        absl::StrCat("together they have ", nodes, " nodes, the limit is ", kMaxNodes));
  }
  return Decision::Yes();
}

// MegEngine's rules (src/jit/impl/fusion_pass.cpp), see FusionRules::kGreedy.
Decision Clusters::MayMergeGreedily(int producer, int consumer) const {
  const Cluster& from = clusters_[static_cast<size_t>(producer)];
  const Cluster& to = clusters_[static_cast<size_t>(consumer)];
  if (from.reductions > 0 && to.reductions > 0)
    return Decision::No("greedy rules: a reduction of a reduction");
  for (const NodeId id : from.nodes) {
    for (const size_t e : out_[static_cast<size_t>(id.v)]) {
      const DataEdge& edge = facts_.edges[e];
      const int reader = ClusterOf(edge.consumer);
      if (reader != producer && reader != consumer)
        return Decision::No("greedy rules: a second output");
      if (reader == consumer && edge.repeats > 1)
        return Decision::No("greedy rules: a broadcast inside the kernel");
    }
    for (const ValueId value : graph_.node(id).outputs) {
      if (asked_[static_cast<size_t>(value.v)])
        return Decision::No("greedy rules: a second output");
    }
  }
  return Decision::Yes();
}

// Whether the consumer may compute the producer's elements as often as it reads them.
Decision Clusters::MayRepeat(int producer, int consumer) const {
  const Cluster& from = clusters_[static_cast<size_t>(producer)];
  const Cluster& to = clusters_[static_cast<size_t>(consumer)];
  absl::flat_hash_map<int32_t, int64_t>
      indexed;  // value -> its elements that are read by index arithmetic
  for (const NodeId id : from.nodes) {
    for (const size_t e : out_[static_cast<size_t>(id.v)]) {
      const DataEdge& edge = facts_.edges[e];
      if (ClusterOf(edge.consumer) != consumer) continue;
      // In a kernel with reductions, what a row needs once is computed once a row.
      const bool once_a_row = edge.rows && from.reductions + to.reductions > 0;
      int64_t repeats = once_a_row ? 1 : edge.repeats;
      if (edge.indexed_elements > 0) {
        const int64_t elements =
            std::max<int64_t>(1, EstimatedElements(graph_.value(edge.value).shape));
        const int64_t read = indexed[edge.value.v] += edge.indexed_elements;
        repeats = std::max(repeats, (read + elements - 1) / elements);
        if (repeats > kMaxCheapRepeats)
          return Decision::No(absl::StrCat("each element would be computed ", repeats, " times"));
      }
      if (repeats > 1 && from.cost >= kDear) {
        return Decision::No(
            absl::StrCat("each element, dear to compute, would be computed ", repeats, " times"));
      }
    }
  }
  return Decision::Yes();
}

// Whether nothing lies between the two, and they are legal together. Leaves the producer's
// descendants in descendants_.
Decision Clusters::StayApart(int producer, int consumer) {
  const int last = clusters_[static_cast<size_t>(consumer)].position;
  absl::flat_hash_set<int> seen = {producer, consumer};
  std::vector<int> open = {producer};
  descendants_.clear();
  while (!open.empty()) {
    const int cluster = open.back();
    open.pop_back();
    for (const int next : Later(cluster)) {
      if (next == consumer && cluster != producer) {
        const Node& via = graph_.node(clusters_[static_cast<size_t>(cluster)].nodes.front());
        return Decision::No(
            absl::StrCat("a path between them leaves the kernel, through \"", via.name, "\""));
      }
      if (clusters_[static_cast<size_t>(next)].position > last || !seen.insert(next).second)
        continue;
      open.push_back(next);
      descendants_.push_back(next);
    }
  }
  if (SameShape(producer, consumer)) return Decision::Yes();
  Group group;
  const std::vector<NodeId>& a = clusters_[static_cast<size_t>(producer)].nodes;
  const std::vector<NodeId>& b = clusters_[static_cast<size_t>(consumer)].nodes;
  std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(group.nodes));
  group.outputs = Outputs(group.nodes);
  return legality_.Check(group);
}

// Element-wise clusters of one shape can always be one kernel, up to the cap on its buffers.
bool Clusters::SameShape(int a, int b) const {
  const Cluster& first = clusters_[static_cast<size_t>(a)];
  const Cluster& second = clusters_[static_cast<size_t>(b)];
  if (!first.plain || !second.plain) return false;
  const auto shape = [&](const Cluster& cluster) -> const Shape& {
    return graph_.value(graph_.node(cluster.nodes[0]).outputs[0]).shape;
  };
  if (!(shape(first) == shape(second))) return false;
  absl::flat_hash_set<int32_t> buffers;  // as many as there are, or more
  for (const Cluster* cluster : {&first, &second}) {
    for (const NodeId id : cluster->nodes) {
      for (const size_t e : out_[static_cast<size_t>(id.v)]) {
        const DataEdge& edge = facts_.edges[e];
        const bool inside = ClusterOf(edge.consumer) == a || ClusterOf(edge.consumer) == b;
        if (inside && edge.viewed) return false;
        if (!inside) buffers.insert(edge.value.v);
      }
      for (const ValueId input : graph_.node(id).inputs) {
        if (!input.valid()) continue;
        const NodeId producer = graph_.value(input).producer;
        const int cluster_of = producer.v < 0 ? -1 : ClusterOf(producer);
        if (cluster_of != a && cluster_of != b) buffers.insert(input.v);
      }
      for (const ValueId output : graph_.node(id).outputs) {
        if (asked_[static_cast<size_t>(output.v)]) buffers.insert(output.v);
      }
    }
  }
  return buffers.size() <= kMaxBuffers;
}

// Clusters that read values of `cluster`.
std::vector<int> Clusters::Later(int cluster) const {
  std::vector<int> later;
  for (const NodeId id : clusters_[static_cast<size_t>(cluster)].nodes) {
    for (const size_t e : out_[static_cast<size_t>(id.v)]) {
      const int next = ClusterOf(facts_.edges[e].consumer);
      if (next != cluster && (later.empty() || later.back() != next)) later.push_back(next);
    }
  }
  return later;
}

// What stands from the producer's place to the consumer's once the two are one, -1 for nothing:
// what depends on the producer (descendants_) moves behind them.
std::vector<int> Clusters::MergedOrder(int producer, int consumer) const {
  const std::set<int> moved(descendants_.begin(), descendants_.end());
  std::vector<int> window, after;
  const int last = clusters_[static_cast<size_t>(consumer)].position;
  for (int i = clusters_[static_cast<size_t>(producer)].position + 1; i < last; ++i) {
    const int cluster = order_[static_cast<size_t>(i)];
    if (cluster >= 0) (moved.count(cluster) != 0 ? after : window).push_back(cluster);
  }
  window.push_back(producer);
  window.insert(window.end(), after.begin(), after.end());
  window.resize(static_cast<size_t>(last - clusters_[static_cast<size_t>(producer)].position) + 1,
                -1);
  return window;
}

// The consumer joins the producer.
void Clusters::Merge(int producer, int consumer) {
  Cluster& into = clusters_[static_cast<size_t>(producer)];
  Cluster& from = clusters_[static_cast<size_t>(consumer)];
  const bool plain = into.plain && from.plain && SameShape(producer, consumer);
  const std::vector<int> window = MergedOrder(producer, consumer);
  std::vector<NodeId> nodes;
  std::merge(into.nodes.begin(), into.nodes.end(), from.nodes.begin(), from.nodes.end(),
             std::back_inserter(nodes));
  for (const NodeId id : from.nodes) of_[static_cast<size_t>(id.v)] = producer;
  int place = into.position;
  for (const int cluster : window) {
    order_[static_cast<size_t>(place)] = cluster;
    if (cluster >= 0) clusters_[static_cast<size_t>(cluster)].position = place;
    ++place;
  }
  into.nodes = std::move(nodes);
  into.reductions += from.reductions;
  into.cost += from.cost;
  into.plain = plain;
  ++into.version;
  from.nodes.clear();
}

}  // namespace kiln
