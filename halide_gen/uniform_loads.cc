// SPDX-License-Identifier: Apache-2.0
#include "kiln/halide_gen/uniform_loads.h"

namespace kiln {

using Halide::Expr;
using Halide::Internal::And;
using Halide::Internal::Broadcast;
using Halide::Internal::Call;
using Halide::Internal::LE;
using Halide::Internal::Let;
using Halide::Internal::LetStmt;
using Halide::Internal::LT;
using Halide::Internal::Ramp;
using Halide::Internal::ScopedBinding;
using Halide::Internal::Stmt;
using Halide::Internal::Variable;

template <typename LetOrLetStmt>
auto UniformLoads::MutateLet(const LetOrLetStmt* op) {
  const Expr value = mutate(op->value);
  const ScopedBinding<Expr> bind(value.type().is_vector(), masks_, op->name, value);
  return LetOrLetStmt::make(op->name, value, mutate(op->body));
}

Stmt UniformLoads::visit(const LetStmt* op) { return MutateLet(op); }
Expr UniformLoads::visit(const Let* op) { return MutateLet(op); }

Expr UniformLoads::visit(const Call* op) {
  const bool masks = op->is_intrinsic(Call::if_then_else) && op->args.size() == 2;
  const auto* shared = masks ? op->args[1].as<Broadcast>() : nullptr;
  if (shared == nullptr || shared->value.type().is_vector()) return IRMutator::visit(op);
  const Expr first = FirstLane(op->args[0]);
  if (!first.defined()) return IRMutator::visit(op);
  const Expr value = mutate(shared->value);
  const Expr none = Halide::Internal::make_zero(value.type());
  return Broadcast::make(
      Call::make(value.type(), Call::if_then_else, {first, value, none}, op->call_type),
      op->type.lanes());
}

Expr UniformLoads::FirstLane(const Expr& mask) const {
  if (const auto* all = mask.as<Broadcast>()) {
    return all->value.type().is_scalar() ? all->value : Expr();
  }
  if (const auto* name = mask.as<Variable>()) {
    const Expr* const value = masks_.find(name->name);
    return value == nullptr ? Expr() : FirstLane(*value);
  }
  if (const auto* both = mask.as<And>()) {
    const Expr a = FirstLane(both->a), b = FirstLane(both->b);
    return a.defined() && b.defined() ? a && b : Expr();
  }
  const auto* below = mask.as<LT>();
  const auto* up_to = mask.as<LE>();
  if (below == nullptr && up_to == nullptr) return Expr();
  const auto* ramp = (below ? below->a : up_to->a).as<Ramp>();
  const auto* limit = (below ? below->b : up_to->b).as<Broadcast>();
  if (ramp == nullptr || limit == nullptr || ramp->base.type().is_vector()) return Expr();
  if (limit->value.type().is_vector() || !Halide::Internal::is_positive_const(ramp->stride)) {
    return Expr();
  }
  return below ? ramp->base < limit->value : ramp->base <= limit->value;
}

}  // namespace kiln
