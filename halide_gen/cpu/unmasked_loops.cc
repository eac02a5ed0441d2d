// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/unmasked_loops.h"

namespace kiln {

using Halide::Expr;
using Halide::Internal::Call;
using Halide::Internal::For;
using Halide::Internal::ForType;
using Halide::Internal::IfThenElse;
using Halide::Internal::Load;
using Halide::Internal::ScopedValue;
using Halide::Internal::Stmt;

Stmt UnmaskedLoops::visit(const For* loop) {
  const ScopedValue<std::string> inside(loop_, loop->for_type == ForType::Serial ? loop->name : "");
  return MaskReader::visit(loop);
}

Stmt UnmaskedLoops::visit(const IfThenElse* op) {
  const ScopedValue<std::string> outside(loop_, "");
  return MaskReader::visit(op);
}

Expr UnmaskedLoops::visit(const Load* op) {
  if (loop_.empty() || Halide::Internal::is_const_one(op->predicate)) return op;
  const Expr whole = LastLane(op->predicate);
  if (!whole.defined() || !Halide::Internal::expr_uses_var(whole, loop_)) return op;
  const Expr unmasked = Load::make(op->type, op->name, op->index, op->image, op->param,
                                   Halide::Internal::const_true(op->type.lanes()), op->alignment);
  return Call::make(op->type, Call::if_then_else, {whole, unmasked, Expr(op)}, Call::PureIntrinsic);
}

}  // namespace kiln
