// SPDX-License-Identifier: Apache-2.0
// Gradients of index ops: the transpose of the IndexMap. Where the output reads an element, the
// element takes what the output's cotangent has there.
//
//   one axis of a piece, in[coef * o + offset], lower <= o < upper:
//     slice the cotangent to the bounds, turn it around if coef < 0, put |coef| - 1 zeros between
//     its elements, pad it to the input's extent
//   in[o / div]                 sum of each div neighbours
//   an output axis not read by  sum over it
//   a coordinate that is loaded scatter with sums
#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/coordinate.h"
#include "graph/gradient/bodies.h"
#include "graph/gradient/nodes.h"
#include "graph/gradient/scatter.h"
#include "graph/known_dims.h"
#include "graph/op.h"

namespace kiln::gradient {
namespace {

size_t At(int64_t i) { return static_cast<size_t>(i); }

// The part of an output axis that a piece is about.
struct Range {
  Dim lower = 0, upper;
};

class Transposer {
 public:
  Transposer(Nodes& m, const IndexPiece& piece, const Shape& in, const Shape& out)
      : m_(m), piece_(piece), in_(in), known_(m.builder().graph().guards()) {
    for (const Dim& extent : out) ranges_.push_back({0, extent});
    for (const IndexPiece::Bound& bound : piece.bounds) {
      Range& range = ranges_[At(bound.out_axis)];
      range.lower = known_.Simplify(Dim::Max(range.lower, bound.lower));
      range.upper = known_.Simplify(Dim::Min(range.upper, bound.upper));
    }
  }

  absl::StatusOr<ValueId> Of(ValueId g) {
    for (size_t axis = 0; axis < ranges_.size(); ++axis)
      g = m_.Slice(g, axis, ranges_[axis].lower, ranges_[axis].upper);
    Shape before(ranges_.size(), 0), after(ranges_.size(), 0);
    std::vector<int> reader(ranges_.size(), -1);  // of each output axis: the input's
    for (size_t i = 0; i < piece_.axes.size(); ++i) {
      const int out_axis = piece_.axes[i].out_axis;
      if (out_axis < 0) continue;
      if (reader[At(out_axis)] >= 0) return absl::UnimplementedError("two axes are read as one");
      reader[At(out_axis)] = static_cast<int>(i);
      KILN_ASSIGN_OR_RETURN(g, Place(g, i, before[At(out_axis)], after[At(out_axis)]));
    }
    g = m_.Pad(g, before, after);
    KILN_ASSIGN_OR_RETURN(g, SumNeighbours(g));
    return Arranged(g, reader);
  }

 private:
  // Elements of an axis where the input has them, but for what is to be padded.
  absl::StatusOr<ValueId> Place(ValueId g, size_t in_axis, Dim& before, Dim& after) {
    const IndexAxis& axis = piece_.axes[in_axis];
    const auto out_axis = At(axis.out_axis);
    const std::optional<int64_t> coef = axis.coef.constant();
    if (!coef || *coef == 0 || axis.div < 1)
      return absl::UnimplementedError("a step that is no number");
    if (!m_.ok()) return ValueId();
    const Dim count = m_.ShapeOf(g)[out_axis];
    const Dim first = *coef > 0 ? ranges_[out_axis].lower : ranges_[out_axis].lower + (count - 1);
    if (*coef < 0) g = m_.Backwards(g, out_axis);
    const int64_t step = *coef < 0 ? -*coef : *coef;
    g = m_.Spread(g, out_axis, step);
    if (!m_.ok()) return ValueId();
    before = first * *coef + axis.offset;
    after = in_[in_axis] * axis.div - before - m_.ShapeOf(g)[out_axis];
    return g;
  }

  absl::StatusOr<ValueId> SumNeighbours(ValueId g) {
    for (size_t i = 0; i < piece_.axes.size(); ++i) {
      const IndexAxis& axis = piece_.axes[i];
      if (axis.div == 1 || axis.out_axis < 0) continue;
      Shape shape = m_.ShapeOf(g);
      if (!m_.ok()) return ValueId();
      const auto at = shape.begin() + axis.out_axis;
      *at = axis.div;
      shape.insert(at, in_[i]);
      g = m_.Sum(m_.Reshape(g, shape), {axis.out_axis + 1});
    }
    return g;
  }

  // Output axes as the input has them: those that it does not read are summed over.
  absl::StatusOr<ValueId> Arranged(ValueId g, const std::vector<int>& reader) {
    Ints summed, added, perm;
    std::vector<int64_t> place(reader.size(), -1);
    int64_t next = 0;
    for (size_t axis = 0; axis < reader.size(); ++axis) {
      if (reader[axis] < 0) {
        summed.push_back(static_cast<int64_t>(axis));
      } else {
        place[axis] = next++;
      }
    }
    Shape before(piece_.axes.size(), 0), after(piece_.axes.size(), 0);
    for (size_t i = 0; i < piece_.axes.size(); ++i) {
      const IndexAxis& axis = piece_.axes[i];
      if (axis.out_axis >= 0) {
        perm.push_back(place[At(axis.out_axis)]);
        continue;
      }
      added.push_back(static_cast<int64_t>(i));
      before[i] = axis.offset;
      after[i] = in_[i] - axis.offset - 1;
    }
    return m_.Pad(m_.Unsqueeze(m_.Transpose(m_.Sum(g, summed), perm), added), before, after);
  }

  Nodes& m_;
  const IndexPiece& piece_;
  const Shape& in_;
  const KnownDims known_;
  std::vector<Range> ranges_;
};

bool Loads(const IndexPiece& piece) {
  return std::any_of(piece.axes.begin(), piece.axes.end(),
                     [](const IndexAxis& axis) { return axis.load_input >= 0; });
}

}  // namespace

absl::StatusOr<Ids> IndexCotangents(GraphBuilder& b, const Node& node, const Ids& g,
                                    const std::vector<bool>& wanted) {
  Nodes m(b);
  Ids result(node.inputs.size());
  for (size_t output = 0; output < g.size(); ++output) {
    if (!g[output].valid()) continue;
    KILN_ASSIGN_OR_RETURN(const IndexMap map,
                          node.op->index(b.graph(), node, static_cast<int>(output)));
    if (map.view) {
      result[0] = m.Reshape(g[output], m.ShapeOf(node.inputs[0]));
      continue;
    }
    for (const IndexPiece& piece : map.pieces) {
      if (piece.input == kCoordinate || !wanted[At(piece.input)]) continue;
      const ValueId input = node.inputs[At(piece.input)];
      const Shape in = m.ShapeOf(input), out = m.ShapeOf(node.outputs[output]);
      ValueId part;
      if (Loads(piece)) {
        KILN_ASSIGN_OR_RETURN(part, ScatterPiece(m, piece, node.inputs, in, out, g[output]));
      } else {
        KILN_ASSIGN_OR_RETURN(part, Transposer(m, piece, in, out).Of(m.Wide(g[output])));
      }
      ValueId& whole = result[At(piece.input)];
      part = m.To(part, m.TypeOf(input));
      whole = whole.valid() ? m.Add(whole, part) : part;
    }
  }
  return m.Give(std::move(result));
}

}  // namespace kiln::gradient
