// SPDX-License-Identifier: Apache-2.0
// schedule/cuda/columns.cc decides, this does.
#include "schedule/cuda/columns.h"

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "halide_gen/common/loop_nests.h"
#include "halide_gen/common/primitives.h"
#include "halide_gen/cuda/nests.h"
#include "halide_gen/cuda/scratch.h"
#include "halide_gen/cuda/shuffles.h"
#include "schedule/analysis.h"
#include "schedule/reductions.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::RDom;
using Halide::TailStrategy;
using Halide::Var;

constexpr auto kRun = static_cast<int>(kOuterReduceBlock);
constexpr auto kPiece = static_cast<int>(kOuterReduceBlock * kOuterReduceBlock);

Expr Pieces(const Expr& length) { return (length + (kPiece - 1)) / kPiece; }

// Makes the nests of one form: with a vector of columns a thread, or one.
//
// Columns are counted within a plane, which is all dims after the reduced one; planes are all dims
// before it. In a launch for a level, each piece of a plane's rows is a plane of its own.
class ColumnForm {
 public:
  ColumnForm(const Kernel& kernel, const Columns& columns, const Scratch& scratch, int vector)
      : kernel_(kernel),
        columns_(columns),
        scratch_(scratch),
        vector_(vector),
        dim_(FirstReduction(kernel).over[0]),
        operands_(OperandsFor(kernel, vector)),
        rows_(operands_.extents[static_cast<size_t>(dim_)]),
        planes_(ExtentOf(operands_, 0, dim_)),
        width_(ExtentOf(operands_, dim_ + 1, kernel.num_iterated())),
        vectors_(width_ / vector) {}

  // The outputs `group`. Reductions are made there, but those whose result is in scratch memory:
  // `stored` has its number, or -1.
  DeviceNest Outputs(const std::vector<size_t>& group, const std::vector<int32_t>& stored);
  // The level with this number of a reduction, of its elements or of those in `from`, to `to`.
  DeviceNest Level(size_t stage, int64_t level, int32_t from, int32_t to,
                   const std::vector<int32_t>& stored);

 private:
  // A value for each column of a plane. A reduction's are folded of the results of runs.
  struct Held {
    Func func, fold, runs, run;
    RDom folded, elements;
  };

  bool Shared() const { return columns_.rows > 1; }
  Expr Column() const { return Halide::min(x_, vectors_ - 1) * vector_ + v_; }
  Scope ScopeAt(const Expr& plane, const Expr& row) const;
  void Bind(DeviceNest& nest, const std::vector<int32_t>& stored, ExprEmitter& emitter) const;
  template <typename Element>
  Func Reduced(const Stage& stage, const std::string& name, const Expr& rows, Element&& element);
  std::vector<Expr> ValuesOf(const std::vector<size_t>& group, const ExprEmitter& emitter,
                             Scope& scope) const;
  void Hold(const Func& func);
  void HoldStages(ExprEmitter& emitter);
  void Lanes(Func& func) const;
  void ScheduleHeld(Func& out, const Var& block, const Var& thread);
  void ScheduleColumns(DeviceNest& nest, const Var& planes, const Var& row);

  const Kernel& kernel_;
  const Columns& columns_;
  const Scratch& scratch_;
  const int vector_;
  const int32_t dim_;
  const Operands operands_;
  const Expr rows_, planes_, width_, vectors_;
  const Var v_{"plane"}, x_{"px"}, run_{"prun"}, plane_{"pplane"};
  std::deque<Held> held_;
  std::vector<std::pair<size_t, Func>> of_stages_;  // what is held for each
};

// Of the element at a row of a plane, or of none; columns beyond the last read that again.
Scope ColumnForm::ScopeAt(const Expr& plane, const Expr& row) const {
  Scope scope;
  scope.coordinates.resize(kernel_.dims.size());
  scope.flat = kernel_.num_iterated() - 1 - dim_;
  scope.tail = Column();
  SetCoordinates(operands_, plane, 0, dim_, scope);
  SetCoordinates(operands_, scope.tail, dim_ + 1, kernel_.num_iterated(), scope);
  scope.coordinates[static_cast<size_t>(dim_)] = row;
  scope.place = row.defined() ? (plane * rows_ + row) * width_ + scope.tail : Expr(0);
  scope.row_arguments = {v_, x_, plane};
  return scope;
}

void ColumnForm::Bind(DeviceNest& nest, const std::vector<int32_t>& stored,
                      ExprEmitter& emitter) const {
  for (size_t i = 0; i < stored.size(); ++i) {
    if (stored[i] < 0) continue;
    Func load(absl::StrCat("stored", i));
    load(v_, x_, plane_) = scratch_.Load(nest, stored[i], plane_ * width_ + Column());
    emitter.Store(static_cast<int32_t>(i), load);
  }
}

// Over the first `rows` rows of a plane, at most 32 runs; element(row) is one of them.
template <typename Element>
Func ColumnForm::Reduced(const Stage& stage, const std::string& name, const Expr& rows,
                         Element&& element) {
  const auto combine = [&](const Expr& a, const Expr& b) {
    return Accumulate(stage.op, stage.type, a, b);
  };
  const Expr start = StartValue(stage.op, stage.type);
  Held& held = held_.emplace_back();
  held.elements = RDom(0, kRun, "pelement" + name);
  const Expr row = run_ * kRun + held.elements.x;
  held.elements.where(row < rows);
  held.run = Func("run" + name);
  held.run(v_, x_, run_, plane_) = start;
  // Halide finds a domain by its use: an element that is the same at all places has none.
  held.run(v_, x_, run_, plane_) =
      combine(held.run(v_, x_, run_, plane_), Halide::select(row < rows, element(row), start));
  held.runs = held.run;
  if (Shared()) {
    held.runs = Func("runs" + name);
    held.runs(v_, x_, run_, plane_) = held.run(v_, x_, run_, plane_);
  }
  held.folded = RDom(0, static_cast<int>(columns_.runs), "pfold" + name);
  held.folded.where(held.folded.x * kRun < rows);
  held.fold = Func("fold" + name);
  held.fold(v_, x_, plane_) = start;
  held.fold(v_, x_, plane_) =
      combine(held.fold(v_, x_, plane_), held.runs(v_, x_, held.folded.x, plane_));
  held.func = held.fold;
  if (Shared()) {
    held.func = Func("reduced" + name);
    held.func(v_, x_, plane_) = held.fold(v_, x_, plane_);
  }
  return held.func;
}

void ColumnForm::HoldStages(ExprEmitter& emitter) {
  of_stages_.clear();
  for (size_t i = 0; i < kernel_.stages.size(); ++i) {
    const Stage& stage = kernel_.stages[i];
    if (IsReduction(stage)) {
      of_stages_.emplace_back(i, Reduced(stage, std::to_string(i), rows_, [&](const Expr& row) {
                                Scope scope = ScopeAt(plane_, row);
                                return emitter.Stored(stage.expr, stage.type, scope);
                              }));
    } else if (stage.dims == FirstReduction(kernel_).dims) {
      Scope scope = ScopeAt(plane_, Expr());
      Held& held = held_.emplace_back();
      held.func = Func(absl::StrCat("column", i));
      held.func(v_, x_, plane_) = emitter.Stored(stage.expr, stage.type, scope);
      of_stages_.emplace_back(i, held.func);
    } else {
      continue;
    }
    emitter.Store(static_cast<int32_t>(i), of_stages_.back().second);
  }
}

std::vector<Expr> ColumnForm::ValuesOf(const std::vector<size_t>& group, const ExprEmitter& emitter,
                                       Scope& scope) const {
  std::vector<Expr> values = OutputValues(kernel_, group, emitter, scope), shared;
  const std::vector<bool> read = StagesReadBy(kernel_, group);
  for (const auto& [stage, func] : of_stages_)
    if (read[stage]) shared.push_back(func(v_, x_, plane_));
  values[0] = UsesShared(shared, values[0]);
  return values;
}

// The loop over a thread's columns, and bounds: without them Halide takes sizes to be unknown.
void ColumnForm::Lanes(Func& func) const {
  func.bound(v_, 0, vector_).vectorize(v_).bound_extent(plane_, 1);
  if (func.has_update_definition()) func.update().vectorize(v_);
}

void ColumnForm::ScheduleHeld(Func& out, const Var& block, const Var& thread) {
  const Var in_turn("pin_turn"), row("prow_of_block");
  const auto threads = static_cast<int>(columns_.columns);
  for (Held& held : held_) {
    Lanes(held.func);
    if (Shared()) {
      StoreInShared(held.func, x_, int64_t{threads} * vector_);
      held.func.compute_at(out, block).bound_extent(x_, threads).gpu_threads(x_);
    } else {
      held.func.compute_at(out, thread).bound_extent(x_, 1);
    }
    if (!held.fold.defined()) continue;
    if (Shared()) {
      Lanes(held.fold);
      held.fold.compute_at(held.func, x_).bound_extent(x_, 1);
      Lanes(held.runs);
      StoreInShared(held.runs, x_, columns_.runs * threads * vector_);
      held.runs.compute_at(out, block)
          .bound_extent(x_, threads)
          .bound_extent(run_, static_cast<int>(columns_.runs))
          .split(run_, in_turn, row, static_cast<int>(columns_.rows))
          .reorder(v_, in_turn, x_, row)
          .gpu_threads(x_, row);
    }
    held.fold.update().reorder(v_, held.folded.x);
    Lanes(held.run);
    held.run.bound_extent(x_, 1).bound_extent(run_, 1);
    held.run.update().reorder(v_, held.elements.x);
    Shared() ? held.run.compute_at(held.runs, in_turn)
             : held.run.compute_at(held.fold, held.folded.x);
  }
}

// Blocks and threads of a Func over columns and planes, and over rows if it has them.
void ColumnForm::ScheduleColumns(DeviceNest& nest, const Var& planes, const Var& row) {
  Func& out = nest.func;
  const bool over_rows = out.args().size() > 3;
  const Var block("pblock"), thread("pthread"), in_turn("prows"), of_block("prow_of_block");
  out.vectorize(v_).split(x_, block, thread, static_cast<int>(columns_.columns),
                          TailStrategy::GuardWithIf);
  if (!over_rows) {
    out.reorder(v_, thread, block, planes).gpu_threads(thread);
  } else {
    out.split(row, in_turn, of_block, static_cast<int>(columns_.rows), TailStrategy::GuardWithIf);
    if (held_.empty()) {  // nothing is made for a whole block: each of its threads has one row
      out.reorder(v_, thread, of_block, block, in_turn, planes).fuse(block, in_turn, block);
    } else {
      out.reorder(v_, in_turn, thread, of_block, block, planes);
    }
    out.gpu_threads(thread, of_block);
  }
  out.fuse(block, planes, block).gpu_blocks(block).never_partition_all();
  ScheduleHeld(out, block, thread);
}

DeviceNest ColumnForm::Outputs(const std::vector<size_t>& group,
                               const std::vector<int32_t>& stored) {
  DeviceNest nest;
  nest.operands = operands_;
  nest.results = ResultsOf(group);
  held_.clear();
  ExprEmitter emitter(kernel_, operands_);
  Bind(nest, stored, emitter);
  if (columns_.levels == 1) HoldStages(emitter);
  const Var row("prow");
  if (SpansAll(kernel_, kernel_.outputs[group[0]].dims)) {
    Scope scope = ScopeAt(plane_, row);
    nest.func = DefineOutputs(group, {v_, x_, row, plane_}, ValuesOf(group, emitter, scope));
    SetDenseVectors(nest, {vector_, vectors_, rows_, planes_}, vector_);
  } else {
    Scope scope = ScopeAt(plane_, Expr());
    nest.func = DefineOutputs(group, {v_, x_, plane_}, ValuesOf(group, emitter, scope));
    SetDenseVectors(nest, {vector_, vectors_, planes_}, vector_);
  }
  ScheduleColumns(nest, plane_, row);
  return nest;
}

DeviceNest ColumnForm::Level(size_t stage, int64_t level, int32_t from, int32_t to,
                             const std::vector<int32_t>& stored) {
  DeviceNest nest;
  nest.operands = operands_;
  nest.results = {ScratchOperand(to)};
  held_.clear();
  ExprEmitter emitter(kernel_, operands_);
  Bind(nest, stored, emitter);
  const Stage& reduction = kernel_.stages[stage];
  Expr length = rows_;
  for (int64_t k = 0; k < level; ++k) length = Pieces(length);
  const Expr pieces = Pieces(length), of = plane_ / pieces, first = plane_ % pieces * kPiece;
  const std::string name = absl::StrCat(stage, "_", level);
  const Func reduced = Reduced(reduction, name, length - first, [&](const Expr& row) {
    if (from >= 0)
      return scratch_.Load(nest, from, (of * length + first + row) * width_ + Column());
    Scope scope = ScopeAt(of, first + row);
    return emitter.Stored(reduction.expr, reduction.type, scope);
  });
  nest.func = Func("level" + name);
  nest.func(v_, x_, plane_) = reduced(v_, x_, plane_);
  SetDenseVectors(nest, {vector_, vectors_, planes_ * pieces}, vector_);
  ScheduleColumns(nest, plane_, Var());
  return nest;
}

// How many elements a level leaves, as in a recipe.
std::string LeftBy(const Kernel& kernel, int32_t dim, int64_t level) {
  std::string elements = absl::StrCat("extent", dim);
  for (int64_t k = 0; k <= level; ++k)
    elements = absl::StrCat("(/ (+ ", elements, " ", kPiece - 1, ") ", kPiece, ")");
  for (int32_t kept = 0; kept < kernel.num_iterated(); ++kept)
    if (kept != dim) elements = absl::StrCat("(* ", elements, " extent", kept, ")");
  return elements;
}

}  // namespace

DeviceNests BuildColumns(const Kernel& kernel, const Schedule& schedule) {
  const auto& columns = schedule.As<Columns>();
  const auto vector = static_cast<int>(columns.vector);
  const std::string aligned = WhenAligned(kernel, vector);
  Scratch scratch;
  ColumnForm vectors(kernel, columns, scratch, vector), any(kernel, columns, scratch, 1);
  std::vector<DeviceNest> nests;
  const auto add = [&](auto&& make) {
    if (vector > 1) {
      nests.push_back(make(vectors));
      nests.back().when = aligned;
    }
    nests.push_back(make(any));
    if (vector > 1) nests.back().when = absl::StrCat("(not ", aligned, ")");
  };
  std::vector<int32_t> stored(kernel.stages.size(), -1);
  for (size_t i = 0; i < kernel.stages.size() && columns.levels > 1; ++i) {
    const Stage& stage = kernel.stages[i];
    if (!IsReduction(stage)) continue;
    int32_t from = -1;
    for (int64_t level = 0; level < columns.levels; ++level) {
      const int32_t to = scratch.Add(stage.type, LeftBy(kernel, stage.over[0], level));
      add([&](ColumnForm& form) { return form.Level(i, level, from, to, stored); });
      from = to;
    }
    stored[i] = from;
  }
  for (const std::vector<size_t>& group : GroupOutputs(kernel))
    add([&](ColumnForm& form) { return form.Outputs(group, stored); });
  return {std::move(nests), std::move(scratch.bytes)};
}

}  // namespace kiln
