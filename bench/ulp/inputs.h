// SPDX-License-Identifier: Apache-2.0
// What functions are tried on.
//
// One operand: all bit patterns of f32, f16 and bf16; of f64 a sample, 64 significands for each
// sign and exponent, and dense ones around 0 and 1. Two operands: all pairs of f16 and of bf16; of
// f32 and f64 a sample, the same in every run:
// - special values (zeros, denormals, powers of two, integers, halves, the largest, infinities,
//   NaN and neighbours of those), each with each;
// - each exponent with each (f64: with 512 others), signs and significands at random;
// - x at random, near 1 at times, and the y for which x^y is 2^t, with t all over the range of
//   exponents and about its ends;
// - x of both signs, and y an integer or half of one, with results within the range;
// - x = y * 2^t about the ends of the range, where quotients overflow or are denormal.
#ifndef KILN_BENCH_ULP_INPUTS_H_
#define KILN_BENCH_ULP_INPUTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/dtype.h"

namespace kiln::ulp {

// Elements of one type; y is empty for functions of one operand.
struct Arrays {
  std::vector<uint8_t> x, y;
};

class Inputs {
 public:
  Inputs(DType type, int operands);

  uint64_t size() const { return size_; }
  bool all() const { return x_.empty(); }  // there are no others
  void Append(uint64_t index, Arrays& to) const;

 private:
  size_t bytes_;  // of an element
  int operands_;
  uint64_t size_;
  std::vector<uint64_t> x_, y_;  // the sample
};

}  // namespace kiln::ulp

#endif  // KILN_BENCH_ULP_INPUTS_H_
