// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/uniform_loads.h"

namespace kiln {

using Halide::Expr;
using Halide::Internal::And;
using Halide::Internal::Broadcast;
using Halide::Internal::Call;

Expr UniformLoads::visit(const Call* op) {
  const bool masks = op->is_intrinsic(Call::if_then_else) && op->args.size() == 2;
  const auto* shared = masks ? op->args[1].as<Broadcast>() : nullptr;
  if (shared == nullptr || shared->value.type().is_vector()) return MaskReader::visit(op);
  const Expr first = FirstLane(op->args[0]);
  if (!first.defined()) return MaskReader::visit(op);
  const Expr value = mutate(shared->value);
  const Expr none = Halide::Internal::make_zero(value.type());
  return Broadcast::make(
      Call::make(value.type(), Call::if_then_else, {first, value, none}, op->call_type),
      op->type.lanes());
}

Expr UniformLoads::FirstLane(const Expr& named) const {
  const Expr mask = Unnamed(named);
  if (const auto* all = mask.as<Broadcast>())
    return all->value.type().is_scalar() ? all->value : Expr();
  if (const auto* both = mask.as<And>()) {
    const Expr a = FirstLane(both->a), b = FirstLane(both->b);
    return a.defined() && b.defined() ? a && b : Expr();
  }
  const std::optional<RowMask> row = FindRowMask(mask);
  return row && Halide::Internal::is_positive_const(row->step) ? row->Holds(row->first) : Expr();
}

}  // namespace kiln
