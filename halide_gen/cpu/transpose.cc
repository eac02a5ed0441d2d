// SPDX-License-Identifier: Apache-2.0
// Pointwise kernels some of whose inputs are contiguous along another dim ("turn") than the
// outputs.
//
// Tiles of 8 x 16 elements over (turn, innermost) are copied into a buffer on the stack by loads
// along the former, and read from there along the latter; Halide makes the stores into the buffer
// shuffles. Loads and stores of tiles that reach over an edge have masks.
//
// Rows of 8 elements and fewer have tiles of 8 x 8. Where the turned dim is short, tiles run along
// it and those before it in the inputs as one ("turns").
//
// Tiles follow each other along the turned dim: so they find the lines, and the pages, of the tile
// before. Where it has one or two only, they follow along the row ("columns"). Neighbours along a
// row share lines of the outputs, which have to be complete before they leave the cache: so blocks
// of all dims are made one after the other, of several steps of the dim next to the turned one.
#include <algorithm>

#include "halide_gen/common/primitives.h"
#include "halide_gen/cpu/nests.h"
#include "kernel/abi.h"
#include "schedule/analysis.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::RDom;
using Halide::RVar;
using Halide::Stage;
using Halide::TailStrategy;
using Halide::Var;

constexpr int kTransposeTile = static_cast<int>(kTileRows);
// Tiles of a block along the transposed dim: a page of each of its rows.
constexpr int kBlockTiles = 128;        // speed
constexpr int kBlockSize = 1 << 16;     // speed: elements of a block of several steps, about
constexpr int kMostTasks = 16;          // speed: longer ones find more pages again
constexpr int64_t kFewOperations = 16;  // speed

class TransposeNest {
 public:
  TransposeNest(const Kernel& kernel, const Transpose& schedule, const Operands& operands)
      : kernel_(kernel),
        operands_(operands),
        turn_(static_cast<size_t>(schedule.along)),
        turns_(LastDims(kernel, turn_, static_cast<size_t>(schedule.dims))),
        inner_(static_cast<size_t>(kernel.innermost())),
        tile_(static_cast<int>(schedule.tile)),
        columns_(static_cast<int>(schedule.columns)),
        grain_(2 * schedule.task) {
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
      extents.push_back(!in_order_ || !IsTransposed(d) ? operands_.extents[d]
                        : d == turn_                   ? turned_
                                                       : Expr(1));
    SetDense(out, extents);
    Tiles(out, group);
    return {out, group};
  }

 private:
  template <typename T>
  static std::vector<T> Reversed(const std::vector<T>& of) {
    return {of.rbegin(), of.rend()};
  }

  // The last `count` dims of the inputs that are turned along `turn`, in their order.
  static std::vector<size_t> LastDims(const Kernel& kernel, size_t turn, size_t count) {
    for (size_t i = 0; i < kernel.inputs.size(); ++i) {
      const std::vector<int32_t>& dims = kernel.inputs[i].dims;
      if (TransposedAlong(kernel, i) == static_cast<int32_t>(turn))
        return {dims.end() - static_cast<std::ptrdiff_t>(std::min(count, dims.size())), dims.end()};
    }
    return {turn};
  }

  bool IsTransposed(size_t dim) const {
    return std::find(turns_.begin(), turns_.end(), dim) != turns_.end();
  }

  // dividend / divisor by a product whose factor does not change in loops: exact where their
  // product is less than 2^16, as it is along dims that are collapsed (up to 127 elements but for
  // the first, which is not divided).
  static Expr SmallQuotient(const Expr& dividend, const Expr& divisor) {
    constexpr int kBits = 16;  // correctness
    return (dividend * ((1 << kBits) / Halide::max(1, divisor) + 1)) >> kBits;
  }

  // At `x` of the innermost dim and `step` of tile `tile` of those that are collapsed.
  Scope ScopeAt(const Expr& x, const Expr& tile, const Expr& step) const {
    Scope scope;
    scope.coordinates.assign(dims_.begin(), dims_.end());
    scope.coordinates.resize(kernel_.dims.size());
    scope.coordinates[inner_] = x;
    // The first step of a tile costs divisions; the others count on from there, with carries.
    Expr rest = tile * kTransposeTile, carry = step;
    for (size_t k = turns_.size(); k-- > 1;) {
      const Expr& extent = operands_.extents[turns_[k]];
      const Expr quotient = rest / extent, sum = rest - quotient * extent + carry;
      carry = SmallQuotient(sum, extent);
      scope.coordinates[turns_[k]] = sum - carry * extent;
      rest = quotient;
    }
    const Expr t = tile * kTransposeTile + step;
    scope.coordinates[turns_[0]] = turns_.size() == 1 ? t : rest + carry;
    scope.copy_arguments = {dims_.begin(), dims_.end()};
    for (const size_t d : turns_) scope.copy_arguments[d] = 0;
    scope.copy_arguments[inner_] = x;
    scope.copy_arguments[turn_] = t;
    std::reverse(scope.copy_arguments.begin(), scope.copy_arguments.end());
    return scope;
  }

  // One loop nest. Of `r`: lane and step in a tile, whether that is at an edge, its place
  // along the row and along the turned dim in a block, and the block along both.
  void Tiles(Func& out, const std::vector<size_t>& group) {
    const Expr row = operands_.extents[inner_];
    const auto up = [](const Expr& extent, int tile) { return (extent + (tile - 1)) / tile; };
    const Expr tiles = up(turned_, kTransposeTile);
    RDom r({{0, tile_},
            {0, kTransposeTile},
            {0, 2},
            {0, columns_},
            {0, kBlockTiles},
            {0, up(row, tile_ * columns_)},
            {0, up(tiles, kBlockTiles)}},
           "tile");
    const Expr at_edge = r[2], tile = r[6] * kBlockTiles + r[4];
    const Expr column = r[5] * columns_ + r[3];
    const Expr x = column * tile_ + r[0], t = tile * kTransposeTile + r[1];
    const Expr whole = (column + 1) * tile_ <= row && (tile + 1) * kTransposeTile <= turned_;
    r.where(tile < tiles);
    if (columns_ > 1) r.where(column * tile_ < row);
    r.where(select(at_edge == 0, whole, !whole));
    r.where(at_edge == 0 || t < turned_);
    r.where(at_edge == 0 || x < row);
    ExprEmitter emitter(kernel_, operands_);
    std::vector<Func> copies;
    for (size_t i = 0; i < kernel_.inputs.size(); ++i) {
      if (TransposedAlong(kernel_, i) != static_cast<int32_t>(turn_)) continue;
      copies.push_back(CopyOf(i));
      emitter.Copy(i, copies.back());
    }
    Scope scope = ScopeAt(x, tile, r[1]);
    std::vector<Expr> at(scope.coordinates.begin(),
                         scope.coordinates.begin() + kernel_.num_iterated());
    std::reverse(at.begin(), at.end());
    if (in_order_) at = scope.copy_arguments;
    scope.copy_arguments.push_back(at_edge);
    SetValues(out, at, OutputValues(kernel_, group, emitter, scope));
    Stage stage = out.update();
    stage.allow_race_conditions().vectorize(r[0]);
    Tasks(stage, r);
    for (Func& copy : copies) {
      const Var column = dims_[inner_], row_of = dims_[turn_];
      copy.compute_at(out, r[2]).store_in(Halide::MemoryType::Stack);
      copy.bound_extent(column, tile_).bound_extent(row_of, kTransposeTile);
      copy.reorder(row_of, column).vectorize(row_of).unroll(column);
    }
    stage.unroll(r[2]).never_partition_all();
    // Tiles of loops that are unrolled stay in registers; code grows by what a step computes.
    if (CompileWork(kernel_) <= kFewOperations) stage.unroll(r[1]);
  }

  // Input `i` over all iterated dims, as in memory; of those that are collapsed the last stands for
  // all. The last argument says whether parts may lie outside.
  Func CopyOf(size_t i) const {
    std::vector<int32_t> outer = kernel_.inputs[i].dims;  // the dims that are turned come last
    outer.resize(outer.size() - turns_.size());
    const Var at_edge("pedge");
    std::vector<Expr> at(dims_.begin(), dims_.end());
    at[inner_] = select(at_edge == 0, at[inner_],
                        Halide::clamp(at[inner_], 0, operands_.extents[inner_] - 1));
    // A sum of products, not nested ones: rows of a tile are then as far from each other as one.
    Expr flat = dims_[turn_], stride = turned_;
    for (size_t k = outer.size(); k-- > 0;) {
      const auto d = static_cast<size_t>(outer[k]);
      flat = flat + at[d] * stride;
      stride = stride * operands_.extents[d];
    }
    Func copy("turned" + std::to_string(i));
    Halide::ImageParam image = operands_.inputs[i];
    std::vector<Var> vars = Reversed<Var>(dims_);
    vars.push_back(at_edge);
    copy(vars) = LoadIf(at_edge == 0 || dims_[turn_] < turned_, image(flat));
    return copy;
  }

  // Cuts the loop over the outer dims into tasks, or, where there are none, that over blocks and
  // tiles along the innermost.
  void Tasks(Stage& stage, const RDom& r) {
    std::vector<Var> outer;
    Expr images = 1;
    size_t near_dim = 0;
    for (size_t d = dims_.size(); d-- > 0;) {
      if (d == inner_ || IsTransposed(d)) continue;
      if (outer.empty()) near_dim = d;
      outer.push_back(dims_[d]);
      images = images * operands_.extents[d];
    }
    const auto guard = TailStrategy::GuardWithIf;
    std::vector<Halide::VarOrRVar> order = {r[0], r[1], r[2], r[3], r[4], r[5], r[6]};
    order.insert(order.end(), outer.begin(), outer.end());
    stage.reorder(order);
    if (outer.empty()) {
      const RVar all("pall"), task("ptask"), in_task("pintask");
      stage.fuse(r[5], r[6], all);
      const Expr each = Halide::min(turned_, kBlockTiles * kTransposeTile) * (tile_ * columns_);
      const Expr count = r[5].extent() * r[6].extent();
      stage.split(all, task, in_task, PerTask(grain_, each, count), guard).parallel(task);
      return;
    }
    const Var near = outer[0], block("pblock"), task("ptask"), in_task("pintask");
    const Expr image = operands_.extents[inner_] * turned_, steps = operands_.extents[near_dim];
    const Expr together =
        Halide::clamp(kBlockSize / Halide::max(1, image), 1, Halide::max(1, steps));
    stage.split(near, block, near, together, guard);
    outer[0] = block;
    const Expr count = images / Halide::max(1, steps) * ((steps + together - 1) / together);
    const Expr each = Halide::max(PerTask(grain_, image * together, count), count / kMostTasks);
    stage.split(Fused(stage, outer), task, in_task, each, guard);
    stage.reorder({r[0], r[1], r[2], r[3], r[4], near, r[5], r[6], in_task, task}).parallel(task);
  }

  const Kernel& kernel_;
  const Operands& operands_;
  const size_t turn_;
  const std::vector<size_t> turns_;  // dims that tiles run along as one; the last is `turn_`
  Expr turned_;                      // their elements
  bool in_order_ = true;             // outputs have them in the same order, as one
  const size_t inner_;
  const int tile_;     // elements along the innermost dim
  const int columns_;  // tiles along it that follow each other
  const int64_t grain_;
  std::vector<Var> dims_;  // the loop over each iterated dim
};

}  // namespace

std::vector<OutputNest> BuildTranspose(const Kernel& kernel, const Schedule& schedule,
                                       const Operands& operands) {
  std::vector<OutputNest> nests;
  for (const std::vector<size_t>& group : GroupOutputs(kernel)) {
    nests.push_back(TransposeNest(kernel, schedule.As<Transpose>(), operands).Build(group));
  }
  return nests;
}

}  // namespace kiln
