// SPDX-License-Identifier: Apache-2.0
// conv_backward_weights as a plain loop: for types that oneDNN does not take, and for inputs
// without elements (the gradient is 0).
#ifndef KILN_EXEC_LIBRARY_CONV_BACKWARD_LOOP_H_
#define KILN_EXEC_LIBRARY_CONV_BACKWARD_LOOP_H_

#include <memory>

#include "exec/library/primitive.h"
#include "exec/library/shapes.h"

namespace kiln::library {

// `conv`: the convolution of x and the weight to the cotangent; `form` is its. Its weight is what
// the primitive writes, from x and the cotangent. Sums over images, then places, in order; f16 and
// bf16 in f32.
std::unique_ptr<Primitive> MakeConvBackwardLoop(const Request& conv, const ConvForm& form);

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_CONV_BACKWARD_LOOP_H_
