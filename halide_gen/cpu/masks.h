// SPDX-License-Identifier: Apache-2.0
// Masks of the lanes of a vector that lie within a row, as lowering leaves them:
//   ramp(first, step, 16) < x16(limit)
// or with <=, often under a name.
//
// Private: has Halide.h.
#ifndef KILN_HALIDE_GEN_CPU_MASKS_H_
#define KILN_HALIDE_GEN_CPU_MASKS_H_

#include <Halide.h>

#include <optional>

namespace kiln {

// Whether a processor with vectors of so many floats has registers for masks (AVX-512).
inline bool HasMaskRegisters(int lanes) { return lanes * int{sizeof(float)} == 64; }

struct RowMask {
  Halide::Expr first, step;
  int lanes = 0;
  Halide::Expr limit;
  bool up_to = false;  // the limit is within, too

  // Whether the element at `at` lies within.
  Halide::Expr Holds(const Halide::Expr& at) const { return up_to ? at <= limit : at < limit; }
};

// Nothing if `mask` has another form.
std::optional<RowMask> FindRowMask(const Halide::Expr& mask);

// A lowering pass that knows what the names of masks stand for.
class MaskReader : public Halide::Internal::IRMutator {
 protected:
  using IRMutator::visit;
  Halide::Internal::Stmt visit(const Halide::Internal::LetStmt* op) override;
  Halide::Expr visit(const Halide::Internal::Let* op) override;

  // The vector that `mask` names; itself if it is no name in scope.
  Halide::Expr Unnamed(Halide::Expr mask) const;

  // A condition that holds if `mask` does for every lane; undefined if none is known.
  Halide::Expr LastLane(const Halide::Expr& mask) const;

 private:
  template <typename LetOrLetStmt>
  auto MutateLet(const LetOrLetStmt* op);

  Halide::Internal::Scope<Halide::Expr> vectors_;  // of names in scope
};

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CPU_MASKS_H_
