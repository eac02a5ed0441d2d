// SPDX-License-Identifier: Apache-2.0
// schedule/cpu/staged.cc and sweep.cc decide, this does. Everything stored is a Func of its own,
// computed whole before it is used. The last "flat" dims are one loop wherever all of them are
// looped over; what has only some of them is spread over all, once, for the loops that need it.
#include <algorithm>

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

constexpr int kTileBytes = 16 << 10;  // speed: of sums that are added to row by row

class RootNests {
 public:
  RootNests(const Kernel& kernel, const Staged& schedule, const Operands& operands,
            const Func* rows)
      : kernel_(kernel),
        schedule_(schedule),
        operands_(operands),
        rows_(rows),
        emitter_(kernel, operands),
        lanes_(static_cast<int>(schedule.step)),
        outer_lanes_(static_cast<int>(schedule.outer_step)),
        grain_(schedule.task),
        first_of_tail_(static_cast<size_t>(kernel.num_iterated()) -
                       static_cast<size_t>(schedule.collapsed)) {
    for (size_t d = 0; d < kernel.dims.size(); ++d)
      dims_.emplace_back("pdim" + std::to_string(d) + "v");
  }

  std::vector<OutputNest> Build() {
    const std::vector<bool> kept = AsFlags(schedule_.stored, kernel_.stages.size());
    const std::vector<size_t> passes = PassesOf(kernel_, kept);
    for (size_t i = 0; i < kernel_.stages.size(); ++i) {
      if (IsReduction(kernel_.stages[i])) {
        if (passes[i] == i) BuildReduce(StagesOf(passes, i));
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
  // How many of the dims that are collapsed are among `dims`.
  size_t OfTail(const std::vector<int32_t>& dims) const {
    return static_cast<size_t>(std::count_if(dims.begin(), dims.end(), [&](int32_t dim) {
      return static_cast<size_t>(dim) >= first_of_tail_;
    }));
  }
  size_t Flat() const { return static_cast<size_t>(kernel_.num_iterated()) - first_of_tail_; }
  bool RunsFlat(const std::vector<int32_t>& dims) const {
    return Flat() > 1 && OfTail(dims) == Flat();
  }

  // Loops over `dims`, innermost first.
  std::vector<Loop> LoopsOver(const std::vector<int32_t>& dims) const {
    std::vector<Loop> loops;
    const bool flat = RunsFlat(dims);
    if (flat) {
      Expr all = operands_.extents[first_of_tail_];
      for (size_t d = first_of_tail_ + 1; d < first_of_tail_ + Flat(); ++d)
        all = all * operands_.extents[d];
      loops.push_back({tail_, all});
    }
    for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
      const auto d = static_cast<size_t>(*dim);
      if (!flat || d < first_of_tail_) loops.push_back({dims_[d], operands_.extents[d]});
    }
    return loops;
  }

  // In loops over `dims`: all dims at their loops, but `dim` (if any) at `index`.
  Scope ScopeAt(const std::vector<int32_t>& dims, int32_t dim = -1,
                const Expr& index = Expr()) const {
    Scope scope;
    scope.coordinates.assign(dims_.begin(), dims_.end());
    scope.flat = static_cast<int>(Flat());
    if (RunsFlat(dims)) {
      scope.tail = tail_;
      Expr rest = tail_;
      for (size_t d = first_of_tail_ + Flat() - 1; d >= first_of_tail_; --d) {
        const bool outermost = d == first_of_tail_;
        scope.coordinates[d] = outermost ? rest : rest % operands_.extents[d];
        if (outermost) break;
        rest = rest / operands_.extents[d];
      }
    }
    if (dim >= 0) scope.coordinates[static_cast<size_t>(dim)] = index;
    return scope;
  }

  // Reads of stage `i` are calls of `func` from now on.
  void Store(size_t i, const Func& func) {
    emitter_.Store(static_cast<int32_t>(i), func);
    std::vector<int32_t> dims = kernel_.stages[i].dims;
    const size_t of_tail = OfTail(dims);
    if (of_tail == 0 || of_tail == Flat()) return;
    std::erase_if(dims, [&](int32_t dim) { return static_cast<size_t>(dim) >= first_of_tail_; });
    for (size_t d = first_of_tail_; d < first_of_tail_ + Flat(); ++d)
      dims.push_back(static_cast<int32_t>(d));
    const Scope scope = ScopeAt(dims);
    std::vector<Expr> at;
    const std::vector<int32_t>& own = kernel_.stages[i].dims;
    for (auto dim = own.rbegin(); dim != own.rend(); ++dim)
      at.push_back(scope.coordinates[static_cast<size_t>(*dim)]);
    const std::vector<Loop> loops = LoopsOver(dims);
    Func spread("s" + std::to_string(i) + "_spread");
    spread(Vars(loops)) = func(at);
    spread.compute_root();
    ScheduleMap(spread, loops);
    emitter_.Spread(static_cast<int32_t>(i), spread);
  }

  void BuildMap(size_t i) {
    const Stage& stage = kernel_.stages[i];
    const std::vector<Loop> loops = LoopsOver(stage.dims);
    Scope scope = ScopeAt(stage.dims);
    const Expr value = ToStorage(emitter_.Value(stage.expr, scope), stage.type);
    Func func("s" + std::to_string(i));
    func(Vars(loops)) = value;
    func.compute_root();
    ScheduleMap(func, loops);
    Store(i, func);
  }

  OutputNest BuildOutputs(const std::vector<size_t>& group) {
    const KernelOutput& output = kernel_.outputs[group[0]];
    std::vector<Loop> loops = LoopsOver(output.dims);
    // Strides are those of the buffer, which has all the dims.
    for (size_t k = 1; RunsFlat(output.dims) && k < Flat(); ++k)
      loops.insert(loops.begin() + 1, {Var("pone" + std::to_string(k)), 1});
    Scope scope = ScopeAt(output.dims);
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

  // The reductions `pass` over the same dims.
  void BuildReduce(const std::vector<size_t>& pass) {
    const Stage& stage = kernel_.stages[pass[0]];
    std::vector<int32_t> dims = stage.dims;
    dims.insert(dims.end(), stage.over.begin(), stage.over.end());
    std::sort(dims.begin(), dims.end());
    Func previous;
    for (auto dim = stage.over.rbegin(); dim != stage.over.rend(); ++dim) {
      const std::vector<int32_t> before = dims;
      dims.erase(std::find(dims.begin(), dims.end(), *dim));
      previous = ReduceDim(pass, *dim, previous, before, dims);
    }
    for (size_t k = 0; k < pass.size(); ++k)
      Store(pass[k], ValueOf(previous, Vars(LoopsOver(dims)), k));
  }

  // Value `k` of `pass` at `index` along `dim`: of `previous`, which has the dims `before`, or an
  // element of its stage if that is undefined.
  Expr ElementOf(const std::vector<size_t>& pass, size_t k, const Func& previous,
                 const std::vector<int32_t>& before, Scope scope) const {
    if (previous.defined()) return ValueAt(previous, Coordinates(before, scope), k);
    const Stage& stage = kernel_.stages[pass[k]];
    return ToStorage(emitter_.Value(stage.expr, scope), stage.type);
  }

  // Reduces `dim` of `previous`, or of the elements of `pass`; leaves `dims`.
  Func ReduceDim(const std::vector<size_t>& pass, int32_t dim, const Func& previous,
                 const std::vector<int32_t>& before, const std::vector<int32_t>& dims) {
    const std::vector<Loop> after = LoopsOver(dims);
    const size_t i = pass[0];
    const Stage& stage = kernel_.stages[i];
    const bool lane_rule = dim == kernel_.innermost();
    const std::string name = "s" + std::to_string(i) + "_over" + std::to_string(dim);
    if (lane_rule && schedule_.inner_first) {
      Func result(name);
      const Expr row = RowMajor(operands_, dims, {dims_.begin(), dims_.end()});
      result(Vars(after)) = ReducedRows(kernel_, i, schedule_, operands_)(row);
      return result;
    }
    const bool tiles = !lane_rule && NeverEmpty(dims);
    // Tiles are whole, also where the last row of sums ends inside.
    const Expr inside = tiles ? Expr(after[0].var < after[0].extent) : Expr();
    const auto element_of = [&](size_t k) {
      return [&, k](const Expr& index) {
        return ElementOf(pass, k, previous, before, ScopeAt(dims, dim, index));
      };
    };
    ReductionSpec spec = {
        .name = name,
        .op = stage.op,
        .type = stage.type,
        .extent = operands_.extents[static_cast<size_t>(dim)],
        .lanes = lane_rule,
        .levels = static_cast<int>(lane_rule ? schedule_.levels : schedule_.outer_levels),
        .accumulators = static_cast<int>(schedule_.accumulators),
        .vars = Vars(after),
        .inside = inside,
        .element = element_of(0),
    };
    for (size_t k = 1; k < pass.size(); ++k) {
      const Stage& beside = kernel_.stages[pass[k]];
      spec.beside.push_back({beside.op, beside.type, element_of(k)});
    }
    Reduction reduction = BuildReduction(spec);
    Expr count = operands_.extents[static_cast<size_t>(dim)];
    for (ReductionLevel& level : reduction.levels) {
      const bool first = &level == &reduction.levels.front();
      count = lane_rule ? ScheduleLaneLevel(level, first, reduction.result, after, count)
              : tiles   ? ScheduleTiles(level, first, after, LoopsInside(dims, dim), count)
                        : ScheduleSequence(level, first, after, count);
    }
    return reduction.result;
  }

  // What a Func over `dims` is called with at the coordinates of `scope`.
  std::vector<Expr> Coordinates(const std::vector<int32_t>& dims, const Scope& scope) const {
    std::vector<Expr> at;
    const bool flat = RunsFlat(dims);
    Expr tail = scope.tail;
    for (const int32_t dim : dims) {
      const auto d = static_cast<size_t>(dim);
      if (!flat || d < first_of_tail_) {
        at.insert(at.begin(), scope.coordinates[d]);
      } else if (!scope.tail.defined()) {
        tail = d == first_of_tail_ ? scope.coordinates[d]
                                   : tail * operands_.extents[d] + scope.coordinates[d];
      }
    }
    if (flat) at.insert(at.begin(), tail);
    return at;
  }

  // `func` whole, vectorised over its innermost loop.
  void ScheduleMap(Func& func, const std::vector<Loop>& loops) const {
    Bound(func, loops);
    if (loops.empty()) return;
    const Var x = loops[0].var;
    if (loops.size() == 1) {
      CutRow(func, x, lanes_, grain_, loops[0].extent);
      return;
    }
    Tasks(func, {loops.begin() + 1, loops.end()}, {.each = loops[0].extent});
    Vectors(func, x, lanes_);
  }

  // Returns the number of blocks.
  Expr ScheduleLaneLevel(ReductionLevel& level, bool first, Func& result,
                         const std::vector<Loop>& loops, const Expr& count) const {
    const Expr blocks =
        (count + static_cast<int>(kReduceBlock - 1)) / static_cast<int>(kReduceBlock);
    Func& whole = level.top ? result : level.blocks;
    std::vector<Loop> all = loops;
    if (!level.top) all.insert(all.begin(), {level.block, blocks});
    whole.compute_root();
    Bound(whole, all);
    const Expr each = level.top ? count : Expr(static_cast<int>(kReduceBlock));
    if (!all.empty()) Tasks(whole, all, {.each = each, .finely = first});
    ScheduleLanes(level, all.empty() ? LoopLevel::root() : LoopLevel(whole, inside_));
    return blocks;
  }

  // How many of the loops over `dims`, which lack `dim`, run inside a loop over it.
  size_t LoopsInside(const std::vector<int32_t>& dims, int32_t dim) const {
    const auto inside = static_cast<size_t>(
        std::count_if(dims.begin(), dims.end(), [&](int32_t other) { return other > dim; }));
    return RunsFlat(dims) ? inside - Flat() + 1 : inside;
  }

  // True if no launch has a loop over `dims` of no elements: those that lie in every output, which
  // has elements. Of what is read under a condition Halide concludes that there is something.
  bool NeverEmpty(const std::vector<int32_t>& dims) const {
    const auto in_all_outputs = [&](int32_t dim) {
      return std::all_of(kernel_.outputs.begin(), kernel_.outputs.end(), [&](const auto& output) {
        return std::count(output.dims.begin(), output.dims.end(), dim) > 0;
      });
    };
    return !dims.empty() && std::all_of(dims.begin(), dims.end(), in_all_outputs);
  }

  // Sums along `loops`, of which `inside` run inside the loop that is reduced; `count` of them make
  // the last level. A tile of neighbours is in the first-level cache for the length of a block, so
  // that a row is read for some KiB before the next, and blocks follow each other as they lie
  // in memory; at the last level, where rows are few, it is in registers. Returns the number of
  // blocks.
  Expr ScheduleTiles(ReductionLevel& level, bool first, const std::vector<Loop>& loops,
                     size_t inside, const Expr& count) const {
    const Expr blocks = OuterBlocks(count);
    std::vector<Loop> all = loops;
    if (!level.top) {
      const auto at = static_cast<std::ptrdiff_t>(std::max<size_t>(inside, 1));
      all.insert(all.begin() + at, {level.block, Halide::max(blocks, 1)});
    }
    Func& sums = level.blocks;
    Func stored = sums.in();
    stored.compute_root();
    Bound(stored, all);
    const Var x = loops[0].var, all_vectors("pallvectors"), tile("ptile"), vectors("pvectors"),
              lane("plane");
    const bool one = level.top || schedule_.one_vector;
    int bytes = 0;
    for (const Halide::Type& type : sums.types()) bytes += type.bytes();
    const int most = one ? 1 : std::max(1, kTileBytes / bytes / outer_lanes_);
    const Expr in_tile = VectorsOfTile(loops[0].extent, most);
    const Expr tile_length = in_tile * outer_lanes_;
    all[0] = {tile, (loops[0].extent + (tile_length - 1)) / tile_length};
    stored.split(x, all_vectors, lane, outer_lanes_, TailStrategy::PredicateStores);
    stored.split(all_vectors, tile, vectors, in_tile, TailStrategy::GuardWithIf);
    stored.vectorize(lane);
    const bool together = rows_ != nullptr && first && !level.top;
    if (together) {
      const BlockLoops blocked = BlocksOf(count, loops[0].extent, grain_);
      stored.split(level.block, blocked.task, blocked.block, blocked.per_task,
                   TailStrategy::GuardWithIf);
      stored.reorder(lane, vectors, tile, blocked.block, blocked.task).parallel(blocked.task);
      stored.compute_with(*rows_, blocked.block);
    } else {
      const Expr length = level.top ? count : Expr(static_cast<int>(kOuterReduceBlock));
      Cut cut = {.each = length * tile_length, .finely = first};
      if (!level.top) cut.whole = all[0].extent;
      Tasks(stored, all, cut);
      stored.reorder(lane, vectors, inside_, task_);
    }
    stored.never_partition_all();
    sums.compute_at(stored, together ? tile : inside_).store_in(Halide::MemoryType::Stack);
    sums.bound_extent(x, tile_length).bound_storage(x, most * outer_lanes_);
    sums.split(x, vectors, lane, outer_lanes_, TailStrategy::RoundUp).vectorize(lane);
    sums.update(0).split(x, vectors, lane, outer_lanes_, TailStrategy::RoundUp).vectorize(lane);
    sums.update(0).reorder(lane, vectors, level.step);
    return blocks;
  }

  // A row of sums is cut into tiles of equal lengths, `most` vectors or less.
  Expr VectorsOfTile(const Expr& row, int most) const {
    if (most == 1) return 1;
    const Expr vectors = Halide::max(1, (row + (outer_lanes_ - 1)) / outer_lanes_);
    const Expr tiles = (vectors + (most - 1)) / most;
    return (vectors + (tiles - 1)) / tiles;
  }

  Expr ScheduleSequence(ReductionLevel& level, bool first, const std::vector<Loop>& loops,
                        const Expr& count) const {
    const Expr blocks = OuterBlocks(count);
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
      all[0] = {tile, (loops[0].extent + (lanes_ - 1)) / lanes_};
      order.insert(order.begin(), in_tile);
      length = length * lanes_;
    }
    Cut cut = {.each = length, .finely = first};
    if (!level.top && !loops.empty()) cut.whole = all[0].extent;
    Tasks(update, all, cut);
    order.insert(order.end(), {inside_, task_});
    update.reorder(order);
    return blocks;
  }

  static Expr OuterBlocks(const Expr& count) {
    return (count + static_cast<int>(kOuterReduceBlock - 1)) / static_cast<int>(kOuterReduceBlock);
  }

  static void Bound(Func& func, const std::vector<Loop>& loops) {
    for (const Loop& loop : loops) func.bound(loop.var, 0, loop.extent);
  }

  // How loops are cut into tasks.
  struct Cut {
    Expr each;            // elements of work in a step
    bool finely = true;   // few tasks are cut finer: not where Halide would fold the number of
                          // blocks of blocks into constants that overflow
    Expr whole = Expr();  // if given, tasks are multiples of so many steps where there are enough
  };

  // Runs `loops` as one, cut into tasks.
  template <typename Schedulable>
  void Tasks(Schedulable& func, const std::vector<Loop>& loops, const Cut& cut) const {
    std::vector<Var> vars = {loops[0].var};
    Expr count = loops[0].extent;
    for (size_t i = 1; i < loops.size(); ++i) {
      vars.push_back(loops[i].var);
      count = count * loops[i].extent;
    }
    const Var all = Fused(func, vars);
    Expr per_task = PerTask(grain_, cut.each, cut.finely ? count : Expr());
    if (cut.whole.defined()) {
      constexpr int kEnough = 4;  // speed
      const Expr most = 2 * PerTask(grain_, cut.each);
      const Expr wholes = Halide::max(1, per_task / cut.whole) * cut.whole;
      per_task = select(count >= kEnough * cut.whole && cut.whole <= most, wholes, per_task);
    }
    func.split(all, task_, inside_, per_task, TailStrategy::GuardWithIf).parallel(task_);
  }

  const Kernel& kernel_;
  const Staged& schedule_;
  const Operands& operands_;
  const Func* const rows_;  // that blocks of reductions run along with; or nullptr
  ExprEmitter emitter_;
  const int lanes_, outer_lanes_;  // of a vector; of a tile of sums
  const int64_t grain_;
  const size_t first_of_tail_;  // the first of the dims that are collapsed
  const Var task_{"ptask"}, inside_{"pinside"}, tail_{"ptail"};
  std::vector<Var> dims_;  // the loop over each dim
};

}  // namespace

std::vector<OutputNest> StagedNests(const Kernel& kernel, const Staged& schedule,
                                    const Operands& operands, const Func* rows) {
  return RootNests(kernel, schedule, operands, rows).Build();
}

std::vector<OutputNest> BuildStaged(const Kernel& kernel, const Schedule& schedule,
                                    const Operands& operands) {
  return StagedNests(kernel, schedule.As<Staged>(), operands);
}

}  // namespace kiln
