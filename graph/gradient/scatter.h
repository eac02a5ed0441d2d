// SPDX-License-Identifier: Apache-2.0
// Cotangents that go where data say: sums in the order of the places that read an element.
#ifndef KILN_GRAPH_GRADIENT_SCATTER_H_
#define KILN_GRAPH_GRADIENT_SCATTER_H_

#include "absl/status/statusor.h"
#include "graph/gradient/nodes.h"
#include "graph/op.h"

namespace kiln::gradient {

// The transpose of a piece whose coordinates are loaded, as those of gather, gather_elements and
// take are: what the piece's input, of shape `in`, takes from the cotangent `g` of shape `out`.
absl::StatusOr<ValueId> ScatterPiece(Nodes& m, const IndexPiece& piece, const Ids& inputs,
                                     const Shape& in, const Shape& out, ValueId g);

}  // namespace kiln::gradient

#endif  // KILN_GRAPH_GRADIENT_SCATTER_H_
