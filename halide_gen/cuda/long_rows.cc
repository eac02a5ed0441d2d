// SPDX-License-Identifier: Apache-2.0
// schedule/cuda/long_rows.cc decides, this does.
#include "schedule/cuda/long_rows.h"

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

constexpr auto kRowBlock = static_cast<int>(kReduceBlock);
constexpr auto kRowLanes = static_cast<int>(kReduceLanes);
constexpr int kStepsOfBlock = kRowBlock / kRowLanes;
constexpr int kRowThreads = 128;  // speed: of a block

Expr BlocksOf(const Expr& length) { return (length + (kRowBlock - 1)) / kRowBlock; }

// Makes the nests of one form, of operands that are aligned or not.
class LongRowForm {
 public:
  LongRowForm(const Kernel& kernel, const LongRows& rows, const Scratch& scratch,
              const LaneMap& map)
      : kernel_(kernel),
        rows_(rows),
        scratch_(scratch),
        map_(map),
        vector_(map.side_by_side ? map.each() : 1),
        operands_(OperandsFor(kernel, vector_)),
        length_(operands_.extents[static_cast<size_t>(kernel.innermost())]),
        count_(RowCount(kernel, operands_)) {}

  // A row a block: with all reductions.
  DeviceNest RowsAsBlocks(const std::vector<size_t>& group);
  // The level with this number of a reduction, of its elements or of those in `from`, to `to`.
  DeviceNest Level(size_t stage, int64_t level, int32_t from, int32_t to,
                   const std::vector<int32_t>& stored);
  // Outputs of reductions in scratch memory: `stored` has their numbers.
  DeviceNest Outputs(const std::vector<size_t>& group, const std::vector<int32_t>& stored);

 private:
  // A value of a row. A reduction's are folded of those of blocks, and they of lanes.
  struct Held {
    Func func, of_blocks, lanes;
    RDom steps;
    size_t stage = 0;
  };
  // Where element `v` of a thread lies in step `step` of a block, and whether that is in the row;
  // if not, it is an element that is.
  struct Place {
    Expr at, inside;
  };

  bool OverRows(const std::vector<size_t>& group) const {
    return !SpansAll(kernel_, kernel_.outputs[group[0]].dims);
  }
  Place PlaceOf(const Expr& block, const Expr& step, const Expr& length) const;
  Scope ScopeAt(const Expr& row, const Expr& at) const;
  void Bind(DeviceNest& nest, const std::vector<int32_t>& stored, ExprEmitter& emitter) const;
  template <typename Element>
  void Accumulate64(const Stage& stage, const std::vector<Var>& of, const Expr& block,
                    const Expr& length, Held& held, Element&& element) const;
  Expr Folded(const Stage& stage, const Held& held, const std::vector<Var>& of) const;
  void HoldStages(ExprEmitter& emitter);
  std::vector<Expr> ValuesOf(const std::vector<size_t>& group, const ExprEmitter& emitter,
                             Scope& scope) const;
  void ScheduleLanes(Held& held, Func& at) const;
  void ScheduleHeld(Func& out);

  const Kernel& kernel_;
  const LongRows& rows_;
  const Scratch& scratch_;
  const LaneMap map_;
  const int vector_;
  const Operands operands_;
  const Expr length_, count_;
  const Var v_{"plane"}, t_{"pthread"}, w_{"pblock_of_row"}, u_{"pone"}, row_{"prow"};
  std::deque<Held> held_;
};

LongRowForm::Place LongRowForm::PlaceOf(const Expr& block, const Expr& step,
                                        const Expr& length) const {
  if (vector_ == 1) {
    const Expr at = block * kRowBlock + step * kRowLanes + map_.Lane(v_, t_);
    return {Halide::min(at, length - 1), at < length};
  }
  const Expr at = block * (kRowBlock / vector_) + step * map_.threads + t_;
  return {Halide::min(at, length / vector_ - 1) * vector_ + v_, at < length / vector_};
}

Scope LongRowForm::ScopeAt(const Expr& row, const Expr& at) const {
  Scope scope = RowScope(kernel_, operands_, row, at);
  scope.row_arguments = {0, row};
  return scope;
}

void LongRowForm::Bind(DeviceNest& nest, const std::vector<int32_t>& stored,
                       ExprEmitter& emitter) const {
  for (size_t i = 0; i < stored.size(); ++i) {
    if (stored[i] < 0) continue;
    Func load(absl::StrCat("stored", i));
    load(u_, row_) = scratch_.Load(nest, stored[i], row_);
    emitter.Store(static_cast<int32_t>(i), load);
  }
}

// The lanes, over `of`, of a block of a row; element(at) is one of its elements.
template <typename Element>
void LongRowForm::Accumulate64(const Stage& stage, const std::vector<Var>& of, const Expr& block,
                               const Expr& length, Held& held, Element&& element) const {
  const Expr start = StartValue(stage.op, stage.type);
  held.steps = RDom(0, kStepsOfBlock, Halide::Internal::unique_name("pstep"));
  held.steps.where(block * kRowBlock + held.steps.x * kRowLanes < length);
  const Place place = PlaceOf(block, held.steps.x, length);
  std::vector<Var> vars = {v_};
  vars.insert(vars.end(), of.begin(), of.end());
  const std::vector<Expr> own(vars.begin(), vars.end());
  held.lanes = Func("lanes");
  held.lanes(vars) = start;
  held.lanes(own) = Accumulate(stage.op, stage.type, held.lanes(own),
                               Halide::select(place.inside, element(place.at), start));
}

Expr LongRowForm::Folded(const Stage& stage, const Held& held, const std::vector<Var>& of) const {
  std::vector<Expr> values;
  for (int k = 0; k < map_.each(); ++k) {
    std::vector<Expr> at = {k};
    at.insert(at.end(), of.begin(), of.end());
    values.push_back(held.lanes(at));
  }
  return FoldLanes(stage.op, stage.type, map_, std::move(values));
}

void LongRowForm::HoldStages(ExprEmitter& emitter) {
  for (size_t i = 0; i < kernel_.stages.size(); ++i) {
    const Stage& stage = kernel_.stages[i];
    if (!IsReduction(stage) && !SpansOuter(kernel_, stage.dims)) continue;
    Held& held = held_.emplace_back();
    held.stage = i;
    held.func = Func(absl::StrCat("of_row", i));
    if (!IsReduction(stage)) {
      Scope scope = ScopeAt(row_, Expr());
      held.func(u_, row_) = emitter.Stored(stage.expr, stage.type, scope);
    } else {
      const std::vector<Var> of = {t_, w_, row_};
      Accumulate64(stage, of, w_, length_, held, [&](const Expr& at) {
        Scope scope = ScopeAt(row_, at);
        return emitter.Stored(stage.expr, stage.type, scope);
      });
      held.of_blocks = Func(absl::StrCat("of_blocks", i));
      held.of_blocks(of) = Folded(stage, held, of);
      std::vector<Expr> values;
      for (int w = 0; w < rows_.blocks; ++w) values.push_back(held.of_blocks(0, w, row_));
      for (size_t half = values.size() / 2; half > 0; half /= 2)
        for (size_t k = 0; k < half; ++k)
          values[k] = Accumulate(stage.op, stage.type, values[k], values[k + half]);
      held.func(u_, row_) = values[0];
    }
    emitter.Store(static_cast<int32_t>(i), held.func);
  }
}

std::vector<Expr> LongRowForm::ValuesOf(const std::vector<size_t>& group,
                                        const ExprEmitter& emitter, Scope& scope) const {
  std::vector<Expr> values = OutputValues(kernel_, group, emitter, scope), shared;
  const std::vector<bool> read = StagesReadBy(kernel_, group);
  for (const Held& held : held_)
    if (read[held.stage]) shared.push_back(held.func(0, row_));
  values[0] = UsesShared(shared, values[0]);
  return values;
}

void LongRowForm::ScheduleLanes(Held& held, Func& at) const {
  held.lanes.compute_at(at, t_).bound(v_, 0, map_.each());
  for (const Var& var : held.lanes.args())
    if (var.name() != v_.name()) held.lanes.bound_extent(var, 1);
  auto update = held.lanes.update().reorder(v_, held.steps.x);
  if (vector_ > 1) {
    held.lanes.vectorize(v_);
    update.vectorize(v_);
  } else {
    held.lanes.unroll(v_);
    update.unroll(v_);
  }
}

void LongRowForm::ScheduleHeld(Func& out) {
  for (Held& held : held_) {
    StoreInShared(held.func, u_, 1);
    held.func.compute_at(out, row_).bound_extent(u_, 1).bound_extent(row_, 1).gpu_threads(u_);
    if (!held.of_blocks.defined()) continue;
    StoreInShared(held.of_blocks, t_, int64_t{map_.threads} * rows_.blocks);
    held.of_blocks.compute_at(out, row_)
        .bound_extent(t_, map_.threads)
        .bound_extent(w_, static_cast<int>(rows_.blocks))
        .bound_extent(row_, 1)
        .gpu_threads(t_, w_);
    ScheduleLanes(held, held.of_blocks);
  }
}

DeviceNest LongRowForm::RowsAsBlocks(const std::vector<size_t>& group) {
  DeviceNest nest;
  nest.operands = operands_;
  nest.results = ResultsOf(group);
  held_.clear();
  ExprEmitter emitter(kernel_, operands_);
  HoldStages(emitter);
  if (OverRows(group)) {
    Scope scope = ScopeAt(row_, Expr());
    nest.func = DefineOutputs(group, {u_, row_}, ValuesOf(group, emitter, scope));
    SetExtents(nest.func, {1, count_});
    for (Halide::OutputImageParam buffer : nest.func.output_buffers()) {
      buffer.dim(0).set_stride(0);
      buffer.dim(1).set_stride(1);
    }
    nest.func.gpu_blocks(row_).gpu_threads(u_).never_partition_all();
    ScheduleHeld(nest.func);
    return nest;
  }
  const Var step("pstep_of_block");
  RDom steps(0, kStepsOfBlock, "pout");
  const Place place = PlaceOf(w_, steps.x, length_);
  steps.where(place.inside);
  Scope scope = ScopeAt(row_, place.at);
  nest.func = UndefinedOutputs(kernel_, group, {v_, t_, step, w_, row_});
  SetValues(nest.func, {v_, t_, steps.x, w_, row_}, ValuesOf(group, emitter, scope));
  SetExtents(nest.func,
             {map_.each(), map_.threads, kStepsOfBlock, static_cast<int>(rows_.blocks), count_});
  const std::vector<Halide::OutputImageParam> buffers = nest.func.output_buffers();
  for (size_t k = 0; k < buffers.size(); ++k) {
    Halide::OutputImageParam buffer = buffers[k];
    if (vector_ > 1) buffer.set_host_alignment(kAccessBytes);
    const int strides[] = {vector_ > 1 ? 1 : map_.threads, vector_, kRowLanes, kRowBlock};
    int axis = 0;
    for (const int stride : strides) buffer.dim(axis++).set_stride(stride);
    buffer.dim(axis).set_stride(buffer.dim(axis).stride() / vector_ * vector_);
    TellStride(nest, k, axis, length_);
  }
  auto update = nest.func.update();
  update.reorder(v_, steps.x, t_, w_, row_)
      .partition(steps.x, Halide::Partition::Never)
      .gpu_blocks(row_)
      .gpu_threads(t_, w_);
  vector_ > 1 ? update.vectorize(v_) : update.unroll(v_);
  ScheduleHeld(nest.func);
  return nest;
}

DeviceNest LongRowForm::Level(size_t stage, int64_t level, int32_t from, int32_t to,
                              const std::vector<int32_t>& stored) {
  DeviceNest nest;
  nest.operands = operands_;
  nest.results = {ScratchOperand(to)};
  ExprEmitter emitter(kernel_, operands_);
  Bind(nest, stored, emitter);
  const Stage& reduction = kernel_.stages[stage];
  Expr length = length_;
  for (int64_t k = 0; k < level; ++k) length = BlocksOf(length);
  const Var p("ppiece"), first("pfirst"), thread("pthread_of_piece");
  const Var block("pblock"), in_block("pin_block");
  const Expr pieces = BlocksOf(length), count = count_ * pieces, own = Halide::min(p, count - 1);
  const Expr row = own / pieces;
  Held held;
  Accumulate64(reduction, {t_, p}, own % pieces, length, held, [&](const Expr& at) {
    if (from >= 0) return scratch_.Load(nest, from, row * length + at);
    Scope scope = ScopeAt(row, at);
    return emitter.Stored(reduction.expr, reduction.type, scope);
  });
  held.func = Func("folded");
  held.func(t_, p) = Folded(reduction, held, {t_, p});
  nest.func = Func("level");
  nest.func(t_, p) = held.func(t_, p);
  SetExtents(nest.func, {1, count});  // the first thread stores
  nest.func.output_buffer().dim(0).set_stride(0);
  nest.func.output_buffer().dim(1).set_stride(1);
  nest.func.split(t_, first, thread, map_.threads, TailStrategy::PredicateStores)
      .split(p, block, in_block, kRowThreads / map_.threads, TailStrategy::PredicateStores)
      .reorder(thread, in_block, first, block)
      .gpu_blocks(first, block)
      .gpu_threads(thread, in_block)
      .never_partition_all();
  held.func.compute_at(nest.func, thread).bound_extent(t_, 1).bound_extent(p, 1);
  ScheduleLanes(held, held.func);
  return nest;
}

DeviceNest LongRowForm::Outputs(const std::vector<size_t>& group,
                                const std::vector<int32_t>& stored) {
  DeviceNest nest;
  nest.operands = operands_;
  nest.results = ResultsOf(group);
  ExprEmitter emitter(kernel_, operands_);
  Bind(nest, stored, emitter);
  const Var x("px"), block("pblock"), thread("pthread");
  if (OverRows(group)) {
    Scope scope = ScopeAt(row_, Expr());
    nest.func = DefineOutputs(kernel_, group, {row_}, emitter, scope);
    SetDense(nest.func, {count_});
    nest.func.split(row_, block, thread, kRowThreads, TailStrategy::GuardWithIf);
  } else {
    Scope scope = ScopeAt(row_, x * vector_ + v_);
    nest.func = DefineOutputs(kernel_, group, {v_, x, row_}, emitter, scope);
    SetDenseVectors(nest, {vector_, length_ / vector_, count_}, vector_);
    nest.func.vectorize(v_)
        .split(x, block, thread, kRowThreads, TailStrategy::GuardWithIf)
        .fuse(block, row_, block);
  }
  nest.func.gpu_blocks(block).gpu_threads(thread).never_partition_all();
  return nest;
}

// What a level leaves, as in a recipe: the rows times the pieces of each.
std::string PiecesOf(const Kernel& kernel, int64_t level) {
  std::string elements = absl::StrCat("extent", kernel.innermost());
  for (int64_t k = 0; k <= level; ++k)
    elements = absl::StrCat("(/ (+ ", elements, " ", kRowBlock - 1, ") ", kRowBlock, ")");
  for (int32_t dim = 0; dim < kernel.innermost(); ++dim)
    elements = absl::StrCat("(* ", elements, " extent", dim, ")");
  return elements;
}

}  // namespace

DeviceNests BuildLongRows(const Kernel& kernel, const Schedule& schedule) {
  const auto& rows = schedule.As<LongRows>();
  const LaneMap side_by_side{static_cast<int>(kWarp / 2), true},
      apart{static_cast<int>(kWarp), false};
  const std::string aligned = WhenAligned(kernel, side_by_side.each());
  Scratch scratch;
  LongRowForm vectors(kernel, rows, scratch, side_by_side), any(kernel, rows, scratch, apart);
  std::vector<DeviceNest> nests;
  const auto add = [&](auto&& make) {
    nests.push_back(make(vectors));
    nests.back().when = aligned;
    nests.push_back(make(any));
    nests.back().when = absl::StrCat("(not ", aligned, ")");
  };
  std::vector<int32_t> stored(kernel.stages.size(), -1);
  for (size_t i = 0; i < kernel.stages.size() && rows.blocks == 0; ++i) {
    const Stage& stage = kernel.stages[i];
    if (!IsReduction(stage)) continue;
    int32_t from = scratch.Add(stage.type, PiecesOf(kernel, 0));
    add([&](LongRowForm& form) { return form.Level(i, 0, -1, from, stored); });
    for (int64_t level = 1; level < rows.levels; ++level) {
      const int32_t to = scratch.Add(stage.type, PiecesOf(kernel, level));
      nests.push_back(any.Level(i, level, from, to, stored));
      from = to;
    }
    stored[i] = from;
  }
  for (const std::vector<size_t>& group : GroupOutputs(kernel)) {
    if (rows.blocks > 0) {
      add([&](LongRowForm& form) { return form.RowsAsBlocks(group); });
    } else if (SpansAll(kernel, kernel.outputs[group[0]].dims)) {
      add([&](LongRowForm& form) { return form.Outputs(group, stored); });
    } else {
      nests.push_back(any.Outputs(group, stored));
    }
  }
  return {std::move(nests), std::move(scratch.bytes)};
}

}  // namespace kiln
