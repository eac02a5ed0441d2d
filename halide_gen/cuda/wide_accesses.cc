// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cuda/wide_accesses.h"

#include <optional>

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Internal::const_true;
using Halide::Internal::ModulusRemainder;
using Halide::Internal::Ramp;

constexpr int kWordBits32 = 32;  // correctness
constexpr int kWordBytes = 4;    // correctness

struct Words {
  Halide::Type type;
  Expr index;
  ModulusRemainder alignment;
};

// The words of `op`'s elements, of this type; none where they begin within one, or end.
template <typename Access>
std::optional<Words> WordsOf(const Access& op, Halide::Type type) {
  const auto* ramp = op.index.template as<Ramp>();
  if (type.bits() >= kWordBits32 || type.lanes() * type.bits() % kWordBits32 != 0) return {};
  if (type.lanes() * type.bits() == kWordBits32) return {};  // one access as it is
  const int each = kWordBits32 / type.bits(), words = type.lanes() / each;
  const bool whole = op.alignment.modulus % each == 0 && op.alignment.remainder % each == 0 &&
                     op.param.defined() && op.param.host_alignment() % kWordBytes == 0;
  if (ramp == nullptr || !Halide::Internal::is_const_one(ramp->stride) || !whole ||
      !Halide::Internal::is_const_one(op.predicate))
    return {};
  const Expr base = Halide::Internal::simplify(ramp->base / each);
  return Words{Halide::Int(kWordBits32, words), Ramp::make(base, 1, words), op.alignment / each};
}

}  // namespace

Expr WideAccesses::visit(const Halide::Internal::Load* op) {
  const std::optional<Words> words = WordsOf(*op, op->type);
  if (!words) return IRMutator::visit(op);
  return Halide::reinterpret(
      op->type,
      Halide::Internal::Load::make(words->type, op->name, words->index, op->image, op->param,
                                   const_true(words->type.lanes()), words->alignment));
}

Halide::Internal::Stmt WideAccesses::visit(const Halide::Internal::Store* op) {
  const std::optional<Words> words = WordsOf(*op, op->value.type());
  if (!words) return IRMutator::visit(op);
  return Halide::Internal::Store::make(
      op->name, Halide::reinterpret(words->type, mutate(op->value)), words->index, op->param,
      const_true(words->type.lanes()), words->alignment);
}

}  // namespace kiln
