// SPDX-License-Identifier: Apache-2.0
// schedule/general.cc decides, this does. Everything stored is a Func of its own, computed whole
// before it is used.
#include <algorithm>

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

// A loop: its variable and extent.
struct Loop {
  Var var;
  Expr extent;
};

std::vector<Var> Vars(const std::vector<Loop>& loops) {
  std::vector<Var> vars;
  for (const Loop& loop : loops) vars.push_back(loop.var);
  return vars;
}

class RootNests {
 public:
  RootNests(const Kernel& kernel, const Params& params, const Operands& operands)
      : kernel_(kernel),
        params_(params),
        operands_(operands),
        emitter_(kernel, operands),
        lanes_(static_cast<int>(params.Get("lanes", 16))),
        grain_(params.Get("grain", 1 << 15)) {
    for (size_t d = 0; d < kernel.dims.size(); ++d)
      dims_.emplace_back("pdim" + std::to_string(d) + "v");
  }

  std::vector<OutputNest> Build() {
    const std::vector<bool> kept = GetKept(params_, kernel_.stages.size());
    for (size_t i = 0; i < kernel_.stages.size(); ++i) {
      if (kernel_.stages[i].kind == Stage::Kind::kReduce) {
        BuildReduce(i);
      } else if (kept[i]) {
        BuildMap(i);
      }
    }
    std::vector<OutputNest> nests;
    for (const std::vector<size_t>& group : GroupOutputs(kernel_))
      nests.push_back(BuildOutputs(group));
    return nests;
  }

 private:
  // Loops over `dims`, innermost first.
  std::vector<Loop> LoopsOver(const std::vector<int32_t>& dims) const {
    std::vector<Loop> loops;
    for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
      const auto d = static_cast<size_t>(*dim);
      loops.push_back({dims_[d], operands_.extents[d]});
    }
    return loops;
  }

  // All dims at their loops, but `dim` (if any) at `index`.
  Scope ScopeAt(int32_t dim = -1, const Expr& index = Expr()) const {
    Scope scope;
    scope.coordinates.assign(dims_.begin(), dims_.end());
    if (dim >= 0) scope.coordinates[static_cast<size_t>(dim)] = index;
    return scope;
  }

  void BuildMap(size_t i) {
    const Stage& stage = kernel_.stages[i];
    const std::vector<Loop> loops = LoopsOver(stage.dims);
    Scope scope = ScopeAt();
    const Expr value = ToStorage(emitter_.Value(stage.expr, scope), stage.type);
    Func func("s" + std::to_string(i));
    func(Vars(loops)) = value;
    func.compute_root();
    ScheduleMap(func, loops);
    emitter_.Store(static_cast<int32_t>(i), func);
  }

  OutputNest BuildOutputs(const std::vector<size_t>& group) {
    const KernelOutput& output = kernel_.outputs[group[0]];
    const std::vector<Loop> loops = LoopsOver(output.dims);
    Scope scope = ScopeAt();
    Func func = DefineOutputs(kernel_, group, Vars(loops), emitter_, scope);
    std::vector<Expr> extents;
    for (const Loop& loop : loops) extents.push_back(loop.extent);
    if (output.layout == Layout::kDense) {
      SetDense(func, extents);
    } else {
      SetExtents(func, extents);
    }
    for (Halide::OutputImageParam buffer : func.output_buffers()) {
      if (output.layout == Layout::kStrided && !extents.empty()) buffer.dim(0).set_stride(Expr());
    }
    ScheduleMap(func, loops);
    return {func, group};
  }

  void BuildReduce(size_t i) {
    const Stage& stage = kernel_.stages[i];
    std::vector<int32_t> dims = stage.dims;
    dims.insert(dims.end(), stage.over.begin(), stage.over.end());
    std::sort(dims.begin(), dims.end());
    Func previous;
    for (auto dim = stage.over.rbegin(); dim != stage.over.rend(); ++dim) {
      const std::vector<Loop> before = LoopsOver(dims);
      dims.erase(std::find(dims.begin(), dims.end(), *dim));
      previous = ReduceDim(i, *dim, previous, before, LoopsOver(dims));
    }
    emitter_.Store(static_cast<int32_t>(i), previous);
  }

  // Reduces `dim` of `previous`, which has arguments `before`, or of the stage's elements if it is
  // undefined.
  Func ReduceDim(size_t i, int32_t dim, const Func& previous, const std::vector<Loop>& before,
                 const std::vector<Loop>& after) {
    const Stage& stage = kernel_.stages[i];
    const bool lane_rule = dim == kernel_.innermost();
    Reduction reduction = BuildReduction({
        .name = "s" + std::to_string(i) + "_over" + std::to_string(dim),
        .op = stage.op,
        .type = stage.type,
        .extent = operands_.extents[static_cast<size_t>(dim)],
        .lanes = lane_rule,
        .levels = static_cast<int>(params_.Get(lane_rule ? "levels" : "outer_levels", 1)),
        .vars = Vars(after),
        .element = [&](const Expr& index) -> Expr {
          Scope scope = ScopeAt(dim, index);
          if (!previous.defined()) return ToStorage(emitter_.Value(stage.expr, scope), stage.type);
          std::vector<Expr> at;
          for (const Loop& loop : before) {
            at.push_back(loop.var.same_as(dims_[static_cast<size_t>(dim)]) ? index
                                                                           : Expr(loop.var));
          }
          return previous(at);
        },
    });
    Expr count = operands_.extents[static_cast<size_t>(dim)];
    for (ReductionLevel& level : reduction.levels) {
      count = lane_rule ? ScheduleLaneLevel(level, reduction.result, after, count)
                        : ScheduleSequence(level, after, count);
    }
    return reduction.result;
  }

  // `func` whole, vectorised over its innermost loop.
  void ScheduleMap(Func& func, const std::vector<Loop>& loops) const {
    Bound(func, loops);
    if (loops.empty()) return;
    const Var x = loops[0].var;
    if (loops.size() == 1) {
      CutRow(func, x, lanes_, grain_);
      return;
    }
    Tasks(func, {loops.begin() + 1, loops.end()}, loops[0].extent);
    Vectors(func, x, lanes_);
  }

  // Returns the number of blocks.
  Expr ScheduleLaneLevel(ReductionLevel& level, Func& result, const std::vector<Loop>& loops,
                         const Expr& count) const {
    const Expr blocks =
        (count + static_cast<int>(kReduceBlock - 1)) / static_cast<int>(kReduceBlock);
    Func& whole = level.top ? result : level.blocks;
    std::vector<Loop> all = loops;
    if (!level.top) all.insert(all.begin(), {level.block, blocks});
    whole.compute_root();
    Bound(whole, all);
    if (!all.empty()) Tasks(whole, all, level.top ? count : Expr(static_cast<int>(kReduceBlock)));
    ScheduleLanes(level, all.empty() ? LoopLevel::root() : LoopLevel(whole, inside_));
    return blocks;
  }

  Expr ScheduleSequence(ReductionLevel& level, const std::vector<Loop>& loops,
                        const Expr& count) const {
    const Expr blocks =
        (count + static_cast<int>(kOuterReduceBlock - 1)) / static_cast<int>(kOuterReduceBlock);
    Func& func = level.blocks;
    std::vector<Loop> all = loops;
    if (!level.top) all.push_back({level.block, blocks});
    func.compute_root();
    Bound(func, all);
    if (all.empty()) return blocks;
    Halide::Stage update = func.update(0);
    Expr length = level.top ? count : Expr(static_cast<int>(kOuterReduceBlock));
    std::vector<Halide::VarOrRVar> order = {level.step};
    if (!loops.empty()) {
      const Var x = loops[0].var, tile("ptile"), in_tile("pintile");
      func.vectorize(x, lanes_, TailStrategy::GuardWithIf);
      update.split(x, tile, in_tile, lanes_, TailStrategy::GuardWithIf).vectorize(in_tile);
      all[0].var = tile;
      order.insert(order.begin(), in_tile);
      length = length * lanes_;
    }
    Tasks(update, all, length);
    order.insert(order.end(), {inside_, task_});
    update.reorder(order);
    return blocks;
  }

  static void Bound(Func& func, const std::vector<Loop>& loops) {
    for (const Loop& loop : loops) func.bound(loop.var, 0, loop.extent);
  }

  // Runs `loops` as one, cut into tasks; a step is `each` elements of work.
  template <typename Schedulable>
  void Tasks(Schedulable& func, const std::vector<Loop>& loops, const Expr& each) const {
    Var all = loops[0].var;
    for (size_t i = 1; i < loops.size(); ++i) {
      const Var fused("pfused" + std::to_string(i) + "v");
      func.fuse(all, loops[i].var, fused);
      all = fused;
    }
    func.split(all, task_, inside_, PerTask(grain_, each), TailStrategy::GuardWithIf)
        .parallel(task_);
  }

  const Kernel& kernel_;
  const Params& params_;
  const Operands& operands_;
  ExprEmitter emitter_;
  const int lanes_;
  const int64_t grain_;
  const Var task_{"ptask"}, inside_{"pinside"};
  std::vector<Var> dims_;  // the loop over each dim
};

}  // namespace

std::vector<OutputNest> GeneralNests(const Kernel& kernel, const Params& params,
                                     const Operands& operands) {
  return RootNests(kernel, params, operands).Build();
}

}  // namespace kiln
