// SPDX-License-Identifier: Apache-2.0
// Operators whose results have as many elements as the data say, and rows for what the importer
// does itself (control_flow.cc, sequences.cc).
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/onnx/converter.h"
#include "graph/onnx/node_view.h"
#include "graph/op.h"

namespace kiln::onnx {
namespace {

absl::Status Structural(NodeView&) {
  return absl::UnimplementedError("a tensor is given where a sequence is expected");
}

absl::Status NonZero(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  ValueId x = n.in(0);
  // A number counts as a list of one.
  if (n.rank(0) == 0) x = n.Op("unsqueeze", {x}, {{"axes", std::vector<int64_t>{0}}});
  return n.Emit("nonzero", {x},
                {{"extents", DimsValue({std::max<int64_t>(1, n.rank(0)), n.NewSymbol("count")})}});
}

absl::Status Compress(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 2));
  Attrs attrs;
  Shape extents = {n.NewSymbol("count")};
  if (n.HasAttr("axis")) {
    KILN_ASSIGN_OR_RETURN(const int64_t axis, n.Axis(n.Int("axis", 0), n.rank(0)));
    attrs["axis"] = axis;
    const Dim count = extents[0];
    extents = n.value(0).shape;
    extents[static_cast<size_t>(axis)] = count;
  }
  attrs["extents"] = DimsValue(extents);
  return n.Emit("compress", n.inputs(), std::move(attrs));
}

absl::Status Unique(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  const Dim count = n.NewSymbol("count");
  Attrs attrs = {{"sorted", n.Int("sorted", 1)}};
  Shape extents = {count};
  Dim all = Product(n.value(0).shape);
  if (n.HasAttr("axis")) {
    KILN_ASSIGN_OR_RETURN(const int64_t axis, n.Axis(n.Int("axis", 0), n.rank(0)));
    attrs["axis"] = axis;
    extents = n.value(0).shape;
    all = extents[static_cast<size_t>(axis)];
    extents[static_cast<size_t>(axis)] = count;
  }
  extents.insert(extents.end(), {count, all, count});
  attrs["extents"] = DimsValue(extents);
  return n.Emit("unique", n.inputs(), std::move(attrs));
}

absl::Status NonMaxSuppression(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 5));
  return n.Emit("non_max_suppression", n.inputs(),
                {{"center_point_box", n.Int("center_point_box", 0)},
                 {"extents", DimsValue({n.NewSymbol("count"), 3})}});
}

constexpr Converter kDynamicRows[] = {
    {"Compress", kOldestOpset, Compress, "compress"},
    {"ConcatFromSequence", 11, Structural},
    {"If", kOldestOpset, Structural, "if"},
    {"Loop", kOldestOpset, Structural, "loop"},
    {"NonMaxSuppression", 10, NonMaxSuppression, "non_max_suppression"},
    {"NonZero", 9, NonZero, "nonzero"},
    {"Optional", 15, Structural},
    {"OptionalGetElement", 15, Structural},
    {"OptionalHasElement", 15, Structural},
    {"Scan", 8, Structural, "loop"},
    {"SequenceAt", 11, Structural},
    {"SequenceConstruct", 11, Structural},
    {"SequenceEmpty", 11, Structural},
    {"SequenceErase", 11, Structural},
    {"SequenceInsert", 11, Structural},
    {"SequenceLength", 11, Structural},
    {"SplitToSequence", 11, Structural},
    {"Unique", 11, Unique, "unique"},
    {"ai.onnx.preview.training.Gradient", kOldestOpset, Structural},
};

}  // namespace

std::span<const Converter> DynamicConverters() { return kDynamicRows; }

}  // namespace kiln::onnx
