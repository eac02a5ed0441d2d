// SPDX-License-Identifier: Apache-2.0
// Horizontal merging: clusters that read the same value, neither of which needs the other.
#include <algorithm>
#include <map>

#include "base/stop.h"
#include "fusion/merge.h"

namespace kiln {
namespace {

// Siblings further apart than this stay so: what they make would live long.
constexpr int kMaxDistance = 64;  // speed

}  // namespace

void Clusters::MergeSiblings() {
  std::map<ValueId, std::vector<NodeId>> readers;
  for (size_t i = 0; i < analysis_.nodes.size(); ++i) {
    const NodeId id{static_cast<int32_t>(i)};
    if (of_[i] < 0 || !MayFuse(id)) continue;
    for (const ValueId input : graph_.node(id).inputs) {
      if (input.valid()) readers[analysis_.root[static_cast<size_t>(input.v)]].push_back(id);
    }
  }
  std::vector<std::pair<int64_t, ValueId>> shared;  // most bytes first
  for (const auto& [value, nodes] : readers) {
    if (nodes.size() > 1) shared.emplace_back(-EstimatedBytes(graph_.value(value)), value);
  }
  std::sort(shared.begin(), shared.end());
  for (const auto& [bytes, value] : shared) {
    if (Stopped()) return;
    std::vector<std::pair<int, int>> clusters;  // position, cluster
    for (const NodeId id : readers[value]) {
      const int cluster = ClusterOf(id);
      if (ReadsAllOf(value, cluster))
        clusters.emplace_back(clusters_[static_cast<size_t>(cluster)].position, cluster);
    }
    std::sort(clusters.begin(), clusters.end());
    clusters.erase(std::unique(clusters.begin(), clusters.end()), clusters.end());
    // Each with its next neighbour, which the two then are.
    for (size_t i = 0; i + 1 < clusters.size(); ++i) {
      const int a = clusters[i].second;
      if (!MayMergeSiblings(a, clusters[i + 1].second)) continue;
      Merge(a, clusters[i + 1].second);
      clusters[i + 1].second = a;
    }
  }
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

bool Clusters::MayMergeSiblings(int a, int b) {
  const int distance =
      clusters_[static_cast<size_t>(b)].position - clusters_[static_cast<size_t>(a)].position;
  if (distance <= 0 || distance > kMaxDistance) return false;
  via_ = -1;
  return WithinCaps(a, b) && StayApart(a, b) && LegalAndPays(a, b, /*must_pay=*/true) &&
         KeepsPeak(a, b);
}

}  // namespace kiln
