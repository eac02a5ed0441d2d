// SPDX-License-Identifier: Apache-2.0
// The inner loops of a matrix times a vector, in the widest registers that the processor has.
#ifndef KILN_EXEC_LIBRARY_GEMV_ROWS_H_
#define KILN_EXEC_LIBRARY_GEMV_ROWS_H_

#include <cstdint>

namespace kiln::library {

// A matrix of `terms` x `sums`: every sum has one element of the vector per term.
struct GemvPart {
  const float* matrix;  // of the first sum of the part
  const float* vector;
  int64_t stride;  // of the axis that is not dense, in elements
  int64_t terms, sums;
  float* y;
  float* partial;  // for `across` in more than one share: Shares(terms, all sums) * sums elements
  int64_t shares;
  bool backwards;  // walks the matrix from its end: the same sums
  bool prefetch;   // the matrix comes from memory, not from a cache
};

// Sums over neighbouring rows are made of this many shares of the terms, which may be summed in any
// order; a power of two. Of the whole product's extents, so that they decide the bits alone.
int64_t Shares(int64_t terms, int64_t sums);

struct GemvRows {
  // Neighbouring sums are neighbours in memory: y[j] = sum over t of vector[t] * matrix[t * stride
  // + j].
  void (*across)(const GemvPart& part);
  // Neighbouring terms are: y[j] = sum over t of vector[t] * matrix[j * stride + t].
  void (*along)(const GemvPart& part);
};

// The loops for this processor; all give the same bits.
const GemvRows& GetGemvRows();

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_GEMV_ROWS_H_
