// SPDX-License-Identifier: Apache-2.0
// Pointwise kernels some of whose inputs are contiguous along another dim ("turn") than the
// outputs.
//
// Tiles of 8 x 16 elements over (turn, innermost) are copied into a buffer on the stack by loads
// along the former, and read from there along the latter; Halide makes the stores into the buffer
// shuffles. Tiles that reach over an edge are loops of their own, in which loads and stores outside
// are left out:
//
//          whole x   rest
//   whole  Tiles     Right
//   rest   Bottom    Right
//
// Rows of 8 elements and fewer have tiles of 8 x 8. Where the turned dim is short, tiles run along
// it and those before it in the inputs as one ("turns").
#include <algorithm>

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

constexpr int kTurnTile = 8;  // along the other dim than the innermost

class TurnNest {
 public:
  TurnNest(const Kernel& kernel, const Params& params, const Operands& operands)
      : kernel_(kernel),
        operands_(operands),
        turn_(static_cast<size_t>(params.Get("turn", 0))),
        turns_(LastDims(kernel, turn_, static_cast<size_t>(params.Get("turns", 1)))),
        inner_(static_cast<size_t>(kernel.innermost())),
        tile_(static_cast<int>(params.Get("tile", 16))),
        grain_(2 * params.Get("grain", 1 << 15)) {
    for (int d = 0; d < kernel.num_iterated(); ++d) {
      dims_.emplace_back("pdim" + std::to_string(d) + "v");
    }
    for (const size_t d : turns_)
      turned_ = turned_.defined() ? turned_ * operands.extents[d] : operands.extents[d];
    for (size_t k = 0; k < turns_.size(); ++k)
      in_order_ = in_order_ && turns_[k] + (turns_.size() - 1 - k) == turn_;
  }

  OutputNest Build(const std::vector<size_t>& group) {
    Func out = UndefinedOutputs(kernel_, group, Reversed<Var>(dims_));
    std::vector<Expr> extents;
    for (size_t d = dims_.size(); d-- > 0;)
      extents.push_back(!in_order_ || !IsTurned(d) ? operands_.extents[d]
                        : d == turn_               ? turned_
                                                   : Expr(1));
    SetDense(out, extents);
    const auto up = [](const Expr& extent, int tile) { return (extent + (tile - 1)) / tile; };
    const Expr x = extents[0], whole_x = x / tile_, all_x = up(x, tile_);
    const Expr whole_turn = turned_ / kTurnTile, all_turn = up(turned_, kTurnTile);
    const Halide::Range lane = {0, tile_}, step = {0, kTurnTile}, columns = {0, whole_x};
    const Halide::Range turns = {0, whole_turn}, rest = {whole_turn, all_turn - whole_turn};
    Tiles(out, group, {lane, step, turns, columns}, Edge::kNone);
    Tiles(out, group, {lane, step, rest, columns}, Edge::kBottom);
    Tiles(out, group, {lane, step, {0, all_turn}, {whole_x, all_x - whole_x}}, Edge::kRight);
    return {out, group};
  }

 private:
  enum class Edge { kNone, kBottom, kRight };

  template <typename T>
  static std::vector<T> Reversed(const std::vector<T>& of) {
    return {of.rbegin(), of.rend()};
  }

  // The last `count` dims of the inputs that are turned along `turn`, in their order.
  static std::vector<size_t> LastDims(const Kernel& kernel, size_t turn, size_t count) {
    for (size_t i = 0; i < kernel.inputs.size(); ++i) {
      const std::vector<int32_t>& dims = kernel.inputs[i].dims;
      if (TurnedAlong(kernel, i) == static_cast<int32_t>(turn))
        return {dims.end() - static_cast<std::ptrdiff_t>(std::min(count, dims.size())), dims.end()};
    }
    return {turn};
  }

  bool IsTurned(size_t dim) const {
    return std::find(turns_.begin(), turns_.end(), dim) != turns_.end();
  }

  // At `x` of the innermost dim and `t` of those that run as one.
  Scope ScopeAt(const Expr& x, const Expr& t) const {
    Scope scope;
    scope.coordinates.assign(dims_.begin(), dims_.end());
    scope.coordinates.resize(kernel_.dims.size());
    scope.coordinates[inner_] = x;
    Expr rest = t;
    for (size_t k = turns_.size(); k-- > 0;) {
      const Expr& extent = operands_.extents[turns_[k]];
      scope.coordinates[turns_[k]] = k == 0 ? rest : rest % extent;
      rest = rest / extent;
    }
    scope.copy_arguments = {dims_.begin(), dims_.end()};
    for (const size_t d : turns_) scope.copy_arguments[d] = 0;
    scope.copy_arguments[inner_] = x;
    scope.copy_arguments[turn_] = t;
    std::reverse(scope.copy_arguments.begin(), scope.copy_arguments.end());
    return scope;
  }

  void SetAt(Func& out, const std::vector<size_t>& group, const ExprEmitter& emitter, const Expr& x,
             const Expr& t) const {
    Scope scope = ScopeAt(x, t);
    const std::vector<Expr> values = OutputValues(kernel_, group, emitter, scope);
    std::vector<Expr> at(scope.coordinates.begin(),
                         scope.coordinates.begin() + kernel_.num_iterated());
    std::reverse(at.begin(), at.end());
    SetValues(out, in_order_ ? scope.copy_arguments : at, values);
  }

  // The tiles of `range`: lanes and steps in one, then which along the turned dim and which along
  // the innermost.
  void Tiles(Func& out, const std::vector<size_t>& group, const Halide::Region& range, Edge edge) {
    RDom r(range, "tile");
    const Expr x = r[3] * tile_ + r[0], t = r[2] * kTurnTile + r[1];
    if (edge == Edge::kRight) r.where(x < operands_.extents[inner_]);
    if (edge != Edge::kNone) r.where(t < turned_);
    ExprEmitter emitter(kernel_, operands_);
    std::vector<Func> copies;
    for (size_t i = 0; i < kernel_.inputs.size(); ++i) {
      if (TurnedAlong(kernel_, i) != static_cast<int32_t>(turn_)) continue;
      copies.push_back(CopyOf(i, edge));
      emitter.Copy(i, copies.back());
    }
    SetAt(out, group, emitter, x, t);
    Stage tiles = out.update(static_cast<int>(edge));
    tiles.allow_race_conditions().vectorize(r[0]);
    const RVar tile = Tasks(tiles, r, edge);
    for (Func& copy : copies) {
      const Var column = dims_[inner_], row = dims_[turn_];
      copy.compute_at(out, tile).store_in(Halide::MemoryType::Stack);
      copy.bound_extent(column, tile_).bound_extent(row, kTurnTile);
      copy.reorder(row, column).vectorize(row).unroll(column);
    }
  }

  // Input `i` over all iterated dims, as in memory; of those that run as one the last stands for
  // all.
  Func CopyOf(size_t i, Edge edge) const {
    std::vector<int32_t> outer = kernel_.inputs[i].dims;  // the dims that are turned come last
    outer.resize(outer.size() - turns_.size());
    const Expr flat =
        RowMajor(operands_, outer, {dims_.begin(), dims_.end()}) * turned_ + dims_[turn_];
    Func copy("turned" + std::to_string(i));
    Halide::ImageParam image = operands_.inputs[i];
    Expr inside = dims_[turn_] < turned_;
    if (edge == Edge::kRight) inside = inside && dims_[inner_] < operands_.extents[inner_];
    copy(Reversed<Var>(dims_)) = edge == Edge::kNone ? image(flat) : LoadIf(inside, image(flat));
    return copy;
  }

  // Cuts the loop over the outer dims into tasks, or, where there are none, that over tiles along
  // the innermost; at the right edge, where there is one such, over those along the other.
  // Returns the innermost loop over tiles.
  RVar Tasks(Stage& stage, const RDom& r, Edge edge) {
    std::vector<Halide::VarOrRVar> order = {r[0], r[1], r[2], r[3]};
    std::vector<Var> rest;
    Expr images = 1;
    for (size_t d = dims_.size(); d-- > 0;) {
      if (d == inner_ || IsTurned(d)) continue;
      rest.push_back(dims_[d]);
      images = images * operands_.extents[d];
    }
    order.insert(order.end(), rest.begin(), rest.end());
    stage.reorder(order);
    if (rest.empty()) {
      const RVar task("ptask"), in_task("pintask");
      const bool right = edge == Edge::kRight;
      const Expr each = (right ? Expr(kTurnTile) : turned_) * tile_;
      stage.split(right ? r[2] : r[3], task, in_task,
                  PerTask(grain_, each, r[right ? 2 : 3].extent()), TailStrategy::GuardWithIf);
      stage.allow_race_conditions().parallel(task);
      return right ? in_task : r[2];
    }
    Var all = rest[0];
    for (size_t i = 1; i < rest.size(); ++i) {
      const Var fused("pfused" + std::to_string(i) + "v");
      stage.fuse(all, rest[i], fused);
      all = fused;
    }
    // Steps along the outer dims inside: they find the pages of the step before. So tasks are few.
    constexpr int kMostTasks = 16;
    const Var task("ptask"), in_task("pintask");
    const Expr image = operands_.extents[inner_] * turned_;
    const Expr each = Halide::max(PerTask(grain_, image, images), images / kMostTasks);
    stage.split(all, task, in_task, each, TailStrategy::GuardWithIf);
    order = {r[0], r[1], r[2], in_task, r[3], task};
    stage.reorder(order).parallel(task);
    return r[2];
  }

  const Kernel& kernel_;
  const Operands& operands_;
  const size_t turn_;
  const std::vector<size_t> turns_;  // dims that tiles run along as one; the last is `turn_`
  Expr turned_;                      // their elements
  bool in_order_ = true;             // outputs have them in the same order, as one
  const size_t inner_;
  const int tile_;  // elements along the innermost dim
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
