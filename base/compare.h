// SPDX-License-Identifier: Apache-2.0
// The one comparer of tensors.
//
// Types and shapes must be equal. Integers and bool must be equal. Floats: |got - want| <= atol +
// rtol * |want|; NaN equals NaN, infinities of one sign are equal, and neither equals anything
// else. With rtol = atol = 0 floats must have equal values (-0 equals 0); CompareBits asks for
// equal bits.
#ifndef KILN_BASE_COMPARE_H_
#define KILN_BASE_COMPARE_H_

#include <cstdint>
#include <string>

#include "base/sha256.h"
#include "base/tensor.h"

namespace kiln {

struct Comparison {
  bool ok = false;
  double max_abs = 0;      // largest |got - want| where both are finite
  double max_rel = 0;      // largest |got - want| / |want| where want is finite and not 0
  int64_t mismatches = 0;  // elements out of bounds
  std::string what;        // the first mismatch, or why the two cannot be compared; empty when ok
};

Comparison Compare(const Tensor& got, const Tensor& want, double rtol, double atol);

// Equal types, shapes and bits, except that any NaN equals any NaN.
Comparison CompareBits(const Tensor& got, const Tensor& want);

// Equal for those tensors, and no others, that CompareBits finds equal: the SHA-256 of a line with
// type and shape, as "f32 [2, 64]\n", and the elements in their order, little-endian, each NaN as
// the quiet one without sign or payload.
Sha256Digest DigestOf(const Tensor& tensor);

// Standard deviation of the finite elements of a float tensor; 0 for others.
double StandardDeviation(const Tensor& tensor);

}  // namespace kiln

#endif  // KILN_BASE_COMPARE_H_
