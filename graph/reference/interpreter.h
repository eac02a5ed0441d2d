// SPDX-License-Identifier: Apache-2.0
// The oracle: evaluates a Graph node by node, slowly and simply. What the compiler makes is judged
// by it.
//
// Values: floats of every type are computed and kept in double; integers in 64 bits, wrapped to
// their type after every operation; bool as 0 and 1. A float is rounded to a narrower type only
// where the graph says so, at a cast, and when an output (or an observed value) is handed out. So
// f32 results are those of exact arithmetic up to 2^-53 relative per step, and overflow to infinity
// happens in double's range until the value is handed out. Functions (exp, erf, ...) are libm's in
// long double, never the expansions of kernel/math.h; sums of reductions are accumulated in long
// double. Scalar ops come from their bodies, index ops from their maps, composites from their
// decomposition, library and host ops from their reference loops.
#ifndef KILN_GRAPH_REFERENCE_INTERPRETER_H_
#define KILN_GRAPH_REFERENCE_INTERPRETER_H_

#include <functional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"

namespace kiln {

// Outputs in the graph's order and declared types, dense and owned. kInvalidArgument for inputs
// that do not fit (number, type, rank, extents), kFailedPrecondition for a guard that does not
// hold, kResourceExhausted for a value beyond 16 GiB. Thread-safe.
absl::StatusOr<std::vector<Tensor>> Interpret(const Graph& graph, std::span<const Tensor> inputs);

// The same, and hands every value of the graph to `observe` as it is computed, converted to its
// declared type.
absl::StatusOr<std::vector<Tensor>> Interpret(
    const Graph& graph, std::span<const Tensor> inputs,
    const std::function<void(ValueId, const Tensor&)>& observe);

// The symbols' values that the extents of `inputs` imply; and that every extent fits.
absl::StatusOr<SymbolValues> BindSymbols(const Graph& graph, std::span<const Tensor> inputs);

}  // namespace kiln

#endif  // KILN_GRAPH_REFERENCE_INTERPRETER_H_
