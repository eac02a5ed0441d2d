// SPDX-License-Identifier: Apache-2.0
// Sequences and optional values: known at import, so that nothing of them is left in the graph.
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/graph.h"
#include "graph/onnx/importer.h"
#include "graph/onnx/limits.h"
#include "graph/onnx/node_view.h"
#include "graph/op.h"
#include "graph/tensors.h"
#include "kiln/graph.h"

namespace kiln::onnx {
namespace {

int64_t IntOf(const NodeProto& node, absl::string_view name, int64_t otherwise) {
  const AttributeProto* attribute = FindAttribute(node, name);
  return attribute != nullptr ? attribute->i() : otherwise;
}

Tensor OneOf(DType type, int64_t value) {
  Tensor tensor = Tensor::Allocate(type, {});
  WriteInt(tensor, 0, value);
  return tensor;
}

absl::Status WantsSequence(const std::vector<Slot>& inputs) {
  if (!inputs.empty() && inputs[0].kind == Slot::Kind::kSequence) return absl::OkStatus();
  return absl::UnimplementedError("the sequence is not known at import");
}

// What nodes take as a tensor may be a sequence, or an optional without a value.
absl::Status WantsTensor(const std::vector<Slot>& inputs, size_t k) {
  if (k < inputs.size() && inputs[k].kind == Slot::Kind::kTensor && inputs[k].id.valid())
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("input ", k, " is no tensor"));
}

// The place that input k names in a sequence of `size`; `size` itself if the input is left out.
absl::StatusOr<size_t> Place(const Graph& graph, const std::vector<Slot>& inputs, size_t k,
                             size_t size, bool insert) {
  if (k >= inputs.size() || inputs[k].kind == Slot::Kind::kNone) return size;
  KILN_RETURN_IF_ERROR(WantsTensor(inputs, k));
  const std::optional<Shape> content = ContentOf(graph.value(inputs[k].id));
  const std::optional<std::vector<int64_t>> numbers =
      content ? kiln::Constant(*content) : std::nullopt;
  if (!numbers || numbers->size() != 1)
    return absl::UnimplementedError("the position in the sequence is known only at run time");
  const auto n = static_cast<int64_t>(size);
  const int64_t at = (*numbers)[0] < 0 ? (*numbers)[0] + n : (*numbers)[0];
  if (at < 0 || at > n || (at == n && !insert)) {
    return absl::InvalidArgumentError(
        absl::StrCat("position ", (*numbers)[0], " in a sequence of ", size));
  }
  return static_cast<size_t>(at);
}

absl::Status TooManyParts(int64_t parts) {
  return absl::ResourceExhaustedError(
      absl::StrCat("makes ", parts, " parts, more than ", kMaxParts));
}

// A tensor along an axis: into parts of given sizes, or into slices of one.
absl::StatusOr<std::vector<ValueId>> SplitTensor(Graph& graph, const NodeProto& node,
                                                 const std::vector<Slot>& inputs) {
  KILN_RETURN_IF_ERROR(WantsTensor(inputs, 0));
  const ValueId x = inputs[0].id;
  const auto rank = static_cast<int64_t>(graph.value(x).shape.size());
  int64_t axis = IntOf(node, "axis", 0);
  if (axis < -rank || axis >= rank)
    return absl::InvalidArgumentError(absl::StrCat("axis ", axis, " of a tensor of rank ", rank));
  axis = axis < 0 ? axis + rank : axis;
  const std::optional<int64_t> extent = graph.value(x).shape[static_cast<size_t>(axis)].constant();
  if (!extent) return absl::UnimplementedError("the number of parts is known only at run time");
  std::vector<int64_t> sizes;
  bool keep = true;
  if (inputs.size() < 2 || inputs[1].kind == Slot::Kind::kNone) {
    if (*extent > kMaxParts) return TooManyParts(*extent);
    sizes.assign(static_cast<size_t>(*extent), 1);
    keep = IntOf(node, "keepdims", 1) != 0;
  } else {
    KILN_RETURN_IF_ERROR(WantsTensor(inputs, 1));
    const Value& split = graph.value(inputs[1].id);
    const std::optional<Shape> content = ContentOf(split);
    const std::optional<std::vector<int64_t>> numbers =
        content ? kiln::Constant(*content) : std::nullopt;
    if (!numbers) return absl::UnimplementedError("the parts are known only at run time");
    sizes = *numbers;
    if (split.shape.empty()) {
      const int64_t part = sizes[0];
      if (part <= 0) return absl::InvalidArgumentError(absl::StrCat("parts of ", part));
      sizes.clear();
      if (*extent / part >= kMaxParts) return TooManyParts(*extent / part);
      for (int64_t at = 0; at < *extent; at += part) sizes.push_back(std::min(part, *extent - at));
    }
  }
  if (std::ssize(sizes) > kMaxParts) return TooManyParts(std::ssize(sizes));
  GraphBuilder b(&graph);
  std::vector<ValueId> parts;
  int64_t at = 0;
  for (const int64_t size : sizes) {
    if (size < 0 || size > *extent - at)
      return absl::InvalidArgumentError(
          absl::StrCat("a part of ", size, " from ", at, " on, of an axis of ", *extent));
    const auto one = [](int64_t v) { return std::vector<int64_t>{v}; };
    ValueId part = b.Op(
        "slice", {x},
        {{"starts", one(at)}, {"ends", one(at + size)}, {"axes", one(axis)}, {"steps", one(1)}});
    if (!keep) part = b.Op("squeeze", {part}, {{"axes", one(axis)}});
    parts.push_back(part);
    at += size;
  }
  KILN_RETURN_IF_ERROR(b.status());
  if (at != *extent)
    return absl::InvalidArgumentError(absl::StrCat("parts of ", at, " for an axis of ", *extent));
  return parts;
}

absl::StatusOr<ValueId> Joined(Graph& graph, const NodeProto& node, const Slot& sequence) {
  GraphBuilder b(&graph);
  const int64_t axis = IntOf(node, "axis", 0);
  std::vector<ValueId> parts = sequence.items;
  if (parts.empty()) return absl::InvalidArgumentError("the sequence is empty");
  if (IntOf(node, "new_axis", 0) != 0) {
    for (ValueId& part : parts)
      part = b.Op("unsqueeze", {part}, {{"axes", std::vector<int64_t>{axis}}});
  }
  const ValueId joined = b.Op("concat", parts, {{"axis", axis}});
  KILN_RETURN_IF_ERROR(b.status());
  return joined;
}

}  // namespace

absl::StatusOr<bool> Importer::AddSequenceOp(Scope& scope, const NodeProto& node,
                                             const std::vector<Slot>& inputs,
                                             std::vector<Slot>& outputs) {
  Graph& graph = *scope.graph;
  const std::string& op = node.op_type();
  const auto sequence = [&](std::vector<ValueId> items) -> absl::StatusOr<bool> {
    sequence_items_ += std::ssize(items);
    if (sequence_items_ > kMaxSequenceItems) {
      return absl::ResourceExhaustedError(
          absl::StrCat("sequences have more than ", kMaxSequenceItems, " items together"));
    }
    if (!outputs.empty()) outputs[0] = {.kind = Slot::Kind::kSequence, .items = std::move(items)};
    return true;
  };
  const auto tensor = [&](ValueId id) {
    if (!outputs.empty()) outputs[0] = {.id = id};
    return true;
  };
  if (op == "Identity" || op == "OptionalGetElement" || op == "Optional") {
    const bool folds =
        op != "Identity" || (!inputs.empty() && inputs[0].kind != Slot::Kind::kTensor);
    if (!folds) return false;
    const Slot none = {.kind = Slot::Kind::kNone};
    if (op == "OptionalGetElement" && (inputs.empty() || inputs[0].kind == none.kind))
      return absl::InvalidArgumentError("the optional has no value");
    if (!outputs.empty()) outputs[0] = inputs.empty() ? none : inputs[0];
    return true;
  }
  if (op == "OptionalHasElement") {
    const bool has = !inputs.empty() && inputs[0].kind != Slot::Kind::kNone;
    return tensor(graph.AddConstant("", OneOf(DType::kBool, has ? 1 : 0)));
  }
  if (op == "SequenceEmpty") return sequence({});
  if (op == "SequenceConstruct") {
    std::vector<ValueId> items;
    for (size_t k = 0; k < inputs.size(); ++k) {
      KILN_RETURN_IF_ERROR(WantsTensor(inputs, k));
      items.push_back(inputs[k].id);
    }
    return sequence(std::move(items));
  }
  if (op == "SplitToSequence") {
    KILN_ASSIGN_OR_RETURN(std::vector<ValueId> parts, SplitTensor(graph, node, inputs));
    KILN_RETURN_IF_ERROR(CountInner(std::ssize(parts)));
    return sequence(std::move(parts));
  }
  const bool takes_sequence = op == "SequenceAt" || op == "SequenceLength" ||
                              op == "SequenceInsert" || op == "SequenceErase" ||
                              op == "ConcatFromSequence";
  if (!takes_sequence) return false;
  KILN_RETURN_IF_ERROR(WantsSequence(inputs));
  std::vector<ValueId> items = inputs[0].items;
  if (op == "SequenceLength")
    return tensor(graph.AddConstant("", OneOf(DType::kI64, static_cast<int64_t>(items.size()))));
  if (op == "ConcatFromSequence") {
    KILN_RETURN_IF_ERROR(CountInner(std::ssize(items)));
    KILN_ASSIGN_OR_RETURN(const ValueId joined, Joined(graph, node, inputs[0]));
    return tensor(joined);
  }
  if (op == "SequenceInsert") {
    KILN_RETURN_IF_ERROR(WantsTensor(inputs, 1));
    KILN_ASSIGN_OR_RETURN(const size_t at, Place(graph, inputs, 2, items.size(), true));
    items.insert(items.begin() + static_cast<std::ptrdiff_t>(at), inputs[1].id);
    return sequence(std::move(items));
  }
  if (items.empty()) return absl::InvalidArgumentError("the sequence is empty");
  KILN_ASSIGN_OR_RETURN(size_t at, Place(graph, inputs, 1, items.size(), false));
  if (at == items.size()) --at;  // left out: the last
  if (op == "SequenceAt") return tensor(items[at]);
  items.erase(items.begin() + static_cast<std::ptrdiff_t>(at));
  return sequence(std::move(items));
}

}  // namespace kiln::onnx
