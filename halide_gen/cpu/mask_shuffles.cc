// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/mask_shuffles.h"

#include <set>
#include <vector>

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Internal::Broadcast;
using Halide::Internal::IRMutator;
using Halide::Internal::make_const;
using Halide::Internal::make_zero;
using Halide::Internal::Select;
using Halide::Internal::Shuffle;

bool Repeats(const std::vector<int>& indices) {
  return std::set<int>(indices.begin(), indices.end()).size() < indices.size();
}

Expr Bytes(const Expr& mask) {
  const Halide::Type type = Halide::UInt(8, mask.type().lanes());
  return Select::make(mask, make_const(type, 1), make_zero(type));
}

Expr Mask(const Expr& bytes) { return bytes != make_zero(bytes.type()); }

}  // namespace

Expr MaskShuffles::visit(const Shuffle* op) {
  if (!op->type.is_bool() || !Repeats(op->indices)) return IRMutator::visit(op);
  std::vector<Expr> vectors;
  for (const Expr& vector : op->vectors) vectors.push_back(Bytes(mutate(vector)));
  return Mask(Shuffle::make(vectors, op->indices));
}

Expr MaskShuffles::visit(const Broadcast* op) {
  if (!op->type.is_bool() || op->value.type().is_scalar()) return IRMutator::visit(op);
  return Mask(Broadcast::make(Bytes(mutate(op->value)), op->lanes));
}

}  // namespace kiln
