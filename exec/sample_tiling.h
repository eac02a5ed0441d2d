// SPDX-License-Identifier: Apache-2.0
// Sample tiling: library operators of floats that run sample by sample along the first dim of their
// result, so that each sample has the bits that it has alone (RunOptions::batch_invariant).
//
//   conv    x [8, 3, H, W], w          8 times x [1, 3, H, W], w
//   matmul  a [8, 128, K], b [K, P]    8 times a [1, 128, K], b
//   matmul  a [8, K], b [K, P]         8 times a [1, K], b: each row is a sample
//
// What a library sums, and in which order, depends on the shapes, strides and threads that it is
// asked for. So the request is that of one sample, and nothing else of the batch decides about it.
// Operators of integers are exact, and those that only move or compare elements have nothing to
// sum: they run whole, as kernels do, whose bits never depend on extents (docs/numerics.md).
#ifndef KILN_EXEC_SAMPLE_TILING_H_
#define KILN_EXEC_SAMPLE_TILING_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "exec/checked_program.h"
#include "exec/operands.h"

namespace kiln {

// How a library thunk is cut.
struct SampleCut {
  int64_t samples = 0;    // 0: not at all
  std::vector<bool> cut;  // inputs, then outputs: cut along the first axis; others are shared
};

// kUnimplemented: its samples are not along the first axis, or do not follow each other in memory.
absl::StatusOr<SampleCut> CutIntoSamples(const CheckedProgram& program, const CheckedThunk& thunk,
                                         const Operands& operands);

// Makes the operands those of the first sample, and says where the next one's lie.
void TakeFirstSample(const SampleCut& cut, Operands& operands);

}  // namespace kiln

#endif  // KILN_EXEC_SAMPLE_TILING_H_
