// SPDX-License-Identifier: Apache-2.0
// Gradients of what moves elements to places that data choose, and of running sums and products.
#include <numeric>
#include <utility>

#include "base/status_macros.h"
#include "graph/gradient/gradients.h"
#include "graph/gradient/nodes.h"
#include "graph/gradient/rules.h"
#include "graph/infer.h"
#include "graph/op.h"

namespace kiln::gradient {
namespace {

// Reductions of scatter_elements and scatter_nd.
enum Reduction : int64_t { kReplace = 0, kSum = 1, kProduct = 2 };

// A scatter node's places, for other data and updates; and what is at them.
class Places {
 public:
  Places(Nodes& m, const Node& node) : m_(m), node_(node) {}

  ValueId Scatter(ValueId data, ValueId updates, int64_t reduction) {
    Attrs attrs = node_.attrs;
    attrs["reduction"] = reduction;
    return m_.Op(node_.op->name, {data, node_.inputs[1], updates}, std::move(attrs));
  }

  ValueId Read(ValueId data) {
    const ValueId indices = node_.inputs[1];
    if (node_.op->name == absl::string_view("scatter_elements"))
      return m_.Op("gather_elements", {data, indices}, {{"axis", IntAttr(node_, "axis")}});
    const Shape shape = m_.ShapeOf(indices);
    if (!m_.ok()) return {};
    const int64_t depth = shape.back().constant().value_or(0);
    if (depth == 0) return m_.Expand(data, m_.ShapeOf(node_.inputs[2]));
    Ids inputs = {data};
    for (int64_t d = 0; d < depth; ++d) {
      const ValueId column = m_.Slice(indices, shape.size() - 1, d, d + 1);
      inputs.push_back(m_.Reshape(column, Shape(shape.begin(), shape.end() - 1)));
    }
    return m_.Op("take", std::move(inputs));
  }

 private:
  Nodes& m_;
  const Node& node_;
};

// The last update of a place takes all, and what it replaces nothing.
Ids OfReplacing(Nodes& m, Places& places, ValueId data, ValueId updates, ValueId g) {
  const Shape shape = m.ShapeOf(updates);
  // Each update's number, and which number the place has in the end.
  ValueId numbers = m.Number(DType::kI64, 0);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const ValueId extent = m.Extent(updates, axis, DType::kI64);
    numbers = m.Add(m.Mul(numbers, extent), m.Iota(shape, axis));
  }
  numbers = m.Expand(numbers, shape);
  const ValueId written =
      places.Scatter(m.Filled(DType::kI64, m.ShapeOf(data), -1), numbers, kReplace);
  const ValueId stays = m.Equal(places.Read(written), numbers);
  return {places.Scatter(g, m.Filled(m.TypeOf(g), shape, 0), kReplace),
          m.Where(stays, places.Read(g))};
}

// A product of factors that may be 0: that of the others is known by how many are.
Ids OfProduct(Nodes& m, Places& places, ValueId data, ValueId updates, ValueId g) {
  const DType type = m.TypeOf(data);
  const ValueId zero = m.Number(type, 0), one = m.Number(type, 1);
  const auto is_zero = [&](ValueId x) { return m.Equal(x, zero); };
  const auto or_one = [&](ValueId x) { return m.Where(is_zero(x), one, x); };
  const ValueId zeros =
      places.Scatter(m.To(is_zero(data), type), m.To(is_zero(updates), type), kSum);
  const ValueId product = places.Scatter(or_one(data), or_one(updates), kProduct);
  const auto others = [&](ValueId x, ValueId zeros_there, ValueId product_there) {
    const ValueId left = m.Sub(zeros_there, m.To(is_zero(x), type));
    return m.Where(m.Equal(left, zero), m.Div(product_there, or_one(x)));
  };
  return {m.Mul(g, others(data, zeros, product)),
          m.Mul(places.Read(g), others(updates, places.Read(zeros), places.Read(product)))};
}

// A maximum or minimum: in equal parts to all that are it.
Ids OfExtremum(Nodes& m, Places& places, const Node& node, ValueId data, ValueId updates,
               ValueId g) {
  const DType type = m.TypeOf(data);
  const ValueId y = m.Wide(node.outputs[0]);
  const ValueId old = m.Equal(data, y), is_new = m.Equal(updates, places.Read(y));
  const ValueId count = places.Scatter(m.To(old, type), m.To(is_new, type), kSum);
  const ValueId part = m.Div(g, count);
  return {m.Where(old, part), m.Where(is_new, places.Read(part))};
}

absl::StatusOr<Ids> OfScatter(GraphBuilder& b, const Node& node, ValueId cotangent) {
  Nodes m(b);
  Places places(m, node);
  const ValueId data = m.Wide(node.inputs[0]), updates = m.Wide(node.inputs[2]);
  const ValueId g = m.Wide(cotangent);
  Ids parts;
  switch (IntAttr(node, "reduction")) {
    case kReplace:
      parts = OfReplacing(m, places, data, updates, g);
      break;
    case kSum:
      parts = {g, places.Read(g)};
      break;
    case kProduct:
      parts = OfProduct(m, places, data, updates, g);
      break;
    default:
      parts = OfExtremum(m, places, node, data, updates, g);
  }
  return m.Give({m.To(parts[0], m.TypeOf(node.inputs[0])), ValueId(),
                 m.To(parts[1], m.TypeOf(node.inputs[2]))});
}

// Running products as log n products of shifted ones, which hold for factors of 0.
absl::StatusOr<Ids> OfRunningProduct(GraphBuilder& b, const Node& node, ValueId g, size_t axis) {
  Nodes m(b);
  const ValueId x = m.Wide(node.inputs[0]);
  const std::optional<int64_t> extent = m.ShapeOf(x)[axis].constant();
  if (!extent) return absl::UnimplementedError("products along an axis whose extent is no number");
  const bool reverse = IntAttr(node, "reverse") != 0;
  const size_t first = b.graph().nodes().size();
  const auto shifted = [&](ValueId y, int64_t by) {  // ones come in at the beginning
    const size_t rank = m.RankOf(y);
    Shape before(rank, 0), after(rank, 0);
    (reverse ? after : before)[axis] = by;
    (reverse ? before : after)[axis] = -by;
    return m.Pad(y, before, after, 1);
  };
  ValueId y = IntAttr(node, "exclusive") != 0 ? shifted(x, 1) : m.Op("identity", {x});
  for (int64_t by = 1; by < *extent; by *= 2) y = m.Mul(y, shifted(y, by));
  KILN_RETURN_IF_ERROR(b.status());
  KILN_ASSIGN_OR_RETURN(const Ids part, Backward(b, first, {y}, {m.Wide(g)}, {x}));
  return m.Give({m.To(part[0], m.TypeOf(node.inputs[0]))});
}

}  // namespace

absl::StatusOr<Ids> TopK(GraphBuilder& b, const Node& node, std::span<const ValueId> g) {
  Nodes m(b);
  const ValueId x = node.inputs[0], wide = m.Wide(g[0]);
  const ValueId sums =
      m.Op("scatter_elements", {m.Filled(m.TypeOf(wide), m.ShapeOf(x), 0), node.outputs[1], wide},
           {{"axis", IntAttr(node, "axis")}, {"reduction", int64_t{1}}});
  return m.Give({m.To(sums, m.TypeOf(x))});
}

absl::StatusOr<Ids> Cumulative(GraphBuilder& b, const Node& node, std::span<const ValueId> g) {
  Nodes m(b);
  const ValueId x = node.inputs[0];
  KILN_ASSIGN_OR_RETURN(const int axis, NormalAxis(IntAttr(node, "axis"), m.RankOf(x)));
  if (IntAttr(node, "product") != 0)
    return OfRunningProduct(b, node, g[0], static_cast<size_t>(axis));
  Attrs attrs = node.attrs;
  attrs["reverse"] = int64_t{IntAttr(node, "reverse") == 0};
  return m.Give({m.To(m.Op("cumulative", {m.Wide(g[0])}, std::move(attrs)), m.TypeOf(x))});
}

absl::StatusOr<Ids> ScatterElements(GraphBuilder& b, const Node& node, std::span<const ValueId> g) {
  return OfScatter(b, node, g[0]);
}

absl::StatusOr<Ids> ScatterNd(GraphBuilder& b, const Node& node, std::span<const ValueId> g) {
  return OfScatter(b, node, g[0]);
}

// As scatter_nd to zeros.
absl::StatusOr<Ids> ScatterSum(GraphBuilder& b, const Node& node, std::span<const ValueId> g) {
  Nodes m(b);
  const ValueId updates = node.inputs[1];
  const size_t first = b.graph().nodes().size();
  const ValueId zeros = m.Filled(m.TypeOf(updates), m.ShapeOf(node.outputs[0]), 0);
  const ValueId sums =
      m.Op("scatter_nd", {zeros, node.inputs[0], updates}, {{"reduction", int64_t{1}}});
  KILN_RETURN_IF_ERROR(b.status());
  KILN_ASSIGN_OR_RETURN(const Ids part, Backward(b, first, {sums}, {g[0]}, {updates}));
  return Ids{{}, part[0]};
}

}  // namespace kiln::gradient
