// SPDX-License-Identifier: Apache-2.0
#include "compiler/output_ports.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/op.h"
#include "graph/rebuild.h"

namespace kiln {
namespace {

// Infers node after node once more, each without the guards of the others. Where a node needs a
// guard of its own, the extents of its results become symbols of this class, and what follows is
// inferred from these.
class Unassumed {
 public:
  explicit Unassumed(const Graph& graph) : graph_(graph), values_(graph.values()) {
    for (const Node& node : graph.nodes()) Follow(node);
  }

  bool IsOpen(ValueId id, size_t axis) const {
    std::set<std::string> symbols;
    values_[static_cast<size_t>(id.v)].shape[axis].CollectSymbols(symbols);
    return std::any_of(symbols.begin(), symbols.end(),
                       [&](const std::string& symbol) { return made_.count(symbol) > 0; });
  }

 private:
  const Value& At(ValueId id) const { return values_[static_cast<size_t>(id.v)]; }

  Dim Fresh() {
    const std::string name = absl::StrCat("kiln.open", made_.size());
    made_.insert(name);
    return Dim::Symbol(name);
  }

  // Whether attributes may hold extents that were found under guards: those that inputs have
  // become, and in an imported graph all lists of extents (Graph::maker).
  bool HasFoundExtents(const Node& node) const {
    return std::any_of(node.op->attrs.begin(), node.op->attrs.end(), [&](const AttrSpec& spec) {
      return spec.kind == AttrKind::kDims && node.attrs.count(spec.name) > 0 &&
             (graph_.maker != nullptr || !node.operands.empty());
    });
  }

  // The outputs, if they are the same under any guards.
  bool Infer(const Node& node) {
    Graph alone;
    std::vector<ValueId> inputs;
    std::map<ValueId, ValueId> known;
    for (const ValueId id : node.inputs) {
      const auto [at, fresh] = known.emplace(id, ValueId{});
      if (id.valid() && fresh) {
        at->second = alone.AddInput(At(id).name, At(id).type, At(id).shape);
        alone.mutable_value(at->second).constant = At(id).constant;
        alone.mutable_value(at->second).shape_content = At(id).shape_content;
      }
      inputs.push_back(at->second);
    }
    const auto made = alone.AddNode(*node.op, std::move(inputs), node.attrs, node.name,
                                    std::vector<std::string>(node.outputs.size()));
    if (!made.ok() || !alone.guards().empty()) return false;
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      Value& output = values_[static_cast<size_t>(node.outputs[k].v)];
      const Value& inferred = alone.value((*made)[k]);
      if (inferred.shape.size() != output.shape.size()) return false;
      output.shape = inferred.shape;
      output.shape_content = inferred.shape_content;
    }
    return true;
  }

  // The axis of an elementwise result has nothing to do with other axes.
  bool IsFixed(const Node& node, const Dim& extent, size_t from_end) const {
    if (node.op->kind != OpKind::kScalar || !extent.constant()) return false;
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
      if (!id.valid() || At(id).shape.size() < from_end) return true;
      return At(id).shape[At(id).shape.size() - from_end].constant().has_value();
    });
  }

  void Follow(const Node& node) {
    if (!HasFoundExtents(node) && Infer(node)) return;
    for (const ValueId id : node.outputs) {
      Value& output = values_[static_cast<size_t>(id.v)];
      output.shape_content.reset();
      for (size_t axis = 0; axis < output.shape.size(); ++axis) {
        if (!IsFixed(node, output.shape[axis], output.shape.size() - axis))
          output.shape[axis] = Fresh();
      }
    }
  }

  const Graph& graph_;
  std::vector<Value> values_;
  std::set<std::string> made_;
};

bool AssumesExtents(const Graph& graph) {
  const auto assumes = [](const Guard& guard) { return guard.kind != Guard::Kind::kValue; };
  if (std::any_of(graph.guards().begin(), graph.guards().end(), assumes)) return true;
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
    return std::any_of(node.attrs.begin(), node.attrs.end(), [](const auto& attr) {
      const Body* const body = std::get_if<Body>(&attr.second);
      return body != nullptr && AssumesExtents(**body);
    });
  });
}

}  // namespace

std::vector<PortInfo> OutputPorts(const Graph& graph) {
  std::vector<PortInfo> ports;
  for (const Graph::Output& output : graph.outputs()) {
    const Value& value = graph.value(output.value);
    ports.push_back({output.name, value.type, value.shape, false});
  }
  if (!AssumesExtents(graph)) return ports;
  const Unassumed unassumed(graph);
  std::set<std::string> taken = FreeSymbols(graph);
  for (const ValueId id : graph.inputs()) {
    for (const Dim& dim : graph.value(id).shape) dim.CollectSymbols(taken);
  }
  for (size_t k = 0; k < ports.size(); ++k) {
    for (size_t axis = 0; axis < ports[k].shape.size(); ++axis) {
      Dim& extent = ports[k].shape[axis];
      if (!extent.constant() || !unassumed.IsOpen(graph.outputs()[k].value, axis)) continue;
      std::string name = absl::StrCat(ports[k].name, "_dim", axis);
      while (!taken.insert(name).second) name += "_";
      extent = Dim::Symbol(name);
    }
  }
  return ports;
}

}  // namespace kiln
