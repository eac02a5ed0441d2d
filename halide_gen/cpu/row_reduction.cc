// SPDX-License-Identifier: Apache-2.0
// schedule/cpu/row_reduction.cc decides, this does. Every nest runs over rows; what a row needs is
// computed there, or before by a nest for all rows, if outputs of several nests need it.
#include <algorithm>
#include <map>

#include "halide_gen/common/primitives.h"
#include "halide_gen/cpu/nests.h"
#include "halide_gen/cpu/reduction.h"
#include "halide_gen/cpu/tables.h"
#include "schedule/analysis.h"

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
  RowNest(const Kernel& kernel, const RowReduction& schedule, bool fused, const Operands& operands,
          const OfRows& of_rows)
      : kernel_(kernel),
        schedule_(schedule),
        operands_(operands),
        emitter_(kernel, operands),
        kept_(AsFlags(schedule.stored, kernel.stages.size())),
        lanes_(static_cast<int>(schedule.step)),
        levels_(static_cast<int>(schedule.levels)),
        accumulators_(static_cast<int>(schedule.accumulators)),
        blocked_rows_(static_cast<int>(schedule.folded)),
        rows_per_block_(blocked_rows_ > 0 ? blocked_rows_ : static_cast<int>(schedule.batch)),
        fused_(fused),
        flat_(static_cast<int>(schedule.dims)),
        grain_(schedule.task),
        length_(TailLength(kernel, operands, flat_)),
        rows_(RowCount(kernel, operands, flat_)),
        made_(of_rows) {
    for (int k = 0; k < flat_; ++k) of_row_.emplace_back("pofrow" + std::to_string(k));
  }

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
    if (!schedule_.expanded.empty()) {
      const int32_t x = kernel_.innermost();
      UseTables(kernel_, schedule_.expanded, operands_, x, lanes_, emitter_, x + 1 - flat_);
    }
    Scope scope = ScopeAt(whole ? Expr(x_) : Expr());
    FlatLoops loops = {{row_}, {rows_}};
    if (whole) loops = LoopsOfFlat(kernel_, flat_, operands_, x_, row_);
    Func out = DefineOutputs(kernel_, group, loops.vars, emitter_, scope);
    SetDense(out, loops.extents);
    Loop(out, whole);
    return {out, group};
  }

 private:
  // At `row_` and `x`, of all that a row has.
  Scope ScopeAt(const Expr& x) const {
    if (flat_ == 1) {
      Scope scope = RowScope(kernel_, operands_, row_, x);
      scope.start = row_ * length_;
      scope.step = x;
      return scope;
    }
    Scope scope;
    scope.coordinates.resize(kernel_.dims.size());
    const int first = kernel_.num_iterated() - flat_;
    SetCoordinates(operands_, row_, 0, first, scope);
    scope.row_arguments = {row_};
    scope.start = row_ * length_;
    scope.place = scope.start;
    if (!x.defined()) return scope;
    SetCoordinates(operands_, x, first, kernel_.num_iterated(), scope);
    scope.step = x;
    scope.place = scope.start + x;
    return scope;
  }

  // The same for what is made along rows, at the coordinates `at` of their dims. Of blocked
  // rows some may be absent, and the last stands for them.
  Scope AlongRow(const std::vector<Expr>& at) const {
    const Expr row = blocked_rows_ > 0 ? Halide::min(row_, rows_ - 1) : Expr(row_);
    Scope scope = RowScope(kernel_, operands_, row, at.back());
    scope.row_arguments = {row_};
    if (flat_ == 1) return scope;
    const int first = kernel_.num_iterated() - flat_;
    SetCoordinates(operands_, row, 0, first, scope);
    scope.row = Expr();
    scope.place = row;
    for (size_t k = 0; k < at.size(); ++k) {
      const size_t dim = static_cast<size_t>(first) + k;
      scope.coordinates[dim] = at[k];
      scope.place = scope.place * operands_.extents[dim] + at[k];
    }
    return scope;
  }

  // The loops of `out`, along rows if it is `whole`.
  void Loop(Func& out, bool whole) {
    const auto guard = TailStrategy::GuardWithIf;
    const Expr each = whole || !reductions_.empty() ? length_ : Expr(1);
    const bool blocks = rows_per_block_ > 1 && !reductions_.empty();
    if (fused_) {
      const BlockLoops loops = BlocksOf(rows_, length_, grain_);
      out.split(row_, loops.number, inside_, static_cast<int>(kOuterReduceBlock), guard)
          .split(loops.number, loops.task, loops.block, loops.per_task, guard)
          .never_partition_all();
    } else if (blocks && blocked_rows_ > 0) {
      const Expr per_task = PerTask(grain_, each * blocked_rows_, rows_ / blocked_rows_);
      out.split(row_, block_, in_block_, blocked_rows_, guard)
          .split(block_, task_, block_, per_task, guard)
          .never_partition_all();
    } else {
      out.split(row_, task_, inside_, PerTask(grain_, each, rows_), guard);
    }
    out.parallel(task_);
    if (blocks && (fused_ || blocked_rows_ == 0)) {
      const Expr per_block =
          blocked_rows_ > 0 ? Expr(blocked_rows_) : RowsPerBlock(length_, rows_per_block_);
      out.split(inside_, block_, in_block_, per_block, guard);
    }
    if (blocks && blocked_rows_ > 0 && !whole) out.vectorize(in_block_);
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
      reductions_.push_back(Reduced(stage, name));
      Store(i, reductions_.back().back().result);
      return;
    }
    const bool whole = SpansAll(kernel_, stage.dims);
    if (!kept_[i] || (flat_ == 1 && !whole && !SpansOuter(kernel_, stage.dims))) return;
    Scope scope = whole ? AlongRow({x_}) : ScopeAt(Expr());
    if (whole) {  // the buffer is whole vectors long, and filled so
      scope.lane = x_;
      scope.inside = x_ < length_;
    } else if (blocked_rows_ > 0) {
      scope.lane = row_;
      scope.inside = row_ < rows_;
    }
    const Expr value = ToStorage(emitter_.Value(stage.expr, scope), stage.type);
    Func func(name);
    func(whole ? std::vector<Var>{x_, row_} : std::vector<Var>{row_}) = value;
    Store(i, func);
    (whole ? row_maps_ : scalar_maps_).push_back(func);
  }

  // A reduction over the dims of a row, one after the other, innermost first.
  std::vector<Reduction> Reduced(const Stage& stage, const std::string& name) const {
    std::vector<Reduction> chain;
    for (int k = flat_ - 1; k >= 0; --k) {
      const bool innermost = k == flat_ - 1;
      const int32_t dim = kernel_.num_iterated() - flat_ + k;
      std::vector<Var> vars;  // what is left, innermost first
      for (int outer = k - 1; outer >= 0; --outer)
        vars.push_back(of_row_[static_cast<size_t>(outer)]);
      vars.push_back(row_);
      Func below = innermost ? Func() : chain.back().result;
      chain.push_back(BuildReduction({
          .name = innermost ? name : name + "_over" + std::to_string(dim),
          .op = stage.op,
          .type = stage.type,
          .extent = operands_.extents[static_cast<size_t>(dim)],
          .lanes = innermost,
          .levels = innermost ? levels_ : 1,
          .accumulators = accumulators_,
          .vars = vars,
          .blocked_rows = innermost ? blocked_rows_ : 0,
          .row = row_,
          .element = [&](const Expr& x) -> Expr {
            std::vector<Expr> at(vars.begin(), vars.end());
            at.insert(at.begin(), x);
            if (!innermost) return below(at);
            at.pop_back();
            std::reverse(at.begin(), at.end());
            Scope scope = AlongRow(at);
            return ToStorage(emitter_.Value(stage.expr, scope), stage.type);
          },
      }));
    }
    return chain;
  }

  // Puts everything but the output under the loop over rows. The rows of a task share one buffer:
  // to ask for one takes as long as a short row does.
  void Place(const LoopLevel& in_block, const LoopLevel& in_task) {
    const auto place_scalar = [&](Func& func) {
      func.compute_at(in_block);
      if (blocked_rows_ > 0) {
        BlockRows(func, row_, blocked_rows_);
        func.store_in(Halide::MemoryType::Stack).vectorize(row_);
      } else if (rows_per_block_ > 1)
        func.store_in(Halide::MemoryType::Stack).bound_storage(row_, rows_per_block_);
    };
    for (Func& map : scalar_maps_) place_scalar(map);
    for (Func& map : row_maps_) {
      map.compute_at(in_block)
          .hoist_storage(in_task)
          .bound(x_, 0, length_)
          .align_storage(x_, lanes_);
      map.vectorize(x_, lanes_, TailStrategy::RoundUp).never_partition(x_);
    }
    for (std::vector<Reduction>& chain : reductions_) {
      Func& result = chain.back().result;
      place_scalar(result);
      LoopLevel at = rows_per_block_ > 1 && blocked_rows_ == 0 ? LoopLevel(result, row_) : in_block;
      for (size_t k = chain.size(); k-- > 1;) {
        Func& steps = chain[k].levels[0].blocks;
        const Halide::RVar& step = chain[k].levels[0].step;
        place_scalar(steps);
        steps.compute_at(at).update(0).reorder(row_, step).vectorize(row_);
        at = LoopLevel(steps, step);
      }
      Expr blocks = length_;
      for (ReductionLevel& level : chain[0].levels) {
        blocks = (blocks + static_cast<int>(kReduceBlock - 1)) / static_cast<int>(kReduceBlock);
        if (!level.top) level.blocks.compute_at(at).bound(level.block, 0, blocks);
        ScheduleLanes(level, level.top ? at : LoopLevel(level.blocks, level.block));
      }
    }
  }

  const Kernel& kernel_;
  const RowReduction& schedule_;
  const Operands& operands_;
  ExprEmitter emitter_;
  const std::vector<bool> kept_;
  const int lanes_, levels_, accumulators_, blocked_rows_, rows_per_block_;
  const bool fused_;  // with nests that reduce blocks of rows
  const int flat_;    // dims that a row has
  const int64_t grain_;
  const Expr length_, rows_;
  const OfRows made_;  // by a nest before
  OfRows stored_;      // made by this one
  const Var x_{"px"}, row_{"prow"}, task_{"ptask"}, inside_{"pinside"}, block_{"pseveral"},
      in_block_{"pinblock"};
  std::vector<Func> row_maps_, scalar_maps_;
  std::vector<std::vector<Reduction>> reductions_;  // over the innermost dim first
  std::vector<Var> of_row_;                         // loops over the dims of a row
};

// Rows of so few elements that loads with a constant stride, of which Halide makes dense ones and
// shuffles, turn them.
Func StridedRows(const Kernel& kernel, size_t i, const Staged& schedule, const Operands& operands) {
  const Stage& stage = kernel.stages[i];
  const ExprEmitter emitter(kernel, operands);
  const auto most = static_cast<int>(schedule.strided);
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
  CutRow(rows, row, static_cast<int>(schedule.step), schedule.task, count);
  rows.specialize(spec.extent == most);
  return rows;
}

}  // namespace

Func ReducedRows(const Kernel& kernel, size_t stage, const Staged& schedule,
                 const Operands& operands) {
  if (schedule.strided > 0) return StridedRows(kernel, stage, schedule, operands);
  RowReduction rows;
  rows.step = schedule.step;
  rows.task = schedule.task;
  rows.levels = schedule.levels;
  rows.folded = schedule.folded;
  rows.accumulators = schedule.accumulators;
  rows.stored = schedule.stored;
  return RowNest(kernel, rows, /*fused=*/false, operands, {}).Rows(stage);
}

std::vector<OutputNest> RowNests(const Kernel& kernel, const RowReduction& schedule, bool fused,
                                 const Operands& operands) {
  const std::vector<std::vector<size_t>> groups = GroupOutputs(kernel);
  std::vector<int32_t> outer;
  for (int32_t dim = 0; dim <= kernel.innermost() - schedule.dims; ++dim) outer.push_back(dim);
  const std::vector<size_t> shared = SharedStages(kernel, groups, outer);
  OfRows of_rows;
  if (!shared.empty() && !fused)
    of_rows = RowNest(kernel, schedule, fused, operands, {}).BuildRows(shared);
  std::vector<OutputNest> nests;
  for (const std::vector<size_t>& group : groups)
    nests.push_back(RowNest(kernel, schedule, fused, operands, of_rows).Build(group));
  return nests;
}

std::vector<OutputNest> BuildRowReduction(const Kernel& kernel, const Schedule& schedule,
                                          const Operands& operands) {
  return RowNests(kernel, schedule.As<RowReduction>(), /*fused=*/false, operands);
}

}  // namespace kiln
