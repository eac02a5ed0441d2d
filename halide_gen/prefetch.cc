// SPDX-License-Identifier: Apache-2.0
#include "kiln/halide_gen/prefetch.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Type;
using Halide::Internal::Call;
using Halide::Internal::For;
using Halide::Internal::ForType;
using Halide::Internal::IRVisitor;
using Halide::Internal::Let;
using Halide::Internal::LetStmt;
using Halide::Internal::Load;
using Halide::Internal::Ramp;
using Halide::Internal::Stmt;
using Halide::Internal::Variable;

constexpr int kLine = 64;          // bytes that come at once
constexpr int kAhead = 2048;       // bytes of an input between what is read and what is asked for
constexpr size_t kMostLines = 16;  // asked for in a step
constexpr int kMostNames = 64;     // in an index

// A vector loaded in a step: elements [first, first + span) of `buffer`.
struct Vector {
  std::string buffer;
  Type type;
  Expr first;
  int span = 0;
};

// True if an expression has more than kMostNames names, or a node that is no arithmetic on
// integers.
class Opaque : public IRVisitor {
 public:
  static bool Is(const Expr& expr) {
    Opaque opaque;
    expr.accept(&opaque);
    return opaque.is_;
  }

 private:
  using IRVisitor::visit;
  void visit(const Load*) override { is_ = true; }
  void visit(const Let*) override { is_ = true; }
  void visit(const Call* op) override {
    is_ = is_ || !op->is_pure();
    IRVisitor::visit(op);
  }
  void visit(const Variable*) override { is_ = is_ || ++names_ > kMostNames; }

  bool is_ = false;
  int names_ = 0;
};

// The vectors that a step of a loop loads, but not those of loops inside. Names bound in the step
// are replaced by what they stand for; where that is no arithmetic, so that they have no meaning
// before the step, vectors are left out.
class LoadsOfStep : public IRVisitor {
 public:
  explicit LoadsOfStep(const std::set<std::string>& inputs) : inputs_(inputs) {}
  const std::vector<Vector>& vectors() const { return vectors_; }

 private:
  using IRVisitor::visit;
  void visit(const For*) override {}
  void visit(const LetStmt* op) override {
    Bind(op->name, op->value);
    op->body.accept(this);
  }
  void visit(const Let* op) override {
    Bind(op->name, op->value);
    op->body.accept(this);
  }
  void visit(const Load* op) override {
    IRVisitor::visit(op);
    if (inputs_.count(op->name) == 0 || Opaque::Is(op->index)) return;
    const Expr index = Halide::Internal::substitute(known_, op->index);
    const auto* ramp = index.as<Ramp>();
    if (ramp == nullptr || Opaque::Is(ramp->base)) return;
    if (Halide::Internal::expr_uses_vars(ramp->base, inner_)) return;
    const auto stride = Halide::Internal::as_const_int(ramp->stride);
    if (!stride || *stride < 1 || *stride * op->type.bytes() > kLine / 2) return;
    const Vector vector{op->name, op->type.element_of(), ramp->base,
                        static_cast<int>(*stride) * ramp->lanes};
    const bool known = std::any_of(vectors_.begin(), vectors_.end(), [&](const Vector& other) {
      return other.buffer == vector.buffer && Halide::Internal::equal(other.first, vector.first);
    });
    if (!known) vectors_.push_back(vector);
  }

  void Bind(const std::string& name, const Expr& value) {
    value.accept(this);
    const Expr in_full = Halide::Internal::substitute(known_, value);
    if (Opaque::Is(in_full)) {
      inner_.push(name);
    } else {
      known_[name] = in_full;
    }
  }

  const std::set<std::string>& inputs_;
  std::map<std::string, Expr> known_;
  Halide::Internal::Scope<> inner_;
  std::vector<Vector> vectors_;
};

// By how many elements `index` grows at each step of `loop`, if that is the same for all.
std::optional<Expr> Growth(const Expr& index, const For& loop) {
  if (!Halide::Internal::expr_uses_var(index, loop.name)) return std::nullopt;
  const Expr next = Variable::make(Halide::Int(32), loop.name) + 1;
  const Expr growth =
      Halide::Internal::simplify(Halide::Internal::substitute(loop.name, next, index) - index);
  if (Halide::Internal::expr_uses_var(growth, loop.name)) return std::nullopt;
  return growth;
}

}  // namespace

Stmt Prefetching::visit(const For* loop) {
  Stmt body = mutate(loop->body);
  if (loop->for_type != ForType::Serial) {
    return For::make(loop->name, loop->min, loop->extent, loop->for_type, loop->partition_policy,
                     loop->device_api, body);
  }
  LoadsOfStep loads(inputs_);
  loop->body.accept(&loads);
  size_t lines = 0;
  for (const Vector& vector : loads.vectors()) {
    const std::optional<Expr> growth = Growth(vector.first, *loop);
    if (!growth) continue;
    const int bytes = vector.span * vector.type.bytes();
    const auto step = Halide::Internal::as_const_int(*growth);
    const int64_t step_bytes = step ? std::abs(*step) * vector.type.bytes() : bytes;
    const int64_t steps = std::max<int64_t>(1, kAhead / std::max<int64_t>(1, step_bytes));
    const Expr first = Halide::Internal::simplify(vector.first + *growth * static_cast<int>(steps));
    const Expr base = Variable::make(Halide::Handle(), vector.buffer);
    for (int at = 0; at < bytes && lines < kMostLines; at += kLine, ++lines) {
      const Expr line = Call::make(vector.type, Call::prefetch,
                                   {base, first + at / vector.type.bytes(), 1, 1}, Call::Intrinsic);
      body = Halide::Internal::Block::make(Halide::Internal::Evaluate::make(line), body);
    }
  }
  return For::make(loop->name, loop->min, loop->extent, loop->for_type, loop->partition_policy,
                   loop->device_api, body);
}

}  // namespace kiln
