// SPDX-License-Identifier: Apache-2.0
#include "graph/rebuild.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/op.h"

namespace kiln {
namespace {

using Replacements = std::map<std::string, Dim>;

// Attributes say symbols in lists of extents and in bodies.
absl::Status SubstituteAttrs(const OpDef& op, const Replacements& symbols, Attrs& attrs) {
  for (const AttrSpec& spec : op.attrs) {
    const auto at = attrs.find(spec.name);
    if (at == attrs.end()) continue;
    if (const auto* text = std::get_if<std::string>(&at->second);
        text != nullptr && spec.kind == AttrKind::kDims) {
      KILN_ASSIGN_OR_RETURN(const Shape shape, ParseShape(*text));
      at->second = DimsValue(Substituted(shape, symbols));
    } else if (const auto* body = std::get_if<Body>(&at->second)) {
      KILN_ASSIGN_OR_RETURN(Graph made, WithSymbols(**body, symbols));
      at->second = std::make_shared<const Graph>(std::move(made));
    }
  }
  return absl::OkStatus();
}

// Attributes without those that operands say: under other extents these may say something else.
Attrs GivenAttrs(const Node& node) {
  Attrs attrs = node.attrs;
  for (const AttrSpec& spec : node.op->attrs) {
    const auto input = static_cast<size_t>(spec.input);
    if (spec.input >= 0 && input < node.operands.size() && node.operands[input].valid())
      attrs.erase(spec.name);
  }
  return attrs;
}

absl::StatusOr<Graph> Rebuilt(const Graph& graph, const std::vector<Shape>& input_shapes,
                              const Replacements& symbols) {
  KILN_RETURN_IF_ERROR(CheckPremises(graph, symbols));
  Graph out;
  out.name = graph.name;
  out.premises = graph.premises;
  std::vector<ValueId> map(graph.values().size());
  for (size_t k = 0; k < graph.inputs().size(); ++k) {
    const Value& input = graph.value(graph.inputs()[k]);
    const ValueId id = out.AddInput(input.name, input.type, input_shapes[k]);
    if (input.shape_content)
      out.mutable_value(id).shape_content = Substituted(*input.shape_content, symbols);
    map[static_cast<size_t>(graph.inputs()[k].v)] = id;
  }
  for (size_t v = 0; v < graph.values().size(); ++v) {
    const Value& value = graph.values()[v];
    if (value.producer.v < 0 && value.constant.has_value()) {
      // An input whose value is assumed stays an input.
      if (map[v].valid()) {
        out.mutable_value(map[v]).constant = value.constant;
      } else {
        map[v] = out.AddConstant(value.name, *value.constant, value.literal);
      }
    }
  }
  for (const Node& node : graph.nodes()) {
    std::vector<ValueId> inputs;
    for (ValueId id : node.operands.empty() ? node.inputs : node.operands)
      inputs.push_back(id.valid() ? map[static_cast<size_t>(id.v)] : ValueId{});
    std::vector<std::string> names;
    for (ValueId id : node.outputs) names.push_back(graph.value(id).name);
    Attrs attrs = GivenAttrs(node);
    if (!symbols.empty()) KILN_RETURN_IF_ERROR(SubstituteAttrs(*node.op, symbols, attrs));
    KILN_ASSIGN_OR_RETURN(
        const std::vector<ValueId> outputs,
        out.AddNode(*node.op, std::move(inputs), std::move(attrs), node.name, std::move(names)));
    for (size_t k = 0; k < outputs.size(); ++k)
      map[static_cast<size_t>(node.outputs[k].v)] = outputs[k];
  }
  for (const Graph::Output& output : graph.outputs())
    out.AddOutput(map[static_cast<size_t>(output.value.v)], output.name);
  for (const Guard& guard : graph.guards()) {
    if (guard.kind == Guard::Kind::kValue) out.AddGuard(guard);
  }
  return out;
}

}  // namespace

absl::Status CheckPremises(const Graph& graph, const Replacements& symbols) {
  for (Guard guard : graph.premises) {
    const std::string premise = guard.ToString();
    guard.left = guard.left.Substitute(symbols);
    guard.right = guard.right.Substitute(symbols);
    if (guard.Static() == false)
      return absl::FailedPreconditionError(
          absl::StrCat("graph \"", graph.name, "\": its gradients are made for extents with \"",
                       premise, "\", which do not hold; build it for these extents"));
  }
  return absl::OkStatus();
}

Shape Substituted(const Shape& shape, const Replacements& symbols) {
  Shape out;
  for (const Dim& dim : shape) out.push_back(dim.Substitute(symbols));
  return out;
}

std::map<std::string, Dim> SymbolsSaidBy(const Graph& graph, const std::vector<Shape>& shapes) {
  Replacements symbols;
  for (size_t k = 0; k < graph.inputs().size(); ++k) {
    const Shape& from = graph.value(graph.inputs()[k]).shape;
    for (size_t axis = 0; axis < from.size(); ++axis) {
      const std::string symbol = SymbolOf(from[axis]);
      if (!symbol.empty() && !(from[axis] == shapes[k][axis]))
        symbols.emplace(symbol, shapes[k][axis]);
    }
  }
  return symbols;
}

std::string SymbolOf(const Dim& dim) {
  const std::vector<Dim::Term>& terms = dim.terms();
  const bool plain = terms.size() == 1 && terms[0].coef == 1 && terms[0].atoms.size() == 1 &&
                     terms[0].atoms[0].kind == Dim::Atom::Kind::kSymbol;
  return plain ? terms[0].atoms[0].symbol : "";
}

absl::StatusOr<Graph> WithInputShapes(const Graph& graph, const std::vector<Shape>& input_shapes) {
  if (graph.maker != nullptr) return (*graph.maker)(input_shapes);
  return Rebuilt(graph, input_shapes, SymbolsSaidBy(graph, input_shapes));
}

absl::StatusOr<Graph> WithSymbols(const Graph& graph, const Replacements& symbols) {
  if (symbols.empty()) return graph;
  std::vector<Shape> shapes;
  for (const ValueId id : graph.inputs())
    shapes.push_back(Substituted(graph.value(id).shape, symbols));
  if (graph.maker != nullptr) return (*graph.maker)(shapes);
  return Rebuilt(graph, shapes, symbols);
}

std::set<std::string> SymbolsOf(const Graph& graph, const Node& node) {
  std::set<std::string> symbols;
  const auto add = [&](const Shape& shape) {
    for (const Dim& dim : shape) dim.CollectSymbols(symbols);
  };
  for (const ValueId id : node.outputs) {
    add(graph.value(id).shape);
    if (graph.value(id).shape_content) add(*graph.value(id).shape_content);
  }
  for (const AttrSpec& spec : node.op->attrs) {
    const auto at = node.attrs.find(spec.name);
    if (at == node.attrs.end()) continue;
    if (spec.kind == AttrKind::kDims) add(DimsAttr(node, spec.name));
    if (const auto* body = std::get_if<Body>(&at->second)) symbols.merge(FreeSymbols(**body));
  }
  return symbols;
}

std::set<std::string> FreeSymbols(const Graph& graph) {
  std::set<std::string> symbols;
  for (const ValueId id : graph.inputs()) {
    const Value& input = graph.value(id);
    for (const Dim& dim : input.shape) dim.CollectSymbols(symbols);
    if (!input.shape_content) continue;
    for (const Dim& dim : *input.shape_content) dim.CollectSymbols(symbols);
  }
  for (const Node& node : graph.nodes()) symbols.merge(SymbolsOf(graph, node));
  const auto known = [&](const std::string& symbol) { symbols.erase(symbol); };
  for (const ValueId id : graph.inputs()) ForEachLearned(graph.value(id), known);
  for (const Node& node : graph.nodes()) {
    if (!node.op->dynamic) continue;
    for (const ValueId id : node.outputs) ForEachLearned(graph.value(id), known);
  }
  return symbols;
}

void ForEachLearned(const Value& value, const std::function<void(const std::string&)>& f) {
  for (const Shape* dims : {&value.shape, value.shape_content ? &*value.shape_content : nullptr}) {
    if (dims == nullptr) continue;
    for (const Dim& dim : *dims) {
      if (const std::string symbol = SymbolOf(dim); !symbol.empty()) f(symbol);
    }
  }
}

std::set<std::string> ToldByInputs(const Graph& graph) {
  std::set<std::string> told;
  for (const ValueId id : graph.inputs())
    ForEachLearned(graph.value(id), [&](const std::string& symbol) { told.insert(symbol); });
  return told;
}

bool IsOnlyAbout(const Guard& guard, const std::set<std::string>& symbols) {
  const std::set<std::string> own = guard.Symbols();
  return std::includes(symbols.begin(), symbols.end(), own.begin(), own.end());
}

}  // namespace kiln
