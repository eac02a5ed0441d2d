// SPDX-License-Identifier: Apache-2.0
// Elements of CPU tensors by number, in any element type: for constants, text and the interpreter.
// Not for speed.
#ifndef KILN_GRAPH_TENSORS_H_
#define KILN_GRAPH_TENSORS_H_

#include <cstdint>
#include <vector>

#include "base/tensor.h"

namespace kiln {

// A dense tensor of `value` everywhere, converted as kCast does.
Tensor FilledTensor(DType type, std::vector<int64_t> shape, double value);

// Element `i` of a dense tensor. Integers and bool: ReadInt is exact (u64: the bits). Floats:
// ReadFloat is exact.
int64_t ReadInt(const Tensor& dense, int64_t i);
double ReadFloat(const Tensor& dense, int64_t i);

// The other way; an f64 is rounded to the type once, an integer wraps.
void WriteInt(Tensor& dense, int64_t i, int64_t value);
void WriteFloat(Tensor& dense, int64_t i, double value);

// `value` rounded to the values of a float type, once.
double RoundTo(double value, DType type);

// `tensor` itself if dense, else a dense copy.
Tensor Dense(const Tensor& tensor);

}  // namespace kiln

#endif  // KILN_GRAPH_TENSORS_H_
