// SPDX-License-Identifier: Apache-2.0
#include "tools/graph_part.h"

#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/name.h"
#include "base/status_macros.h"
#include "graph/op.h"
#include "graph/rebuild.h"
#include "graph/reference/interpreter.h"

namespace kiln {
namespace {

class PartMaker {
 public:
  // `numbers`: symbols that become numbers.
  PartMaker(const GraphRun& run, const std::set<NodeId>& nodes, int64_t most_constant_bytes,
            const std::set<std::string>& numbers)
      : run_(run), nodes_(nodes), most_constant_bytes_(most_constant_bytes) {
    for (const std::string& symbol : numbers) {
      const auto at = run.symbols.find(symbol);
      if (at != run.symbols.end()) numbers_[symbol] = Dim(at->second);
    }
  }

  absl::StatusOr<GraphPart> Make() {
    part_.graph.name = "part";
    for (const NodeId id : nodes_) KILN_RETURN_IF_ERROR(Add(id));
    for (const NodeId id : nodes_) {
      for (const ValueId value : run_.graph.node(id).outputs) {
        if (IsHandedOn(value)) part_.graph.AddOutput(map_.at(value), run_.graph.value(value).name);
      }
    }
    return std::move(part_);
  }

 private:
  absl::Status Add(NodeId id) {
    const Node& node = run_.graph.node(id);
    std::vector<ValueId> inputs;
    for (const ValueId value : node.inputs) {
      KILN_ASSIGN_OR_RETURN(inputs.emplace_back(), ValueOf(value));
    }
    KILN_ASSIGN_OR_RETURN(Attrs attrs, AttrsOf(node));
    std::vector<std::string> names;
    for (const ValueId value : node.outputs) names.push_back(run_.graph.value(value).name);
    KILN_ASSIGN_OR_RETURN(const std::vector<ValueId> outputs,
                          part_.graph.AddNode(*node.op, std::move(inputs), std::move(attrs),
                                              node.name, std::move(names)));
    for (size_t k = 0; k < outputs.size(); ++k) map_[node.outputs[k]] = outputs[k];
    return absl::OkStatus();
  }

  // The value in the part: of a node there, a constant, or an input.
  absl::StatusOr<ValueId> ValueOf(ValueId id) {
    if (!id.valid()) return id;
    if (const auto known = map_.find(id); known != map_.end()) return known->second;
    const Value& value = run_.graph.value(id);
    const bool constant = value.constant.has_value();
    const auto at = run_.values.find(id);
    if (!constant && at == run_.values.end()) {
      return absl::InternalError(
          absl::StrCat("value \"", value.name, "\": the interpreter did not compute it"));
    }
    const Tensor& tensor = constant ? *value.constant : at->second;
    // Inference reads the elements of what describes extents.
    const bool stays = value.shape_content.has_value() ||
                       (constant && tensor.size_bytes() <= most_constant_bytes_);
    if (stays) return map_[id] = part_.graph.AddConstant(value.name, tensor);
    const std::string name =
        IsBareName(value.name) ? value.name : absl::StrCat("input", part_.inputs.size());
    part_.inputs.push_back(tensor);
    Shape shape = constant ? ToShape(tensor.shape()) : Substituted(value.shape, numbers_);
    return map_[id] = part_.graph.AddInput(name, value.type, std::move(shape));
  }

  absl::StatusOr<Attrs> AttrsOf(const Node& node) const {
    Attrs attrs = node.attrs;
    for (const AttrSpec& spec : node.op->attrs) {
      const auto at = attrs.find(spec.name);
      if (at == attrs.end()) continue;
      if (std::holds_alternative<Body>(at->second)) {
        return absl::UnimplementedError(absl::StrCat("node \"", node.name, "\" (", node.op->name,
                                                     "): it owns graphs, and is no part alone"));
      }
      const auto* const text = std::get_if<std::string>(&at->second);
      if (text == nullptr || spec.kind != AttrKind::kDims) continue;
      KILN_ASSIGN_OR_RETURN(const Shape shape, ParseShape(*text));
      at->second = DimsValue(Substituted(shape, numbers_));
    }
    return attrs;
  }

  bool IsHandedOn(ValueId id) const {
    const std::vector<NodeId>& users = run_.graph.UsersOf(id);
    bool outside = users.empty() || run_.graph.IsOutput(id);
    for (const NodeId user : users) outside = outside || nodes_.count(user) == 0;
    return outside;
  }

  const GraphRun& run_;
  const std::set<NodeId>& nodes_;
  const int64_t most_constant_bytes_;
  std::map<std::string, Dim> numbers_;
  std::map<ValueId, ValueId> map_;
  GraphPart part_;
};

// The nodes from `value` up, each the first operand's, to one that `ends`; empty: there is none
// before a node that is not `passed`.
template <typename Ends, typename Passed>
std::vector<NodeId> PathUp(const Graph& graph, ValueId value, const Ends& ends,
                           const Passed& passed) {
  std::vector<NodeId> path;
  while (value.valid() && !ends(value)) {
    const NodeId producer = graph.value(value).producer;
    if (producer.v < 0 || !passed(producer) || graph.node(producer).inputs.empty()) return {};
    path.push_back(producer);
    value = graph.node(producer).inputs[0];
  }
  return value.valid() ? path : std::vector<NodeId>();
}

}  // namespace

absl::StatusOr<GraphPart> PartOf(const GraphRun& run, const std::set<NodeId>& nodes,
                                 const PartForm& form) {
  std::set<std::string> all, numbers;
  for (const auto& [symbol, value] : run.symbols) all.insert(symbol);
  if (!form.symbols) numbers = all;
  while (numbers != all) {
    absl::StatusOr<GraphPart> part =
        PartMaker(run, nodes, form.most_constant_bytes, numbers).Make();
    if (!part.ok()) break;
    const std::set<std::string> free = FreeSymbols(part->graph);
    if (free.empty()) {
      absl::StatusOr<SymbolValues> symbols = BindSymbols(part->graph, part->inputs);
      if (!symbols.ok()) break;
      part->symbols = *std::move(symbols);
      return part;
    }
    const size_t before = numbers.size();
    numbers.insert(free.begin(), free.end());
    if (numbers.size() == before) break;
  }
  return PartMaker(run, nodes, form.most_constant_bytes, all).Make();
}

std::set<NodeId> NodesOf(const Graph& graph, const Grouping& grouping, const Group& group) {
  std::set<NodeId> working;  // in groups that are no views
  for (const Group& other : grouping.groups) {
    if (other.kind != Group::Kind::kView) working.insert(other.nodes.begin(), other.nodes.end());
  }
  const std::set<NodeId> own(group.nodes.begin(), group.nodes.end());
  std::set<ValueId> bases;
  if (group.call) {
    for (const StridedView& view : group.call->inputs) bases.insert(view.base);
  }
  const auto ends = [&](ValueId id) {
    return bases.count(id) != 0 || own.count(graph.value(id).producer) != 0;
  };
  const auto passed = [&](NodeId id) {
    return working.count(id) == 0 && graph.node(id).op->kind == OpKind::kIndex;
  };
  std::set<NodeId> nodes = own;
  for (const NodeId id : group.nodes) {
    for (const ValueId input : graph.node(id).inputs) {
      const std::vector<NodeId> path = PathUp(graph, input, ends, passed);
      nodes.insert(path.begin(), path.end());
    }
  }
  return nodes;
}

}  // namespace kiln
