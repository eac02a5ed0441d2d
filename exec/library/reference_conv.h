// SPDX-License-Identifier: Apache-2.0
// Convolution as a plain loop: for types that oneDNN does not take, and for inputs without elements
// (the result is the bias).
#ifndef KILN_EXEC_LIBRARY_REFERENCE_CONV_H_
#define KILN_EXEC_LIBRARY_REFERENCE_CONV_H_

#include <memory>

#include "exec/library/primitive.h"
#include "exec/library/shapes.h"

namespace kiln::library {

// `form` is that of `request`. Sums over channels, then taps, in order; f16 and bf16 in f32,
// integers wrap.
std::unique_ptr<Primitive> MakeReferenceConv(const Request& request, const ConvForm& form,
                                             bool transposed);

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_REFERENCE_CONV_H_
