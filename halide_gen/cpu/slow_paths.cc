// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/slow_paths.h"

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Internal::Call;
using Halide::Internal::IRGraphMutator;
using Halide::Internal::IRGraphVisitor;
using Halide::Internal::Let;
using Halide::Internal::Select;
using Halide::Internal::Variable;
using Halide::Internal::VectorReduce;

using Value = std::function<Expr(const Expr&)>;  // of a name; the name itself if it is not known

// All names that an expression stands on.
class Names : public IRGraphVisitor {
 public:
  explicit Names(const Value& value) : value_(value) {}
  std::set<std::string> names;

 protected:
  using IRGraphVisitor::visit;
  void visit(const Variable* op) override {
    if (!names.insert(op->name).second) return;
    const Expr value = value_(op);
    if (!value.same_as(Expr(op))) value.accept(this);
  }

 private:
  const Value& value_;
};

// Puts values in the place of names, but of those that `kept` has.
class Inlined : public IRGraphMutator {
 public:
  Inlined(const Value& value, const std::set<std::string>& kept) : value_(value), kept_(kept) {}

 protected:
  using IRGraphMutator::visit;
  Expr visit(const Variable* op) override {
    if (kept_.count(op->name) > 0) return op;
    const auto [made, is_new] = made_.emplace(op->name, op);
    if (!is_new) return made->second;
    const Expr value = value_(op);
    if (!value.same_as(Expr(op))) made->second = mutate(value);
    return made_[op->name];
  }

 private:
  const Value& value_;
  const std::set<std::string>& kept_;
  std::map<std::string, Expr> made_;
};

// Counts vectors that are computed, each once.
class Computed : public IRGraphVisitor {
 public:
  int count = 0;

 protected:
  using IRGraphVisitor::visit;
  void visit(const Call* op) override {
    ++count;
    IRGraphVisitor::visit(op);
  }
};

}  // namespace

Expr SlowPaths::visit(const Select* op) {
  constexpr int kLeastCalls = 40;  // speed
  const Expr select = MaskReader::visit(op);
  op = select.as<Select>();
  if (op == nullptr || op->type.is_scalar() || op->condition.type().is_scalar()) return select;
  const Value value = [this](const Expr& name) { return Unnamed(name); };
  Names usual(value);
  op->condition.accept(&usual);
  op->true_value.accept(&usual);
  const Expr rare = Inlined(value, usual.names).mutate(op->false_value);
  Computed computed;
  rare.accept(&computed);
  if (computed.count < kLeastCalls) return select;
  const std::string condition = Halide::Internal::unique_name("usual"),
                    chosen = Halide::Internal::unique_name("value");
  const Expr all = Variable::make(op->condition.type(), condition);
  const Expr first = Variable::make(op->type, chosen);
  const Expr both =
      Select::make(all, first, Halide::Internal::common_subexpression_elimination(rare, true));
  const Expr branch =
      Call::make(op->type, Call::if_then_else,
                 {VectorReduce::make(VectorReduce::And, all, 1), first, both}, Call::PureIntrinsic);
  return Let::make(condition, op->condition, Let::make(chosen, op->true_value, branch));
}

}  // namespace kiln
