// SPDX-License-Identifier: Apache-2.0
// Values of other threads of a warp, and the fold of a reduction's 64 lanes. Private: has Halide.h.
//
// Shuffles are plain calls with all 32 lanes as members: the threads of a warp must be together
// where one stands, so nothing around it may branch; rows and elements beyond the last are clamped,
// and only stores are predicated.
#ifndef KILN_HALIDE_GEN_CUDA_SHUFFLES_H_
#define KILN_HALIDE_GEN_CUDA_SHUFFLES_H_

#include <Halide.h>

#include <vector>

#include "base/dtype.h"
#include "kernel/kernel.h"

namespace kiln {

// How the lanes of the tree lie in the `threads` of a row: thread t has 64 / threads of them, side
// by side, or `threads` apart.
struct LaneMap {
  int threads = 16;
  bool side_by_side = true;

  int each() const { return static_cast<int>(kReduceLanes) / threads; }
  // The lane that is number `v` of thread `t`.
  Halide::Expr Lane(const Halide::Expr& v, const Halide::Expr& t) const {
    return side_by_side ? t * each() + v : v * threads + t;
  }
};

// What Halide computes for uses under a condition only, it skips where the condition does not hold:
// so would threads skip a shuffle or a barrier, and a select would read shared memory that nobody
// has written. What a nest makes of values that threads share is
//   - guarded by conditions that Halide takes to have effects: those are not moved;
//   - of their own use of all that is shared, whatever selects stand around other uses.
Halide::Expr GuardOfShared(const Halide::Expr& condition);
Halide::Expr UsesShared(const std::vector<Halide::Expr>& shared, Halide::Expr value);

// Of the thread `distance` above the caller's in its `width` threads; what the last ones get is
// their own.
Halide::Expr FromAbove(const Halide::Expr& value, int distance, int width);
// Of the first of the `width` threads.
Halide::Expr FromFirst(const Halide::Expr& value, int width);

// The fold of kernel.h over a thread's lanes `values`, as all threads of the row get it.
Halide::Expr FoldLanes(ReduceOp op, DType type, const LaneMap& map,
                       std::vector<Halide::Expr> values);

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CUDA_SHUFFLES_H_
