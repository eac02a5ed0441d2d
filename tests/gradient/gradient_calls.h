// SPDX-License-Identifier: Apache-2.0
// Calls of operators for tests, written as
//
//   matmul(f64 [b, 2, 3], f64 [4, 3]) {trans_b = 1}
//   gather(f64 [n, 3], i64 [2] -4..4) {axis = 0}          integers from -4 to 3
//   2 top_k(f64 [3, 4]) {k = 2}                           two outputs
//
// Symbols have values of their own; `z` is an axis without elements.
#ifndef KILN_TESTS_GRADIENT_GRADIENT_CALLS_H_
#define KILN_TESTS_GRADIENT_GRADIENT_CALLS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/tensor.h"
#include "graph/graph.h"
#include "graph/op.h"

namespace kiln {

struct GradientCall {
  Graph graph;
  std::vector<Tensor> inputs;
};

// The values of the symbols, and others: extents of 1 where there were several, and elements along
// z.
const SymbolValues& CallSymbols();
const SymbolValues& OtherSymbols();

// One call, with inputs "x0", "x1", ... within the record's range; what is written f64 is of
// `type`.
absl::StatusOr<GradientCall> MakeCall(absl::string_view call, DType type, uint64_t seed,
                                      const SymbolValues& symbols = CallSymbols());

// A loss of `graph`, a sum of its outputs with weights that stand behind `inputs`, and its
// gradients by all float inputs.
absl::StatusOr<Graph> Differentiated(const Graph& graph, std::vector<Tensor>& inputs);

// Calls of an operator, five at least for those with a gradient: with scalars, broadcasting, axes
// without elements and symbols.
std::vector<std::string> CallsOf(const OpDef& op);

}  // namespace kiln

#endif  // KILN_TESTS_GRADIENT_GRADIENT_CALLS_H_
