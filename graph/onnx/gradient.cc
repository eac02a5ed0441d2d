// SPDX-License-Identifier: Apache-2.0
// Gradient of ai.onnx.preview.training: names tensors of its graph, `xs`, `zs` and `y`, and gives
// the gradients of y by xs where xs and zs have the values of its inputs.
//
//   c = Add(a, b)
//   dc_da = Gradient <xs = ["a", "b"], y = "c"> (a, b)
//
// A named tensor has the value of its input, whatever other named ones change behind it. An input
// that is the tensor it stands for changes nothing, and its gradient is that of all ways to y, also
// through other inputs; for others what lies between is computed again.
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/onnx/importer.h"
#include "graph/op.h"
#include "kiln/gradients.h"

namespace kiln::onnx {
namespace {

struct GradientAttrs {
  std::vector<std::string> names;  // xs, then zs
  size_t xs = 0;
  std::string y;
};

absl::StatusOr<GradientAttrs> ReadAttrs(const NodeProto& node) {
  GradientAttrs attrs;
  std::vector<std::string> zs;
  for (const AttributeProto& attribute : node.attribute()) {
    const std::string& name = attribute.name();
    const bool one = name == "y";
    if (!one && name != "xs" && name != "zs")
      return absl::UnimplementedError(absl::StrCat("attribute ", Quoted(name), " is not known"));
    if (attribute.type() != (one ? AttributeProto::STRING : AttributeProto::STRINGS))
      return absl::InvalidArgumentError(
          absl::StrCat("attribute ", Quoted(name), " is no ", one ? "string" : "list of strings"));
    if (one) {
      attrs.y = attribute.s();
    } else {
      std::vector<std::string>& list = name == "xs" ? attrs.names : zs;
      list.assign(attribute.strings().begin(), attribute.strings().end());
    }
  }
  attrs.xs = attrs.names.size();
  attrs.names.insert(attrs.names.end(), zs.begin(), zs.end());
  if (attrs.xs == 0 || attrs.y.empty())
    return absl::InvalidArgumentError("needs attributes xs, one name at least, and y");
  if (node.input_size() != static_cast<int>(attrs.names.size())) {
    return absl::InvalidArgumentError(absl::StrCat("has ", node.input_size(), " inputs, expected ",
                                                   attrs.names.size(), ", one for each of xs, zs"));
  }
  if (node.output_size() > static_cast<int>(attrs.xs)) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", node.output_size(), " outputs, more than xs, ", attrs.xs));
  }
  return attrs;
}

// The nodes that `y` is made of.
std::set<NodeId> Makers(const Graph& graph, ValueId y) {
  std::set<NodeId> makers;
  std::vector<ValueId> work = {y};
  while (!work.empty()) {
    const Value& value = graph.value(work.back());
    work.pop_back();
    if (value.producer.v < 0 || !makers.insert(value.producer).second) continue;
    for (const ValueId input : graph.node(value.producer).inputs)
      if (input.valid()) work.push_back(input);
  }
  return makers;
}

// `y` with other values in place of those in `instead`.
ValueId Again(GraphBuilder& b, ValueId y, std::map<ValueId, ValueId> instead) {
  for (const NodeId id : Makers(b.graph(), y)) {  // ascending: in the order of the graph
    const Node node = b.graph().node(id);         // a copy: nodes move when some are added
    std::vector<ValueId> inputs = node.inputs;
    bool other = false;
    for (ValueId& input : inputs) {
      const auto found = instead.find(input);
      if (found == instead.end() || found->second == input) continue;
      input = found->second;
      other = true;
    }
    if (!other) continue;
    const std::vector<ValueId> made = b.Ops(node.op->name, std::move(inputs), node.attrs);
    for (size_t k = 0; k < made.size(); ++k) instead.emplace(node.outputs[k], made[k]);
  }
  const auto found = instead.find(y);
  return found == instead.end() ? y : found->second;
}

}  // namespace

absl::Status Importer::AddGradient(Scope& scope, const NodeProto& node,
                                   const std::vector<Slot>& inputs, std::vector<Slot>& outputs) {
  KILN_ASSIGN_OR_RETURN(const GradientAttrs attrs, ReadAttrs(node));
  if (scope.graph != main_.graph)
    return absl::UnimplementedError("in a branch or in the body of a loop");
  const auto tensor = [&](const std::string& name) -> absl::StatusOr<ValueId> {
    const Slot* slot = Find(scope, name);
    if (slot == nullptr)
      return absl::InvalidArgumentError(
          absl::StrCat(Quoted(name), " is no tensor that is known before this node"));
    if (slot->kind != Slot::Kind::kTensor || slot->missing())
      return absl::UnimplementedError(absl::StrCat(Quoted(name), " is no tensor here"));
    return slot->id;
  };
  const size_t nodes = scope.graph->nodes().size();
  GraphBuilder b(scope.graph);
  std::vector<ValueId> given;
  std::map<ValueId, ValueId> instead;
  for (size_t k = 0; k < attrs.names.size(); ++k) {
    KILN_ASSIGN_OR_RETURN(const ValueId named, tensor(attrs.names[k]));
    if (inputs[k].kind != Slot::Kind::kTensor)
      return absl::InvalidArgumentError(absl::StrCat("input ", k, " is no tensor"));
    given.push_back(inputs[k].id);
    if (instead.count(named) != 0)
      return absl::InvalidArgumentError(absl::StrCat(
          Quoted(attrs.names[k]), " is named twice, or is another named tensor by another name"));
    instead[named] = named;
    if (given.back() == named) continue;
    const Value &is = scope.graph->value(given.back()), &was = scope.graph->value(named);
    if (is.type != was.type || is.shape != was.shape) {
      return absl::InvalidArgumentError(
          absl::StrCat("input ", k, " is ", Name(is.type), " ", ToString(is.shape), ", ",
                       Quoted(attrs.names[k]), " ", Name(was.type), " ", ToString(was.shape)));
    }
    given.back() = b.Op("identity", {given.back()});  // each name has a derivative of its own
    instead[named] = given.back();
  }
  KILN_ASSIGN_OR_RETURN(const ValueId y, tensor(attrs.y));
  const ValueId loss = Again(b, y, std::move(instead));
  KILN_RETURN_IF_ERROR(b.status());
  given.resize(attrs.xs);
  KILN_ASSIGN_OR_RETURN(const std::vector<ValueId> gradients, Gradients(b, loss, given));
  for (size_t k = 0; k < outputs.size(); ++k) outputs[k].id = gradients[k];
  return CountInner(static_cast<int64_t>(scope.graph->nodes().size() - nodes));
}

}  // namespace kiln::onnx
