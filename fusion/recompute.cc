// SPDX-License-Identifier: Apache-2.0
#include "fusion/recompute.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "fusion/form_groups.h"
#include "fusion/legality.h"
#include "fusion/literal.h"
#include "fusion/min_cut.h"
#include "fusion/node_analysis.h"
#include "graph/op.h"
#include "schedule/device.h"

namespace kiln {
namespace {

// Rounds of cutting and grouping: what was not fused for what it stored may be, once it does not.
constexpr int kMaxRounds = 3;  // compile time
// To form groups anew takes a large part of a graph's compilation: a run must gain something.
constexpr double kLeastGainNs = 2000;  // compile time
// Cuts that save less of what the two kernels walk are not taken: prices may be wrong by more, and
// kernels that differ by a few bytes from those of other extents are built anew.
constexpr double kGain = 0.01;  // speed

const Machine& MachineOf(const GroupOptions& options) {
  return options.machine != nullptr ? *options.machine : ShippedMachine(LowestTarget());
}

// Finds what is computed again, for one graph and its groups.
class Recomputer {
 public:
  // `keeps_less`: nothing is computed again from values that would live longer for it, unless they
  // are smaller.
  Recomputer(const Graph& graph, const GraphAnalysis& analysis, const Grouping& grouping,
             const Machine& machine, bool keeps_less)
      : graph_(graph),
        analysis_(analysis),
        groups_(grouping.groups),
        machine_(machine),
        keeps_less_(keeps_less) {
    group_of_.assign(graph.nodes().size(), -1);
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (const NodeId id : groups_[g].nodes) group_of_[At(id)] = static_cast<int>(g);
    }
    for (const Graph::Output& output : graph.outputs()) kept_.insert(Root(output.value));
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].kind == Group::Kind::kView) continue;
      for (const ValueId value : ReadBy(groups_[g])) readers_[value].push_back(static_cast<int>(g));
    }
  }

  struct Plan {
    std::map<int, std::set<ValueId>> again;  // for each group, the values that it computes again
    double gain_ns = 0;                      // by the cuts alone, before anything is grouped anew
  };
  Plan Run() const {
    Plan plan;
    for (size_t b = 0; b < groups_.size(); ++b) {
      if (groups_[b].kind != Group::Kind::kKernel) continue;
      std::map<int, std::vector<ValueId>> by_maker;
      for (const ValueId value : ReadBy(groups_[b])) {
        const int maker = MakerOf(value);
        if (maker >= 0 && groups_[static_cast<size_t>(maker)].kind == Group::Kind::kKernel)
          by_maker[maker].push_back(value);
      }
      for (const auto& [maker, values] : by_maker) {
        const auto [again, gain_ns] = CutBetween(maker, static_cast<int>(b), values);
        if (again.empty()) continue;
        plan.again[static_cast<int>(b)].insert(again.begin(), again.end());
        plan.gain_ns += gain_ns;
      }
    }
    return plan;
  }

 private:
  static size_t At(NodeId id) { return static_cast<size_t>(id.v); }
  ValueId Root(ValueId value) const { return analysis_.root[static_cast<size_t>(value.v)]; }
  int MakerOf(ValueId value) const {
    const NodeId producer = graph_.value(value).producer;
    return producer.v < 0 ? -1 : group_of_[At(producer)];
  }

  // Values of others that the group reads, through views.
  std::set<ValueId> ReadBy(const Group& group) const {
    std::set<ValueId> read;
    for (const NodeId id : group.nodes) {
      for (const ValueId input : graph_.node(id).inputs) {
        if (!input.valid()) continue;
        const ValueId root = Root(input);
        const NodeId producer = graph_.value(root).producer;
        if (producer.v < 0 || group_of_[At(producer)] != group_of_[At(id)]) read.insert(root);
      }
    }
    // A library call reads some operands by strides, past nodes that nobody runs.
    for (const StridedView& view : group.call ? group.call->inputs : std::vector<StridedView>()) {
      if (view.base.valid()) read.insert(Root(view.base));
    }
    return read;
  }

  // What the group reads and writes.
  double BytesOf(int group) const {
    const Group& of = groups_[static_cast<size_t>(group)];
    std::set<ValueId> walked = ReadBy(of);
    walked.insert(of.outputs.begin(), of.outputs.end());
    double bytes = 0;
    for (const ValueId value : walked)
      bytes += static_cast<double>(EstimatedBytes(graph_.value(value)));
    return bytes;
  }

  bool IsReadBeside(ValueId value, int reader) const {
    const auto it = readers_.find(value);
    return kept_.count(value) != 0 ||
           (it != readers_.end() && std::any_of(it->second.begin(), it->second.end(),
                                                [&](int group) { return group != reader; }));
  }

  // Whether it is there when `reader` runs though that does not read it: somebody does later, or
  // it is the user's.
  bool IsAliveAt(ValueId value, int reader) const {
    const Value& described = graph_.value(value);
    if (described.producer.v < 0 || kept_.count(value) != 0) return true;
    const auto it = readers_.find(value);
    return it != readers_.end() && it->second.back() >= reader;
  }

  // Element-wise nodes are.
  bool IsRepeatable(NodeId id) const {
    const Node& node = graph_.node(id);
    return node.op->kind == OpKind::kScalar && node.outputs.size() == 1;
  }

  // What more it takes to compute the node in `reader`, and in its own kernel where that stays.
  // What `reader` has no loops for, such as a number beside large tensors, it computes for each
  // element of the next larger value that it makes.
  double NsToCompute(NodeId id, int reader, bool stays) const {
    const auto elements = [&](NodeId made) {
      return EstimatedElements(graph_.value(graph_.node(made).outputs[0]).shape);
    };
    int64_t times = INT64_MAX;
    for (const NodeId other : groups_[static_cast<size_t>(reader)].nodes) {
      if (elements(other) >= elements(id)) times = std::min(times, elements(other));
    }
    if (!stays) times -= elements(id);
    return static_cast<double>(times) * static_cast<double>(analysis_.nodes[At(id)].cost) *
           machine_.add_ns;
  }

  // Whether nobody else needs anything of `maker`, which is element-wise: if all of it is computed
  // by `reader`, it does not run.
  bool MayVanish(int maker, int reader) const {
    const Group& group = groups_[static_cast<size_t>(maker)];
    return std::all_of(group.nodes.begin(), group.nodes.end(),
                       [&](NodeId id) { return IsRepeatable(id); }) &&
           std::none_of(group.outputs.begin(), group.outputs.end(),
                        [&](ValueId output) { return IsReadBeside(output, reader); });
  }

  // What of `maker`'s nodes is computed again by `reader`, which reads `wanted` of it, and what
  // that gains.
  std::pair<std::set<ValueId>, double> CutBetween(int maker, int reader,
                                                  const std::vector<ValueId>& wanted) const {
    const Group& from = groups_[static_cast<size_t>(maker)];
    const std::set<ValueId> read = ReadBy(groups_[static_cast<size_t>(reader)]);
    std::map<ValueId, int> number;  // of values: what they are and what those are made of
    const auto number_of = [&](ValueId value) {
      return number.try_emplace(value, static_cast<int>(number.size())).first->second;
    };
    for (const ValueId value : ReadBy(from)) number_of(value);
    for (const NodeId id : from.nodes) {
      for (const ValueId output : graph_.node(id).outputs) number_of(output);
    }
    const double walked = BytesOf(maker) + BytesOf(reader);
    const double gb_per_s = machine_.GbPerS(walked);
    // A value is needed: node 2 i; it is computed again: node 2 i + 1.
    const int source = 2 * static_cast<int>(number.size()), sink = source + 1;
    MinCut network(sink + 1);
    const bool may_vanish = MayVanish(maker, reader);
    const auto to_pass = [&](ValueId value) {
      if (LiteralOf(graph_.value(value))) return 0.0;
      const bool made_here = MakerOf(value) == maker;
      const double times = made_here ? (IsReadBeside(value, reader) ? 1 : 2)
                                     : (may_vanish || read.count(value) != 0 ? 0 : 1);
      const auto bytes = static_cast<double>(EstimatedBytes(graph_.value(value)));
      return times * bytes / gb_per_s;
    };
    for (const auto& [value, i] : number) {
      const NodeId producer = graph_.value(value).producer;
      if (MakerOf(value) != maker || !IsRepeatable(producer)) {
        network.AddEdge(2 * i, sink, to_pass(value));
        continue;
      }
      network.AddEdge(2 * i, 2 * i + 1, to_pass(value));
      network.AddEdge(2 * i + 1, sink, NsToCompute(producer, reader, !may_vanish));
      for (const ValueId input : graph_.node(producer).inputs) {
        if (input.valid()) network.AddEdge(2 * i + 1, 2 * number_of(Root(input)), MinCut::kNever);
      }
    }
    double now = 0;
    for (const ValueId value : wanted) {
      network.AddEdge(source, 2 * number_of(value), MinCut::kNever);
      now += to_pass(value);
    }
    const MinCut::Cut cut = network.Between(source, sink);
    std::set<ValueId> again;
    if (cut.cost > now - kGain * walked / gb_per_s) return {again, 0};
    int64_t more = 0;  // bytes that live from one kernel to the other
    const std::set<ValueId> before(wanted.begin(), wanted.end());
    for (const auto& [value, i] : number) {
      const auto node = static_cast<size_t>(2 * i);
      const bool is_made = MakerOf(value) == maker && IsRepeatable(graph_.value(value).producer);
      const bool is_needed = cut.on_source_side[node];
      const bool passes = is_needed && !(is_made && cut.on_source_side[node + 1]);
      if (is_needed && !passes) again.insert(value);
      const int64_t bytes = EstimatedBytes(graph_.value(value));
      if (passes && before.count(value) == 0 && !IsAliveAt(value, reader)) more += bytes;
      if (!passes && before.count(value) != 0 && readers_.at(value).back() <= reader &&
          kept_.count(value) == 0)
        more -= bytes;
    }
    if (more > 0 && keeps_less_) again.clear();
    return {again, now - cut.cost};
  }

  const Graph& graph_;
  const GraphAnalysis& analysis_;
  const std::vector<Group>& groups_;
  const Machine& machine_;
  const bool keeps_less_;
  std::vector<int> group_of_;                    // by node; -1: a view, or none
  std::set<ValueId> kept_;                       // outputs of the graph
  std::map<ValueId, std::vector<int>> readers_;  // groups, ascending
};

// Adds the nodes of a plan to the graph.
class Repeater {
 public:
  Repeater(Graph& graph, const GraphAnalysis& analysis) : graph_(graph), analysis_(analysis) {}

  absl::Status Repeat(const std::vector<NodeId>& readers, const std::set<ValueId>& again) {
    std::map<ValueId, ValueId> made;
    for (const NodeId id : readers) {
      const std::vector<ValueId> inputs = graph_.node(id).inputs;  // a copy: nodes are added
      for (size_t k = 0; k < inputs.size(); ++k) {
        if (!inputs[k].valid() || again.count(Root(inputs[k])) == 0) continue;
        KILN_ASSIGN_OR_RETURN(const ValueId repeated, Of(inputs[k], again, made));
        graph_.ReplaceInput(id, k, repeated);
      }
    }
    return absl::OkStatus();
  }

 private:
  ValueId Root(ValueId value) const {
    const auto at = static_cast<size_t>(value.v);
    return at < analysis_.root.size() ? analysis_.root[at] : value;
  }

  // The value computed once more; itself where it is not computed again.
  absl::StatusOr<ValueId> Of(ValueId value, const std::set<ValueId>& again,
                             std::map<ValueId, ValueId>& made) {
    if (again.count(Root(value)) == 0) return value;
    if (const auto it = made.find(value); it != made.end()) return it->second;
    const Node node = graph_.node(graph_.value(value).producer);  // a copy
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) {
      if (!input.valid()) {
        inputs.push_back(input);
        continue;
      }
      KILN_ASSIGN_OR_RETURN(inputs.emplace_back(), Of(input, again, made));
    }
    KILN_ASSIGN_OR_RETURN(const std::vector<ValueId> outputs,
                          graph_.AddNode(*node.op, std::move(inputs), node.attrs, node.name, {""}));
    made[value] = outputs.at(0);
    return outputs.at(0);
  }

  Graph& graph_;
  const GraphAnalysis& analysis_;
};

struct Costs {
  double ns = 0;     // of all kernels
  int64_t peak = 0;  // the most bytes that live at once between groups, as they stand
};

// The most bytes that live at once, each value from the group that makes it to its last reader.
int64_t PeakOf(const Graph& graph, const GraphAnalysis& analysis, const Grouping& grouping) {
  std::map<NodeId, int> place;
  for (size_t g = 0; g < grouping.groups.size(); ++g) {
    for (const NodeId id : grouping.groups[g].nodes) place[id] = static_cast<int>(g);
  }
  std::set<ValueId> asked;  // the user's memory
  for (const Graph::Output& output : graph.outputs())
    asked.insert(analysis.root[static_cast<size_t>(output.value.v)]);
  std::map<ValueId, std::pair<int, int>> lives;
  for (const DataEdge& edge : analysis.edges) {
    const auto maker = place.find(edge.producer), reader = place.find(edge.consumer);
    if (asked.count(edge.value) != 0 || maker == place.end() || reader == place.end() ||
        maker->second == reader->second)
      continue;
    const auto life = lives.try_emplace(edge.value, maker->second, reader->second).first;
    life->second.second = std::max(life->second.second, reader->second);
  }
  std::vector<int64_t> change(grouping.groups.size() + 1, 0);
  for (const auto& [value, life] : lives) {
    const int64_t bytes = EstimatedBytes(graph.value(value));
    change[static_cast<size_t>(life.first)] += bytes;
    change[static_cast<size_t>(life.second) + 1] -= bytes;
  }
  int64_t live = 0, peak = 0;
  for (const int64_t more : change) peak = std::max(peak, live += more);
  return peak;
}

Costs CostsOf(const Graph& graph, const GraphAnalysis& analysis, const Grouping& grouping,
              const Machine& machine, KnownVerdicts& known) {
  Costs costs;
  Legality legality(graph, analysis, machine, known);
  for (const Group& group : grouping.groups) {
    if (group.kind == Group::Kind::kKernel) costs.ns += legality.Check(group).price.ns;
  }
  costs.peak = PeakOf(graph, analysis, grouping);
  return costs;
}

struct Attempt {
  Graph graph;
  Grouping grouping;
};

// The graph with more nodes computed twice, and its groups; nothing where that does not pay or, at
// some time, more bytes are alive, or where that is known: `refused` is what was tried in vain.
absl::StatusOr<std::optional<Attempt>> Tried(const Graph& graph, const Grouping& grouping,
                                             const GroupOptions& options, bool keeps_less,
                                             KnownVerdicts& known, Recomputer::Plan& refused) {
  const Machine& machine = MachineOf(options);
  KILN_ASSIGN_OR_RETURN(const GraphAnalysis analysis,
                        Analyse(graph, options.level, options.library));
  Recomputer::Plan plan = Recomputer(graph, analysis, grouping, machine, keeps_less).Run();
  if (plan.again.empty() || plan.gain_ns < kLeastGainNs || plan.again == refused.again)
    return std::nullopt;
  Attempt attempt = {graph, {}};
  Repeater repeater(attempt.graph, analysis);
  for (const auto& [group, values] : plan.again) {
    KILN_RETURN_IF_ERROR(
        repeater.Repeat(grouping.groups[static_cast<size_t>(group)].nodes, values));
  }
  KILN_RETURN_IF_ERROR(attempt.graph.SortByFirstUse());
  attempt.graph.RemoveDead();
  KILN_ASSIGN_OR_RETURN(attempt.grouping, FormGroups(attempt.graph, options, known));
  KILN_ASSIGN_OR_RETURN(const GraphAnalysis after,
                        Analyse(attempt.graph, options.level, options.library));
  const Costs old = CostsOf(graph, analysis, grouping, machine, known);
  const Costs now = CostsOf(attempt.graph, after, attempt.grouping, machine, known);
  if (now.ns < old.ns && now.peak <= old.peak) return attempt;
  refused = std::move(plan);
  return std::nullopt;
}

}  // namespace

absl::StatusOr<Grouping> FormGroupsAndRecompute(Graph& graph, const GroupOptions& options) {
  KnownVerdicts known;
  KILN_ASSIGN_OR_RETURN(Grouping grouping, FormGroups(graph, options, known));
  if (options.level < 3 || options.jit_level < 1 || options.rules != FusionRules::kPriced)
    return grouping;
  for (int round = 0; round < kMaxRounds; ++round) {
    std::optional<Attempt> better;
    Recomputer::Plan refused;
    for (const bool keeps_less : {false, true}) {
      KILN_ASSIGN_OR_RETURN(better, Tried(graph, grouping, options, keeps_less, known, refused));
      if (better) break;
    }
    if (!better) break;
    graph = std::move(better->graph);
    grouping = std::move(better->grouping);
  }
  return grouping;
}

}  // namespace kiln
