// SPDX-License-Identifier: Apache-2.0
// Small computations on constants, carried out while a model is imported: exporters write operands
// such as the length of a range or the pads of a padding as arithmetic, in floats too.
#ifndef KILN_GRAPH_ONNX_CONSTANT_VALUE_H_
#define KILN_GRAPH_ONNX_CONSTANT_VALUE_H_

#include <optional>

#include "base/tensor.h"
#include "graph/graph.h"

namespace kiln::onnx {

// The elements of `value` if it is made of constants, and of extents that are known, alone, by
// small steps; else nothing. What is computed is what the interpreter gives. Takes its work off
// `budget` (kMaxInterpretedWork in limits.h) and gives nothing where that does not suffice.
std::optional<Tensor> ConstantValue(const Graph& graph, ValueId value, int64_t& budget);

}  // namespace kiln::onnx

#endif  // KILN_GRAPH_ONNX_CONSTANT_VALUE_H_
