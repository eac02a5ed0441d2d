// SPDX-License-Identifier: Apache-2.0
// ProductForm: a "matmul" as cuBLASLt takes it, in columns: D = epilogue(op(A) op(B) + C + bias).
//
//   matmul [5, 64, 32] x [32, 48] + [48]     A: 48 x 32 in columns of the second operand,
//                                            B: 32 x 320 of the first, bias of 48
//
// Batches go into the library's strided batch, the one with most products, and loops around it.
#ifndef KILN_EXEC_CUDA_PRODUCT_FORM_H_
#define KILN_EXEC_CUDA_PRODUCT_FORM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "exec/library/primitive.h"

namespace kiln::cuda {

struct ProductForm {
  // Columns of `rows` elements, `ld` apart. `transposed`: op is the transpose of that. `step`: in
  // elements, to the next of the strided batch.
  struct Matrix {
    int64_t rows = 0, columns = 0, ld = 0, step = 0;
    bool transposed = false;
  };
  // A batch around the strided one: steps, in elements, of A, B, C and D.
  struct Loop {
    int64_t extent = 1, a = 0, b = 0, c = 0, d = 0;
  };

  DType type = DType::kF32;
  Matrix a, b, c, d;  // c: of `addend`, else d's
  int64_t batch = 1;  // extent of the strided one
  std::vector<Loop> loops;
  // Inputs of the request; -1: there is none.
  int bias = -1, addend = -1;
  bool relu = false, gelu = false;

  // All that the library's heuristics see.
  std::string Text() const;
};

// kUnimplemented: strides, types or post-ops that are not the library's; which.
absl::StatusOr<ProductForm> ProductFormOf(const library::Request& request);

}  // namespace kiln::cuda

#endif  // KILN_EXEC_CUDA_PRODUCT_FORM_H_
