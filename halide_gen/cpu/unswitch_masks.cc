// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/unswitch_masks.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Internal::For;
using Halide::Internal::ForType;
using Halide::Internal::IfThenElse;
using Halide::Internal::Let;
using Halide::Internal::LetStmt;
using Halide::Internal::Load;
using Halide::Internal::Stmt;
using Halide::Internal::Variable;

bool Holds(const std::vector<Expr>& conditions, const Expr& condition) {
  return std::any_of(conditions.begin(), conditions.end(),
                     [&](const Expr& known) { return Halide::Internal::equal(known, condition); });
}

// Leaves out the masks for which `whole` are the conditions.
class Unmasked : public MaskReader {
 public:
  explicit Unmasked(const std::vector<Expr>& whole) : whole_(whole) {}

 protected:
  using MaskReader::visit;
  Expr visit(const Load* op) override {
    const Expr whole = LastLane(op->predicate);
    if (!whole.defined() || !Holds(whole_, whole)) return MaskReader::visit(op);
    return Load::make(op->type, op->name, mutate(op->index), op->image, op->param,
                      Halide::Internal::const_true(op->type.lanes()), op->alignment);
  }

 private:
  const std::vector<Expr>& whole_;
};

// The names that a statement gives values.
class Given : public Halide::Internal::IRVisitor {
 public:
  static std::set<std::string> In(const For* loop) {
    Given given;
    loop->accept(&given);
    return std::move(given.names_);
  }

 protected:
  using IRVisitor::visit;
  void visit(const Let* op) override {
    names_.insert(op->name);
    IRVisitor::visit(op);
  }
  void visit(const LetStmt* op) override {
    names_.insert(op->name);
    IRVisitor::visit(op);
  }
  void visit(const For* op) override {
    names_.insert(op->name);
    IRVisitor::visit(op);
  }

 private:
  std::set<std::string> names_;
};

bool UsesAny(const Expr& expr, const std::set<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return Halide::Internal::expr_uses_var(expr, name);
  });
}

}  // namespace

Stmt UnswitchMasks::visit(const For* loop) {
  std::vector<Expr> outer = std::exchange(whole_, {});
  has_loops_ = false;
  Stmt made = MaskReader::visit(loop);
  std::vector<Expr> whole = std::exchange(whole_, std::move(outer));
  if (std::exchange(has_loops_, true) || !pays_ || loop->for_type != ForType::Serial) return made;
  const std::set<std::string> given = Given::In(loop);
  whole.erase(std::remove_if(whole.begin(), whole.end(),
                             [&](const Expr& condition) { return UsesAny(condition, given); }),
              whole.end());
  if (whole.empty()) return made;
  Expr all = whole.front();
  for (size_t k = 1; k < whole.size(); ++k) all = all && whole[k];
  return IfThenElse::make(all, Unmasked(whole).mutate(made), made);
}

Expr UnswitchMasks::visit(const Load* op) {
  const Expr whole = LastLane(op->predicate);
  if (whole.defined() && !Holds(whole_, whole)) whole_.push_back(whole);
  return MaskReader::visit(op);
}

}  // namespace kiln
