// SPDX-License-Identifier: Apache-2.0
// Some neighbouring lanes of vectors, computed by themselves. Example: lanes i to i + 15 of
//   in0[ramp(y, 1, 64)] * x64(2.0f)
// are
//   in0[ramp(y + i, 1, 16)] * x16(2.0f)
//
// Private: has Halide.h.
#ifndef KILN_HALIDE_GEN_CPU_VECTOR_PART_H_
#define KILN_HALIDE_GEN_CPU_VECTOR_PART_H_

#include <Halide.h>

#include <map>
#include <string>

namespace kiln {

// Makes of expressions over vectors, all of one length, those over `lanes` lanes from `begin` on;
// scalars stay. Of shuffles it takes what the part needs, if `begin` is a constant.
class VectorPart : public Halide::Internal::IRMutator {
 public:
  VectorPart(Halide::Expr begin, int lanes);

  // From here on the part of the vector `name` is called `part`. Names that are not known are of
  // whole vectors.
  void Name(const std::string& name, const Halide::Expr& part) { named_[name] = part; }

  // Whether all that was met could be taken apart; else what was made is of no use.
  bool ok() const { return ok_; }

  using IRMutator::mutate;
  Halide::Expr mutate(const Halide::Expr& vector) override;

 protected:
  using IRMutator::visit;
  Halide::Expr visit(const Halide::Internal::Variable* op) override;
  Halide::Expr visit(const Halide::Internal::Broadcast* op) override;
  Halide::Expr visit(const Halide::Internal::Ramp* op) override;
  Halide::Expr visit(const Halide::Internal::Shuffle* op) override;
  Halide::Expr visit(const Halide::Internal::Load* op) override;
  Halide::Expr visit(const Halide::Internal::Cast* op) override;
  Halide::Expr visit(const Halide::Internal::Reinterpret* op) override;
  Halide::Expr visit(const Halide::Internal::Call* op) override;
  Halide::Expr visit(const Halide::Internal::Let* op) override;

 private:
  // The lanes of a vector, as they are.
  Halide::Expr Slice(const Halide::Expr& vector);

  const Halide::Expr begin_;
  const int lanes_;
  std::map<std::string, Halide::Expr> named_;
  bool ok_ = true;
};

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CPU_VECTOR_PART_H_
