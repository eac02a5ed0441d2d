// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/narrow_stores.h"

#include <algorithm>
#include <bit>
#include <set>
#include <string>
#include <utility>

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Internal::Block;
using Halide::Internal::IRMutator;
using Halide::Internal::LetStmt;
using Halide::Internal::Ramp;
using Halide::Internal::Select;
using Halide::Internal::Stmt;
using Halide::Internal::Store;
using Halide::Internal::Variable;

struct Range {
  int begin, lanes;
};

// Powers of two, which LLVM has no trouble with.
std::vector<Range> PartsOf(int lanes, int most) {
  std::vector<Range> parts;
  for (int begin = 0; begin < lanes; begin += parts.back().lanes) {
    const auto left = static_cast<unsigned>(std::min(most, lanes - begin));
    parts.push_back({begin, static_cast<int>(std::bit_floor(left))});
  }
  return parts;
}

// Whether an expression computes conditions lane by lane.
class Conditions : public Halide::Internal::IRVisitor {
 public:
  static bool In(const Expr& expr) {
    Conditions conditions;
    expr.accept(&conditions);
    return conditions.found_;
  }

 protected:
  using IRVisitor::visit;
  void visit(const Select* op) override {
    found_ = found_ || op->condition.type().is_vector();
    IRVisitor::visit(op);
  }

 private:
  bool found_ = false;
};

// Adds the names that an expression has to `names`.
class NamesIn : public Halide::Internal::IRGraphVisitor {
 public:
  explicit NamesIn(std::set<std::string>& names) : names_(names) {}

 protected:
  using IRGraphVisitor::visit;
  void visit(const Variable* op) override { names_.insert(op->name); }

 private:
  std::set<std::string>& names_;
};

}  // namespace

bool NarrowStores::IsNarrow(int lanes) const { return PartsOf(lanes, most_).size() == 1; }

VectorPart NarrowStores::PartAt(size_t part, int lanes) const {
  const Range range = PartsOf(lanes, most_)[part];
  VectorPart of(range.begin, range.lanes);
  for (const auto& [name, parts] : parts_)
    if (part < parts.size()) of.Name(name, parts[part]);
  return of;
}

Stmt NarrowStores::visit(const LetStmt* op) {
  const int lanes = op->value.type().lanes();
  if (IsNarrow(lanes)) return IRMutator::visit(op);
  std::vector<std::pair<std::string, Expr>> values;
  std::vector<Expr> names;
  for (size_t part = 0; part < PartsOf(lanes, most_).size(); ++part) {
    const Expr value = PartAt(part, lanes).mutate(op->value);
    values.emplace_back(Halide::Internal::unique_name("part"), value);
    names.push_back(Variable::make(value.type(), values.back().first));
  }
  parts_[op->name] = std::move(names);
  Stmt body = LetStmt::make(op->name, op->value, mutate(op->body));
  // What no store takes would hide the remainder of a row from remainder_loops.
  for (auto value = values.rbegin(); value != values.rend(); ++value) {
    if (used_.count(value->first) == 0) continue;
    NamesIn names(used_);
    value->second.accept(&names);
    body = LetStmt::make(value->first, value->second, body);
  }
  return body;
}

Stmt NarrowStores::visit(const Store* op) {
  const int lanes = op->value.type().lanes();
  const auto* ramp = op->index.as<Ramp>();
  const bool narrow = IsNarrow(lanes) || !(all_ || Conditions::In(op->value)) || ramp == nullptr ||
                      ramp->base.type().is_vector() ||
                      !Halide::Internal::is_const_one(op->predicate);
  if (narrow) return IRMutator::visit(op);
  std::vector<Stmt> stores;
  for (size_t part = 0; part < PartsOf(lanes, most_).size(); ++part) {
    VectorPart of = PartAt(part, lanes);
    const Expr value = of.mutate(op->value);
    const Expr index = of.mutate(op->index);
    NamesIn names(used_);
    value.accept(&names);
    index.accept(&names);
    stores.push_back(Store::make(op->name, value, index, op->param,
                                 Halide::Internal::const_true(value.type().lanes()), {}));
  }
  return Block::make(stores);
}

}  // namespace kiln
