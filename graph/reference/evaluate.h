// SPDX-License-Identifier: Apache-2.0
// The loops of the interpreter over wide tensors: dense, f64 for floats, i64 for all others.
#ifndef KILN_GRAPH_REFERENCE_EVALUATE_H_
#define KILN_GRAPH_REFERENCE_EVALUATE_H_

#include <span>
#include <vector>

#include "graph/op.h"

namespace kiln::reference {

// To and from the wide form.
Tensor Widen(const Tensor& tensor);
Tensor ToDeclared(const Tensor& wide, DType type);

// out[o] = body(inputs broadcast at o). Inputs of the body are read by their number.
void Map(const ScalarExpr& body, const std::vector<Tensor>& inputs, Tensor& out);

// out = after(op over `axes` of before(x)); `type` is the accumulator's type. Empty reductions give
// the op's value of nothing.
void Reduce(const ReduceRule& rule, DType type, const Tensor& x, const std::vector<int>& axes,
            Tensor& out);

// out[o] by the map, elements being of `type`. A coordinate outside its axis is kInternal: the map
// is wrong.
absl::Status Move(const IndexMap& map, const SymbolValues& symbols,
                  const std::vector<Tensor>& inputs, DType type, Tensor& out);

// Rounds every element to a float type; wraps every element to an integer type.
void RoundAll(Tensor& wide, DType type);
void WrapAll(Tensor& wide, DType type);

}  // namespace kiln::reference

#endif  // KILN_GRAPH_REFERENCE_EVALUATE_H_
