// SPDX-License-Identifier: Apache-2.0
#include "fusion/strided_view.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

#include "fusion/node_reads.h"
#include "graph/op.h"

namespace kiln {
namespace {

// The view of an index node's output through one of its input; nothing if strides cannot say it.
std::optional<StridedView> Through(const NodeReads& reads, const Shape& shape,
                                   const StridedView& input) {
  StridedView view{input.base, input.offset, shape, Shape(shape.size(), Dim(0))};
  const NodeRead& read = reads.reads[static_cast<size_t>(reads.pieces[0].read)];
  for (size_t axis = 0; axis < read.axes.size(); ++axis) {
    const ReadAxis& at = read.axes[axis];
    switch (at.kind) {
      case ReadAxis::Kind::kOne:
        break;
      case ReadAxis::Kind::kSame:
        view.strides[static_cast<size_t>(at.out_axis)] = input.strides[axis];
        break;
      case ReadAxis::Kind::kAffine:
        if (at.div != 1 || at.coef <= 0) return std::nullopt;
        view.offset = view.offset + at.offset * input.strides[axis];
        if (at.out_axis < 0) break;
        view.strides[static_cast<size_t>(at.out_axis)] = input.strides[axis] * Dim(at.coef);
        break;
      default:
        return std::nullopt;
    }
  }
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (view.strides[axis].IsConst(0) && !shape[axis].IsConst(1)) return std::nullopt;
  }
  return view;
}

}  // namespace

Shape RowMajor(const Shape& shape) {
  Shape strides(shape.size(), Dim(1));
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

StridedView DenseView(const Graph& graph, ValueId value) {
  const Shape& shape = graph.value(value).shape;
  return {value, 0, shape, RowMajor(shape)};
}

std::optional<Shape> ReshapedStrides(const Shape& shape, const Shape& strides, const Shape& to) {
  Shape made(to.size(), Dim(1));
  size_t i = shape.size(), j = to.size();
  const auto skip_ones = [](const Shape& of, size_t& at) {
    while (at > 0 && of[at - 1].IsConst(1)) --at;
  };
  while (true) {
    skip_ones(shape, i);
    skip_ones(to, j);
    if (i == 0 || j == 0) break;
    // The shortest runs of axes, from the inside, with equally many elements.
    Dim old_elements = shape[--i];
    Dim new_elements = to[--j];
    const Dim& stride = strides[i];
    made[j] = stride;
    while (!(old_elements == new_elements)) {
      if (j > 0 && old_elements.DivideExactly(new_elements)) {
        --j;
        made[j] = stride * new_elements;
        new_elements = new_elements * to[j];
      } else if (i > 0 && new_elements.DivideExactly(old_elements)) {
        --i;
        if (!shape[i].IsConst(1) && !(strides[i] == stride * old_elements)) return std::nullopt;
        old_elements = old_elements * shape[i];
      } else {
        return std::nullopt;
      }
    }
  }
  if (i != 0 || j != 0) return std::nullopt;
  return made;
}

// `above` gives the view of the input.
static StridedView Strided(const Graph& graph, ValueId value,
                           StridedView (*above)(const Graph& graph, ValueId value)) {
  const StridedView dense = DenseView(graph, value);
  const NodeId producer = graph.value(value).producer;
  if (producer.v < 0 || graph.node(producer).op->kind != OpKind::kIndex) return dense;
  if (const std::optional<ValueId> source = ViewSource(graph, value)) {
    StridedView view = above(graph, *source);
    std::optional<Shape> strides = ReshapedStrides(view.shape, view.strides, dense.shape);
    if (!strides) return dense;
    view.shape = dense.shape;
    view.strides = *std::move(strides);
    return view;
  }
  const absl::StatusOr<NodeReads> reads = ReadsOf(graph, value);
  if (!reads.ok() || reads->pieces.size() != 1 || !reads->pieces[0].bounds.empty()) return dense;
  const ValueId input = reads->reads[static_cast<size_t>(reads->pieces[0].read)].value;
  if (!input.valid()) return dense;
  std::optional<StridedView> view = Through(*reads, dense.shape, above(graph, input));
  return view ? *std::move(view) : dense;
}

StridedView StridedOf(const Graph& graph, ValueId value) {
  return Strided(graph, value, StridedOf);
}

StridedView StridedStep(const Graph& graph, ValueId value) {
  return Strided(graph, value, DenseView);
}

bool IsDense(const StridedView& view) {
  const Shape dense = RowMajor(view.shape);
  for (size_t i = 0; i < dense.size(); ++i) {
    if (!view.shape[i].IsConst(1) && !(view.strides[i] == dense[i])) return false;
  }
  return true;
}

bool IsConcatOfRuns(const Graph& graph, const Node& node) {
  if (node.op->name != absl::string_view("concat")) return false;
  const Shape& shape = graph.value(node.outputs.front()).shape;
  const int64_t given = IntAttr(node, "axis");
  const int64_t axis = given < 0 ? given + std::ssize(shape) : given;
  return std::all_of(shape.begin(), shape.begin() + axis,
                     [](const Dim& extent) { return extent.IsConst(1); });
}

bool AreMostInPlace(size_t in_place, size_t parts) { return 2 * in_place > parts; }

}  // namespace kiln
