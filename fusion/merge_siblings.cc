// SPDX-License-Identifier: Apache-2.0
// Horizontal merging: clusters that read the same value, neither of which needs the other.
#include <algorithm>
#include <map>

#include "kiln/fusion/merge.h"

namespace kiln {
namespace {

// Siblings further apart than this stay so: what they make would live long.
constexpr int kMaxDistance = 64;

}  // namespace

void Clusters::MergeSiblings() {
  std::map<ValueId, std::vector<NodeId>> readers;
  for (size_t i = 0; i < facts_.nodes.size(); ++i) {
    const NodeId id{static_cast<int32_t>(i)};
    if (of_[i] < 0 || !MayFuse(id)) continue;
    for (const ValueId input : graph_.node(id).inputs) {
      if (input.valid()) readers[facts_.root[static_cast<size_t>(input.v)]].push_back(id);
    }
  }
  std::vector<std::pair<int64_t, ValueId>> shared;  // most bytes first
  for (const auto& [value, nodes] : readers) {
    if (nodes.size() > 1) shared.emplace_back(-EstimatedBytes(graph_.value(value)), value);
  }
  std::sort(shared.begin(), shared.end());
  for (const auto& [bytes, value] : shared) {
    while (MergeOnePair(value, readers[value])) {
    }
  }
}

// Merges the first two neighbours among the clusters of `readers` that may.
bool Clusters::MergeOnePair(ValueId shared, const std::vector<NodeId>& readers) {
  std::vector<std::pair<int, int>> clusters;  // position, cluster
  for (const NodeId id : readers) {
    const int cluster = ClusterOf(id);
    if (ReadsAllOf(shared, cluster))
      clusters.emplace_back(clusters_[static_cast<size_t>(cluster)].position, cluster);
  }
  std::sort(clusters.begin(), clusters.end());
  clusters.erase(std::unique(clusters.begin(), clusters.end()), clusters.end());
  for (size_t i = 0; i + 1 < clusters.size(); ++i) {
    const int a = clusters[i].second;
    const int b = clusters[i + 1].second;
    if (clusters[i + 1].first - clusters[i].first > kMaxDistance || !MayMergeSiblings(a, b))
      continue;
    Merge(a, b);
    return true;
  }
  return false;
}

// True if the trip through `shared` is the cluster's longest: nothing that it computes is larger.
bool Clusters::ReadsAllOf(ValueId shared, int cluster) const {
  const int64_t elements = EstimatedElements(graph_.value(shared).shape);
  const std::vector<NodeId>& nodes = clusters_[static_cast<size_t>(cluster)].nodes;
  return std::all_of(nodes.begin(), nodes.end(), [&](NodeId id) {
    const std::vector<ValueId>& outputs = graph_.node(id).outputs;
    return std::all_of(outputs.begin(), outputs.end(), [&](ValueId value) {
      return EstimatedElements(graph_.value(value).shape) <= elements;
    });
  });
}

// Whether the two may be one kernel, and the peak of live memory does not grow with it.
bool Clusters::MayMergeSiblings(int a, int b) {
  if (!WithinCaps(a, b) || !StayApart(a, b)) return false;
  std::vector<int> order = order_;
  const std::vector<int> window = MergedOrder(a, b);
  std::copy(window.begin(), window.end(),
            order.begin() + clusters_[static_cast<size_t>(a)].position);
  return Peak(order, a, b) <= Peak(order_, -1, -1);
}

// The most bytes that live at once between clusters run in `order`, where `merged_from` is part of
// `merged_into`. What the user gives and asks for is not counted: it is not ours to place.
int64_t Clusters::Peak(const std::vector<int>& order, int merged_into, int merged_from) const {
  std::vector<int> position(clusters_.size(), -1);
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] >= 0) position[static_cast<size_t>(order[i])] = static_cast<int>(i);
  }
  if (merged_from >= 0)
    position[static_cast<size_t>(merged_from)] = position[static_cast<size_t>(merged_into)];
  const auto at = [&](NodeId id) { return position[static_cast<size_t>(ClusterOf(id))]; };
  std::vector<int64_t> change(order.size() + 1, 0);
  for (size_t node = 0; node < out_.size(); ++node) {
    std::map<ValueId, std::pair<int, int64_t>> last;  // value -> place of its last reader, bytes
    for (const size_t e : out_[node]) {
      const DataEdge& edge = facts_.edges[e];
      const auto entry = last.try_emplace(edge.value, -1, edge.bytes).first;
      entry->second.first = std::max(entry->second.first, at(edge.consumer));
    }
    const NodeId id{static_cast<int32_t>(node)};
    for (const auto& [value, end] : last) {
      const auto& [place, bytes] = end;
      if (place <= at(id) || asked_[static_cast<size_t>(value.v)]) continue;
      change[static_cast<size_t>(at(id))] += bytes;
      change[static_cast<size_t>(place) + 1] -= bytes;
    }
  }
  int64_t live = 0, peak = 0;
  for (const int64_t bytes : change) peak = std::max(peak, live += bytes);
  return peak;
}

}  // namespace kiln
