// SPDX-License-Identifier: Apache-2.0
// "row": reductions over the innermost dim, with maps before, between and after; softmax and layer
// norm are such.
//
// The dims but the innermost are run as one (rows); a row passes through all stages while it is in
// the cache. Maps over the row that are dear, or needed by several loops, are kept in a buffer of
// one row. Tasks are runs of rows. Short rows take each stage by several ("at_once"): to fold a row
// is a chain of operations that wait for each other, and the processor goes on with the next row.
// Sixteen of them fold together ("abreast") where they stay in the nearest cache: each leaves a
// vector, and a fold step takes the vectors of all, so that none has idle lanes. If rows are
// shorter still, and their elements take much to compute, vectors run across them ("across",
// "unroll").
#include <algorithm>

#include "base/cpu_features.h"
#include "kernel/nan_shows.h"
#include "schedule/analysis.h"
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
  if (row > kShortRow || ElementsOf(sizes, 0, kernel.innermost() - 1) < 2 * kAbreast) return false;
  size_t bytes = 0;  // of an element
  for (const KernelInput& input : kernel.inputs)
    if (SpansAll(kernel, input.dims)) bytes += SizeOf(input.type);
  for (const KernelOutput& output : kernel.outputs)
    if (SpansAll(kernel, output.dims)) bytes += SizeOf(output.type);
  for (size_t i = 0; i < kept.size(); ++i)
    if (kept[i] && SpansAll(kernel, kernel.stages[i].dims)) bytes += SizeOf(kernel.stages[i].type);
  return kAbreast * row * static_cast<int64_t>(bytes) <= machine.l1_bytes * 3 / 8;
}

// Elements of a loop step: for short rows half as many if less of the last step is empty then.
int64_t LanesAlong(const Kernel& kernel, const Machine& machine, int64_t row) {
  const int64_t lanes = LanesForRow(kernel, machine, 2, row);
  const auto steps = [row](int64_t step) { return (row + step - 1) / step * step; };
  return row <= kShortRow && lanes > 16 && steps(lanes / 2) < steps(lanes) ? lanes / 2 : lanes;
}

}  // namespace

Params RowParams(const Kernel& kernel, const SizeClass& sizes, const Machine& machine,
                 bool several) {
  Params params{.scheduler = "row", .values = {}, .in_place = {}};
  // Several outputs need not be written in one pass over the row.
  if (kernel.outputs.size() == 1) params.in_place = ElementwisePairs(kernel);
  // Extents are 32-bit numbers, so that an unbounded row needs 3 levels.
  const int64_t row =
      std::min<int64_t>(sizes.at_most[static_cast<size_t>(kernel.innermost())], INT32_MAX);
  params.values = {{"grain", GrainFor(kernel, machine)},
                   {"lanes", LanesAlong(kernel, machine, row)},
                   {"levels", LevelsFor(row, kReduceBlock)}};
  std::vector<bool> kept = MapsToKeep(kernel, {.shared_cost = 4, .single_cost = 12});
  for (size_t i = 0; i < kept.size(); ++i) {
    // One value per row costs nothing to keep, and would be computed for every vector of the row.
    const Stage& stage = kernel.stages[i];
    if (stage.kind == Stage::Kind::kMap && SpansOuter(kernel, stage.dims) && Cost(stage.expr) >= 4)
      kept[i] = true;
  }
  const int64_t lanes = machine.vector_bytes / 4;
  const bool across = RunsAcross(kernel, sizes, machine, several);
  if (across) {
    params.values = {{"across", row}, {"grain", GrainFor(kernel, machine)}, {"lanes", lanes}};
  } else if (row <= kShortRow) {
    if (FoldsAbreast(kernel, sizes, machine, kept)) {
      params.values.emplace_back("abreast", kAbreast);
    } else if (several) {
      params.values.emplace_back("at_once", kMostAtOnce);
    }
    SetAccumulators(params, row);
  }
  SetKept(params, kept);
  const bool light = StoresWholeRows(kernel) && !HasFunctions(kernel);
  const bool along = light && params.Get("abreast", 0) > 0;
  const bool unrolled =
      !across && SetUnrolled(params, kernel, sizes, machine, along ? kMostStrided : kMostUnrolled);
  const int64_t tables = TablesOfQuotients(kernel, sizes);
  if (!across && !unrolled && tables != 0) params.values.emplace_back("tables", tables);
  std::sort(params.values.begin(), params.values.end());
  return params;
}

namespace {

Params Choose(const Kernel& kernel, const SizeClass& sizes, const Machine& machine) {
  return RowParams(kernel, sizes, machine, /*several=*/true);
}

// Rows of one block need no second level of the tree.
std::vector<SizeClass> Classes(const Kernel& kernel, const SizeClass& known) {
  SizeClass one_block = known;
  int64_t& row = one_block.at_most[static_cast<size_t>(kernel.innermost())];
  if (row <= kReduceBlock) return {known};
  row = kReduceBlock;
  return {one_block, known};
}

}  // namespace

const Scheduler kRowScheduler = {
    .name = "row",
    .doc = "reductions over the innermost dim with maps around them, row by row",
    .accepts = Accepts,
    .choose = Choose,
    .classes = Classes,
};

}  // namespace kiln
