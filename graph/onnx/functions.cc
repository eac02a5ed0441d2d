// SPDX-License-Identifier: Apache-2.0
// Functions of the model are written out where they are called, and custom ops of the caller's are
// composed or entered as such.
#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "graph/custom_op.h"
#include "graph/onnx/importer.h"
#include "graph/onnx/node_view.h"
#include "graph/op.h"

namespace kiln::onnx {
namespace {

std::string KeyOf(absl::string_view domain, absl::string_view name, absl::string_view overload) {
  return absl::StrCat(DomainOf(domain), "\n", name, "\n", overload);
}

using AttributeMap = std::map<std::string, const AttributeProto*>;

// Attributes of a function's nodes that refer to those of the call take their values, in graphs of
// these nodes too. An attribute that the call does not give is not given.
void ReplaceReferences(NodeProto& node, const AttributeMap& given) {
  for (int k = node.attribute_size() - 1; k >= 0; --k) {
    AttributeProto& attribute = *node.mutable_attribute(k);
    if (!attribute.ref_attr_name().empty()) {
      const auto found = given.find(attribute.ref_attr_name());
      if (found == given.end()) {
        node.mutable_attribute()->DeleteSubrange(k, 1);
        continue;
      }
      const std::string name = attribute.name();
      attribute = *found->second;
      attribute.set_name(name);
    }
    if (attribute.has_g()) {
      for (NodeProto& inner : *attribute.mutable_g()->mutable_node())
        ReplaceReferences(inner, given);
    }
  }
}

absl::StatusOr<Attrs> AttrsOf(const NodeProto& node, TensorSource& source) {
  Attrs attrs;
  for (const AttributeProto& a : node.attribute()) {
    AttrValue& value = attrs[a.name()];
    switch (a.type()) {
      case AttributeProto::INT:
        value = a.i();
        break;
      case AttributeProto::FLOAT:
        value = double{a.f()};
        break;
      case AttributeProto::STRING:
        value = a.s();
        break;
      case AttributeProto::INTS:
        value = std::vector<int64_t>(a.ints().begin(), a.ints().end());
        break;
      case AttributeProto::FLOATS:
        value = std::vector<double>(a.floats().begin(), a.floats().end());
        break;
      case AttributeProto::TENSOR: {
        KILN_ASSIGN_OR_RETURN(value, ToTensor(a.t(), source));
        break;
      }
      default:
        return absl::UnimplementedError(absl::StrCat("attribute ", Quoted(a.name()),
                                                     " has a type that custom ops do not take"));
    }
  }
  return attrs;
}

}  // namespace

const FunctionProto* Importer::FindFunction(const NodeProto& node) const {
  const auto found = functions_.find(KeyOf(node.domain(), node.op_type(), node.overload()));
  return found == functions_.end() ? nullptr : found->second;
}

absl::StatusOr<Importer::Expansion> Importer::ExpansionOf(
    const google::protobuf::RepeatedPtrField<NodeProto>& nodes) {
  Expansion sum;
  const auto add = [&sum](const Expansion& part) {
    sum.nodes = std::min(sum.nodes + part.nodes, kMaxExpandedNodes + 1);
    sum.depth = std::max(sum.depth, part.depth);
  };
  for (const NodeProto& node : nodes) {
    for (const AttributeProto& attribute : node.attribute()) {
      if (!attribute.has_g()) continue;
      KILN_ASSIGN_OR_RETURN(const Expansion inner, ExpansionOf(attribute.g().node()));
      add(inner);
    }
    const FunctionProto* const function = FindFunction(node);
    if (function == nullptr) continue;
    const absl::StatusOr<Expansion> inner = ExpansionOf(*function);
    if (!inner.ok()) return Annotate(inner.status(), Subject(node));
    add(*inner);
  }
  return sum;
}

absl::StatusOr<Importer::Expansion> Importer::ExpansionOf(const FunctionProto& function) {
  if (const auto known = expansions_.find(&function); known != expansions_.end())
    return known->second;
  if (!active_.insert(&function).second)
    return absl::InvalidArgumentError("the function calls itself; functions must not be cyclic");
  const absl::Cleanup leave = [&] { active_.erase(&function); };
  Expansion made;
  if (static_cast<int>(active_.size()) <= kMaxGraphDepth) {
    KILN_ASSIGN_OR_RETURN(made, ExpansionOf(function.node()));
  }
  made.nodes += function.node_size();
  ++made.depth;
  if (made.depth > kMaxGraphDepth || static_cast<int>(active_.size()) > kMaxGraphDepth) {
    return absl::ResourceExhaustedError(
        absl::StrCat("functions call each other more than ", kMaxGraphDepth, " deep"));
  }
  if (made.nodes > kMaxExpandedNodes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("functions expand to more than ", kMaxExpandedNodes, " nodes"));
  }
  expansions_[&function] = made;
  return made;
}

absl::Status Importer::CheckFunctions() {
  if (functions_.empty()) return absl::OkStatus();
  for (const auto& [key, function] : functions_) {
    const absl::StatusOr<Expansion> made = ExpansionOf(*function);
    if (!made.ok())
      return Annotate(made.status(), absl::StrCat("function ", Quoted(function->name())));
  }
  KILN_ASSIGN_OR_RETURN(const Expansion all, ExpansionOf(model_.graph().node()));
  if (all.nodes <= kMaxExpandedNodes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("functions expand to more than ", kMaxExpandedNodes, " nodes"));
}

absl::Status Importer::Expand(Scope& scope, const NodeProto& node, const FunctionProto& function,
                              const std::vector<Slot>& inputs, std::vector<Slot>& outputs) {
  if (static_cast<int>(inputs.size()) > function.input_size() ||
      node.output_size() > function.output_size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "has ", inputs.size(), " inputs and ", node.output_size(), " outputs; the function has ",
        function.input_size(), " and ", function.output_size()));
  }
  Scope inner;
  inner.graph = scope.graph;
  inner.opsets = scope.opsets;
  for (const OperatorSetIdProto& import : function.opset_import())
    inner.opsets[DomainOf(import.domain())] = import.version();
  for (int k = 0; k < function.input_size(); ++k) {
    const bool given = static_cast<size_t>(k) < inputs.size();
    KILN_RETURN_IF_ERROR(
        Define(inner, function.input(k),
               given ? inputs[static_cast<size_t>(k)] : Slot{.kind = Slot::Kind::kNone}));
  }
  AttributeMap given;
  for (const AttributeProto& a : function.attribute_proto()) given[a.name()] = &a;
  for (const AttributeProto& a : node.attribute()) given[a.name()] = &a;
  for (const NodeProto& original : function.node()) {
    KILN_RETURN_IF_ERROR(CountInner());
    NodeProto copy = original;
    copy.set_name(absl::StrCat(NameOf(node), "/", NameOf(original)));
    ReplaceReferences(copy, given);
    KILN_RETURN_IF_ERROR(Annotate(AddNode(inner, copy), Subject(copy)));
  }
  for (int k = 0; k < node.output_size(); ++k) {
    if (node.output(k).empty()) continue;
    const Slot* slot = Find(inner, function.output(k));
    if (slot == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("no node of the function makes its output ", Quoted(function.output(k))));
    }
    outputs[static_cast<size_t>(k)] = *slot;
  }
  return absl::OkStatus();
}

std::shared_ptr<const CustomOp> Importer::FindCustom(const NodeProto& node) const {
  for (const std::shared_ptr<const CustomOp>& op : options_.custom_ops) {
    if (op != nullptr && op->name == node.op_type() && op->domain == node.domain()) return op;
  }
  return nullptr;
}

absl::Status Importer::AddCustom(Scope& scope, const NodeProto& node, const CustomOp& op,
                                 const std::vector<ValueId>& inputs, std::vector<Slot>& outputs) {
  KILN_ASSIGN_OR_RETURN(const Attrs attrs, AttrsOf(node, source_));
  KILN_ASSIGN_OR_RETURN(const std::vector<ValueId> made,
                        AddCustomOp(*scope.graph, op, {inputs, attrs}, NameOf(node)));
  if (made.size() < outputs.size())
    return absl::InvalidArgumentError(absl::StrCat("custom op ", Quoted(op.name), " gives ",
                                                   made.size(), " outputs, the node names ",
                                                   outputs.size()));
  for (size_t k = 0; k < outputs.size(); ++k) outputs[k].id = made[k];
  return absl::OkStatus();
}

}  // namespace kiln::onnx
