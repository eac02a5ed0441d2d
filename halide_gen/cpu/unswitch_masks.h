// SPDX-License-Identifier: Apache-2.0
// Loop unswitching: a loop whose masks it does not change runs without them where they hold for
// all lanes.
//
// A tile of columns that are reduced row by row loads each row under the mask of the tile, which
// only the last tile of a row needs. Without mask registers (AVX2) each mask takes a vector
// register all along the loop. Example:
//   for (r, 0, n) { sum[i] = sum[i] + in0[r*m + i] if i < x32(m) }       i = ramp(t*32, 1, 32)
// becomes
//   if (t*32 + 31 < m) for (r, 0, n) { sum[i] = sum[i] + in0[r*m + i] }
//   else for (r, 0, n) { sum[i] = sum[i] + in0[r*m + i] if i < x32(m) }
//
// Private: has Halide.h.
#ifndef KILN_HALIDE_GEN_CPU_UNSWITCH_MASKS_H_
#define KILN_HALIDE_GEN_CPU_UNSWITCH_MASKS_H_

#include <Halide.h>

#include <vector>

#include "halide_gen/cpu/masks.h"

namespace kiln {

// A lowering pass. Only innermost serial loops; masks of other forms stay where they are.
class UnswitchMasks : public MaskReader {
 public:
  explicit UnswitchMasks(bool pays) : pays_(pays) {}

 protected:
  using MaskReader::visit;
  Halide::Internal::Stmt visit(const Halide::Internal::For* loop) override;
  Halide::Expr visit(const Halide::Internal::Load* op) override;

 private:
  const bool pays_;  // where it does not, nothing is changed

  // Of the loop around: conditions under which a mask in it holds for all lanes, each once.
  std::vector<Halide::Expr> whole_;
  bool has_loops_ = false;  // inside of the loop around
};

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CPU_UNSWITCH_MASKS_H_
