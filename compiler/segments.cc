// SPDX-License-Identifier: Apache-2.0
#include "compiler/segments.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "exec/library/dynamic_ops.h"
#include "graph/custom_op.h"
#include "graph/op.h"
#include "graph/rebuild.h"

namespace kiln {
namespace {

struct CalleeGraph {
  Graph graph;
  std::vector<std::string> symbols;
};

// Gives `graph` a last input for the symbols that its own inputs do not tell.
CalleeGraph WithSymbolInput(Graph graph) {
  const std::set<std::string> missing = FreeSymbols(graph);
  CalleeGraph made{std::move(graph), {missing.begin(), missing.end()}};
  if (made.symbols.empty()) return made;
  Shape elements;
  for (const std::string& symbol : made.symbols) elements.push_back(Dim::Symbol(symbol));
  const ValueId id =
      made.graph.AddInput("kiln.symbols", DType::kI64, {static_cast<int64_t>(made.symbols.size())});
  made.graph.mutable_value(id).shape_content = std::move(elements);
  return made;
}

class Splitter {
 public:
  explicit Splitter(const Graph& graph) : graph_(graph) {}

  void FindLevels() {
    value_level_.assign(graph_.values().size(), 0);
    for (const ValueId id : graph_.inputs())
      ForEachLearned(graph_.value(id),
                     [&](const std::string& symbol) { symbol_level_[symbol] = 0; });
    for (const Node& node : graph_.nodes()) {
      int level = 0;
      for (const ValueId id : node.inputs) {
        if (id.valid()) level = std::max(level, value_level_[static_cast<size_t>(id.v)]);
      }
      for (const std::string& symbol : SymbolsOf(graph_, node)) {
        if (const auto known = symbol_level_.find(symbol); known != symbol_level_.end())
          level = std::max(level, known->second);
      }
      node_level_.push_back(level);
      levels_ = std::max(levels_, level + 1);
      const int result = level + (node.op->dynamic ? 1 : 0);
      levels_ = std::max(levels_, result);
      for (const ValueId id : node.outputs) {
        value_level_[static_cast<size_t>(id.v)] = result;
        if (!node.op->dynamic) continue;
        ForEachLearned(graph_.value(id),
                       [&](const std::string& symbol) { symbol_level_.emplace(symbol, result); });
      }
    }
  }
  int levels() const { return levels_; }
  int LevelOf(size_t node) const { return node_level_[node]; }

  struct Segment {
    Graph graph;
    std::vector<ValueId> inputs, outputs;  // values of the whole graph
  };
  absl::StatusOr<Segment> MakeSegment(int level) const {
    Segment segment;
    segment.graph.name = absl::StrCat(graph_.name, "/segment", level);
    const std::set<ValueId> needed = NeededOutside(level);
    std::vector<bool> used = Marked(level, needed);
    std::map<ValueId, ValueId> map;
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      if (used[i]) KILN_RETURN_IF_ERROR(AddNode(graph_.nodes()[i], segment, map));
    }
    for (const ValueId id : needed) {
      segment.outputs.push_back(id);
      segment.graph.AddOutput(map[id], graph_.value(id).name);
    }
    return segment;
  }

 private:
  bool InSegment(size_t node, int level) const {
    return node_level_[node] == level && !graph_.nodes()[node].op->dynamic;
  }

  // Values of the segment that something outside of it reads.
  std::set<ValueId> NeededOutside(int level) const {
    std::set<ValueId> needed;
    const auto need = [&](ValueId id) {
      if (!id.valid()) return;
      const NodeId producer = graph_.value(id).producer;
      if (producer.v >= 0 && InSegment(static_cast<size_t>(producer.v), level)) needed.insert(id);
    };
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      if (InSegment(i, level)) continue;
      for (const ValueId id : graph_.nodes()[i].inputs) need(id);
    }
    for (const Graph::Output& output : graph_.outputs()) need(output.value);
    return needed;
  }

  // The segment's nodes on the way to what is needed.
  std::vector<bool> Marked(int level, const std::set<ValueId>& needed) const {
    std::vector<bool> used(graph_.nodes().size(), false);
    std::set<ValueId> wanted = needed;
    for (size_t i = graph_.nodes().size(); i-- > 0;) {
      if (!InSegment(i, level)) continue;
      const Node& node = graph_.nodes()[i];
      used[i] = std::any_of(node.outputs.begin(), node.outputs.end(),
                            [&](ValueId id) { return wanted.count(id) > 0; });
      if (used[i]) wanted.insert(node.inputs.begin(), node.inputs.end());
    }
    return used;
  }

  absl::Status AddNode(const Node& node, Segment& segment, std::map<ValueId, ValueId>& map) const {
    std::vector<ValueId> inputs;
    for (const ValueId id : node.inputs) {
      if (!id.valid()) {
        inputs.emplace_back();
        continue;
      }
      const auto [at, fresh] = map.emplace(id, ValueId{});
      if (fresh) {
        const Value& value = graph_.value(id);
        if (value.constant) {
          at->second = segment.graph.AddConstant(value.name, *value.constant);
        } else {
          at->second = segment.graph.AddInput(value.name, value.type, value.shape);
          segment.graph.mutable_value(at->second).shape_content = value.shape_content;
          segment.inputs.push_back(id);
        }
      }
      inputs.push_back(at->second);
    }
    std::vector<std::string> names;
    for (const ValueId id : node.outputs) names.push_back(graph_.value(id).name);
    KILN_ASSIGN_OR_RETURN(const std::vector<ValueId> outputs,
                          segment.graph.AddNode(*node.op, std::move(inputs), node.attrs, node.name,
                                                std::move(names)));
    for (size_t k = 0; k < outputs.size(); ++k) map[node.outputs[k]] = outputs[k];
    return absl::OkStatus();
  }

  const Graph& graph_;
  std::vector<int> value_level_, node_level_;
  std::map<std::string, int> symbol_level_;
  int levels_ = 1;
};

class ScriptBuilder {
 public:
  ScriptBuilder(const Graph& graph, const MakeProvider& make)
      : graph_(graph), make_(make), splitter_(graph), script_(std::make_shared<Script>()) {}

  absl::StatusOr<std::shared_ptr<const Script>> Build() {
    for (const ValueId id : graph_.inputs()) script_->inputs.push_back(Slot(id));
    splitter_.FindLevels();
    for (int level = 0; level < splitter_.levels(); ++level) {
      KILN_RETURN_IF_ERROR(AddSegment(level));
      for (size_t i = 0; i < graph_.nodes().size(); ++i) {
        const Node& node = graph_.nodes()[i];
        if (node.op->dynamic && splitter_.LevelOf(i) == level)
          KILN_RETURN_IF_ERROR(AddDynamic(node));
      }
    }
    for (const Graph::Output& output : graph_.outputs())
      script_->outputs.push_back(Slot(output.value));
    FindReleases();
    return std::shared_ptr<const Script>(std::move(script_));
  }

 private:
  int Slot(ValueId id) {
    if (!id.valid()) return -1;
    const auto [at, fresh] = slots_.emplace(id, static_cast<int>(script_->slots.size()));
    if (fresh) {
      const Value& value = graph_.value(id);
      Script::Slot& slot = script_->slots.emplace_back();
      slot.name = value.name;
      slot.type = value.type;
      slot.shape = value.shape;
      const bool is_input =
          std::find(graph_.inputs().begin(), graph_.inputs().end(), id) != graph_.inputs().end();
      if (value.constant && !is_input) {
        script_->constants.emplace_back(
            at->second, value.constant->is_dense() ? *value.constant : value.constant->Clone());
      } else if (value.shape_content) {
        slot.elements = *value.shape_content;
      }
    }
    return at->second;
  }

  absl::StatusOr<int> AddCallee(Graph graph) {
    CalleeGraph callee = WithSymbolInput(std::move(graph));
    KILN_ASSIGN_OR_RETURN(std::shared_ptr<VariantProvider> program, make_(std::move(callee.graph)));
    script_->callees.push_back({std::move(program), std::move(callee.symbols)});
    return static_cast<int>(script_->callees.size()) - 1;
  }

  absl::Status AddSegment(int level) {
    KILN_ASSIGN_OR_RETURN(Splitter::Segment segment, splitter_.MakeSegment(level));
    if (segment.outputs.empty()) return absl::OkStatus();
    ScriptStep step;
    step.kind = ScriptStep::Kind::kCall;
    step.name = absl::StrCat("segment", level);
    for (const ValueId id : segment.inputs) step.inputs.push_back(Slot(id));
    for (const ValueId id : segment.outputs) step.outputs.push_back(Slot(id));
    KILN_ASSIGN_OR_RETURN(const int callee, AddCallee(std::move(segment.graph)));
    step.callees = {callee};
    script_->steps.push_back(std::move(step));
    return absl::OkStatus();
  }

  absl::Status AddDynamic(const Node& node) {
    ScriptStep step;
    step.name = node.name;
    for (const ValueId id : node.inputs) step.inputs.push_back(Slot(id));
    for (const ValueId id : node.outputs) step.outputs.push_back(Slot(id));
    const absl::string_view op = node.op->name;
    if (op == "if") {
      step.kind = ScriptStep::Kind::kIf;
      for (const char* branch : {"then_branch", "else_branch"}) {
        KILN_ASSIGN_OR_RETURN(step.callees.emplace_back(), AddCallee(GraphAttr(node, branch)));
      }
    } else if (op == "loop") {
      step.kind = ScriptStep::Kind::kLoop;
      step.carried = static_cast<int>(IntAttr(node, "carried"));
      KILN_ASSIGN_OR_RETURN(step.callees.emplace_back(), AddCallee(GraphAttr(node, "body")));
    } else {
      step.kind = ScriptStep::Kind::kHost;
      step.op = std::string(op);
      if (op == "custom") {
        step.custom = [bound = std::get<std::shared_ptr<const CustomOp>>(node.attrs.at("op"))](
                          const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs) {
          return bound->run(inputs, bound->attrs, std::span(outputs));
        };
      } else if (!library::IsDynamic(step.op))
        return absl::UnimplementedError(
            absl::StrCat("node \"", node.name, "\" (", op, "): has no form for the host"));
      for (const AttrSpec& spec : node.op->attrs) {
        if (spec.kind == AttrKind::kInt && HasAttr(node, spec.name))
          step.attributes[spec.name] = {IntAttr(node, spec.name)};
      }
    }
    script_->steps.push_back(std::move(step));
    return absl::OkStatus();
  }

  void FindReleases() {
    std::vector<bool> kept(script_->slots.size(), false);
    for (const int slot : script_->outputs) kept[static_cast<size_t>(slot)] = true;
    for (size_t i = script_->steps.size(); i-- > 0;) {
      ScriptStep& step = script_->steps[i];
      for (const auto* list : {&step.inputs, &step.outputs}) {
        for (const int slot : *list) {
          if (slot < 0 || kept[static_cast<size_t>(slot)]) continue;
          kept[static_cast<size_t>(slot)] = true;
          step.released.push_back(slot);
        }
      }
    }
  }

  const Graph& graph_;
  const MakeProvider& make_;
  Splitter splitter_;
  std::shared_ptr<Script> script_;
  std::map<ValueId, int> slots_;
};

absl::Status CollectSegments(const Graph& graph, const std::string& path, std::vector<Graph>& out) {
  if (!HasDynamicNodes(graph)) {
    out.push_back(WithSymbolInput(graph).graph);
    out.back().name = path;
    return absl::OkStatus();
  }
  Splitter splitter(graph);
  splitter.FindLevels();
  for (int level = 0; level < splitter.levels(); ++level) {
    KILN_ASSIGN_OR_RETURN(Splitter::Segment segment, splitter.MakeSegment(level));
    if (!segment.outputs.empty()) {
      out.push_back(WithSymbolInput(std::move(segment.graph)).graph);
      out.back().name = absl::StrCat(path, "/segment", level);
    }
    for (size_t i = 0; i < graph.nodes().size(); ++i) {
      const Node& node = graph.nodes()[i];
      if (!node.op->dynamic || splitter.LevelOf(i) != level) continue;
      for (const auto& [name, value] : node.attrs) {
        const Body* body = std::get_if<Body>(&value);
        if (body == nullptr) continue;
        KILN_RETURN_IF_ERROR(
            CollectSegments(**body, absl::StrCat(path, "/", node.name, "/", name), out));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool HasDynamicNodes(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const Node& node) { return node.op->dynamic; });
}

absl::StatusOr<std::shared_ptr<const Script>> BuildScript(const Graph& graph,
                                                          const MakeProvider& make) {
  return ScriptBuilder(graph, make).Build();
}

absl::StatusOr<std::vector<Graph>> Segments(const Graph& graph) {
  std::vector<Graph> out;
  KILN_RETURN_IF_ERROR(CollectSegments(graph, graph.name, out));
  return out;
}

}  // namespace kiln
