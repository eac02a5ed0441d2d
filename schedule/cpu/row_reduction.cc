// SPDX-License-Identifier: Apache-2.0
// Which template a kernel of row reductions takes.
#include <algorithm>

#include "base/cpu_features.h"
#include "kernel/nan_shows.h"
#include "schedule/analysis.h"
#include "schedule/cpu/full_unroll.h"
#include "schedule/cpu/outer_vectorized.h"
#include "schedule/cpu/row_reduction.h"
#include "schedule/cpu/schedulers.h"

namespace kiln {
namespace {

constexpr int64_t kMostUnrolled = 8;    // rows up to this may be an expression,
constexpr int64_t kMostStrided = 4;     // or this, where whole rows are stored
constexpr int64_t kMostAcross = 13;     // up to this vectors run across rows with functions,
constexpr int64_t kMostAcrossOne = 24;  // or this, where each row leaves one value

Decision AcceptsStage(const Kernel& kernel, const Stage& stage) {
  if (stage.kind != Stage::Kind::kReduce) return Decision::Yes();
  if (stage.over != std::vector<int32_t>{kernel.innermost()}) {
    return Decision::No("a reduction is over another dim than the innermost");
  }
  if (!SpansOuter(kernel, stage.dims)) {
    return Decision::No("a reduction does not depend on all outer dims");
  }
  return Decision::Yes();
}

Decision Accepts(const Kernel& kernel) {
  if (kernel.num_iterated() < 2) return Decision::No("it has no rows");
  bool reduces = false;
  for (const Stage& stage : kernel.stages) {
    if (Decision stage_ok = AcceptsStage(kernel, stage); !stage_ok) return stage_ok;
    reduces = reduces || stage.kind == Stage::Kind::kReduce;
  }
  if (!reduces) return Decision::No("it has no reduction");
  if (!OutputsInOrder(kernel, /*rows=*/true)) {
    return Decision::No("an output is not dense over all dims, or over the rows, in their order");
  }
  return StagesReadInPlace(kernel);
}

bool HasFunctions(const Kernel& kernel) {
  const std::vector<const ScalarExpr*> exprs = Expressions(kernel);
  return std::any_of(exprs.begin(), exprs.end(), [](const ScalarExpr* expr) {
    return std::any_of(expr->nodes().begin(), expr->nodes().end(),
                       [](const ExprNode& node) { return Info(node.op).function; });
  });
}

// Without masks in registers of their own a maximum that lets NaN through takes many operations.
bool FoldsSlowly(const Kernel& kernel, const Machine& machine) {
  if (IsaOf(machine.target) == IsaLevel::kV4) return false;
  for (size_t i = 0; i < kernel.stages.size(); ++i) {
    const Stage& stage = kernel.stages[i];
    const bool extreme = stage.op == ReduceOp::kMax || stage.op == ReduceOp::kMin;
    if (stage.kind == Stage::Kind::kReduce && extreme && IsFloat(stage.type) &&
        !NanShowsWithout(kernel, i))
      return true;
  }
  return false;
}

// Along a row of a few elements most lanes would be idle: that counts where each computes much.
bool RunsAcross(const Kernel& kernel, const SizeClass& sizes, const Machine& machine,
                bool several) {
  const int64_t row = sizes.at_most[static_cast<size_t>(kernel.innermost())];
  const bool whole = StoresWholeRows(kernel);
  if (row <= (whole ? kMostStrided : kMostUnrolled)) return false;
  if (row > (whole ? kMostAcross : kMostAcrossOne)) return false;
  if (several && !HasFunctions(kernel) && !FoldsSlowly(kernel, machine)) return false;
  return ReadsWholeRows(kernel) &&
         ElementsOf(sizes, 0, kernel.innermost() - 1) >= machine.vector_bytes / 2;
}

// Rows that fold together stay in the nearest cache until all stages are through.
bool FoldsAbreast(const Kernel& kernel, const SizeClass& sizes, const Machine& machine,
                  const std::vector<bool>& kept) {
  const int64_t row = sizes.at_most[static_cast<size_t>(kernel.innermost())];
  if (row > kShortRow || ElementsOf(sizes, 0, kernel.innermost() - 1) < 2 * kMostFolded)
    return false;
  size_t bytes = 0;  // of an element
  for (const KernelInput& input : kernel.inputs)
    if (SpansAll(kernel, input.dims)) bytes += SizeOf(input.type);
  for (const KernelOutput& output : kernel.outputs)
    if (SpansAll(kernel, output.dims)) bytes += SizeOf(output.type);
  for (size_t i = 0; i < kept.size(); ++i)
    if (kept[i] && SpansAll(kernel, kernel.stages[i].dims)) bytes += SizeOf(kernel.stages[i].type);
  return kMostFolded * row * static_cast<int64_t>(bytes) <= machine.l1_bytes * 3 / 8;
}

// Elements of a loop step: for short rows half as many if less of the last step is empty then.
int64_t LanesAlong(const Kernel& kernel, const Machine& machine, int64_t row) {
  const int64_t lanes = LanesForRow(kernel, machine, 2, row);
  const auto steps = [row](int64_t step) { return (row + step - 1) / step * step; };
  return row <= kShortRow && lanes > 16 && steps(lanes / 2) < steps(lanes) ? lanes / 2 : lanes;
}

}  // namespace

Schedule ChooseRows(const Kernel& kernel, const SizeClass& sizes, const Machine& machine,
                    bool several) {
  // Extents are 32-bit numbers, so that an unbounded row needs 3 levels.
  const int64_t row =
      std::min<int64_t>(sizes.at_most[static_cast<size_t>(kernel.innermost())], INT32_MAX);
  std::vector<bool> kept = MapsToKeep(kernel, {.shared_cost = 4, .single_cost = 12});
  for (size_t i = 0; i < kept.size(); ++i) {
    // One value per row costs nothing to keep, and would be computed for every vector of the row.
    const Stage& stage = kernel.stages[i];
    if (stage.kind == Stage::Kind::kMap && SpansOuter(kernel, stage.dims) && Cost(stage.expr) >= 4)
      kept[i] = true;
  }
  // Several outputs need not be written in one pass over the row.
  std::vector<std::pair<int32_t, int32_t>> in_place;
  if (kernel.outputs.size() == 1) in_place = ElementwisePairs(kernel);
  const auto made = [&](Schedule schedule) {
    schedule.in_place = in_place;
    return schedule;
  };
  if (RunsAcross(kernel, sizes, machine, several)) {
    OuterVectorized across;
    across.step = machine.vector_bytes / 4;
    across.task = GrainFor(kernel, machine);
    across.row = row;
    across.stored = Members(kept);
    return made({kOuterVectorized, std::move(across)});
  }
  RowReduction along;
  along.step = LanesAlong(kernel, machine, row);
  along.task = GrainFor(kernel, machine);
  along.levels = LevelsFor(row, kReduceBlock);
  along.stored = Members(kept);
  if (row <= kShortRow) {
    if (FoldsAbreast(kernel, sizes, machine, kept)) {
      along.folded = kMostFolded;
    } else if (several) {
      along.batch = kMostBatch;
    }
    along.accumulators = AccumulatorsFor(row);
  }
  const bool light = StoresWholeRows(kernel) && !HasFunctions(kernel) && along.folded > 0;
  if (auto unrolled = UnrolledFor(kernel, sizes, machine, light ? kMostStrided : kMostUnrolled)) {
    unrolled->stored = along.stored;
    return made({kFullUnroll, *std::move(unrolled)});
  }
  along.expanded = TablesOfQuotients(kernel, sizes);
  return made({kRowReduction, std::move(along)});
}

namespace {

Schedule Choose(const Kernel& kernel, const SizeClass& sizes, const Machine& machine) {
  return ChooseRows(kernel, sizes, machine, /*several=*/true);
}

// Rows of one block need no second level of the tree.
std::vector<SizeClass> Classes(const Kernel& kernel, const SizeClass& known) {
  SizeClass one_block = known;
  int64_t& row = one_block.at_most[static_cast<size_t>(kernel.innermost())];
  if (row <= kReduceBlock) return {known};
  row = kReduceBlock;
  return {one_block, known};
}

// Of one dim, or of several as columns that lie in one piece.
Decision AcceptsRows(const Kernel& kernel) {
  const Decision rows = Accepts(kernel);
  return rows ? rows : kColumnScheduler.accepts(kernel);
}

}  // namespace

const Template kRowReduction = {"row_reduction", "reductions over the last dims, row by row",
                                AcceptsRows, Make<RowReduction>};
const Template kOuterVectorized = {"outer_vectorized",
                                   "reductions of short rows, vectors across rows", Accepts,
                                   Make<OuterVectorized>};

const Scheduler kRowScheduler = {
    .name = "row",
    .doc = "reductions over the innermost dim with maps around them, row by row",
    .accepts = Accepts,
    .choose = Choose,
    .classes = Classes,
};

}  // namespace kiln
