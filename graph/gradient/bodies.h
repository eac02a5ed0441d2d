// SPDX-License-Identifier: Apache-2.0
// Gradients that follow from the body of a record: its ScalarExpr, ReduceRule or IndexMap. `g` is
// the cotangent of the output; inputs that are not `wanted` may be left out.
#ifndef KILN_GRAPH_GRADIENT_BODIES_H_
#define KILN_GRAPH_GRADIENT_BODIES_H_

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "kernel/scalar_expr.h"
#include "kiln/graph.h"

namespace kiln::gradient {

absl::StatusOr<std::vector<ValueId>> ScalarCotangents(GraphBuilder& b, const Node& node, ValueId g,
                                                      const std::vector<bool>& wanted);
absl::StatusOr<std::vector<ValueId>> ReduceCotangents(GraphBuilder& b, const Node& node, ValueId g);
// A variance as graphs have it: mean(d d), d = x - mean(x), all over the same axes.
struct Variance {
  ValueId x, mean, difference, square;
};
std::optional<Variance> VarianceOf(const Graph& graph, const Node& node);
// What x gets of it: by way of the mean that is nothing, as the differences sum to 0, so that no
// sum of what others make of them is needed.
absl::StatusOr<ValueId> VarianceCotangent(GraphBuilder& b, const Node& node,
                                          const Variance& variance, ValueId g);
absl::StatusOr<std::vector<ValueId>> IndexCotangents(GraphBuilder& b, const Node& node,
                                                     const std::vector<ValueId>& g,
                                                     const std::vector<bool>& wanted);

// The nodes `roots` of `expr` as nodes of the graph (nothing: an invalid id); `read` gives what
// stands for a read of an input. kUnimplemented: a primitive that no record is.
absl::StatusOr<std::vector<ValueId>> Emit(GraphBuilder& b, const ScalarExpr& expr,
                                          const std::vector<std::optional<Ex>>& roots,
                                          const std::function<ValueId(int32_t input)>& read);

}  // namespace kiln::gradient

#endif  // KILN_GRAPH_GRADIENT_BODIES_H_
