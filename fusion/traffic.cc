// SPDX-License-Identifier: Apache-2.0
#include "kiln/fusion/traffic.h"

#include <algorithm>
#include <set>

#include "kiln/fusion/node_facts.h"

namespace kiln {
namespace {

class TrafficCounter {
 public:
  explicit TrafficCounter(const Graph& graph) : graph_(graph) {}

  GroupTraffic Count(const Group& group) const {
    GroupTraffic traffic;
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
        if (input.valid() && made.count(input) == 0) read.insert(input);
      }
    }
    return read;
  }

  const Graph& graph_;
};

}  // namespace

Traffic TrafficOf(const Graph& graph, const Grouping& grouping) {
  const TrafficCounter counter(graph);
  Traffic traffic;
  std::set<ValueId> ends;
  for (const Group& group : grouping.groups) {
    GroupTraffic& own = traffic.groups.emplace_back();
    if (group.kind == Group::Kind::kView || group.kind == Group::Kind::kHost) continue;
    own = counter.Count(group);
    ends.merge(counter.Given(group));
    ++traffic.launches;
    traffic.walked += own.in + own.out;
    traffic.unfused += own.unfused;
  }
  for (const Graph::Output& output : graph.outputs()) ends.insert(output.value);
  traffic.lower_bound = counter.Sum(ends);
  return traffic;
}

}  // namespace kiln
