// SPDX-License-Identifier: Apache-2.0
// schedule/cuda/warp_rows.cc decides, this does.
#include <algorithm>
#include <deque>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "halide_gen/common/loop_nests.h"
#include "halide_gen/common/primitives.h"
#include "halide_gen/cuda/nests.h"
#include "halide_gen/cuda/shuffles.h"
#include "schedule/analysis.h"
#include "schedule/reductions.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::Partition;
using Halide::RDom;
using Halide::TailStrategy;
using Halide::Var;

constexpr auto kLanes = static_cast<int>(kReduceLanes);
constexpr auto kBlock = static_cast<int>(kReduceBlock);

// Makes the nests of one form: what the threads of a row hold, and the outputs made of that.
class RowForm {
 public:
  RowForm(const Kernel& kernel, const WarpRows& rows, const LaneMap& map)
      : kernel_(kernel), rows_(rows), map_(map), aligned_(map.side_by_side) {
    operands_ = OperandsFor(kernel, aligned_ ? map.each() : 1);
    length_ = operands_.extents[static_cast<size_t>(kernel.innermost())];
    count_ = RowCount(kernel, operands_);
  }

  DeviceNest Outputs(const std::vector<size_t>& group);

 private:
  // What a thread holds, by the loop variable under which it is computed.
  struct Held {
    Func func;
    bool lanes = false;  // one value for each of its lanes and steps; else one for the row
    RDom over;           // of its update, if it has one
  };

  Expr Row() const { return Halide::min(row_, count_ - 1); }
  Expr Element(const Expr& step, const Expr& v) const { return step * kLanes + map_.Lane(v, t_); }
  Expr Steps() const {
    return rows_.steps > 0 ? Expr(static_cast<int>(rows_.steps)) : (length_ + kLanes - 1) / kLanes;
  }
  // Of the element that is number v of a thread in `step`; those beyond the row read its last.
  Scope ScopeAt(const Expr& step, const Expr& v) const;
  Scope ScopeOfRow() const;
  void KeepInputs(ExprEmitter& emitter);
  void HoldStages(ExprEmitter& emitter);
  Func Reduced(size_t stage, const ExprEmitter& emitter);
  Func Accumulated(size_t stage, const Expr& first_step, const ExprEmitter& emitter);
  std::vector<Expr> ValuesOf(const std::vector<size_t>& group, const ExprEmitter& emitter,
                             Scope& scope) const;
  void Vectors(Func& func, bool update) const;
  void ScheduleHeld(Func& out, const Var& at);

  const Kernel& kernel_;
  const WarpRows& rows_;
  const LaneMap map_;
  const bool aligned_;
  Operands operands_;
  Expr length_, count_;
  const Var v_{"plane"}, t_{"pthread"}, j_{"pstep"}, row_{"prow"}, block_{"pblock"};
  std::deque<Held> held_;
  std::vector<std::pair<const ScalarExpr*, Func>> kept_;  // maps in registers
  std::vector<std::pair<size_t, Func>> reduced_;          // stages whose lanes were shuffled
};

Scope RowForm::ScopeOfRow() const {
  Scope scope = RowScope(kernel_, operands_, Row(), Expr());
  scope.row_arguments = {t_, row_};
  return scope;
}

Scope RowForm::ScopeAt(const Expr& step, const Expr& v) const {
  Scope scope = RowScope(kernel_, operands_, Row(), Halide::min(Element(step, v), length_ - 1));
  if (aligned_) {  // whole vectors are beyond the row, or in it
    const Expr vector = Halide::min(step * map_.threads + t_, length_ / map_.each() - 1);
    scope.coordinates[static_cast<size_t>(kernel_.innermost())] = vector * map_.each() + v;
  }
  scope.row_arguments = {t_, row_};
  scope.copy_arguments = {v, step, t_, row_};
  for (const auto& [expr, func] : kept_) {
    std::vector<Expr> values(static_cast<size_t>(expr->root()) + 1);
    values.back() = func(v, step, t_, row_);
    scope.values.emplace(expr, std::move(values));
  }
  return scope;
}

void RowForm::Vectors(Func& func, bool update) const {
  if (update) {
    aligned_ ? func.update().vectorize(v_) : func.update().unroll(v_);
  } else {
    func.bound(v_, 0, map_.each());
    aligned_ ? func.vectorize(v_) : func.unroll(v_);
  }
}

void RowForm::KeepInputs(ExprEmitter& emitter) {
  for (const int64_t k : rows_.inputs) {
    const auto input = static_cast<size_t>(k);
    const Scope scope = ScopeAt(j_, v_);
    Held& held = held_.emplace_back();
    held.lanes = true;
    held.func = Func(absl::StrCat("kept_in", k));
    const Expr x = scope.coordinates[static_cast<size_t>(kernel_.innermost())];
    held.func(v_, j_, t_, row_) = operands_.inputs[input](scope.row * length_ + x);
    emitter.Copy(input, held.func);
  }
}

// The lanes of a thread: over the row, or the block that begins with `first_step`.
Func RowForm::Accumulated(size_t stage, const Expr& first_step, const ExprEmitter& emitter) {
  const Stage& reduction = kernel_.stages[stage];
  const Expr start = StartValue(reduction.op, reduction.type);
  const bool blocks = rows_.steps == 0 && rows_.levels > 1;
  RDom over(0, blocks ? Expr(kBlock / kLanes) : Steps(), absl::StrCat("step", stage));
  const Expr step = first_step + over.x;
  if (blocks) over.where(step < Steps());
  Scope scope = ScopeAt(step, v_);
  const Expr element = emitter.Stored(reduction.expr, reduction.type, scope);
  const Expr inside =
      aligned_ ? step * map_.threads + t_ < length_ / map_.each() : Element(step, v_) < length_;
  Held& held = held_.emplace_back();
  held.func = Func(absl::StrCat("lanes", stage));
  std::vector<Var> vars = {v_, t_, row_};
  if (blocks) vars.insert(vars.begin() + 1, block_);
  const std::vector<Expr> at(vars.begin(), vars.end());
  held.func(vars) = start;
  held.func(at) = Accumulate(reduction.op, reduction.type, held.func(at),
                             Halide::select(inside, element, start));
  held.over = over;
  return held.func;
}

// The result of a row, in each of its threads.
Func RowForm::Reduced(size_t stage, const ExprEmitter& emitter) {
  const Stage& reduction = kernel_.stages[stage];
  const auto folded = [&](const Func& lanes, bool block) {
    std::vector<Expr> values;
    for (int v = 0; v < map_.each(); ++v)
      values.push_back(block ? lanes(v, block_, t_, row_) : lanes(v, t_, row_));
    return FoldLanes(reduction.op, reduction.type, map_, std::move(values));
  };
  Func lanes;
  if (rows_.steps > 0 || rows_.levels == 1) {
    lanes = Accumulated(stage, 0, emitter);
  } else {  // blocks in turn, whose results are elements of the next level
    const Func block = Accumulated(stage, block_ * (kBlock / kLanes), emitter);
    Held& of_block = held_.emplace_back();
    of_block.func = Func(absl::StrCat("block", stage));
    of_block.func(block_, t_, row_) = folded(block, true);
    const Func result = of_block.func;
    const RDom over(0, (length_ + kBlock - 1) / kBlock, absl::StrCat("blocks", stage));
    Held& next = held_.emplace_back();
    next.func = Func(absl::StrCat("level", stage));
    next.func(v_, t_, row_) = StartValue(reduction.op, reduction.type);
    const Expr own = next.func(v_, t_, row_);
    next.func(v_, t_, row_) = Halide::select(
        map_.Lane(v_, t_) == over.x % kLanes,
        Accumulate(reduction.op, reduction.type, own, result(over.x, t_, row_)), own);
    next.over = over;
    lanes = next.func;
  }
  Held& held = held_.emplace_back();
  held.func = Func(absl::StrCat("reduced", stage));
  held.func(t_, row_) = folded(lanes, false);
  return held.func;
}

void RowForm::HoldStages(ExprEmitter& emitter) {
  for (size_t i = 0; i < kernel_.stages.size(); ++i) {
    const Stage& stage = kernel_.stages[i];
    const bool stored = std::count(rows_.stored.begin(), rows_.stored.end(), i) > 0;
    if (IsReduction(stage)) {
      reduced_.emplace_back(i, Reduced(i, emitter));
      emitter.Store(static_cast<int32_t>(i), reduced_.back().second);
    } else if (stored) {
      Scope scope = ScopeAt(j_, v_);
      Held& held = held_.emplace_back();
      held.lanes = true;
      held.func = Func(absl::StrCat("kept", i));
      held.func(v_, j_, t_, row_) = emitter.Value(stage.expr, scope);
      kept_.emplace_back(&stage.expr, held.func);
    } else if (SpansOuter(kernel_, stage.dims)) {
      Scope scope = ScopeOfRow();
      Held& held = held_.emplace_back();
      held.func = Func(absl::StrCat("row", i));
      held.func(t_, row_) = emitter.Stored(stage.expr, stage.type, scope);
      emitter.Store(static_cast<int32_t>(i), held.func);
    }
  }
}

std::vector<Expr> RowForm::ValuesOf(const std::vector<size_t>& group, const ExprEmitter& emitter,
                                    Scope& scope) const {
  std::vector<Expr> values = OutputValues(kernel_, group, emitter, scope), shared;
  const std::vector<bool> read = StagesReadBy(kernel_, group);
  for (const auto& [stage, func] : reduced_)
    if (read[stage]) shared.push_back(func(t_, row_));
  values[0] = UsesShared(shared, values[0]);
  return values;
}

// Each is computed by the thread that uses it. Without the bounds of 1 Halide takes its size to be
// unknown, and puts it into memory of the device.
void RowForm::ScheduleHeld(Func& out, const Var& at) {
  const int steps = static_cast<int>(rows_.steps);
  for (size_t i = 0; i < held_.size(); ++i) {
    Held& held = held_[i];
    const std::vector<Var> args = held.func.args();
    const bool of_block =
        args.size() > 2 && std::count_if(args.begin(), args.end(), [&](const Var& var) {
                             return var.name() == block_.name();
                           }) > 0;
    if (of_block) {  // in the loop over blocks of the level that comes next
      size_t next = i + 1;
      while (!held_[next].over.defined()) ++next;
      held.func.compute_at(held_[next].func, held_[next].over.x).bound_extent(block_, 1);
    } else {
      held.func.compute_at(out, at);
    }
    held.func.bound_extent(t_, 1).bound_extent(row_, 1);
    const bool lanes = args[0].name() == v_.name();
    if (lanes) Vectors(held.func, false);
    if (held.lanes) held.func.reorder(v_, j_).bound_extent(j_, steps).unroll(j_);
    if (!held.over.defined()) continue;
    held.func.update().reorder(v_, held.over.x);
    Vectors(held.func, true);
    if (steps > 0) held.func.update().unroll(held.over.x);
  }
}

DeviceNest RowForm::Outputs(const std::vector<size_t>& group) {
  DeviceNest nest;
  ExprEmitter emitter(kernel_, operands_);
  held_.clear();
  kept_.clear();
  reduced_.clear();
  KeepInputs(emitter);
  HoldStages(emitter);
  nest.results = ResultsOf(group);
  const Var in_block("prow_in_block"), block("pgrid");
  const int rows = static_cast<int>(rows_.rows);
  if (SpansOuter(kernel_, kernel_.outputs[group[0]].dims)) {  // the first thread of a row stores
    Scope scope = ScopeOfRow();
    nest.func = DefineOutputs(group, {t_, row_}, ValuesOf(group, emitter, scope));
    const Var first("pfirst"), thread("pthread_of_row");
    SetExtents(nest.func, {1, count_});
    for (Halide::OutputImageParam buffer : nest.func.output_buffers()) {
      buffer.dim(0).set_stride(0);
      buffer.dim(1).set_stride(1);
    }
    nest.func.split(t_, first, thread, map_.threads, TailStrategy::PredicateStores)
        .split(row_, block, in_block, rows, TailStrategy::PredicateStores)
        .reorder(thread, in_block, first, block)
        .gpu_blocks(first, block)
        .gpu_threads(thread, in_block)
        .never_partition_all();
    ScheduleHeld(nest.func, thread);
  } else {
    RDom steps(0, Steps(), "pout");
    steps.where(GuardOfShared(aligned_ ? steps.x * map_.threads + t_ < length_ / map_.each()
                                       : Element(steps.x, v_) < length_));
    Scope scope = ScopeAt(steps.x, v_);
    nest.func = UndefinedOutputs(kernel_, group, {v_, t_, j_, row_});
    SetValues(nest.func, {v_, t_, steps.x, row_}, ValuesOf(group, emitter, scope));
    SetExtents(nest.func, {map_.each(), map_.threads, Steps(), count_});
    const std::vector<Halide::OutputImageParam> buffers = nest.func.output_buffers();
    for (size_t k = 0; k < buffers.size(); ++k) {
      Halide::OutputImageParam buffer = buffers[k];
      if (aligned_) buffer.set_host_alignment(kAccessBytes);
      const int vector = aligned_ ? map_.each() : 1;
      int axis = 0;
      buffer.dim(axis++).set_stride(aligned_ ? 1 : map_.threads);
      buffer.dim(axis++).set_stride(vector);
      buffer.dim(axis++).set_stride(kLanes);
      buffer.dim(axis).set_stride(buffer.dim(axis).stride() / vector * vector);
      TellStride(nest, k, axis, length_);
    }
    auto update = nest.func.update();
    update.split(row_, block, in_block, rows, TailStrategy::PredicateStores)
        .partition(block, Partition::Never)
        .partition(steps.x, Partition::Never)
        .reorder(v_, steps.x, t_, in_block, block)
        .gpu_blocks(block)
        .gpu_threads(t_, in_block);
    aligned_ ? update.vectorize(v_) : update.unroll(v_);
    if (rows_.steps > 0) update.unroll(steps.x);
    ScheduleHeld(nest.func, t_);
  }
  nest.operands = operands_;
  return nest;
}

}  // namespace

DeviceNests BuildWarpRows(const Kernel& kernel, const Schedule& schedule) {
  const auto& rows = schedule.As<WarpRows>();
  const LaneMap vectors{static_cast<int>(rows.threads), true}, any{static_cast<int>(kWarp), false};
  const std::string aligned = WhenAligned(kernel, vectors.each());
  WarpRows plain = rows;  // what the other form costs to compile is not worth registers
  plain.steps = 0;
  plain.stored.clear();
  plain.inputs.clear();
  RowForm aligned_form(kernel, rows, vectors), any_form(kernel, plain, any);
  std::vector<DeviceNest> nests;
  for (const std::vector<size_t>& group : GroupOutputs(kernel)) {
    nests.push_back(aligned_form.Outputs(group));
    nests.back().when = aligned;
    nests.push_back(any_form.Outputs(group));
    nests.back().when = absl::StrCat("(not ", aligned, ")");
  }
  return {std::move(nests)};
}

}  // namespace kiln
