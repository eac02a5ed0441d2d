// SPDX-License-Identifier: Apache-2.0
// Follows small integer tensors symbolically, so that a chain like Shape -> Gather -> Mul -> Concat
// -> Reshape is known when the model is compiled: scalar bodies are evaluated over Dims, index maps
// are applied to lists of Dims. Truths are followed as 0 and 1, and tensors of any rank, row-major;
// an input of a graph may have such elements too (Value::shape_content), since parts of a graph are
// compiled with what the whole knows of the values between them.
//
// Example: x is [n, 6, 8]; slice(shape(x)) {0..1} has the content [n]; concat of that and [48] is
// [n, 48].
#ifndef KILN_GRAPH_SHAPE_CONTENT_H_
#define KILN_GRAPH_SHAPE_CONTENT_H_

#include <optional>

#include "graph/graph.h"

namespace kiln {

// The elements of output `k` of `node`, whose outputs have their types and shapes already, if all
// inputs are known and the op's meaning can be carried out on Dims; else nothing. The elements hold
// for all extents, without a guard: what depends on a sign, such as a comparison or a division that
// rounds towards 0, is written with minima and maxima.
std::optional<Shape> FollowContent(const Graph& graph, const Node& node, int k);

}  // namespace kiln

#endif  // KILN_GRAPH_SHAPE_CONTENT_H_
