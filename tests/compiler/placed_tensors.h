// SPDX-License-Identifier: Apache-2.0
// Where a caller's tensors lie: the same elements in memory of another form, in several pieces, or
// memory for an output that is an input's.
//
//   Tensor x = Placed(value, draw);                   // dense, off its alignment, strides {-6, 2}
//   std::vector<Tensor> parts = PlacedParts(x, draw); // rows 0..2, none, 2..5
#ifndef KILN_TESTS_COMPILER_PLACED_TENSORS_H_
#define KILN_TESTS_COMPILER_PLACED_TENSORS_H_

#include <optional>
#include <vector>

#include "base/tensor.h"
#include "tests/compiler/draw.h"

namespace kiln {

// A copy of the dense `tensor`: dense, dense but not aligned, with gaps, with its axes in the other
// order, or with the first axis backwards.
Tensor Placed(const Tensor& tensor, Draw& draw);

// Pieces of the dense `tensor`, of one axis or more, along its first axis, each placed by itself;
// some are empty.
std::vector<Tensor> PlacedParts(const Tensor& tensor, Draw& draw);

// Memory of `like`'s type and shape within that of one of `inputs`, at its first byte or beside it.
// Nothing where none has so many bytes, or none was drawn; inputs without memory are passed over.
std::optional<Tensor> MemoryOver(const std::vector<Tensor>& inputs, const Tensor& like, Draw& draw);

}  // namespace kiln

#endif  // KILN_TESTS_COMPILER_PLACED_TENSORS_H_
