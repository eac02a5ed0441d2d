// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/uniform_branches.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Internal::Broadcast;
using Halide::Internal::Call;
using Halide::Internal::Load;
using Halide::Internal::Ramp;
using Halide::Internal::Select;

class FindGathers : public Halide::Internal::IRGraphVisitor {
 public:
  bool found = false;

 protected:
  using IRGraphVisitor::visit;
  void visit(const Load* op) override {
    const auto* along = op->index.as<Ramp>();
    const bool neighbours = along != nullptr && Halide::Internal::is_const_one(along->stride);
    found = found || (op->type.is_vector() && !neighbours && op->index.as<Broadcast>() == nullptr);
    IRGraphVisitor::visit(op);
  }
};

bool Gathers(const Expr& value) {
  FindGathers gathers;
  value.accept(&gathers);
  return gathers.found;
}

}  // namespace

Expr UniformBranches::visit(const Select* op) {
  const auto* alike = op->condition.as<Broadcast>();
  const bool branches = alike != nullptr && alike->value.type().is_scalar() &&
                        (Gathers(op->true_value) || Gathers(op->false_value));
  if (!branches) return IRMutator::visit(op);
  return Call::make(op->type, Call::if_then_else,
                    {op->condition, mutate(op->true_value), mutate(op->false_value)},
                    Call::PureIntrinsic);
}

}  // namespace kiln
