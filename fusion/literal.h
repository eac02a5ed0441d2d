// SPDX-License-Identifier: Apache-2.0
// Numbers on the border between tensors and kernels: one-element constants as literals, literal
// bits as bytes.
#ifndef KILN_FUSION_LITERAL_H_
#define KILN_FUSION_LITERAL_H_

#include <cstdint>
#include <optional>
#include <string>

#include "base/tensor.h"
#include "graph/graph.h"

namespace kiln {

// The bits that kConst holds for element 0 of a tensor, in its compute type.
uint64_t LiteralBitsOf(const Tensor& tensor);
// Those of a constant with one element; nothing for any other value.
std::optional<uint64_t> LiteralOf(const Value& value);
// Likewise as a number (64-bit integers are rounded).
std::optional<double> NumberOf(const Value& value);
// The bytes of a parameter of `type` (a compute type) from the bits that kConst holds.
std::string ParamBytes(DType type, uint64_t bits);

}  // namespace kiln

#endif  // KILN_FUSION_LITERAL_H_
