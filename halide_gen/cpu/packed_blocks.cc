// SPDX-License-Identifier: Apache-2.0
// Pointwise kernels whose last dims ("block") are known to be tiny, and lie in another order in
// inputs: a vector holds `lanes` whole blocks, which follow each other along the dim before, and
// loads gather. There are no masks: the last vector along that dim begins earlier, and makes some
// elements twice.
//
// Where blocks follow each other along another dim in an input ("near"), they are made along that
// for as many rows of the outputs as lie near each other, so that lines are read once. Example, of
// in0[b, x, a, c], block c, x:
//   for blocks of b, for a, for vectors of b in the block: out0[a, b, c, x]
#include <algorithm>
#include <cstddef>
#include <string>

#include "halide_gen/cpu/nests.h"
#include "schedule/analysis.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::RDom;
using Halide::RVar;
using Halide::TailStrategy;
using Halide::Var;

class BlockNest {
 public:
  BlockNest(const Kernel& kernel, const PackedBlocks& schedule, const Operands& operands)
      : kernel_(kernel),
        schedule_(schedule),
        operands_(operands),
        rank_(static_cast<size_t>(kernel.num_iterated())),
        first_(rank_ - static_cast<size_t>(schedule.dims)),
        lanes_(static_cast<int>(schedule.blocks)),
        run_(operands.extents[first_ - 1]),
        block_(ExtentOf(operands, static_cast<int>(first_), kernel.num_iterated())),
        vectors_((run_ + (lanes_ - 1)) / lanes_),
        known_(AsKnown()),
        loops_(Ranges(), "block") {}

  OutputNest Build(const std::vector<size_t>& group) {
    std::vector<Var> vars;
    for (size_t d = 0; d < rank_; ++d) vars.emplace_back("pdim" + std::to_string(d) + "v");
    Func out = UndefinedOutputs(kernel_, group, vars);
    const RVar vector = Along(first_ - 1), lane = InVector();
    const Expr at_run = Halide::max(0, Halide::min(vector * lanes_, run_ - lanes_)) + lane;
    loops_.where(known_ || at_run < run_);
    Scope scope;
    scope.coordinates.resize(kernel_.dims.size());
    for (size_t d = 0; d < rank_; ++d) scope.coordinates[d] = Along(d);
    scope.coordinates[first_ - 1] = at_run;
    // Blocks are one dim of the outputs with the dim before, so that a vector is one store.
    Expr flat = at_run;
    std::vector<Expr> extents(rank_, 1), at(rank_, 0);
    for (size_t d = first_; d < rank_; ++d) flat = flat * operands_.extents[d] + Along(d);
    extents[0] = run_ * block_;
    at[0] = flat;
    for (size_t d = 0; d + 1 < first_; ++d) {
      extents[rank_ - 1 - d] = operands_.extents[d];
      at[rank_ - 1 - d] = Along(d);
    }
    SetDense(out, extents);
    const ExprEmitter emitter(kernel_, operands_);
    SetValues(out, at, OutputValues(kernel_, group, emitter, scope));
    Halide::Stage stage = out.update();
    Loops(stage);
    Halide::Stage vectors = stage.specialize(known_);
    for (size_t d = rank_; d-- > first_;)
      vectors.vectorize(Along(d), IsOf(d), TailStrategy::GuardWithIf);
    vectors.vectorize(lane);
    stage.never_partition_all();
    return {out, group};
  }

 private:
  int IsOf(size_t dim) const { return static_cast<int>(schedule_.known[dim]); }

  // Extents are what they are said to be, and there is a whole vector.
  Expr AsKnown() const {
    Expr known = run_ >= lanes_;
    for (size_t d = first_; d < rank_; ++d) known = known && operands_.extents[d] == IsOf(d);
    return known;
  }

  // Of the loops, innermost first: all dims, in vectors along that before the block, and blocks in
  // a vector.
  Halide::Region Ranges() const {
    Halide::Region ranges;
    for (size_t d = rank_; d-- > 0;) {
      if (d + 1 == first_) ranges.emplace_back(0, lanes_);
      ranges.emplace_back(0, d + 1 == first_ ? vectors_ : operands_.extents[d]);
    }
    return ranges;
  }
  RVar InVector() { return loops_[static_cast<int>(rank_ - first_)]; }
  RVar Along(size_t dim) { return loops_[static_cast<int>(rank_ - dim - (dim >= first_ ? 1 : 0))]; }

  // The dim along which blocks follow each other in the first input that has them in another
  // order; the one before the block if all follow each other along that.
  size_t NearDim() const {
    for (size_t i = 0; i < kernel_.inputs.size(); ++i) {
      const std::vector<int32_t>& dims = kernel_.inputs[i].dims;
      if (TransposedAlong(kernel_, i) < 0) continue;
      const auto before = std::find_if(dims.rbegin(), dims.rend(), [this](int32_t dim) {
        return static_cast<size_t>(dim) < first_;
      });
      if (before != dims.rend()) return static_cast<size_t>(*before);
    }
    return first_ - 1;
  }

  void Loops(Halide::Stage& stage) {
    constexpr int kRows = 1024;  // speed: elements
    const auto guard = TailStrategy::GuardWithIf;
    const size_t near = NearDim();
    const RVar rows("prows"), in_rows("pinrows"), task("ptask"), inside("pinside");
    const Expr per_step = Halide::max(1, kRows / Halide::max(1, block_ * lanes_));
    Expr each = per_step * lanes_ * block_, count = (vectors_ + per_step - 1) / per_step;
    stage.allow_race_conditions().split(Along(first_ - 1), rows, in_rows, per_step, guard);
    std::vector<Halide::VarOrRVar> order;
    for (size_t d = rank_; d-- > first_;) order.emplace_back(Along(d));
    order.insert(order.end(), {InVector(), in_rows});
    if (near + 1 != first_) {
      order.emplace_back(Along(near));
      each = each * operands_.extents[near];
    }
    order.emplace_back(rows);
    RVar all = rows;
    stage.reorder(order);
    for (size_t d = first_ - 1; d-- > 0;) {
      if (d == near) continue;
      const RVar fused("pfused" + std::to_string(d));
      stage.fuse(all, Along(d), fused);
      all = fused;
      count = count * operands_.extents[d];
    }
    stage.split(all, task, inside, PerTask(schedule_.task, each, count), guard);
    stage.parallel(task);
  }

  const Kernel& kernel_;
  const PackedBlocks& schedule_;
  const Operands& operands_;
  const size_t rank_, first_;  // of dims; the first of the block
  const int lanes_;            // blocks in a vector
  const Expr run_, block_;     // extents of the dim before the block, elements of that
  const Expr vectors_;         // along that dim
  const Expr known_;
  RDom loops_;
};

}  // namespace

std::vector<OutputNest> BuildPackedBlocks(const Kernel& kernel, const Schedule& schedule,
                                          const Operands& operands) {
  PackedBlocks packed = schedule.As<PackedBlocks>();
  packed.known.resize(kernel.dims.size(), 1);
  std::vector<OutputNest> nests;
  for (const std::vector<size_t>& group : GroupOutputs(kernel))
    nests.push_back(BlockNest(kernel, packed, operands).Build(group));
  return nests;
}

}  // namespace kiln
