// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cuda/exact_arithmetic.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "halide_gen/common/vector_fma.h"
#include "halide_gen/cuda/device_library.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Internal::Call;
using Halide::Internal::Stmt;

// NVVM's function of this name, rounding to nearest even, for the type.
Expr Rounding(const char* name, Halide::Type type, const std::vector<Expr>& operands) {
  const char* const suffix = type.bits() == 64 ? ".rn.d" : ".rn.f";
  return Call::make(type, std::string("llvm.nvvm.") + name + suffix, operands, Call::PureExtern);
}

bool IsExact(Halide::Type type) { return type.is_float() && type.bits() >= 32; }

Expr Difference(const Expr& a, const Expr& b) {
  return Rounding("fma", a.type(), {b, Halide::Internal::make_const(a.type(), -1.0), a});
}

bool IsSignedByte(Halide::Type type) { return type.element_of() == Halide::Int(8); }

// The signed byte in 32 bits.
Expr Extended(const Expr& byte) {
  return Call::make(Halide::Int(32, byte.type().lanes()), kDeviceWidenI8, {byte}, Call::PureExtern);
}

// Whether the value is a term of the launch recipe: integers of 32 bits, made of extents and
// strides by arithmetic and comparisons, and of no name in `sunk`.
class OfHost : public Halide::Internal::IRVisitor {
 public:
  explicit OfHost(const std::vector<std::pair<std::string, Expr>>& sunk) : sunk_(sunk) {}
  bool holds = true;

 private:
  using IRVisitor::visit;
  void visit(const Halide::Internal::Variable* op) override {
    const bool sunk = std::any_of(sunk_.begin(), sunk_.end(),
                                  [&](const auto& let) { return let.first == op->name; });
    holds = holds && !sunk && !absl::StartsWith(op->name, "par");
  }
  void visit(const Halide::Internal::Load*) override { holds = false; }
  void visit(const Halide::Internal::Let*) override { holds = false; }
  void visit(const Halide::Internal::FloatImm*) override { holds = false; }
  void visit(const Halide::Internal::Cast* op) override {
    holds = holds && op->type == Halide::Int(32) && op->value.type().is_int_or_uint();
    op->value.accept(this);
  }
  void visit(const Call* op) override {
    holds =
        holds && (op->is_intrinsic(Call::likely) || op->is_intrinsic(Call::likely_if_innermost) ||
                  op->name == Call::buffer_get_stride || op->name == Call::buffer_get_host);
    if (op->name != Call::buffer_get_host) IRVisitor::visit(op);
  }

  const std::vector<std::pair<std::string, Expr>>& sunk_;
};

bool StaysOnHost(const Halide::Internal::LetStmt& let,
                 const std::vector<std::pair<std::string, Expr>>& sunk) {
  const Halide::Type type = let.value.type();
  if (type.is_handle()) return true;
  OfHost of_host(sunk);
  let.value.accept(&of_host);
  return type == Halide::Int(32) && of_host.holds;
}

}  // namespace

Expr ExactArithmetic::visit(const Halide::Internal::Add* op) {
  if (!IsExact(op->type)) return IRMutator::visit(op);
  return Rounding("add", op->type, {mutate(op->a), mutate(op->b)});
}

Expr ExactArithmetic::visit(const Halide::Internal::Sub* op) {
  if (!IsExact(op->type)) return IRMutator::visit(op);
  return Difference(mutate(op->a), mutate(op->b));
}

Expr ExactArithmetic::visit(const Halide::Internal::Mul* op) {
  if (!IsExact(op->type)) return IRMutator::visit(op);
  return Rounding("mul", op->type, {mutate(op->a), mutate(op->b)});
}

Expr ExactArithmetic::visit(const Halide::Internal::Div* op) {
  if (!IsExact(op->type)) return IRMutator::visit(op);
  return Rounding("div", op->type, {mutate(op->a), mutate(op->b)});
}

template <typename Op>
Expr ExactArithmetic::Compare(const Op* op) {
  if (!IsSignedByte(op->a.type())) return IRMutator::visit(op);
  return Op::make(Extended(mutate(op->a)), Extended(mutate(op->b)));
}

Expr ExactArithmetic::visit(const Halide::Internal::LT* op) { return Compare(op); }
Expr ExactArithmetic::visit(const Halide::Internal::LE* op) { return Compare(op); }
Expr ExactArithmetic::visit(const Halide::Internal::GT* op) { return Compare(op); }
Expr ExactArithmetic::visit(const Halide::Internal::GE* op) { return Compare(op); }

Expr ExactArithmetic::visit(const Halide::Internal::Cast* op) {
  const bool wider = op->type.is_int_or_uint() && op->type.bits() > 8;
  if (wider && IsSignedByte(op->value.type()))
    return Halide::cast(op->type, Extended(mutate(op->value)));
  return IRMutator::visit(op);
}

Expr ExactArithmetic::visit(const Call* op) {
  if (!IsExact(op->type)) return IRMutator::visit(op);
  std::vector<Expr> operands;
  for (const Expr& operand : op->args) operands.push_back(mutate(operand));
  if (op->is_intrinsic(Call::strict_add)) return Rounding("add", op->type, operands);
  if (op->is_intrinsic(Call::strict_sub)) return Difference(operands[0], operands[1]);
  if (op->is_intrinsic(Call::strict_mul)) return Rounding("mul", op->type, operands);
  if (op->is_intrinsic(Call::strict_div)) return Rounding("div", op->type, operands);
  if (op->name == VectorFmaName(op->type.bits())) return Rounding("fma", op->type, operands);
  if (op->name == "sqrt_f32" || op->name == "sqrt_f64") return Rounding("sqrt", op->type, operands);
  return IRMutator::visit(op);
}

Stmt ScalarsInThreads::visit(const Halide::Internal::LetStmt* op) {
  if (StaysOnHost(*op, sunk_)) return IRMutator::visit(op);
  sunk_.emplace_back(op->name, op->value);
  Stmt body = mutate(op->body);
  sunk_.pop_back();
  return body;
}

// The body of the innermost loop over threads: there are no others in it.
Stmt ScalarsInThreads::visit(const Halide::Internal::For* op) {
  class Threads : public Halide::Internal::IRVisitor {
   public:
    bool found = false;

   private:
    using IRVisitor::visit;
    void visit(const Halide::Internal::For* loop) override {
      found = found || loop->for_type == Halide::Internal::ForType::GPUThread;
      IRVisitor::visit(loop);
    }
  };
  if (op->for_type != Halide::Internal::ForType::GPUThread) return IRMutator::visit(op);
  Threads inner;
  op->body.accept(&inner);
  if (inner.found) return IRMutator::visit(op);
  Stmt body = op->body;
  for (auto let = sunk_.rbegin(); let != sunk_.rend(); ++let)
    body = Halide::Internal::LetStmt::make(let->first, let->second, body);
  return Halide::Internal::For::make(op->name, op->min, op->extent, op->for_type,
                                     op->partition_policy, op->device_api, body);
}

}  // namespace kiln
