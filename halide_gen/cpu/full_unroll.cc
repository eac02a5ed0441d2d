// SPDX-License-Identifier: Apache-2.0
// Kernels whose innermost dim has a few elements only: vectors run along the next dim, or the next
// few as one ("along"), in tiles of `lanes`, and a step makes all of the innermost one. What is
// computed in a tile is so for all its lanes; those that lie outside are not loaded, and not
// stored. Inputs over all dims are loaded as they lie, into a buffer of one tile, and read from
// there. Outputs of one value per row are an expression of elements that are read once: nothing is
// kept for them. Nor is it where inputs lie in order ("whole_rows"): there a vector holds all
// elements of its rows, and what a row has one of is shuffled to them.
//
// Strides are constants where extents are known ("is<dim>"): then Halide makes of strided loads and
// stores dense ones and shuffles, and guards on the innermost coordinate are decided.
//
// A reduction over the innermost dim is an expression of its elements: in the tree of kernel.h each
// lane has one at most, and absent ones change nothing.
#include <algorithm>
#include <string>

#include "halide_gen/common/primitives.h"
#include "halide_gen/cpu/nests.h"
#include "halide_gen/cpu/reduction.h"
#include "halide_gen/cpu/tables.h"
#include "schedule/analysis.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::TailStrategy;
using Halide::Var;

class UnrolledNest {
 public:
  UnrolledNest(const Kernel& kernel, const FullUnroll& schedule, const Operands& operands)
      : kernel_(kernel),
        schedule_(schedule),
        operands_(operands),
        emitter_(kernel, operands),
        kept_(AsFlags(schedule.stored, kernel.stages.size())),
        inner_(static_cast<size_t>(kernel.innermost())),
        first_(inner_ - static_cast<size_t>(schedule.vectorized)),
        most_(static_cast<int>(schedule.inner)),
        lanes_(static_cast<int>(schedule.step)),
        whole_rows_(schedule.packed),
        width_(operands.extents[inner_]),
        length_(ExtentOf(operands, static_cast<int>(first_), kernel.innermost())) {
    UseTables(kernel, schedule.expanded, operands, kernel.innermost() - 1, lanes_, emitter_);
  }

  OutputNest Build(const std::vector<size_t>& group) {
    const bool whole = SpansAll(kernel_, kernel_.outputs[group[0]].dims);
    in_tiles_ = whole && !whole_rows_;
    for (size_t i = 0; in_tiles_ && i < kernel_.inputs.size(); ++i) {
      if (IsReadInPlace(kernel_, i)) BuildCopy(i);
    }
    for (size_t i = 0; i < kernel_.stages.size(); ++i) BuildStage(i);
    Scope scope = OutputScope(whole ? Expr(x_) : Expr());
    std::vector<Var> vars = {y_};
    std::vector<Expr> extents = {length_};
    // Strides are those of the buffer, which has all the dims.
    for (size_t d = first_ + 1; Outers() && d < inner_; ++d) {
      vars.emplace_back("pone" + std::to_string(d));
      extents.emplace_back(1);
    }
    if (whole) vars.insert(vars.begin(), x_);
    if (Outers()) vars.push_back(outer_);
    Func out = DefineOutputs(kernel_, group, vars, emitter_, scope);
    if (whole) extents.insert(extents.begin(), width_);
    if (Outers()) extents.push_back(OuterCount());
    SetDense(out, extents);
    Schedule(out, whole);
    if (!in_tiles_) return {out, group};
    for (Func& func : copies_) {
      func.compute_at(out, vector_).bound(element_, 0, width_ * lanes_).bound_extent(tile_, 1);
      func.vectorize(element_, lanes_, TailStrategy::RoundUp);
    }
    for (Func& func : funcs_) {
      func.compute_at(out, vector_).bound(lane_, 0, lanes_).bound_extent(tile_, 1);
      func.vectorize(lane_);
    }
    return {out, group};
  }

 private:
  bool Outers() const { return first_ > 0; }

  // Loops over a tile.
  std::vector<Var> TileVars(bool whole) const {
    std::vector<Var> vars = {lane_, tile_};
    if (whole) vars.insert(vars.begin(), x_);
    if (Outers()) vars.push_back(outer_);
    return vars;
  }

  Expr OuterCount() const { return ExtentOf(operands_, 0, static_cast<int>(first_)); }

  // At (outer, y, x), which is at (tile, lane).
  Scope ScopeAt(const Expr& x, const Expr& y, const Expr& lane, const Expr& tile) const {
    Scope scope;
    scope.coordinates.resize(kernel_.dims.size());
    scope.coordinates[inner_] = x;
    SetCoordinates(operands_, y, static_cast<int>(first_), static_cast<int>(inner_), scope);
    scope.start = tile * lanes_;
    scope.step = lane;
    scope.lane = lane;
    scope.row = y;
    scope.row_arguments = {lane, tile};
    if (x.defined()) scope.copy_arguments = {lane * width_ + x, tile};
    if (!Outers()) return scope;
    scope.start = outer_ * length_ + scope.start;
    scope.row = outer_ * length_ + y;
    scope.row_arguments.emplace_back(outer_);
    if (x.defined()) scope.copy_arguments.emplace_back(outer_);
    SetCoordinates(operands_, outer_, 0, static_cast<int>(first_), scope);
    return scope;
  }

  Scope OutputScope(const Expr& x) const { return ScopeAt(x, y_, y_ % lanes_, y_ / lanes_); }
  Scope TileScope(const Expr& x) const {
    Scope scope = ScopeAt(x, tile_ * lanes_ + lane_, lane_, tile_);
    if (in_tiles_) scope.inside = lane_ < length_ - tile_ * lanes_;
    return scope;
  }

  void BuildCopy(size_t i) {
    Halide::ImageParam image = operands_.inputs[i];
    Expr row = tile_ * lanes_;
    if (Outers()) row = outer_ * length_ + row;
    std::vector<Var> vars = {element_, tile_};
    if (Outers()) vars.push_back(outer_);
    Func copy("tile" + std::to_string(i));
    copy(vars) =
        LoadIf(element_ < (length_ - tile_ * lanes_) * width_, image(row * width_ + element_));
    emitter_.Copy(i, copy);
    copies_.push_back(copy);
  }

  void BuildStage(size_t i) {
    const Stage& stage = kernel_.stages[i];
    const bool reduces = stage.kind == Stage::Kind::kReduce;
    const bool whole = !reduces && SpansAll(kernel_, stage.dims);
    if (!reduces && (!kept_[i] || (!whole && !SpansOuter(kernel_, stage.dims)))) return;
    Func func("s" + std::to_string(i));
    if (reduces) {
      func(TileVars(false)) = Reduced(stage);
    } else {
      Scope scope = TileScope(whole ? Expr(x_) : Expr());
      func(TileVars(whole)) = ToStorage(emitter_.Value(stage.expr, scope), stage.type);
    }
    emitter_.Store(static_cast<int32_t>(i), func);
    if (whole) func.reorder_storage(lane_, x_);
    funcs_.push_back(func);
  }

  Expr Reduced(const Stage& stage) const {
    const auto element = [&](const Expr& x) {
      Scope scope = TileScope(x);
      return ToStorage(emitter_.Value(stage.expr, scope), stage.type);
    };
    ReductionSpec spec;
    spec.op = stage.op;
    spec.type = stage.type;
    spec.extent = width_;
    spec.element = element;
    return ReduceFew(spec, most_);
  }

  void Schedule(Func& out, bool whole) {
    const Var step("pstep"), in_step("pinstep"), lane("plane"), task("ptask"), inside("pinside");
    const auto guard = TailStrategy::GuardWithIf;
    const int64_t grain = schedule_.task;
    std::vector<Halide::VarOrRVar> order = {lane};
    out.split(y_, vector_, lane, lanes_, guard);
    if (whole) {
      out.split(x_, step, in_step, most_, guard);
      order = {in_step, lane, step};
    }
    order.emplace_back(vector_);
    if (Outers()) order.emplace_back(outer_);
    out.reorder(order);
    if (Outers()) {
      out.split(outer_, task, inside, PerTask(grain, width_ * length_, OuterCount()), guard);
    } else {
      out.split(vector_, task, vector_, PerTask(grain, width_ * lanes_, length_ / lanes_), guard);
    }
    out.parallel(task).never_partition_all();
    Halide::Stage known = out.specialize(AsKnown());
    known.vectorize(lane);
    if (!whole) return;
    if (whole_rows_) {
      known.vectorize(in_step);
    } else {
      known.unroll(in_step);
    }
  }

  // The known extents are what they are said to be.
  Expr AsKnown() const {
    Expr known = Halide::Internal::const_true();
    for (size_t d = 0; d < std::min(schedule_.known.size(), kernel_.dims.size()); ++d) {
      const int64_t extent = schedule_.known[d];
      if (extent >= 0) known = known && operands_.extents[d] == static_cast<int32_t>(extent);
    }
    return known;
  }

  const Kernel& kernel_;
  const FullUnroll& schedule_;
  const Operands& operands_;
  ExprEmitter emitter_;
  const std::vector<bool> kept_;
  const size_t inner_, first_;  // vectors run along the dims from `first_` to before `inner_`
  const int most_, lanes_;
  const bool whole_rows_;  // a vector holds all elements of its rows
  const Expr width_, length_;
  const Var x_{"px"}, y_{"py"}, outer_{"pouter"}, vector_{"pvector"}, lane_{"ptilelane"},
      tile_{"ptile"}, element_{"pelement"};
  bool in_tiles_ = true;              // or what a vector of rows needs is one expression
  std::vector<Func> copies_, funcs_;  // of inputs, of stages
};

}  // namespace

// A Func is computed at one place only, so each group of outputs has its own copies of the stages.
std::vector<OutputNest> BuildFullUnroll(const Kernel& kernel, const Schedule& schedule,
                                        const Operands& operands) {
  std::vector<OutputNest> nests;
  for (const std::vector<size_t>& group : GroupOutputs(kernel)) {
    nests.push_back(UnrolledNest(kernel, schedule.As<FullUnroll>(), operands).Build(group));
  }
  return nests;
}

}  // namespace kiln
