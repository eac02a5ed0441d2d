// SPDX-License-Identifier: Apache-2.0
// schedule/cpu/outer_reduction.cc decides, this does. Every nest runs over tiles; what a tile needs
// is computed there. Example, max over a of [a, b], subtracted:
//
//   for tile over b / lanes, in parallel
//     blocks, top: `lanes` accumulators each, in registers    (one level of the tree in the other)
//     for a: out(a, tile * lanes + 0 ... lanes - 1) = in - top
//
// Where outputs of several loop nests need what was reduced, a nest before theirs computes that for
// all tiles, and keeps it.
#include <algorithm>
#include <map>

#include "halide_gen/common/primitives.h"
#include "halide_gen/cpu/nests.h"
#include "halide_gen/cpu/reduction.h"
#include "schedule/analysis.h"
#include "schedule/reductions.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::LoopLevel;
using Halide::TailStrategy;
using Halide::Var;

// Funcs by stage, with the arguments of those made in a tile.
using OfTiles = std::map<size_t, Func>;

class ColumnNest {
 public:
  // `of_tiles` need not be computed.
  ColumnNest(const Kernel& kernel, const OuterReduction& schedule, const Operands& operands,
             const OfTiles& of_tiles)
      : kernel_(kernel),
        schedule_(schedule),
        operands_(operands),
        emitter_(kernel, operands),
        kept_(AsFlags(schedule.stored, kernel.stages.size())),
        passes_(PassesOf(kernel, kept_)),
        tile_dims_(FirstReduction(kernel).dims),
        column_dims_(FirstReduction(kernel).over),
        inner_(kernel.innermost()),
        lanes_(static_cast<int>(schedule.step)),
        rows_per_block_(tile_dims_.empty() ? 1 : static_cast<int>(schedule.batch)),
        made_(of_tiles) {
    for (int d = 0; d < kernel.num_iterated(); ++d) {
      dims_.emplace_back("pdim" + std::to_string(d) + "v");
    }
  }

  // A nest that computes `stages` for all tiles.
  OfTiles BuildTiles(const std::vector<size_t>& stages) {
    for (size_t i = 0; i < kernel_.stages.size(); ++i) BuildStage(i);
    Scope scope = OutputScope();
    std::vector<Expr> values;
    for (const size_t i : stages) values.push_back(AtOutput(i, scope));
    const std::vector<Var> vars = OutputVars(tile_dims_);
    Func tiles("tiles");
    SetValues(tiles, {vars.begin(), vars.end()}, values);
    for (const int32_t dim : tile_dims_) tiles.bound(VarOf(dim), 0, ExtentOf(dim));
    tiles.compute_root();
    Place(LoopOverTiles(tiles, tile_dims_));

    std::vector<Expr> at(vars.begin(), vars.end());
    if (VectorTiles()) at[0] = tile_ * lanes_ + lane_;
    OfTiles of_tiles;
    for (const size_t i : stages) {
      Func view("s" + std::to_string(i) + "_of_tile");
      const auto value = static_cast<int>(of_tiles.size());
      view(TileVars(tile_dims_)) = stages.size() == 1 ? Expr(tiles(at)) : Expr(tiles(at)[value]);
      of_tiles.emplace(i, view);
    }
    return of_tiles;
  }

  OutputNest Build(const std::vector<size_t>& group) {
    for (size_t i = 0; i < kernel_.stages.size(); ++i) {
      if (made_.empty()) BuildStage(i);
    }
    for (const auto& [i, func] : made_) emitter_.Store(static_cast<int32_t>(i), func);
    const std::vector<int32_t>& dims = kernel_.outputs[group[0]].dims;
    Scope scope = OutputScope();
    Func out = DefineOutputs(kernel_, group, OutputVars(dims), emitter_, scope);
    std::vector<Expr> extents;
    for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) extents.push_back(ExtentOf(*dim));
    SetDense(out, extents);
    Place(LoopOverTiles(out, dims));
    return {out, group};
  }

 private:
  // A reduction over one dim, and whether it reduces what one over another dim left.
  struct OverDim {
    int32_t dim;
    std::vector<int32_t> left;  // the dims of its result
    Reduction reduction;
  };

  const Expr& ExtentOf(int32_t dim) const { return operands_.extents[static_cast<size_t>(dim)]; }
  const Var& VarOf(int32_t dim) const { return dims_[static_cast<size_t>(dim)]; }
  bool Has(const std::vector<int32_t>& dims, int32_t dim) const {
    return std::find(dims.begin(), dims.end(), dim) != dims.end();
  }

  // The loops over `dims`, innermost first: of outputs, and of what is computed in a tile.
  std::vector<Var> OutputVars(const std::vector<int32_t>& dims) const {
    std::vector<Var> vars;
    for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) vars.push_back(VarOf(*dim));
    return vars;
  }
  std::vector<Var> TileVars(const std::vector<int32_t>& dims) const {
    std::vector<Var> vars = OutputVars(dims);
    if (VectorTiles() && Has(dims, inner_)) {
      vars[0] = tile_;
      vars.insert(vars.begin(), lane_);
    }
    return vars;
  }

  // All dims at their loops.
  Scope OutputScope() const {
    Scope scope;
    scope.coordinates.assign(dims_.begin(), dims_.end());
    scope.coordinates.resize(kernel_.dims.size());
    if (!VectorTiles()) return scope;
    scope.lane = VarOf(inner_) % lanes_;
    scope.tile = VarOf(inner_) / lanes_;
    return scope;
  }
  // The same, but `dim` (if any) at `index`.
  Scope TileScope(int32_t dim = -1, const Expr& index = Expr()) const {
    Scope scope = OutputScope();
    if (VectorTiles()) {
      scope.lane = lane_;
      scope.tile = tile_;
      scope.inside = lane_ < ExtentOf(inner_) - tile_ * lanes_;
      scope.coordinates[static_cast<size_t>(inner_)] = tile_ * lanes_ + lane_;
    }
    if (dim >= 0) scope.coordinates[static_cast<size_t>(dim)] = index;
    return scope;
  }

  void Store(size_t i, const Func& func) {
    emitter_.Store(static_cast<int32_t>(i), func);
    stored_.emplace(i, func);
  }

  // The value, as in memory, of a stage over kept dims in the loops of outputs.
  Expr AtOutput(size_t i, Scope& scope) const {
    const auto stored = stored_.find(i);
    if (stored == stored_.end()) {
      return ToStorage(emitter_.Value(kernel_.stages[i].expr, scope), kernel_.stages[i].type);
    }
    std::vector<Expr> at;
    for (const Var& var : OutputVars(tile_dims_)) at.emplace_back(var);
    if (VectorTiles()) {
      at[0] = scope.tile;
      at.insert(at.begin(), scope.lane);
    }
    return stored->second(at);
  }

  void BuildStage(size_t i) {
    const Stage& stage = kernel_.stages[i];
    if (IsReduction(stage)) {
      if (passes_[i] == i) BuildReduce(i);
      return;
    }
    if (!kept_[i]) return;
    Scope scope = TileScope();
    const Expr value = ToStorage(emitter_.Value(stage.expr, scope), stage.type);
    Func func("s" + std::to_string(i));
    func(TileVars(stage.dims)) = value;
    // Reductions ask for whole blocks, and the last has elements that are not there.
    for (const int32_t dim : stage.dims) {
      if (Has(column_dims_, dim)) func.bound(VarOf(dim), 0, ExtentOf(dim));
    }
    Store(i, func);
    maps_.emplace_back(func, Has(stage.dims, inner_));
  }

  // The reductions of the pass that begins with stage `first`.
  void BuildReduce(size_t first) {
    const Stage& stage = kernel_.stages[first];
    const std::vector<size_t> pass = StagesOf(passes_, first);
    std::vector<int32_t> dims(static_cast<size_t>(kernel_.num_iterated()));
    for (size_t d = 0; d < dims.size(); ++d) dims[d] = static_cast<int32_t>(d);
    std::vector<OverDim> chain;
    for (auto dim = stage.over.rbegin(); dim != stage.over.rend(); ++dim) {
      const std::vector<int32_t> before = dims;
      dims.erase(std::find(dims.begin(), dims.end(), *dim));
      const Func previous = chain.empty() ? Func() : chain.back().reduction.result;
      chain.push_back({*dim, dims, ReduceDim(pass, *dim, previous, before)});
    }
    for (size_t k = 0; k < pass.size(); ++k)
      Store(pass[k], ValueOf(chain.back().reduction.result, TileVars(dims), k));
    reductions_.push_back(std::move(chain));
  }

  // Reduces `dim` of `previous`, which has the dims `before`, or of the elements of `pass`.
  Reduction ReduceDim(const std::vector<size_t>& pass, int32_t dim, const Func& previous,
                      const std::vector<int32_t>& before) const {
    const Stage& stage = kernel_.stages[pass[0]];
    const bool lane_rule = dim == inner_;
    std::vector<int32_t> after = before;
    after.erase(std::find(after.begin(), after.end(), dim));
    const auto element_of = [&](size_t k) {
      return [&, k](const Expr& index) -> Expr {
        Scope scope = TileScope(dim, index);
        const Stage& of = kernel_.stages[pass[k]];
        if (!previous.defined()) return ToStorage(emitter_.Value(of.expr, scope), of.type);
        std::vector<Expr> at;
        for (const Var& var : TileVars(before))
          at.push_back(var.same_as(VarOf(dim)) ? index : Expr(var));
        return ValueAt(previous, at, k);
      };
    };
    ReductionSpec spec = {
        .name = "s" + std::to_string(pass[0]) + "_over" + std::to_string(dim),
        .op = stage.op,
        .type = stage.type,
        .extent = ExtentOf(dim),
        .lanes = lane_rule,
        .levels = static_cast<int>(lane_rule ? schedule_.levels : schedule_.outer_levels),
        .accumulators = static_cast<int>(schedule_.accumulators),
        .vars = TileVars(after),
        .element = element_of(0),
    };
    for (size_t k = 1; k < pass.size(); ++k) {
      const Stage& beside = kernel_.stages[pass[k]];
      spec.beside.push_back({beside.op, beside.type, element_of(k)});
    }
    return BuildReduction(spec);
  }

  bool VectorTiles() const { return Has(tile_dims_, inner_); }

  // Loops of `out`, which has `dims`: vectors innermost, tiles outermost, in parallel. Returns the
  // loop over tiles. Where a nest before has made what they have, rows may be taken as they lie.
  LoopLevel LoopOverTiles(Func& out, const std::vector<int32_t>& dims) {
    const Var vector("pvector"), lane("pinvector"), task("ptask"), inside("pinside");
    const auto guard = TailStrategy::GuardWithIf;
    std::vector<Halide::VarOrRVar> order;
    if (Has(dims, inner_)) {
      out.split(VarOf(inner_), vector, lane, lanes_, guard).vectorize(lane);
      order.emplace_back(lane);
      if (!VectorTiles()) order.emplace_back(vector);
    }
    Expr elements = VectorTiles() ? Expr(lanes_) : Expr(1);
    const bool in_memory_order = !made_.empty() && schedule_.memory_order;
    if (in_memory_order && !VectorTiles() && Has(dims, inner_)) elements = ExtentOf(inner_);
    for (auto dim = column_dims_.rbegin(); dim != column_dims_.rend() && !in_memory_order; ++dim) {
      if (!reductions_.empty() || Has(dims, *dim)) elements = elements * ExtentOf(*dim);
      if (Has(dims, *dim) && *dim != inner_) order.emplace_back(VarOf(*dim));
    }
    std::vector<Var> tile;
    Expr tiles = 1;
    // One step where the row has no more lanes; without a division to tell where it begins.
    const bool in_row = VectorTiles() && schedule_.whole_row;
    if (in_row) {
      order.emplace_back(vector);
    } else if (VectorTiles()) {
      tile.push_back(vector);
      tiles = (ExtentOf(inner_) + lanes_ - 1) / lanes_;
    }
    const std::vector<int32_t>& outer = in_memory_order ? dims : tile_dims_;
    for (auto dim = outer.rbegin(); dim != outer.rend(); ++dim) {
      if (*dim == inner_) continue;
      tile.push_back(VarOf(*dim));
      tiles = tiles * ExtentOf(*dim);
    }
    if (rows_per_block_ > 1 && !in_memory_order) {
      const Var several("pseveral"), in_block("pinblock");
      const Expr per_block = RowsPerBlock(elements, rows_per_block_);
      out.split(tile[0], several, in_block, per_block, guard);
      order.emplace_back(in_block);
      tile[0] = several;
      elements = elements * per_block;
      tiles = tiles / per_block;
    }
    order.insert(order.end(), tile.begin(), tile.end());
    out.reorder(order);
    out.split(Fused(out, tile), task, inside, PerTask(schedule_.task, elements, tiles), guard)
        .parallel(task);
    // The tail of the last tile is told apart at the stores, not by a copy of all the code.
    out.never_partition_all();
    return LoopLevel(out, in_row ? vector : inside);
  }

  // Puts everything but the output under the loop over tiles.
  void Place(const LoopLevel& tile) {
    for (auto& [map, vectors] : maps_) {
      PlaceInTile(map, tile);
      if (!vectors) continue;
      if (VectorTiles()) {
        Lanes(map);
      } else {
        Vectors(map, VarOf(inner_), lanes_);
      }
    }
    for (std::vector<OverDim>& chain : reductions_) {
      Func& result = chain.back().reduction.result;
      LoopLevel at = rows_per_block_ > 1 ? LoopLevel(result, VarOf(tile_dims_.back())) : tile;
      for (auto over = chain.rbegin(); over != chain.rend(); ++over) {
        at = over->dim == inner_ ? PlaceLanes(over->reduction, ExtentOf(over->dim), at)
                                 : PlaceSequence(over->reduction, at);
      }
      PlaceInTile(result, tile);
      if (VectorTiles()) Lanes(result);
    }
  }

  // Of short columns, what several tiles have stays on the stack.
  void PlaceInTile(Func& func, const LoopLevel& tile) const {
    func.compute_at(tile);
    if (rows_per_block_ == 1) return;
    const Var& several = VarOf(tile_dims_.back());
    const std::vector<Var> args = func.args();
    const auto is_several = [&](const Var& var) { return var.same_as(several); };
    if (std::any_of(args.begin(), args.end(), is_several))
      func.store_in(Halide::MemoryType::Stack).bound_storage(several, rows_per_block_);
  }

  // All lanes of a tile, of constant number.
  void Lanes(Func& func) const {
    func.bound(lane_, 0, lanes_).bound_extent(tile_, 1).vectorize(lane_);
  }

  // Each level of the tree is computed in the step of the next that takes it, the top at `at`.
  // Returns the innermost loop.
  LoopLevel PlaceSequence(Reduction& reduction, LoopLevel at) {
    for (size_t i = reduction.levels.size(); i-- > 0;) {
      ReductionLevel& level = reduction.levels[i];
      PlaceBlocks(level, at);
      at = LoopLevel(level.blocks, level.step);
    }
    return at;
  }

  // A level of the tree, in registers.
  void PlaceBlocks(ReductionLevel& level, const LoopLevel& at) {
    Func& blocks = level.blocks;
    blocks.compute_at(at);
    if (!VectorTiles()) return;
    Lanes(blocks);
    blocks.store_in(Halide::MemoryType::Stack);
    blocks.update(0).reorder(lane_, level.step).vectorize(lane_);
  }

  LoopLevel PlaceLanes(Reduction& reduction, Expr count, const LoopLevel& at) {
    for (ReductionLevel& level : reduction.levels) {
      count = (count + static_cast<int>(kReduceBlock - 1)) / static_cast<int>(kReduceBlock);
      level.blocks.compute_at(at);
      if (!level.top) level.blocks.bound(level.block, 0, count);
      ScheduleLanes(level, level.top ? at : LoopLevel(level.blocks, level.block));
    }
    return at;
  }

  const Kernel& kernel_;
  const OuterReduction& schedule_;
  const Operands& operands_;
  ExprEmitter emitter_;
  const std::vector<bool> kept_;
  const std::vector<size_t> passes_;
  const std::vector<int32_t>&tile_dims_, &column_dims_;
  const int32_t inner_;
  const int lanes_, rows_per_block_;
  const Var lane_{"plane"}, tile_{"ptile"};
  const OfTiles made_;                            // by a nest before
  OfTiles stored_;                                // made by this one
  std::vector<Var> dims_;                         // the loop over each iterated dim
  std::vector<std::pair<Func, bool>> maps_;       // kept; whether over the innermost dim too
  std::vector<std::vector<OverDim>> reductions_;  // innermost reduced dim first
};

}  // namespace

std::vector<OutputNest> BuildOuterReduction(const Kernel& kernel, const Schedule& schedule,
                                            const Operands& operands) {
  const auto& columns = schedule.As<OuterReduction>();
  const std::vector<std::vector<size_t>> groups = GroupOutputs(kernel);
  const std::vector<size_t> shared = SharedStages(kernel, groups, FirstReduction(kernel).dims);
  OfTiles of_tiles;
  if (!shared.empty()) of_tiles = ColumnNest(kernel, columns, operands, {}).BuildTiles(shared);
  std::vector<OutputNest> nests;
  for (const std::vector<size_t>& group : groups) {
    nests.push_back(ColumnNest(kernel, columns, operands, of_tiles).Build(group));
  }
  return nests;
}

}  // namespace kiln
