// SPDX-License-Identifier: Apache-2.0
#include "fusion/merge.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "base/stop.h"
#include "graph/op.h"
#include "schedule/device.h"

namespace kiln {
namespace {

// `node`, of that kind, is no part of a kernel. `stopped` tells why a library call ended before the
// other node, if it did.
std::string KindReason(const Node& node, Group::Kind kind, const std::string& stopped) {
  return absl::StrCat("\"", node.op->name, "\" runs as a ", Name(kind), " operator",
                      stopped.empty() ? "" : "; no post-op: ", stopped);
}

const Machine& MachineOf(const GroupOptions& options) {
  return options.machine != nullptr ? *options.machine : ShippedMachine(LowestTarget());
}

}  // namespace

Clusters::Clusters(const Graph& graph, const GraphAnalysis& analysis, const GroupOptions& options,
                   KnownVerdicts& known)
    : graph_(graph),
      analysis_(analysis),
      options_(options),
      machine_(MachineOf(options)),
      legality_(graph, analysis, machine_, known) {
  const size_t nodes = graph.nodes().size();
  clusters_.resize(nodes);
  of_.assign(nodes, -1);
  out_.resize(nodes);
  in_.resize(nodes);
  reasons_.resize(analysis.edges.size());
  queued_as_.assign(analysis.edges.size(), 0);
  uses_.assign(graph.values().size(), 0);
  for (size_t e = 0; e < analysis.edges.size(); ++e) {
    out_[static_cast<size_t>(analysis.edges[e].producer.v)].push_back(e);
    in_[static_cast<size_t>(analysis.edges[e].consumer.v)].push_back(e);
    ++uses_[static_cast<size_t>(analysis.edges[e].value.v)];
  }
  asked_.assign(graph.values().size(), false);
  for (const Graph::Output& output : graph.outputs()) {
    asked_[static_cast<size_t>(analysis.root[static_cast<size_t>(output.value.v)].v)] = true;
  }
  for (size_t i = 0; i < nodes; ++i) Start(i);
}

// The cluster that begins with node `i`, if one does.
void Clusters::Start(size_t i) {
  const NodeAnalysis& node = analysis_.nodes[i];
  if (!node.live || node.kind == Group::Kind::kView) return;
  const NodeId id{static_cast<int32_t>(i)};
  std::vector<NodeId> members = {id};
  if (node.call >= 0) {
    // A call stands where its last node does: all that it reads is made before.
    members = analysis_.calls[static_cast<size_t>(node.call)].nodes;
    std::sort(members.begin(), members.end());
    if (members.back() != id) return;
  }
  for (const NodeId member : members) of_[static_cast<size_t>(member.v)] = static_cast<int>(i);
  Cluster& cluster = clusters_[i];
  cluster.nodes = std::move(members);
  cluster.position = static_cast<int>(order_.size());
  cluster.reductions = node.reduces ? 1 : 0;
  cluster.plain = node.plain;
  order_.push_back(static_cast<int>(i));
  if (node.kind != Group::Kind::kKernel) return;
  cluster.compute_ns = node.elements * static_cast<double>(node.cost) * machine_.add_ns;
  for (const size_t e : in_[i]) {
    const DataEdge& edge = analysis_.edges[e];
    cluster.reads.push_back({edge.value, 1, edge.bytes, HasOneElement(graph_.value(edge.value))});
  }
  for (const ValueId input : graph_.node(id).inputs) {
    if (!input.valid()) continue;
    const Value& value = graph_.value(analysis_.root[static_cast<size_t>(input.v)]);
    if (value.producer.v < 0)
      cluster.reads.push_back({analysis_.root[static_cast<size_t>(input.v)], 1,
                               EstimatedBytes(value), HasOneElement(value)});
  }
  std::sort(cluster.reads.begin(), cluster.reads.end(),
            [](const Read& a, const Read& b) { return a.value < b.value; });
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
      const DataEdge& edge = analysis_.edges[e];
      if (!std::binary_search(nodes.begin(), nodes.end(), edge.consumer))
        outputs.insert(edge.value);
    }
  }
  return {outputs.begin(), outputs.end()};
}

void Clusters::MergeAll() {
  live_.emplace(analysis_, asked_, static_cast<int>(order_.size()), [this](NodeId id) {
    return clusters_[static_cast<size_t>(ClusterOf(id))].position;
  });
  MergeForced();
  MergeAlongEdges();
  if (options_.rules == FusionRules::kPriced) MergeSiblings();
}

bool Clusters::IsForced(size_t e) const {
  if (options_.forced.empty()) return false;
  const DataEdge& edge = analysis_.edges[e];
  return options_.forced.count(
             {graph_.node(edge.producer).name, graph_.node(edge.consumer).name}) != 0;
}

// Edges that are to be fused whatever it costs come first. One that is not legal yet, as a path
// around it leaves the kernel, gets its turn when that has merged.
void Clusters::MergeForced() {
  for (size_t e = 0; e < analysis_.edges.size(); ++e) {
    const DataEdge& edge = analysis_.edges[e];
    if (!IsForced(e) || ClusterOf(edge.producer) == ClusterOf(edge.consumer)) continue;
    const Decision decision = MayMerge(e, /*forced=*/true);
    reasons_[e] = decision.reason();
    if (decision) Merge(ClusterOf(edge.producer), ClusterOf(edge.consumer));
  }
}

void Clusters::MergeAlongEdges() {
  for (size_t e = 0; e < analysis_.edges.size(); ++e) {
    const DataEdge& edge = analysis_.edges[e];
    const NodeAnalysis& from = analysis_.nodes[static_cast<size_t>(edge.producer.v)];
    if (from.kind != Group::Kind::kKernel) {
      const std::string stopped =
          from.call < 0 ? "" : analysis_.calls[static_cast<size_t>(from.call)].stopped;
      reasons_[e] = KindReason(graph_.node(edge.producer), from.kind, stopped);
      continue;
    }
    const Decision decision = MayFuse(edge.producer).And(MayFuse(edge.consumer));
    reasons_[e] = decision.reason();
    if (decision) Enqueue(e);
  }
  while (!queue_.empty() && !Stopped()) {
    const size_t e = queue_.begin()->second;
    queue_.erase(queue_.begin());
    queued_as_[e] = 0;
    const Decision decision = MayMerge(e, IsForced(e));
    reasons_[e] = decision.reason();
    const int a = ClusterOf(analysis_.edges[e].producer);
    const int b = ClusterOf(analysis_.edges[e].consumer);
    if (!decision) {
      // The way around may close when that cluster merges.
      if (via_ >= 0) blocked_[via_].push_back(e);
      continue;
    }
    Merge(a, b);
    EnqueueAround(a);
  }
}

// Enters the edge with what it saves now, or takes it out if its ends are one.
void Clusters::Enqueue(size_t e) {
  if (queued_as_[e] != 0) queue_.erase({queued_as_[e], e});
  queued_as_[e] = 0;
  const int a = ClusterOf(analysis_.edges[e].producer);
  const int b = ClusterOf(analysis_.edges[e].consumer);
  if (a == b) return;
  // At least the launch is saved, so that 0 can stand for "not queued".
  queued_as_[e] = std::min<int64_t>(-1, -std::llround(Saved(a, b)));
  queue_.emplace(queued_as_[e], e);
}

// What has changed with `cluster`.
void Clusters::EnqueueAround(int cluster) {
  std::vector<size_t> edges;
  for (const NodeId id : clusters_[static_cast<size_t>(cluster)].nodes) {
    const std::vector<size_t>& in = in_[static_cast<size_t>(id.v)];
    const std::vector<size_t>& out = out_[static_cast<size_t>(id.v)];
    edges.insert(edges.end(), in.begin(), in.end());
    edges.insert(edges.end(), out.begin(), out.end());
  }
  if (const auto it = blocked_.find(cluster); it != blocked_.end()) {
    edges.insert(edges.end(), it->second.begin(), it->second.end());
    blocked_.erase(it);
  }
  for (const size_t e : edges) {
    const DataEdge& edge = analysis_.edges[e];
    if (MayFuse(edge.producer) && MayFuse(edge.consumer)) Enqueue(e);
  }
}

Decision Clusters::MayMerge(size_t e, bool forced) {
  via_ = -1;
  const DataEdge& edge = analysis_.edges[e];
  const int a = ClusterOf(edge.producer);
  const int b = ClusterOf(edge.consumer);
  Decision decision = MayFuse(edge.producer).And(MayFuse(edge.consumer));
  if (decision) decision = WithinCaps(a, b);
  if (decision && options_.rules == FusionRules::kGreedy) decision = MayMergeGreedily(a, b);
  if (decision) decision = StayApart(a, b);
  if (!decision) return decision;
  decision = LegalAndPays(a, b, !forced && options_.rules == FusionRules::kPriced);
  return decision && !forced ? KeepsPeak(a, b) : decision;
}

// Whether the node may be in a kernel with others at all.
Decision Clusters::MayFuse(NodeId id) const {
  const Node& node = graph_.node(id);
  const NodeAnalysis& analysis = analysis_.nodes[static_cast<size_t>(id.v)];
  if (analysis.kind != Group::Kind::kKernel)
    return Decision::No(KindReason(node, analysis.kind, ""));
  if (options_.level < 3)
    return Decision::No(absl::StrCat("optimisation level ", options_.level, " does not fuse"));
  if (options_.jit_level < 1) return Decision::No("jit level 0 does not fuse");
  if (!options_.alone.empty() && options_.alone.count(node.name) != 0)
    return Decision::No(absl::StrCat("\"", node.name, "\" stands alone by option"));
  return Decision::Yes();
}

// Whether nothing lies between the two; else via_ is a cluster on the way. Looks from both ends in
// turn, since one of them often has few neighbours; between_ is then what must make room for the
// two: what the consumer needs, or what needs the producer.
Decision Clusters::StayApart(int producer, int consumer) {
  const int first = clusters_[static_cast<size_t>(producer)].position;
  const int last = clusters_[static_cast<size_t>(consumer)].position;
  struct Search {
    int begin, end;
    std::vector<int> open, found;
    std::unordered_set<int> seen;
  };
  Search up = {consumer, producer, {consumer}, {}, {consumer}};
  Search down = {producer, consumer, {producer}, {}, {producer}};
  // Goes on from one cluster; gives a cluster on a path, or -1.
  const auto step = [&](Search& search, const Search& other, const std::vector<int>& neighbours) {
    const int cluster = search.open.back();
    search.open.pop_back();
    for (const int next : neighbours) {
      if (next == search.end && cluster == search.begin) continue;
      if (next == search.end) return cluster;
      const int position = clusters_[static_cast<size_t>(next)].position;
      if (position < first || position > last || !search.seen.insert(next).second) continue;
      if (other.seen.count(next) != 0) return next;
      search.open.push_back(next);
      search.found.push_back(next);
    }
    return -1;
  };
  while (via_ < 0 && !up.open.empty() && !down.open.empty()) {
    via_ = step(up, down, Earlier(up.open.back()));
    if (via_ < 0 && !up.open.empty()) via_ = step(down, up, Later(down.open.back()));
  }
  if (via_ >= 0) {
    const Node& via = graph_.node(clusters_[static_cast<size_t>(via_)].nodes.front());
    return Decision::No(
        absl::StrCat("a path between them leaves the kernel, through \"", via.name, "\""));
  }
  needed_first_ = up.open.empty();
  between_ = needed_first_ ? std::move(up.found) : std::move(down.found);
  return Decision::Yes();
}

// Clusters that read values of `cluster`.
std::vector<int> Clusters::Later(int cluster) const {
  std::vector<int> later;
  for (const NodeId id : clusters_[static_cast<size_t>(cluster)].nodes) {
    for (const size_t e : out_[static_cast<size_t>(id.v)]) {
      const int next = ClusterOf(analysis_.edges[e].consumer);
      if (next != cluster && (later.empty() || later.back() != next)) later.push_back(next);
    }
  }
  return later;
}

// Clusters whose values `cluster` reads.
std::vector<int> Clusters::Earlier(int cluster) const {
  std::vector<int> earlier;
  for (const NodeId id : clusters_[static_cast<size_t>(cluster)].nodes) {
    for (const size_t e : in_[static_cast<size_t>(id.v)]) {
      const int next = ClusterOf(analysis_.edges[e].producer);
      if (next != cluster && (earlier.empty() || earlier.back() != next)) earlier.push_back(next);
    }
  }
  return earlier;
}

// What stands from the producer's place to the consumer's once the two are one, -1 for nothing:
// what the consumer needs (between_) moves before them, or what needs the producer behind them.
std::vector<int> Clusters::MergedOrder(int producer, int consumer) const {
  const int first = clusters_[static_cast<size_t>(producer)].position;
  const int last = clusters_[static_cast<size_t>(consumer)].position;
  std::vector<int> window(order_.begin() + first, order_.begin() + last + 1);
  if (between_.empty()) {  // nobody else has to move
    window.front() = needed_first_ ? producer : -1;
    window.back() = needed_first_ ? -1 : producer;
    return window;
  }
  const std::unordered_set<int> moved(between_.begin(), between_.end());
  std::vector<int> before, after;
  for (const int cluster : window) {
    if (cluster < 0 || cluster == producer || cluster == consumer) continue;
    ((moved.count(cluster) != 0) == needed_first_ ? before : after).push_back(cluster);
  }
  before.push_back(producer);
  before.insert(before.end(), after.begin(), after.end());
  before.resize(window.size(), -1);
  return before;
}

// The consumer joins the producer.
void Clusters::Merge(int producer, int consumer) {
  Cluster& into = clusters_[static_cast<size_t>(producer)];
  Cluster& from = clusters_[static_cast<size_t>(consumer)];
  live_->Set(into.position, LiveAfter(producer, consumer));
  const bool plain = into.plain && from.plain && SameShape(producer, consumer);
  const std::vector<int> window = MergedOrder(producer, consumer);
  into.nodes = Joined(producer, consumer).nodes;
  for (const NodeId id : from.nodes) of_[static_cast<size_t>(id.v)] = producer;
  int place = into.position;
  for (const int cluster : window) {
    order_[static_cast<size_t>(place)] = cluster;
    if (cluster >= 0) clusters_[static_cast<size_t>(cluster)].position = place;
    ++place;
  }
  into.reductions += from.reductions;
  into.compute_ns += from.compute_ns;
  into.reads = JoinedReads(into.reads, from.reads);
  into.plain = plain;
  into.price.reset();
  from = Cluster();
  if (const auto it = blocked_.find(consumer); it != blocked_.end()) {
    std::vector<size_t> edges = std::move(it->second);
    blocked_.erase(it);
    std::vector<size_t>& all = blocked_[producer];
    all.insert(all.end(), edges.begin(), edges.end());
  }
}

}  // namespace kiln
