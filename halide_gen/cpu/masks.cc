// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/masks.h"

namespace kiln {

using Halide::Expr;
using Halide::Internal::Broadcast;
using Halide::Internal::LE;
using Halide::Internal::Let;
using Halide::Internal::LetStmt;
using Halide::Internal::LT;
using Halide::Internal::Ramp;
using Halide::Internal::ScopedBinding;
using Halide::Internal::Stmt;
using Halide::Internal::Variable;

std::optional<RowMask> FindRowMask(const Expr& mask) {
  const auto* below = mask.as<LT>();
  const auto* up_to = mask.as<LE>();
  if (below == nullptr && up_to == nullptr) return std::nullopt;
  const auto* ramp = (below ? below->a : up_to->a).as<Ramp>();
  const auto* limit = (below ? below->b : up_to->b).as<Broadcast>();
  if (ramp == nullptr || limit == nullptr || ramp->base.type().is_vector() ||
      limit->value.type().is_vector()) {
    return std::nullopt;
  }
  return RowMask{ramp->base, ramp->stride, ramp->lanes, limit->value, up_to != nullptr};
}

template <typename LetOrLetStmt>
auto MaskReader::MutateLet(const LetOrLetStmt* op) {
  const Expr value = mutate(op->value);
  const ScopedBinding<Expr> bind(value.type().is_vector(), vectors_, op->name, value);
  return LetOrLetStmt::make(op->name, value, mutate(op->body));
}

Stmt MaskReader::visit(const LetStmt* op) { return MutateLet(op); }
Expr MaskReader::visit(const Let* op) { return MutateLet(op); }

Expr MaskReader::Unnamed(Expr mask) const {
  while (const auto* name = mask.as<Variable>()) {
    const Expr* const value = vectors_.find(name->name);
    if (value == nullptr) break;
    mask = *value;
  }
  return mask;
}

Halide::Expr MaskReader::LastLane(const Halide::Expr& mask) const {
  const std::optional<RowMask> row = FindRowMask(Unnamed(mask));
  if (!row || !Halide::Internal::is_const_one(row->step)) return {};
  return row->Holds(row->first + (row->lanes - 1));
}

}  // namespace kiln
