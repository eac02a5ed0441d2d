// SPDX-License-Identifier: Apache-2.0
#include "graph/check_node.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "graph/open_extents.h"

namespace kiln {
namespace {

constexpr size_t kMaxRank = 16;

bool Matches(AttrKind kind, const AttrValue& value) {
  switch (kind) {
    case AttrKind::kInt:
      return std::holds_alternative<int64_t>(value);
    case AttrKind::kFloat:
      return std::holds_alternative<double>(value);
    case AttrKind::kString:
      return std::holds_alternative<std::string>(value);
    case AttrKind::kInts:
      return std::holds_alternative<std::vector<int64_t>>(value);
    case AttrKind::kFloats:
      return std::holds_alternative<std::vector<double>>(value);
    case AttrKind::kType:
      return std::holds_alternative<DType>(value);
    case AttrKind::kTensor:
      return std::holds_alternative<Tensor>(value);
    case AttrKind::kDims: {
      const std::string* text = std::get_if<std::string>(&value);
      return text == nullptr ? std::holds_alternative<std::vector<int64_t>>(value)
                             : ParseShape(*text).ok();
    }
    case AttrKind::kGraph: {
      const Body* body = std::get_if<Body>(&value);
      return body != nullptr && *body != nullptr;
    }
    case AttrKind::kCustom: {
      const auto* op = std::get_if<std::shared_ptr<const CustomOp>>(&value);
      return op != nullptr && *op != nullptr;
    }
  }
  return false;
}

const char* KindName(AttrKind kind) {
  constexpr const char* kNames[] = {"an integer",         "a float",           "a string",
                                    "a list of integers", "a list of floats",  "an element type",
                                    "a tensor",           "a list of extents", "a graph",
                                    "a custom op"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace

std::string Subject(const Node& node) {
  return absl::StrCat("node \"", node.name, "\" (", node.op->name, ")");
}

absl::Status CheckInputs(const Graph& graph, const Node& node) {
  const OpDef& op = *node.op;
  const auto count = static_cast<int>(node.inputs.size());
  if (count < op.min_inputs || (op.max_inputs >= 0 && count > op.max_inputs)) {
    return absl::InvalidArgumentError(
        absl::StrCat(Subject(node), ": has ", count, " inputs; the op takes ", op.min_inputs,
                     op.max_inputs < 0                ? " or more"
                     : op.max_inputs == op.min_inputs ? ""
                                                      : absl::StrCat(" to ", op.max_inputs)));
  }
  // Of any number of like operands none may be missing; nodes with bodies have others in front.
  const bool alike = op.max_inputs < 0 && op.kind != OpKind::kControl && op.kind != OpKind::kHost;
  for (int k = 0; k < count; ++k) {
    const ValueId id = node.inputs[static_cast<size_t>(k)];
    if (!id.valid() && (alike || k < op.min_inputs)) {
      return absl::InvalidArgumentError(
          absl::StrCat(Subject(node), ": input ", k, " is absent; it is not optional"));
    }
    if (id.v >= static_cast<int64_t>(graph.values().size())) {
      return absl::InvalidArgumentError(absl::StrCat(Subject(node), ": input ", k, " is value ",
                                                     id.v, "; the graph has ",
                                                     graph.values().size()));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckAttrs(const Node& node) {
  for (const auto& [name, value] : node.attrs) {
    const auto spec = std::find_if(node.op->attrs.begin(), node.op->attrs.end(),
                                   [&name = name](const AttrSpec& s) { return name == s.name; });
    if (spec == node.op->attrs.end()) {
      return absl::InvalidArgumentError(absl::StrCat(Subject(node), ": has an attribute \"", name,
                                                     "\" that the op does not know"));
    }
    if (!Matches(spec->kind, value)) {
      return absl::InvalidArgumentError(
          absl::StrCat(Subject(node), ": attribute \"", name, "\" is not ", KindName(spec->kind)));
    }
  }
  for (const AttrSpec& spec : node.op->attrs) {
    if (spec.required && node.attrs.find(spec.name) == node.attrs.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(Subject(node), ": attribute \"", spec.name, "\" is missing"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckElements(const Shape& shape) {
  const auto extents = Constant(shape);
  const int64_t count = extents ? CheckedBytes(DType::kBool, *extents) : 0;
  if (count >= 0 && count <= kMaxElements) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(ToString(shape), " has more than ", kMaxElements, " elements"));
}

namespace {

bool HasSymbols(const InferContext& context) {
  for (int k = 0; k < context.num_inputs(); ++k) {
    if (context.has_input(k) && !Constant(context.shape(k))) return true;
  }
  return false;
}

// The number of elements can be written down, or this is right for no open extents at all: then the
// symbols become numbers.
void AssumeItsProduct(InferContext& context, const Shape& shape) {
  if (!Product(shape).is_error()) return;
  std::set<std::string> symbols;
  for (const Dim& dim : shape) dim.CollectSymbols(symbols);
  Dim sum;
  for (const std::string& symbol : symbols) sum = sum + Dim::Symbol(symbol);
  if (!symbols.empty()) context.Assume(Guard::Less(sum, 0));
}

}  // namespace

absl::Status InferNode(InferContext& context) {
  const Node& node = context.node();
  context.outputs.assign(node.outputs.size(), {});
  if (node.op->infer == nullptr)
    return absl::InternalError(absl::StrCat(Subject(node), ": the record has no rule"));
  KILN_RETURN_IF_ERROR(Annotate(node.op->infer(context), Subject(node)));
  for (const InferContext::Output& output : context.outputs) {
    if (output.shape.size() > kMaxRank) {
      return absl::UnimplementedError(absl::StrCat(Subject(node), ": the result has rank ",
                                                   output.shape.size(), "; the limit is ",
                                                   kMaxRank));
    }
    for (const Dim& dim : output.shape) {
      const Guard there = Guard::AtLeast(dim, 0);
      if (dim.is_error() && HasSymbols(context)) {
        return OpenExtentsError(absl::StrCat(
            Subject(node), ": an extent of the result is too long an expression of the inputs'"));
      }
      if (dim.is_error() || there.Static() == false) {
        return absl::InvalidArgumentError(absl::StrCat(
            Subject(node), ": the result would have the shape ", ToString(output.shape)));
      }
      context.Assume(there);
    }
    AssumeItsProduct(context, output.shape);
    const auto extents = Constant(output.shape);
    if (extents && CheckedBytes(output.type, *extents) < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          Subject(node), ": the result ", ToString(output.shape), " does not fit in 64 bits"));
    }
    KILN_RETURN_IF_ERROR(Annotate(CheckElements(output.shape), Subject(node)));
  }
  return absl::OkStatus();
}

}  // namespace kiln
