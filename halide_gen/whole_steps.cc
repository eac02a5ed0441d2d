// SPDX-License-Identifier: Apache-2.0
#include "kiln/halide_gen/whole_steps.h"

namespace kiln {

using Halide::Expr;
using Halide::Internal::Broadcast;
using Halide::Internal::Call;
using Halide::Internal::For;
using Halide::Internal::ForType;
using Halide::Internal::IfThenElse;
using Halide::Internal::LE;
using Halide::Internal::Let;
using Halide::Internal::LetStmt;
using Halide::Internal::Load;
using Halide::Internal::LT;
using Halide::Internal::Ramp;
using Halide::Internal::ScopedBinding;
using Halide::Internal::ScopedValue;
using Halide::Internal::Stmt;
using Halide::Internal::Variable;

Stmt WholeSteps::visit(const For* loop) {
  const ScopedValue<std::string> inside(loop_, loop->for_type == ForType::Serial ? loop->name : "");
  return IRMutator::visit(loop);
}

Stmt WholeSteps::visit(const IfThenElse* op) {
  const ScopedValue<std::string> outside(loop_, "");
  return IRMutator::visit(op);
}

template <typename LetOrLetStmt>
auto WholeSteps::MutateLet(const LetOrLetStmt* op) {
  const Expr value = mutate(op->value);
  const ScopedBinding<Expr> bind(value.type().is_vector(), masks_, op->name, value);
  return LetOrLetStmt::make(op->name, value, mutate(op->body));
}

Stmt WholeSteps::visit(const LetStmt* op) { return MutateLet(op); }
Expr WholeSteps::visit(const Let* op) { return MutateLet(op); }

Expr WholeSteps::visit(const Load* op) {
  if (loop_.empty() || Halide::Internal::is_const_one(op->predicate)) return op;
  const Expr whole = LastLane(op->predicate);
  if (!whole.defined() || !Halide::Internal::expr_uses_var(whole, loop_)) return op;
  const Expr unmasked = Load::make(op->type, op->name, op->index, op->image, op->param,
                                   Halide::Internal::const_true(op->type.lanes()), op->alignment);
  return Call::make(op->type, Call::if_then_else, {whole, unmasked, Expr(op)}, Call::PureIntrinsic);
}

Expr WholeSteps::LastLane(const Expr& mask) const {
  if (const auto* name = mask.as<Variable>()) {
    const Expr* const value = masks_.find(name->name);
    return value == nullptr ? Expr() : LastLane(*value);
  }
  const auto* below = mask.as<LT>();
  const auto* up_to = mask.as<LE>();
  if (below == nullptr && up_to == nullptr) return Expr();
  const auto* ramp = (below ? below->a : up_to->a).as<Ramp>();
  const auto* limit = (below ? below->b : up_to->b).as<Broadcast>();
  if (ramp == nullptr || limit == nullptr || ramp->base.type().is_vector()) return Expr();
  if (limit->value.type().is_vector() || !Halide::Internal::is_const_one(ramp->stride))
    return Expr();
  const Expr last = ramp->base + (ramp->lanes - 1);
  return below ? last < limit->value : last <= limit->value;
}

}  // namespace kiln
