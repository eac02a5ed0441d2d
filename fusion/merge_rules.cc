// SPDX-License-Identifier: Apache-2.0
// What a merge must obey, and what it saves.
#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "fusion/merge.h"
#include "fusion/strided_view.h"
#include "schedule/device.h"

namespace kiln {
namespace {

constexpr size_t kMaxNodes = 256;  // compile time
constexpr int kMaxReductions = 8;  // compile time
// A merge is refused if it seems to take longer by more than prices may be wrong: a merge that
// costs a little often opens one that gains more.
constexpr double kTolerance = 1.1;  // speed
// Half a second of work. A network of some hundred nodes takes 1e4, a chain of 40,000 nodes 5e6; a
// value with 40,000 readers would take 1e9.
constexpr int64_t kMaxLiveSteps = 100'000'000;  // compile time

}  // namespace

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
  const Walk walk = WalkOf(JoinedReads(first.reads, second.reads), {a, b});
  return ModelOf(machine_.target).caps.Allows(walk.buffers, walk.numbers);
}

// MegEngine's rules (src/jit/impl/fusion_pass.cpp), see FusionRules::kGreedy.
Decision Clusters::MayMergeGreedily(int producer, int consumer) const {
  const Cluster& from = clusters_[static_cast<size_t>(producer)];
  const Cluster& to = clusters_[static_cast<size_t>(consumer)];
  if (from.reductions > 0 && to.reductions > 0)
    return Decision::No("greedy rules: a reduction of a reduction");
  for (const NodeId id : from.nodes) {
    for (const size_t e : out_[static_cast<size_t>(id.v)]) {
      const DataEdge& edge = analysis_.edges[e];
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

Group Clusters::Alone(int cluster) const {
  Group group;
  group.nodes = clusters_[static_cast<size_t>(cluster)].nodes;
  group.outputs = Outputs(group.nodes);
  return group;
}

Group Clusters::Joined(int a, int b) const {
  const std::vector<NodeId>& first = clusters_[static_cast<size_t>(a)].nodes;
  const std::vector<NodeId>& second = clusters_[static_cast<size_t>(b)].nodes;
  Group group;
  std::merge(first.begin(), first.end(), second.begin(), second.end(),
             std::back_inserter(group.nodes));
  group.outputs = Outputs(group.nodes);
  return group;
}

// Whether the two may be one kernel, and that takes less time than two.
Decision Clusters::LegalAndPays(int a, int b, bool must_pay) {
  if (SameShape(a, b)) return Decision::Yes();  // traffic only goes down
  if (must_pay && IsWrittenInParts(Alone(a)) && IsWrittenInParts(Alone(b)))
    return Decision::No("a concat of concats is no launch: parts are written where they belong");
  const Verdict& verdict = legality_.Check(Joined(a, b));
  if (!verdict.legal || !must_pay) return verdict.legal;
  const Price& together = verdict.price;
  const Price first = PriceOfCluster(a), second = PriceOfCluster(b);
  const double set = std::max({together.bytes, first.bytes, second.bytes});
  const double apart = NsWithin(first, set, machine_) + NsWithin(second, set, machine_);
  if (together.ns < kTolerance * apart) return Decision::Yes();
  const std::string times =
      absl::StrFormat("%.1f us as one kernel, %.1f us as two", together.ns / 1000, apart / 1000);
  if (together.expensive_repeats < 2) return Decision::No("it does not pay: " + times);
  return Decision::No(absl::StrCat("each element, expensive to compute, would be computed ",
                                   std::llround(together.expensive_repeats), " times: ", times));
}

// Whether the group alone is a concat that needs no kernel (compiler/element_moves.h).
bool Clusters::IsWrittenInParts(const Group& group) const {
  const Node& node = graph_.node(group.nodes.front());
  if (group.nodes.size() != 1 || !IsConcatOfRuns(graph_, node)) return false;
  std::unordered_set<int32_t> in_place;
  for (const ValueId input : node.inputs) {
    const ValueId part = analysis_.root[static_cast<size_t>(input.v)];
    if (graph_.value(part).producer.v < 0) return false;
    if (!asked_[static_cast<size_t>(part.v)]) in_place.insert(part.v);
  }
  return AreMostInPlace(in_place.size(), node.inputs.size());
}

// The price of the cluster as it stands.
Price Clusters::PriceOfCluster(int cluster) {
  Cluster& asked = clusters_[static_cast<size_t>(cluster)];
  if (!asked.price) {
    const Group group = Alone(cluster);
    asked.price = legality_.Check(group).price;
    // A concat of many parts is a kernel that looks for each element's part, or is none: its parts
    // are written where they belong, or copied there.
    if (IsWrittenInParts(group)) {
      const double bytes = WalkOf(asked.reads, {cluster}).bytes;
      const double ns = TimeOf(bytes, bytes, 0, machine_);
      if (ns < asked.price->ns)
        asked.price = {.ns = ns, .memory_ns = ns - machine_.launch_ns, .bytes = bytes};
    }
  }
  return *asked.price;
}

// Element-wise clusters of one shape can always be one kernel, up to the cap on its buffers, if
// they compute so little that the cap on what compiling takes cannot be near.
bool Clusters::SameShape(int a, int b) const {
  constexpr int64_t kLittle = 8 * kExpensive;  // speed
  const Cluster& first = clusters_[static_cast<size_t>(a)];
  const Cluster& second = clusters_[static_cast<size_t>(b)];
  if (!first.plain || !second.plain) return false;
  int64_t cost = 0;
  for (const Cluster* cluster : {&first, &second}) {
    for (const NodeId id : cluster->nodes) cost += analysis_.nodes[static_cast<size_t>(id.v)].cost;
  }
  if (cost > kLittle) return false;
  const auto shape = [&](const Cluster& cluster) -> const Shape& {
    return graph_.value(graph_.node(cluster.nodes[0]).outputs[0]).shape;
  };
  if (!(shape(first) == shape(second))) return false;
  std::unordered_set<int32_t> buffers, numbers;  // as many as there are, or more
  for (const Cluster* cluster : {&first, &second}) {
    for (const NodeId id : cluster->nodes) {
      for (const size_t e : out_[static_cast<size_t>(id.v)]) {
        const DataEdge& edge = analysis_.edges[e];
        const bool inside = ClusterOf(edge.consumer) == a || ClusterOf(edge.consumer) == b;
        if (inside && edge.viewed) return false;
        if (!inside) buffers.insert(edge.value.v);
      }
      for (const ValueId input : graph_.node(id).inputs) {
        if (!input.valid()) continue;
        const NodeId producer = graph_.value(input).producer;
        const int cluster_of = producer.v < 0 ? -1 : ClusterOf(producer);
        if (cluster_of != a && cluster_of != b)
          (HasOneElement(graph_.value(input)) ? numbers : buffers).insert(input.v);
      }
      for (const ValueId output : graph_.node(id).outputs) {
        if (asked_[static_cast<size_t>(output.v)]) buffers.insert(output.v);
      }
    }
  }
  return static_cast<bool>(ModelOf(machine_.target).caps.Allows(buffers.size(), numbers.size()));
}

std::vector<Clusters::Read> Clusters::JoinedReads(const std::vector<Read>& a,
                                                  const std::vector<Read>& b) {
  std::vector<Read> joined;
  std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(joined),
             [](const Read& x, const Read& y) { return x.value < y.value; });
  size_t kept = 0;
  for (size_t i = 0; i < joined.size(); ++i) {
    if (kept > 0 && joined[kept - 1].value == joined[i].value) {
      joined[kept - 1].times += joined[i].times;
    } else {
      joined[kept++] = joined[i];
    }
  }
  joined.resize(kept);
  return joined;
}

// What passes between memory and the nodes of `makers`, which read `reads`.
Clusters::Walk Clusters::WalkOf(const std::vector<Read>& reads,
                                const std::vector<int>& makers) const {
  Walk walk;
  std::unordered_map<int32_t, int> inside;  // value -> edges that stay
  for (const Read& read : reads) {
    const NodeId producer = graph_.value(read.value).producer;
    const int maker = producer.v < 0 ? -1 : ClusterOf(producer);
    if (std::find(makers.begin(), makers.end(), maker) != makers.end()) {
      inside[read.value.v] = read.times;
    } else {
      walk.bytes += static_cast<double>(read.bytes);
      ++(read.number ? walk.numbers : walk.buffers);
    }
  }
  for (const int maker : makers) {
    for (const NodeId id : clusters_[static_cast<size_t>(maker)].nodes) {
      for (const ValueId value : graph_.node(id).outputs) {
        const auto it = inside.find(value.v);
        const int stay = it == inside.end() ? 0 : it->second;
        if (!asked_[static_cast<size_t>(value.v)] && uses_[static_cast<size_t>(value.v)] <= stay)
          continue;
        walk.bytes += static_cast<double>(EstimatedBytes(graph_.value(value)));
        ++walk.buffers;
      }
    }
  }
  return walk;
}

// An estimate in ns of what merging the two saves.
double Clusters::Saved(int a, int b) const {
  const Cluster& first = clusters_[static_cast<size_t>(a)];
  const Cluster& second = clusters_[static_cast<size_t>(b)];
  const Walk together = WalkOf(JoinedReads(first.reads, second.reads), {a, b});
  const double walked[] = {WalkOf(first.reads, {a}).bytes, WalkOf(second.reads, {b}).bytes};
  const double set = std::max({together.bytes, walked[0], walked[1]});
  return TimeOf(walked[0], set, first.compute_ns, machine_) +
         TimeOf(walked[1], set, second.compute_ns, machine_) -
         TimeOf(together.bytes, set, first.compute_ns + second.compute_ns, machine_);
}

// The bytes that live from the producer's place to the consumer's once they are one.
std::vector<int64_t> Clusters::LiveAfter(int producer, int consumer) {
  const int first = clusters_[static_cast<size_t>(producer)].position;
  const int last = clusters_[static_cast<size_t>(consumer)].position;
  const std::vector<int> window = MergedOrder(producer, consumer);
  std::unordered_map<int, int> place;
  std::vector<NodeId> nodes;
  for (size_t i = 0; i < window.size(); ++i) {
    if (window[i] < 0) continue;
    const int now = first + static_cast<int>(i);
    if (window[i] != producer && clusters_[static_cast<size_t>(window[i])].position == now)
      continue;
    place[window[i]] = now;
    const std::vector<NodeId>& members = clusters_[static_cast<size_t>(window[i])].nodes;
    nodes.insert(nodes.end(), members.begin(), members.end());
  }
  place[consumer] = place[producer];
  const std::vector<NodeId>& members = clusters_[static_cast<size_t>(consumer)].nodes;
  nodes.insert(nodes.end(), members.begin(), members.end());
  const auto before = [&](NodeId id) {
    return clusters_[static_cast<size_t>(ClusterOf(id))].position;
  };
  const auto after = [&](NodeId id) {
    const auto it = place.find(ClusterOf(id));
    return it != place.end() ? it->second : before(id);
  };
  return live_->Moved(first, last, nodes, before, after);
}

Decision Clusters::KeepsPeak(int a, int b) {
  if (live_->steps() > kMaxLiveSteps)
    return Decision::No("the graph is too wide: following what is live at once took too long");
  const int first = clusters_[static_cast<size_t>(a)].position;
  const std::vector<int64_t> moved = LiveAfter(a, b);
  if (!live_->RaisesPeak(first, moved)) return Decision::Yes();
  return Decision::No(absl::StrCat("more memory would be live at once: ",
                                   *std::max_element(moved.begin(), moved.end()), " bytes"));
}

}  // namespace kiln
