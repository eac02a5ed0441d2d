// SPDX-License-Identifier: Apache-2.0
// Short names for the nodes that gradients are made of. After an error of the builder, and of an
// invalid id, everything is an invalid id of no axes.
#ifndef KILN_GRAPH_GRADIENT_NODES_H_
#define KILN_GRAPH_GRADIENT_NODES_H_

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "graph/op.h"
#include "kiln/graph.h"

namespace kiln::gradient {

using Ids = std::vector<ValueId>;
using Ints = std::vector<int64_t>;

class Nodes {
 public:
  explicit Nodes(GraphBuilder& b) : b_(b) {}

  GraphBuilder& builder() const { return b_; }
  bool ok() const { return b_.status().ok(); }
  // `values`, or the builder's error.
  absl::StatusOr<Ids> Give(Ids values) const;

  DType TypeOf(ValueId x) const;
  Shape ShapeOf(ValueId x) const;
  size_t RankOf(ValueId x) const { return ShapeOf(x).size(); }
  ValueId Op(absl::string_view op, Ids inputs, Attrs attrs = {});

  ValueId Add(ValueId a, ValueId b) { return Op("add", {a, b}); }
  ValueId Sub(ValueId a, ValueId b) { return Op("sub", {a, b}); }
  ValueId Mul(ValueId a, ValueId b) { return Op("mul", {a, b}); }
  ValueId Div(ValueId a, ValueId b) { return Op("div", {a, b}); }
  ValueId Neg(ValueId a) { return Op("neg", {a}); }
  ValueId Equal(ValueId a, ValueId b) { return Op("equal", {a, b}); }
  ValueId Less(ValueId a, ValueId b) { return Op("less", {a, b}); }
  ValueId Where(ValueId c, ValueId yes, ValueId no) { return Op("where", {c, yes, no}); }
  // x where c holds, else 0; and the opposite.
  ValueId Where(ValueId c, ValueId x) { return Where(c, x, Number(TypeOf(x), 0)); }
  ValueId Unless(ValueId c, ValueId x) { return Where(c, Number(TypeOf(x), 0), x); }
  ValueId To(ValueId x, DType type);
  // In the type that 16-bit floats are computed in.
  ValueId Wide(ValueId x) { return To(x, ComputeType(TypeOf(x))); }

  ValueId Number(DType type, double value);
  ValueId Filled(DType type, const Shape& shape, double value);
  ValueId ZerosLike(ValueId x) { return Filled(TypeOf(x), ShapeOf(x), 0); }
  ValueId Iota(const Shape& shape, size_t axis);  // i64
  // The extent of an axis of x as a value, [] or [1].
  ValueId Extent(ValueId x, size_t axis, DType type);

  ValueId Reshape(ValueId x, const Shape& shape);
  ValueId Unsqueeze(ValueId x, const Ints& axes);
  ValueId Transpose(ValueId x, const Ints& perm);
  ValueId SwapLast(ValueId x);  // the last two axes
  ValueId Expand(ValueId x, const Shape& shape);
  ValueId Slice(ValueId x, size_t axis, const Dim& start, const Dim& end, int64_t step = 1);
  ValueId Backwards(ValueId x, size_t axis);
  ValueId Pad(ValueId x, const Shape& before, const Shape& after, double value = 0);
  // Zeros between the elements of an axis and behind the last: element i is at i * step.
  ValueId Spread(ValueId x, size_t axis, int64_t step);
  ValueId Sum(ValueId x, const Ints& axes, bool keep = false);
  // Sums over the axes along which a value of `shape` was repeated to become one of x's shape.
  ValueId SumTo(ValueId x, const Shape& shape);

 private:
  GraphBuilder& b_;
};

}  // namespace kiln::gradient

#endif  // KILN_GRAPH_GRADIENT_NODES_H_
