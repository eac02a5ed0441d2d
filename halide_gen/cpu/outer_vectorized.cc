// SPDX-License-Identifier: Apache-2.0
// Row kernels with short rows: vectors run across `lanes` rows, and a step makes one element of
// each. schedule/cpu/outer_vectorized.cc decides, this does. Example, the sum of x * x in rows of
// n elements:
//
//   for tile over rows / lanes, in parallel
//     transposed(i, 0 ... lanes - 1) = x(rows of the tile, i)      loads along rows, and shuffles
//     for i: s(0 ... lanes - 1) combines turned(i) * turned(i) in the order of kernel.h
//     out(rows of the tile) = s
//
// Along a row, stages would end in folds of nearly empty vectors. Outputs over all dims are turned
// back in the same blocks. Rows that lie outside are neither loaded nor stored.
#include <algorithm>
#include <bit>
#include <functional>
#include <string>

#include "halide_gen/common/primitives.h"
#include "halide_gen/cpu/nests.h"
#include "halide_gen/cpu/reduction.h"
#include "schedule/analysis.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::RDom;
using Halide::TailStrategy;
using Halide::Var;

constexpr int kFewColumns = 8;         // speed
constexpr int kMostInRegisters = 32;   // speed
constexpr int64_t kFewOperations = 8;  // speed
constexpr auto kStack = Halide::MemoryType::Stack;

class AcrossNest {
 public:
  AcrossNest(const Kernel& kernel, const OuterVectorized& schedule, const Operands& operands)
      : kernel_(kernel),
        operands_(operands),
        emitter_(kernel, operands),
        kept_(AsFlags(schedule.stored, kernel.stages.size())),
        most_(static_cast<int>(schedule.row)),
        lanes_(static_cast<int>(schedule.step)),
        block_(most_ <= kFewColumns ? kFewColumns : lanes_),
        grain_(schedule.task),
        length_(operands.extents[static_cast<size_t>(kernel.innermost())]),
        rows_(RowCount(kernel, operands)) {}

  OutputNest Build(const std::vector<size_t>& group) {
    BuildCopies();
    for (size_t i = 0; i < kernel_.stages.size(); ++i) BuildStage(i);
    const bool whole = SpansAll(kernel_, kernel_.outputs[group[0]].dims);
    Func out = whole ? WholeRows(group) : OnePerRow(group);
    PlaceAll(out);
    return {out, group};
  }

 private:
  void BuildCopies() {
    for (size_t i = 0; i < kernel_.inputs.size(); ++i) {
      const std::vector<int32_t>& dims = kernel_.inputs[i].dims;
      if (dims.size() > 1 && dims.back() == kernel_.innermost()) BuildCopy(i);
    }
  }

  void PlaceAll(Func& out) {
    const auto guard = TailStrategy::GuardWithIf;
    const Expr per_task = PerTask(grain_, length_ * lanes_, rows_ / lanes_);
    out.split(tile_, task_, tile_, per_task, guard).parallel(task_);
    out.never_partition_all();
    for (Func& copy : copies_) Place(copy, out);
    for (Func& func : funcs_) {
      Place(func, out);
      func.vectorize(lane_);
    }
  }

  // At (row, x), where the row is `lane_` of `tile_`.
  Scope ScopeAt(const Expr& x) const {
    Scope scope = RowScope(kernel_, operands_, tile_ * lanes_ + lane_, x);
    scope.lane = lane_;
    scope.inside = lane_ < rows_ - tile_ * lanes_;
    scope.row_arguments = {lane_, tile_};
    if (x.defined()) scope.copy_arguments = {x, lane_, tile_};
    return scope;
  }

  std::vector<Expr> Values(const std::vector<size_t>& group, const Expr& x) const {
    Scope scope = ScopeAt(x);
    return OutputValues(kernel_, group, emitter_, scope);
  }

  // Loads along rows, one row of the tile after the other; Halide makes of the strided stores into
  // the buffer shuffles.
  void BuildCopy(size_t i) {
    const std::vector<int32_t>& dims = kernel_.inputs[i].dims;
    const Scope scope = ScopeAt(x_);
    const Expr row = SpansAll(kernel_, dims)
                         ? scope.row
                         : RowMajor(operands_, {dims.begin(), dims.end() - 1}, scope.coordinates);
    Func copy("turned" + std::to_string(i));
    Halide::ImageParam image = operands_.inputs[i];
    copy(x_, lane_, tile_) = LoadIf(scope.row < rows_ && x_ < length_, image(row * length_ + x_));
    emitter_.Copy(i, copy);
    const Var block("pblock"), column("pcolumn");
    copy.bound(x_, 0, (Halide::max(length_, 1) + (block_ - 1)) / block_ * block_)
        .bound_storage(x_, (most_ + (block_ - 1)) / block_ * block_)
        .reorder_storage(lane_, x_, tile_)
        .split(x_, block, column, block_, TailStrategy::RoundUp)
        .reorder(column, lane_, block)
        .vectorize(column)
        .unroll(lane_);
    copies_.push_back(copy);
  }

  void BuildStage(size_t i) {
    const Stage& stage = kernel_.stages[i];
    if (stage.kind == Stage::Kind::kReduce) {
      emitter_.Store(static_cast<int32_t>(i), Reduced(i));
      return;
    }
    const bool whole = SpansAll(kernel_, stage.dims);
    if (!kept_[i] || (!whole && !SpansOuter(kernel_, stage.dims))) return;
    Scope scope = ScopeAt(whole ? Expr(x_) : Expr());
    const Expr value = ToStorage(emitter_.Value(stage.expr, scope), stage.type);
    Func func("s" + std::to_string(i));
    if (whole) {
      func(x_, lane_, tile_) = value;
      func.bound_storage(x_, most_).reorder_storage(lane_, x_, tile_).reorder(lane_, x_, tile_);
    } else {
      func(lane_, tile_) = value;
    }
    emitter_.Store(static_cast<int32_t>(i), func);
    funcs_.push_back(func);
  }

  // The column `x`, or the last: Halide takes what it finds to be needed as a fact about extents.
  Expr Inside(const Expr& x) const { return Halide::max(Halide::min(x, length_ - 1), 0); }

  // What the first level of the tree leaves of a row's elements.
  int FirstHalf() const {
    return static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(most_, 2)))) / 2;
  }

  // The tree of kernel.h for at most 64 elements: each has a lane of its own there, and the lanes
  // fold by halves. Elements that are absent would change nothing.
  Func Reduced(size_t i) {
    const Stage& stage = kernel_.stages[i];
    const std::string name = "s" + std::to_string(i);
    const auto element = [&](const Expr& x) {
      Scope scope = ScopeAt(Inside(x));
      return ToStorage(emitter_.Value(stage.expr, scope), stage.type);
    };
    if (most_ <= kMostInRegisters && Operations(stage.expr) <= kFewOperations)
      return ReducedInRegisters(stage, name, element);
    const Var at("pat");
    Func tree(name + "_tree");
    int half = FirstHalf();
    tree(at, lane_, tile_) = select(at < length_, element(at), StartValue(stage.op, stage.type));
    tree.bound_storage(at, half);
    for (int level = 0; half > 0; half /= 2, ++level) {
      const Expr above = Halide::clamp(length_ - half, 0, half);
      const RDom fold(0, above, name + "_fold" + std::to_string(level));
      const Expr upper = level == 0 ? element(fold.x + half) : tree(fold.x + half, lane_, tile_);
      tree(fold.x, lane_, tile_) =
          Accumulate(stage.op, stage.type, tree(fold.x, lane_, tile_), upper);
      tree.update(level).reorder(lane_, fold.x).vectorize(lane_);
    }
    tree.reorder_storage(lane_, at, tile_).reorder(lane_, at, tile_);
    funcs_.push_back(tree);
    Func result(name);
    result(lane_, tile_) = tree(0, lane_, tile_);
    funcs_.push_back(result);
    return result;
  }

  // The same of few elements that are easily computed, level by level: steps that met in memory
  // would wait for each other.
  Func ReducedInRegisters(const Stage& stage, const std::string& name,
                          const std::function<Expr(const Expr&)>& element) {
    const Var at("pat");
    Func below;
    const auto value = [&](const Expr& x) -> Expr {
      if (below.defined()) return below(x, lane_, tile_);
      return select(x < length_, element(x), StartValue(stage.op, stage.type));
    };
    int half = FirstHalf();
    for (; half > 0; half /= 2) {
      Func level(name + "_" + std::to_string(half));
      level(at, lane_, tile_) = Accumulate(stage.op, stage.type, value(at), value(at + half));
      level.bound(at, 0, half).reorder_storage(lane_, at, tile_);
      level.reorder(lane_, at, tile_).unroll(at);
      funcs_.push_back(level);
      below = level;
    }
    Func result(name);
    result(lane_, tile_) = below(0, lane_, tile_);
    funcs_.push_back(result);
    return result;
  }

  Func OnePerRow(const std::vector<size_t>& group) {
    Func values("values" + std::to_string(group[0]));
    SetValues(values, {lane_, tile_}, Values(group, Expr()));
    funcs_.push_back(values);
    Func out = Result(group, {row_}, values, {row_ % lanes_, row_ / lanes_});
    SetDense(out, {rows_});
    out.split(row_, tile_, in_tile_, lanes_, TailStrategy::GuardWithIf).vectorize(in_tile_);
    return out;
  }

  Func WholeRows(const std::vector<size_t>& group) {
    Func back("back" + std::to_string(group[0]));
    // Columns of the last block that lie outside repeat the last.
    SetValues(back, {x_, lane_, tile_}, Values(group, Inside(x_)));
    Func out = Result(group, {x_, row_}, back, {x_, row_ % lanes_, row_ / lanes_});
    SetDense(out, {length_, rows_});
    const Var block("pblock"), column("pcolumn");
    out.split(row_, tile_, in_tile_, lanes_, TailStrategy::GuardWithIf);
    out.split(x_, block, column, block_, TailStrategy::GuardWithIf).vectorize(column);
    out.reorder(column, in_tile_, block, tile_);
    back.compute_at(out, block).store_in(kStack);
    back.bound_extent(x_, block_).bound(lane_, 0, lanes_).bound_extent(tile_, 1);
    back.reorder(lane_, x_, tile_).vectorize(lane_).unroll(x_);
    return out;
  }

  // A Func of the outputs `group` over `vars` with the values of `func` at `at`.
  static Func Result(const std::vector<size_t>& group, const std::vector<Var>& vars,
                     const Func& func, const std::vector<Expr>& at) {
    Func out("out" + std::to_string(group[0]));
    std::vector<Expr> values;
    for (size_t k = 0; k < group.size(); ++k) {
      values.push_back(group.size() == 1 ? Expr(func(at)) : Expr(func(at)[static_cast<int>(k)]));
    }
    SetValues(out, {vars.begin(), vars.end()}, values);
    return out;
  }

  void Place(Func& func, const Func& out) const {
    func.compute_at(out, tile_).store_in(kStack);
    func.bound(lane_, 0, lanes_).bound_extent(tile_, 1);
  }

  const Kernel& kernel_;
  const Operands& operands_;
  ExprEmitter emitter_;
  const std::vector<bool> kept_;
  const int most_, lanes_;
  const int block_;  // columns turned at once
  const int64_t grain_;
  const Expr length_, rows_;
  const Var x_{"px"}, lane_{"plane"}, tile_{"ptile"}, row_{"prow"}, in_tile_{"pintile"},
      task_{"ptask"};
  std::vector<Func> copies_, funcs_;
};

}  // namespace

// A Func is computed at one place only, so each group of outputs has its own copies of the stages.
std::vector<OutputNest> BuildOuterVectorized(const Kernel& kernel, const Schedule& schedule,
                                             const Operands& operands) {
  std::vector<OutputNest> nests;
  for (const std::vector<size_t>& group : GroupOutputs(kernel)) {
    nests.push_back(AcrossNest(kernel, schedule.As<OuterVectorized>(), operands).Build(group));
  }
  return nests;
}

}  // namespace kiln
