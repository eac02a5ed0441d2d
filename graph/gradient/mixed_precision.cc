// SPDX-License-Identifier: Apache-2.0
#include "graph/gradient/mixed_precision.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/gradient/nodes.h"
#include "graph/op.h"
#include "graph/rebuild.h"
#include "kiln/gradients.h"

namespace kiln {
namespace {

constexpr const char* kProducts[] = {"matmul", "gemm", "conv", "conv_transpose"};

class Narrower {
 public:
  Narrower(const Graph& from, DType type)
      : from_(from), type_(type), map_(from.values().size()), cast_(*FindOp("cast")) {}

  absl::StatusOr<Graph> Make() {
    to_.name = from_.name;
    to_.premises = from_.premises;
    for (const ValueId id : from_.inputs()) {
      const Value& input = from_.value(id);
      At(id) = to_.AddInput(input.name, input.type, input.shape);
      to_.mutable_value(At(id)).shape_content = input.shape_content;
    }
    for (size_t v = 0; v < map_.size(); ++v) {
      const Value& value = from_.values()[v];
      if (value.constant && value.producer.v < 0 && !map_[v].valid())
        map_[v] = to_.AddConstant(value.name, *value.constant);
    }
    for (const Node& node : from_.nodes()) KILN_RETURN_IF_ERROR(Add(node));
    for (const Graph::Output& output : from_.outputs())
      to_.AddOutput(At(output.value), output.name);
    return std::move(to_);
  }

 private:
  ValueId& At(ValueId id) { return map_[static_cast<size_t>(id.v)]; }

  bool IsProduct(const Node& node) const {
    const bool named = std::any_of(std::begin(kProducts), std::end(kProducts),
                                   [&](absl::string_view op) { return op == node.op->name; });
    return named && from_.value(node.outputs[0]).type == DType::kF32;
  }

  absl::StatusOr<ValueId> Cast(ValueId x, DType type, const std::string& name) {
    KILN_ASSIGN_OR_RETURN(const std::vector<ValueId> made,
                          to_.AddNode(cast_, {x}, {{"to", type}}, "", {name}));
    return made[0];
  }

  // `id` in 16 bits; what several products read is cast once.
  absl::StatusOr<ValueId> Narrow(ValueId id) {
    ValueId& narrow = narrow_[id];
    if (!narrow.valid()) {
      KILN_ASSIGN_OR_RETURN(narrow, Cast(At(id), type_, ""));
    }
    return narrow;
  }

  absl::Status Add(const Node& node) {
    const bool product = IsProduct(node);
    std::vector<ValueId> inputs;
    for (const ValueId id : node.operands.empty() ? node.inputs : node.operands) {
      inputs.push_back(id.valid() ? At(id) : ValueId());
      if (product && id.valid()) {
        KILN_ASSIGN_OR_RETURN(inputs.back(), Narrow(id));
      }
    }
    Attrs attrs = node.attrs;
    for (auto& [name, value] : attrs) {
      Body* const body = std::get_if<Body>(&value);
      if (body == nullptr) continue;
      KILN_ASSIGN_OR_RETURN(Graph narrow, WithProductsIn(**body, type_));
      *body = std::make_shared<const Graph>(std::move(narrow));
    }
    std::vector<std::string> names(node.outputs.size());
    for (size_t k = 0; k < names.size() && !product; ++k)
      names[k] = from_.value(node.outputs[k]).name;
    KILN_ASSIGN_OR_RETURN(
        std::vector<ValueId> made,
        to_.AddNode(*node.op, std::move(inputs), std::move(attrs), node.name, std::move(names)));
    if (product) {
      KILN_ASSIGN_OR_RETURN(made[0], Cast(made[0], DType::kF32, from_.value(node.outputs[0]).name));
    }
    for (size_t k = 0; k < made.size(); ++k) At(node.outputs[k]) = made[k];
    return absl::OkStatus();
  }

  const Graph& from_;
  const DType type_;
  std::vector<ValueId> map_;
  std::map<ValueId, ValueId> narrow_;
  const OpDef& cast_;
  Graph to_;
};

}  // namespace

absl::StatusOr<Graph> WithProductsIn(const Graph& graph, DType type) {
  if (!IsFloat(type) || SizeOf(type) != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("mixed precision: ", Name(type), " is no float of 16 bits"));
  }
  KILN_ASSIGN_OR_RETURN(Graph narrow, Narrower(graph, type).Make());
  KILN_RETURN_IF_ERROR(Verify(narrow));
  narrow.maker = std::make_shared<const Graph::Maker>(
      [graph, type](const std::vector<Shape>& shapes) -> absl::StatusOr<Graph> {
        KILN_ASSIGN_OR_RETURN(const Graph made, WithInputShapes(graph, shapes));
        return WithProductsIn(made, type);
      });
  return narrow;
}

absl::StatusOr<ScaledGradients> GradientsScaledBy(GraphBuilder& b, ValueId scale, ValueId loss,
                                                  const std::vector<ValueId>& wrt) {
  gradient::Nodes m(b);
  const ValueId scaled = m.Mul(loss, m.To(scale, m.TypeOf(loss)));
  ScaledGradients result;
  KILN_ASSIGN_OR_RETURN(const std::vector<ValueId> gradients, Gradients(b, scaled, wrt));
  for (const ValueId gradient : gradients) {
    const ValueId own = m.Div(gradient, m.To(scale, m.TypeOf(gradient)));
    // An infinity or a NaN anywhere is the largest magnitude.
    ValueId largest = m.Op("abs", {own});
    if (m.RankOf(largest) > 0) largest = m.Op("reduce_max", {largest}, {{"keepdims", int64_t{0}}});
    const ValueId finite =
        m.Less(largest, m.Number(m.TypeOf(largest), std::numeric_limits<double>::infinity()));
    result.finite = result.finite.valid() ? m.Op("and", {result.finite, finite}) : finite;
    result.gradients.push_back(own);
  }
  KILN_RETURN_IF_ERROR(b.status());
  return result;
}

}  // namespace kiln
