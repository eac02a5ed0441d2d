// SPDX-License-Identifier: Apache-2.0
// schedule/row.cc decides, this does. Every nest runs over rows; what a row needs is computed
// there, or before by a nest for all rows, if outputs of several nests need it.
#include <map>

#include "kiln/halide_gen/nests.h"
#include "kiln/halide_gen/primitives.h"
#include "kiln/halide_gen/reduction.h"
#include "kiln/schedule/facts.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::LoopLevel;
using Halide::TailStrategy;
using Halide::Var;

using OfRows = std::map<size_t, Func>;  // by stage

class RowNest {
 public:
  // `of_rows` need not be computed.
  RowNest(const Kernel& kernel, const Params& params, const Operands& operands,
          const OfRows& of_rows)
      : kernel_(kernel),
        operands_(operands),
        emitter_(kernel, operands),
        kept_(GetKept(params, kernel.stages.size())),
        lanes_(static_cast<int>(params.Get("lanes", 16))),
        levels_(static_cast<int>(params.Get("levels", 1))),
        accumulators_(static_cast<int>(params.Get("accumulators", kReduceLanes))),
        at_once_(static_cast<int>(params.Get("at_once", 1))),
        together_(params.Get("together", 0) > 0),
        grain_(params.Get("grain", 1 << 15)),
        length_(operands.extents[static_cast<size_t>(kernel.innermost())]),
        rows_(RowCount(kernel, operands)),
        made_(of_rows) {}

  // A nest that computes `stages` for all rows.
  OfRows BuildRows(const std::vector<size_t>& stages) {
    for (size_t i = 0; i < kernel_.stages.size(); ++i) BuildStage(i);
    Scope scope = ScopeAt(Expr());
    std::vector<Expr> values;
    for (const size_t i : stages) {
      const auto stored = stored_.find(i);
      const Stage& stage = kernel_.stages[i];
      values.push_back(stored != stored_.end()
                           ? Expr(stored->second(row_))
                           : ToStorage(emitter_.Value(stage.expr, scope), stage.type));
    }
    Func rows("rows");
    SetValues(rows, {row_}, values);
    rows.bound(row_, 0, rows_).compute_root();
    Loop(rows, false);
    OfRows of_rows;
    for (const size_t i : stages) {
      Func view("s" + std::to_string(i) + "_of_row");
      const auto value = static_cast<int>(of_rows.size());
      view(row_) = stages.size() == 1 ? Expr(rows(row_)) : Expr(rows(row_)[value]);
      of_rows.emplace(i, view);
    }
    return of_rows;
  }

  // The reduction `i`, of elements of inputs, for all rows.
  Func Rows(size_t i) {
    BuildStage(i);
    Func rows("s" + std::to_string(i) + "_rows");
    rows(row_) = stored_.at(i)(row_);
    rows.bound(row_, 0, rows_).compute_root();
    Loop(rows, false);
    return rows;
  }

  OutputNest Build(const std::vector<size_t>& group) {
    for (size_t i = 0; i < kernel_.stages.size(); ++i) {
      if (made_.empty()) BuildStage(i);
    }
    for (const auto& [i, func] : made_) emitter_.Store(static_cast<int32_t>(i), func);
    const bool whole = SpansAll(kernel_, kernel_.outputs[group[0]].dims);
    Scope scope = ScopeAt(whole ? Expr(x_) : Expr());
    Func out =
        DefineOutputs(kernel_, group, whole ? std::vector<Var>{x_, row_} : std::vector<Var>{row_},
                      emitter_, scope);
    SetDense(out, whole ? std::vector<Expr>{length_, rows_} : std::vector<Expr>{rows_});
    Loop(out, whole);
    return {out, group};
  }

 private:
  Scope ScopeAt(const Expr& x) const { return RowScope(kernel_, operands_, row_, x); }

  // The loops of `out`, along rows if it is `whole`.
  void Loop(Func& out, bool whole) {
    const auto guard = TailStrategy::GuardWithIf;
    const Expr each = whole || !reductions_.empty() ? length_ : Expr(1);
    if (together_) {
      const BlockLoops loops = BlocksOf(rows_, length_, grain_);
      out.split(row_, loops.number, inside_, static_cast<int>(kOuterReduceBlock), guard)
          .split(loops.number, loops.task, loops.block, loops.per_task, guard)
          .never_partition_all();
    } else {
      out.split(row_, task_, inside_, PerTask(grain_, each, rows_), guard);
    }
    out.parallel(task_);
    const bool blocks = at_once_ > 1 && !reductions_.empty();
    if (blocks) out.split(inside_, block_, in_block_, AtOnce(length_, at_once_), guard);
    if (whole) Vectors(out, x_, lanes_);
    Place(LoopLevel(out, blocks ? block_ : inside_), LoopLevel(out, task_));
  }

  void Store(size_t i, const Func& func) {
    emitter_.Store(static_cast<int32_t>(i), func);
    stored_.emplace(i, func);
  }

  void BuildStage(size_t i) {
    const Stage& stage = kernel_.stages[i];
    const std::string name = "s" + std::to_string(i);
    if (stage.kind == Stage::Kind::kReduce) {
      const Reduction reduction = BuildReduction({
          .name = name,
          .op = stage.op,
          .type = stage.type,
          .extent = length_,
          .lanes = true,
          .levels = levels_,
          .accumulators = accumulators_,
          .vars = {row_},
          .element =
              [&](const Expr& x) {
                Scope scope = ScopeAt(x);
                return ToStorage(emitter_.Value(stage.expr, scope), stage.type);
              },
      });
      Store(i, reduction.result);
      reductions_.push_back(reduction);
      return;
    }
    const bool whole = SpansAll(kernel_, stage.dims);
    if (!kept_[i] || (!whole && !SpansOuter(kernel_, stage.dims))) return;
    Scope scope = ScopeAt(whole ? Expr(x_) : Expr());
    if (whole) {  // the buffer is whole vectors long, and filled so
      scope.lane = x_;
      scope.inside = x_ < length_;
    }
    const Expr value = ToStorage(emitter_.Value(stage.expr, scope), stage.type);
    Func func(name);
    func(whole ? std::vector<Var>{x_, row_} : std::vector<Var>{row_}) = value;
    Store(i, func);
    (whole ? row_maps_ : scalar_maps_).push_back(func);
  }

  // Puts everything but the output under the loop over rows. The rows of a task share one buffer:
  // to ask for one takes as long as a short row does.
  void Place(const LoopLevel& in_block, const LoopLevel& in_task) {
    const auto place_scalar = [&](Func& func) {
      func.compute_at(in_block);
      if (at_once_ > 1) func.store_in(Halide::MemoryType::Stack).bound_storage(row_, at_once_);
    };
    for (Func& map : scalar_maps_) place_scalar(map);
    for (Func& map : row_maps_) {
      map.compute_at(in_block)
          .hoist_storage(in_task)
          .bound(x_, 0, length_)
          .align_storage(x_, lanes_);
      map.vectorize(x_, lanes_, TailStrategy::RoundUp).never_partition(x_);
    }
    for (Reduction& reduction : reductions_) {
      place_scalar(reduction.result);
      const LoopLevel in_row = at_once_ > 1 ? LoopLevel(reduction.result, row_) : in_block;
      Expr blocks = length_;
      for (ReductionLevel& level : reduction.levels) {
        blocks = (blocks + static_cast<int>(kReduceBlock - 1)) / static_cast<int>(kReduceBlock);
        if (!level.top) level.blocks.compute_at(in_row).bound(level.block, 0, blocks);
        ScheduleLanes(level, level.top ? in_row : LoopLevel(level.blocks, level.block));
      }
    }
  }

  const Kernel& kernel_;
  const Operands& operands_;
  ExprEmitter emitter_;
  const std::vector<bool> kept_;
  const int lanes_, levels_, accumulators_, at_once_;
  const bool together_;  // with nests that reduce blocks of rows
  const int64_t grain_;
  const Expr length_, rows_;
  const OfRows made_;  // by a nest before
  OfRows stored_;      // made by this one
  const Var x_{"px"}, row_{"prow"}, task_{"ptask"}, inside_{"pinside"}, block_{"pseveral"},
      in_block_{"pinblock"};
  std::vector<Func> row_maps_, scalar_maps_;
  std::vector<Reduction> reductions_;
};

// Rows of so few elements that loads with a constant stride, of which Halide makes dense ones and
// shuffles, turn them.
Func StridedRows(const Kernel& kernel, size_t i, const Params& params, const Operands& operands) {
  const Stage& stage = kernel.stages[i];
  const ExprEmitter emitter(kernel, operands);
  const auto most = static_cast<int>(params.Get("across", 1));
  const Var row("prow");
  const ReductionSpec spec = {
      .name = "s" + std::to_string(i) + "_rows",
      .op = stage.op,
      .type = stage.type,
      .extent = operands.extents[static_cast<size_t>(kernel.innermost())],
      .vars = {row},
      .element = [&](const Expr& x) -> Expr {
        Scope scope = RowScope(kernel, operands, row, x);
        return ToStorage(emitter.Value(stage.expr, scope), stage.type);
      },
  };
  Func rows(spec.name);
  rows(row) = ReduceFew(spec, most);
  const Expr count = RowCount(kernel, operands);
  rows.compute_root().bound(row, 0, count);
  CutRow(rows, row, static_cast<int>(params.Get("lanes", 16)), params.Get("grain", 1 << 15), count);
  rows.specialize(spec.extent == most);
  return rows;
}

}  // namespace

Func ReducedRows(const Kernel& kernel, size_t stage, const Params& params,
                 const Operands& operands) {
  if (params.Get("across", 0) > 0) return StridedRows(kernel, stage, params, operands);
  return RowNest(kernel, params, operands, {}).Rows(stage);
}

std::vector<OutputNest> RowNests(const Kernel& kernel, const Params& params,
                                 const Operands& operands) {
  if (params.Get("unroll", 0) > 0) return UnrolledNests(kernel, params, operands);
  if (params.Get("across", 0) > 0) return AcrossNests(kernel, params, operands);
  const std::vector<std::vector<size_t>> groups = GroupOutputs(kernel);
  std::vector<int32_t> outer;
  for (int32_t dim = 0; dim < kernel.innermost(); ++dim) outer.push_back(dim);
  const std::vector<size_t> shared = SharedStages(kernel, groups, outer);
  OfRows of_rows;
  if (!shared.empty() && params.Get("together", 0) == 0)
    of_rows = RowNest(kernel, params, operands, {}).BuildRows(shared);
  std::vector<OutputNest> nests;
  for (const std::vector<size_t>& group : groups) {
    nests.push_back(RowNest(kernel, params, operands, of_rows).Build(group));
  }
  return nests;
}

}  // namespace kiln
