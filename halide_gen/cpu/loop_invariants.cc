// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/loop_invariants.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Internal::Allocate;
using Halide::Internal::Call;
using Halide::Internal::Div;
using Halide::Internal::For;
using Halide::Internal::ForType;
using Halide::Internal::IfThenElse;
using Halide::Internal::IRGraphMutator;
using Halide::Internal::IRGraphVisitor;
using Halide::Internal::Let;
using Halide::Internal::LetStmt;
using Halide::Internal::Load;
using Halide::Internal::Mod;
using Halide::Internal::Stmt;
using Halide::Internal::Store;
using Halide::Internal::Variable;

using Values = std::set<Expr, Halide::Internal::IRDeepCompare>;
using Names = std::map<Expr, std::string, Halide::Internal::IRDeepCompare>;

constexpr size_t kMostSteady = 8;  // speed: more would not stay in registers

// Names that a loop's body gives a meaning, buffers that it writes, and loops inside.
class Own : public IRGraphVisitor {
 public:
  std::set<std::string> names, written;
  bool has_loops = false;

 private:
  using IRGraphVisitor::visit;
  void visit(const For*) override { has_loops = true; }
  void visit(const Allocate* op) override {
    written.insert(op->name);
    IRGraphVisitor::visit(op);
  }
  void visit(const LetStmt* op) override {
    names.insert(op->name);
    IRGraphVisitor::visit(op);
  }
  void visit(const Let* op) override {
    names.insert(op->name);
    IRGraphVisitor::visit(op);
  }
  void visit(const Store* op) override {
    written.insert(op->name);
    IRGraphVisitor::visit(op);
  }
};

// True if an expression reads none of the names.
class IsFree : public IRGraphVisitor {
 public:
  explicit IsFree(const std::set<std::string>& names) : names_(names) {}
  bool free = true;

 private:
  using IRGraphVisitor::visit;
  void visit(const Variable* op) override { free = free && names_.count(op->name) == 0; }
  void visit(const Load*) override { free = false; }

  const std::set<std::string>& names_;
};

// The loads that each step makes, whatever its conditions are.
class EachStep : public IRGraphVisitor {
 public:
  explicit EachStep(const Own& own) : own_(own) {}
  Values loads;

 private:
  using IRGraphVisitor::visit;
  void visit(const Load* op) override {
    IsFree index(own_.names);
    op->index.accept(&index);
    if (op->type.is_scalar() && index.free && Halide::Internal::is_const_one(op->predicate) &&
        own_.written.count(op->name) == 0) {
      loads.insert(op);
    } else {
      IRGraphVisitor::visit(op);
    }
  }
  void visit(const Call* op) override {
    if (op->is_intrinsic(Call::if_then_else)) {
      op->args[0].accept(this);
    } else {
      IRGraphVisitor::visit(op);
    }
  }
  void visit(const IfThenElse* op) override {
    op->condition.accept(this);
    if (!op->else_case.defined()) return;
    EachStep then(own_), otherwise(own_);
    op->then_case.accept(&then);
    op->else_case.accept(&otherwise);
    std::set_intersection(then.loads.begin(), then.loads.end(), otherwise.loads.begin(),
                          otherwise.loads.end(), std::inserter(loads, loads.end()),
                          loads.key_comp());
  }

  const Own& own_;
};

// Divisions and remainders, whatever their conditions are.
class Divisions : public IRGraphVisitor {
 public:
  explicit Divisions(const Own& own) : own_(own) {}
  Values divisions;

 private:
  using IRGraphVisitor::visit;
  void visit(const Div* op) override { Visit(op); }
  void visit(const Mod* op) override { Visit(op); }

  template <typename Quotient>
  void Visit(const Quotient* op) {
    IsFree parts(own_.names);
    op->a.accept(&parts);
    op->b.accept(&parts);
    const bool expensive =
        op->type.is_scalar() && !op->type.is_float() && !Halide::Internal::is_const(op->b);
    if (expensive && parts.free) {
      divisions.insert(op);
    } else {
      IRGraphVisitor::visit(op);
    }
  }

  const Own& own_;
};

// Puts names in place of values.
class Named : public IRGraphMutator {
 public:
  explicit Named(const Names& names) : names_(names) {}

 private:
  using IRGraphMutator::visit;
  Expr visit(const Load* op) override { return NameOf(op); }
  Expr visit(const Div* op) override { return NameOf(op); }
  Expr visit(const Mod* op) override { return NameOf(op); }

  template <typename Value>
  Expr NameOf(const Value* op) {
    const auto name = names_.find(op);
    return name == names_.end() ? IRGraphMutator::visit(op)
                                : Variable::make(op->type, name->second);
  }

  const Names& names_;
};

}  // namespace

Stmt LoopInvariants::visit(const For* loop) {
  Own own;
  own.names.insert(loop->name);
  loop->body.accept(&own);
  if (own.has_loops) return IRMutator::visit(loop);
  if (loop->for_type != ForType::Serial) return loop;
  EachStep each(own);
  loop->body.accept(&each);
  Divisions expensive(own);
  loop->body.accept(&expensive);
  Values invariant = std::move(expensive.divisions);
  if (each.loads.size() <= kMostSteady) invariant.merge(each.loads);
  if (invariant.empty()) return loop;
  Names names;
  for (const Expr& value : invariant)
    names.emplace(value, Halide::Internal::unique_name(loop->name + ".invariant"));
  Stmt moved = For::make(loop->name, loop->min, loop->extent, loop->for_type,
                         loop->partition_policy, loop->device_api, Named(names).mutate(loop->body));
  for (const auto& [value, name] : names) moved = LetStmt::make(name, value, moved);
  return IfThenElse::make(0 < loop->extent, moved);
}

}  // namespace kiln
