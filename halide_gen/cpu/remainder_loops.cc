// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/remainder_loops.h"

#include <optional>
#include <string>

#include "halide_gen/cpu/vector_part.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Internal::Block;
using Halide::Internal::Call;
using Halide::Internal::For;
using Halide::Internal::IfThenElse;
using Halide::Internal::IRMutator;
using Halide::Internal::LetStmt;
using Halide::Internal::Stmt;
using Halide::Internal::Store;
using Halide::Internal::Variable;

// What there is to know of a tail.
class Tail : public MaskReader {
 public:
  std::optional<RowMask> row;  // of the first store
  bool all = true;             // stores have that mask
  int calls = 0;  // with vectors: functions, and arithmetic in strict order; x * 1 + -0,
                  // which only hides x, is none

 protected:
  using MaskReader::visit;
  Stmt visit(const Store* op) override {
    const std::optional<RowMask> mask = FindRowMask(Unnamed(op->predicate));
    if (stores_++ == 0) row = mask;
    all = all && row && mask && Same(*row, *mask);
    return MaskReader::visit(op);
  }
  Expr visit(const Call* op) override {
    const bool hides = op->args.size() == 3 && Halide::Internal::is_const_one(op->args[1]);
    calls += op->type.is_vector() && !hides ? 1 : 0;
    return MaskReader::visit(op);
  }

 private:
  static bool Same(const RowMask& a, const RowMask& b) {
    return a.lanes == b.lanes && a.up_to == b.up_to &&
           Halide::Internal::graph_equal(a.first, b.first) &&
           Halide::Internal::graph_equal(a.step, b.step) &&
           Halide::Internal::graph_equal(a.limit, b.limit);
  }

  int stores_ = 0;
};

// A part of a tail whose vectors have `of` lanes.
class PartOfTail : public IRMutator {
 public:
  PartOfTail(int of, const VectorPart& part) : of_(of), part_(part) {}

  bool ok() const { return ok_ && part_.ok(); }

  using IRMutator::mutate;
  Stmt mutate(const Stmt& stmt) override {
    ok_ = ok_ && (stmt.as<LetStmt>() || stmt.as<Block>() || stmt.as<Store>());
    return ok_ ? IRMutator::mutate(stmt) : stmt;
  }

 protected:
  using IRMutator::visit;

  Stmt visit(const LetStmt* op) override {
    if (op->value.type().is_scalar()) return LetStmt::make(op->name, op->value, mutate(op->body));
    const Expr value = Part(op->value);
    const std::string name = Halide::Internal::unique_name("part");
    part_.Name(op->name, Variable::make(value.type(), name));
    return LetStmt::make(name, value, mutate(op->body));
  }

  Stmt visit(const Store* op) override {
    return Store::make(op->name, Part(op->value), Part(op->index), op->param, Part(op->predicate),
                       {});
  }

 private:
  Expr Part(const Expr& vector) {
    ok_ = ok_ && vector.type().lanes() == of_;
    return ok_ ? part_.mutate(vector) : vector;
  }

  const int of_;
  VectorPart part_;
  bool ok_ = true;
};

}  // namespace

Stmt RemainderLoops::visit(const IfThenElse* op) {
  // With fewer calls compiling is quick, and a loop takes longer than masks in registers of their
  // own (AVX-512). Elsewhere masks of several vectors are packed into bytes and unpacked again.
  constexpr int kLeastCalls = 16;  // compile time
  if (!op->else_case.defined()) return MaskReader::visit(op);
  Tail tail;
  tail.mutate(op->else_case);
  const std::optional<RowMask>& row = tail.row;
  const bool narrow = row && tail.all && row->lanes >= 2 * lanes_ && row->lanes % lanes_ == 0 &&
                      Halide::Internal::is_const_one(row->step) &&
                      (!HasMaskRegisters(lanes_) || tail.calls >= kLeastCalls);
  if (!narrow) return MaskReader::visit(op);
  const std::string step = Halide::Internal::unique_name("tail");
  PartOfTail part(row->lanes, VectorPart(Variable::make(Halide::Int(32), step) * lanes_, lanes_));
  const Stmt body = part.mutate(op->else_case);
  if (!part.ok()) return MaskReader::visit(op);
  const Expr held = row->limit - row->first + (row->up_to ? 1 : 0);
  const Expr steps = Halide::Internal::simplify(
      Halide::clamp((held + (lanes_ - 1)) / lanes_, 0, row->lanes / lanes_));
  return IfThenElse::make(op->condition, op->then_case,
                          For::make(step, 0, steps, Halide::Internal::ForType::Serial,
                                    Halide::Partition::Never, Halide::DeviceAPI::None, body));
}

}  // namespace kiln
