// SPDX-License-Identifier: Apache-2.0
// Matmul as a plain loop, for types and strides that oneDNN does not take.
#ifndef KILN_EXEC_LIBRARY_REFERENCE_MATMUL_H_
#define KILN_EXEC_LIBRARY_REFERENCE_MATMUL_H_

#include <memory>

#include "exec/library/primitive.h"
#include "exec/library/shapes.h"

namespace kiln::library {

// Sums in order of k; f16 and bf16 in f32, integers wrap.
std::unique_ptr<Primitive> MakeReferenceMatmul(DType type, MatmulForm form);

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_REFERENCE_MATMUL_H_
