// SPDX-License-Identifier: Apache-2.0
// What the inside of Kiln needs of element types (kiln/tensor.h): the type that a kernel computes
// in, and conversions of the two 16-bit floats.
#ifndef KILN_BASE_DTYPE_H_
#define KILN_BASE_DTYPE_H_

#include <cstdint>

#include "kiln/tensor.h"

namespace kiln {

// The type in which a kernel computes with elements of `type`: f32 for f16 and bf16, else `type`.
DType ComputeType(DType type);

// IEEE binary16 and bfloat16 bits to and from float: exact one way, round to nearest even the
// other; NaN stays NaN.
float HalfToFloat(uint16_t bits);
uint16_t FloatToHalf(float value);
float BFloatToFloat(uint16_t bits);
uint16_t FloatToBFloat(float value);

}  // namespace kiln

#endif  // KILN_BASE_DTYPE_H_
