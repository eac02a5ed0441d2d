// SPDX-License-Identifier: Apache-2.0
#include "fusion/bytes_accessed.h"

#include <algorithm>
#include <optional>
#include <set>

#include "fusion/node_analysis.h"
#include "fusion/node_reads.h"

namespace kiln {
namespace {

class BytesAccessedCounter {
 public:
  explicit BytesAccessedCounter(const Graph& graph) : graph_(graph) {
    for (size_t i = 0; i < graph.values().size(); ++i)
      root_.push_back(ValueId{static_cast<int32_t>(i)});
    for (const Node& node : graph.nodes()) {
      for (const ValueId output : node.outputs) {
        if (const std::optional<ValueId> source = ViewSource(graph, output))
          root_[static_cast<size_t>(output.v)] = Root(*source);
      }
    }
  }

  // The value whose memory `value` is.
  ValueId Root(ValueId value) const { return root_[static_cast<size_t>(value.v)]; }

  GroupBytesAccessed Count(const Group& group) const {
    GroupBytesAccessed traffic;
    const std::set<ValueId> made = MadeBy(group.nodes);
    traffic.in = Sum(ReadBy(group.nodes, made));
    traffic.out = Sum({group.outputs.begin(), group.outputs.end()});
    for (const NodeId id : group.nodes) {
      const std::vector<ValueId>& outputs = graph_.node(id).outputs;
      traffic.unfused += Sum(ReadBy({id}, {})) + Sum({outputs.begin(), outputs.end()});
    }
    return traffic;
  }

  // Values that are nobody's result, read by `group`.
  std::set<ValueId> Given(const Group& group) const {
    std::set<ValueId> given = ReadBy(group.nodes, MadeBy(group.nodes));
    std::erase_if(given, [&](ValueId value) { return graph_.value(value).producer.v >= 0; });
    return given;
  }

  int64_t Sum(const std::set<ValueId>& values) const {
    int64_t bytes = 0;
    for (const ValueId value : values) bytes += EstimatedBytes(graph_.value(value));
    return bytes;
  }

 private:
  std::set<ValueId> MadeBy(const std::vector<NodeId>& nodes) const {
    std::set<ValueId> made;
    for (const NodeId id : nodes) {
      made.insert(graph_.node(id).outputs.begin(), graph_.node(id).outputs.end());
    }
    return made;
  }

  std::set<ValueId> ReadBy(const std::vector<NodeId>& nodes, const std::set<ValueId>& made) const {
    std::set<ValueId> read;
    for (const NodeId id : nodes) {
      for (const ValueId input : graph_.node(id).inputs) {
        if (input.valid() && made.count(Root(input)) == 0) read.insert(Root(input));
      }
    }
    return read;
  }

  const Graph& graph_;
  std::vector<ValueId> root_;  // by value
};

}  // namespace

BytesAccessed BytesAccessedOf(const Graph& graph, const Grouping& grouping) {
  const BytesAccessedCounter counter(graph);
  BytesAccessed traffic;
  std::set<ValueId> ends;
  for (const Group& group : grouping.groups) {
    GroupBytesAccessed& own = traffic.groups.emplace_back();
    if (group.kind == Group::Kind::kView || group.kind == Group::Kind::kHost) continue;
    own = counter.Count(group);
    ends.merge(counter.Given(group));
    ++traffic.launches;
    traffic.walked += own.in + own.out;
    traffic.unfused += own.unfused;
  }
  for (const Graph::Output& output : graph.outputs()) ends.insert(counter.Root(output.value));
  traffic.lower_bound = counter.Sum(ends);
  return traffic;
}

}  // namespace kiln
