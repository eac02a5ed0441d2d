// SPDX-License-Identifier: Apache-2.0
#include "fusion/form_groups.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/stop.h"
#include "fusion/merge.h"
#include "fusion/node_analysis.h"
#include "graph/op.h"

namespace kiln {
namespace {

// Lists the groups, with the views that groups and the user need from outside.
class GroupLister {
 public:
  GroupLister(const Graph& graph, const GraphAnalysis& analysis, const Clusters& clusters)
      : graph_(graph),
        analysis_(analysis),
        clusters_(clusters),
        placed_(graph.nodes().size(), false) {}

  std::vector<Group> Run() {
    for (const std::vector<NodeId>& nodes : clusters_.InOrder()) {
      const NodeAnalysis& first = analysis_.nodes[static_cast<size_t>(nodes[0].v)];
      if (first.call >= 0) {
        for (const StridedView& input : analysis_.calls[static_cast<size_t>(first.call)].inputs) {
          if (input.base.valid()) PlaceView(input.base);
        }
      } else {
        for (const NodeId id : nodes) {
          for (const ValueId input : graph_.node(id).inputs) {
            if (input.valid() && !StaysInside(id, input)) PlaceView(input);
          }
        }
      }
      std::vector<ValueId> outputs = clusters_.Outputs(nodes);
      if (outputs.empty()) continue;  // places in an axis of extent 1, which nobody needs to read
      Group& group = groups_.emplace_back();
      group.kind = first.kind;
      if (first.call >= 0) group.call = analysis_.calls[static_cast<size_t>(first.call)];
      group.nodes = nodes;
      group.outputs = std::move(outputs);
    }
    for (const Graph::Output& output : graph_.outputs()) PlaceView(output.value);
    DropViewsOfNothing();
    return std::move(groups_);
  }

 private:
  // A view of what no group makes has no reader either: places in an axis of extent 1.
  void DropViewsOfNothing() {
    std::set<ValueId> made;
    for (const Group& group : groups_) made.insert(group.outputs.begin(), group.outputs.end());
    std::erase_if(groups_, [&](const Group& group) {
      if (group.kind != Group::Kind::kView) return false;
      const ValueId root = analysis_.root[static_cast<size_t>(group.outputs.front().v)];
      return graph_.value(root).producer.v >= 0 && made.count(root) == 0;
    });
  }

  // True if `reader` finds `input` within its own kernel.
  bool StaysInside(NodeId reader, ValueId input) const {
    const NodeId producer = graph_.value(analysis_.root[static_cast<size_t>(input.v)]).producer;
    return producer.v >= 0 && clusters_.ClusterOf(producer) == clusters_.ClusterOf(reader);
  }

  // Enters the view that makes `value`, if one does, after the views that it is of.
  void PlaceView(ValueId value) {
    const NodeId producer = graph_.value(value).producer;
    if (producer.v < 0) return;
    const auto index = static_cast<size_t>(producer.v);
    if (analysis_.nodes[index].kind != Group::Kind::kView || placed_[index]) return;
    placed_[index] = true;
    for (const ValueId input : graph_.node(producer).inputs) {
      if (input.valid()) PlaceView(input);
    }
    groups_.push_back({Group::Kind::kView, {producer}, graph_.node(producer).outputs});
  }

  const Graph& graph_;
  const GraphAnalysis& analysis_;
  const Clusters& clusters_;
  std::vector<bool> placed_;
  std::vector<Group> groups_;
};

}  // namespace

absl::StatusOr<Grouping> FormGroups(const Graph& graph, const GroupOptions& options) {
  KnownVerdicts known;
  return FormGroups(graph, options, known);
}

absl::StatusOr<Grouping> FormGroups(const Graph& graph, const GroupOptions& options,
                                    KnownVerdicts& known) {
  std::set<std::string> unknown = options.alone;
  for (const auto& [producer, consumer] : options.forced) unknown.insert({producer, consumer});
  for (const Node& node : graph.nodes()) unknown.erase(node.name);
  if (!unknown.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("node \"", *unknown.begin(),
                     "\": the graph after passes has none of that name; kiln inspect lists them"));
  }
  KILN_ASSIGN_OR_RETURN(const GraphAnalysis analysis,
                        Analyse(graph, options.level, options.library));
  Clusters clusters(graph, analysis, options, known);
  clusters.MergeAll();
  KILN_RETURN_IF_ERROR(CheckStopped());
  Grouping grouping;
  grouping.groups = GroupLister(graph, analysis, clusters).Run();
  for (size_t e = 0; e < analysis.edges.size(); ++e) {
    const DataEdge& edge = analysis.edges[e];
    const bool fused = clusters.ClusterOf(edge.producer) == clusters.ClusterOf(edge.consumer);
    const bool library =
        analysis.nodes[static_cast<size_t>(edge.producer.v)].kind == Group::Kind::kLibrary;
    std::string reason = fused ? (library ? "one library call" : "") : clusters.Reason(e);
    grouping.edges.push_back({edge.producer, edge.consumer, fused, std::move(reason), edge.bytes});
  }
  return grouping;
}

}  // namespace kiln
