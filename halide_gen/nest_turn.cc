// SPDX-License-Identifier: Apache-2.0
// Pointwise kernels some of whose inputs are contiguous along another dim ("turn") than the
// outputs.
//
// Whole tiles of 8 x 16 elements over (turn, innermost) are copied into a buffer on the stack by
// loads along the former, and read from there along the latter; Halide makes the stores into the
// buffer shuffles. What is left over at both edges is read where it is, one lane at a time.
#include "kiln/halide_gen/nests.h"
#include "kiln/halide_gen/primitives.h"
#include "kiln/schedule/facts.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::RDom;
using Halide::RVar;
using Halide::Stage;
using Halide::TailStrategy;
using Halide::Var;

constexpr int kTile = 16;     // along the innermost dim
constexpr int kTurnTile = 8;  // along the other: fewer elements are left over

class TurnNest {
 public:
  TurnNest(const Kernel& kernel, const Params& params, const Operands& operands)
      : kernel_(kernel),
        operands_(operands),
        turn_(static_cast<size_t>(params.Get("turn", 0))),
        inner_(static_cast<size_t>(kernel.innermost())),
        grain_(2 * params.Get("grain", 1 << 15)) {
    for (int d = 0; d < kernel.num_iterated(); ++d) {
      dims_.emplace_back("pdim" + std::to_string(d) + "v");
    }
  }

  OutputNest Build(const std::vector<size_t>& group) {
    Func out = UndefinedOutputs(kernel_, group, Reversed<Var>(dims_));
    std::vector<Expr> extents;
    for (size_t d = dims_.size(); d-- > 0;) extents.push_back(operands_.extents[d]);
    SetDense(out, extents);
    Tiles(out, group);
    const Expr whole_x = extents[0] / kTile * kTile;
    const Expr turn = operands_.extents[turn_], whole_turn = turn / kTurnTile * kTurnTile;
    Edge(out, group, 1, RDom(whole_x, extents[0] - whole_x, 0, turn, "right"));
    Edge(out, group, 2, RDom(0, whole_x, whole_turn, turn - whole_turn, "bottom"));
    return {out, group};
  }

 private:
  template <typename T>
  static std::vector<T> Reversed(const std::vector<T>& of) {
    return {of.rbegin(), of.rend()};
  }

  // The coordinates with (innermost, turn) = (x, t).
  Scope ScopeAt(const Expr& x, const Expr& t) const {
    Scope scope;
    scope.coordinates.assign(dims_.begin(), dims_.end());
    scope.coordinates.resize(kernel_.dims.size());
    scope.coordinates[inner_] = x;
    scope.coordinates[turn_] = t;
    return scope;
  }

  void SetAt(Func& out, const std::vector<size_t>& group, const ExprEmitter& emitter, const Expr& x,
             const Expr& t) const {
    Scope scope = ScopeAt(x, t);
    const std::vector<Expr> values = OutputValues(kernel_, group, emitter, scope);
    std::vector<Expr> at(scope.coordinates.begin(),
                         scope.coordinates.begin() + kernel_.num_iterated());
    SetValues(out, Reversed(at), values);
  }

  void Tiles(Func& out, const std::vector<size_t>& group) {
    const Expr x_tiles = operands_.extents[inner_] / kTile;
    const Expr turn_tiles = operands_.extents[turn_] / kTurnTile;
    const RDom r({{0, kTile}, {0, kTurnTile}, {0, turn_tiles}, {0, x_tiles}}, "tile");
    ExprEmitter emitter(kernel_, operands_);
    std::vector<Func> copies;
    for (size_t i = 0; i < kernel_.inputs.size(); ++i) {
      if (TurnedAlong(kernel_, i) != static_cast<int32_t>(turn_)) continue;
      copies.push_back(CopyOf(i));
      emitter.Copy(i, copies.back());
    }
    SetAt(out, group, emitter, r[3] * kTile + r[0], r[2] * kTurnTile + r[1]);
    Stage tiles = out.update(0);
    tiles.allow_race_conditions().vectorize(r[0]);
    Tasks(tiles, {r[0], r[1], r[2]}, r[3], operands_.extents[turn_] * kTile);
    for (Func& copy : copies) {
      const Var x = dims_[inner_], t = dims_[turn_];
      copy.compute_at(out, r[2]).store_in(Halide::MemoryType::Stack);
      copy.bound_extent(x, kTile).bound_extent(t, kTurnTile);
      copy.reorder(t, x).vectorize(t).unroll(x);
    }
  }

  // Input `i` over all iterated dims, as in memory.
  Func CopyOf(size_t i) const {
    const KernelInput& input = kernel_.inputs[i];
    Expr flat = 0;
    for (const int32_t dim : input.dims) {
      const auto d = static_cast<size_t>(dim);
      flat = flat * operands_.extents[d] + dims_[d];
    }
    Func copy("turned" + std::to_string(i));
    Halide::ImageParam image = operands_.inputs[i];
    copy(Reversed<Var>(dims_)) = image(flat);
    return copy;
  }

  void Edge(Func& out, const std::vector<size_t>& group, int index, const RDom& r) {
    SetAt(out, group, ExprEmitter(kernel_, operands_), r.x, r.y);
    Stage edge = out.update(index);
    const RVar vector("pvector"), lane("plane");
    edge.split(r.x, vector, lane, kTile, TailStrategy::GuardWithIf).vectorize(lane);
    Tasks(edge, {lane, vector}, r.y, operands_.extents[inner_]);
  }

  // Cuts the loop over the outer dims, or, where there are none, over `along`, into tasks; a step
  // of the latter is `each` elements of work.
  void Tasks(Stage& stage, const std::vector<RVar>& inside, const RVar& along, const Expr& each) {
    std::vector<Halide::VarOrRVar> order(inside.begin(), inside.end());
    order.emplace_back(along);
    std::vector<Var> rest;
    for (size_t d = dims_.size(); d-- > 0;) {
      if (d != inner_ && d != turn_) rest.push_back(dims_[d]);
    }
    order.insert(order.end(), rest.begin(), rest.end());
    stage.reorder(order);
    if (rest.empty()) {
      const RVar task("ptask"), in_task("pintask");
      stage.split(along, task, in_task, PerTask(grain_, each), TailStrategy::GuardWithIf);
      stage.allow_race_conditions().parallel(task);
      return;
    }
    Var all = rest[0];
    for (size_t i = 1; i < rest.size(); ++i) {
      const Var fused("pfused" + std::to_string(i) + "v");
      stage.fuse(all, rest[i], fused);
      all = fused;
    }
    // Steps along the outer dims inside: they find the pages of the step before.
    const Var task("ptask"), in_task("pintask");
    const Expr image = operands_.extents[inner_] * operands_.extents[turn_];
    stage.split(all, task, in_task, PerTask(grain_, image), TailStrategy::GuardWithIf);
    order.assign(inside.begin(), inside.end());
    order.insert(order.end(), {in_task, along, task});
    stage.reorder(order).parallel(task);
  }

  const Kernel& kernel_;
  const Operands& operands_;
  const size_t turn_, inner_;
  const int64_t grain_;
  std::vector<Var> dims_;  // the loop over each iterated dim
};

}  // namespace

std::vector<OutputNest> TurnNests(const Kernel& kernel, const Params& params,
                                  const Operands& operands) {
  std::vector<OutputNest> nests;
  for (const std::vector<size_t>& group : GroupOutputs(kernel)) {
    nests.push_back(TurnNest(kernel, params, operands).Build(group));
  }
  return nests;
}

}  // namespace kiln
