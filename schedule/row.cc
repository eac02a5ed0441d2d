// SPDX-License-Identifier: Apache-2.0
// "row": reductions over the innermost dim, with maps before, between and after; softmax and layer
// norm are such.
//
// The dims but the innermost are run as one (rows); a row passes through all stages while it is in
// the cache. Maps over the row that are dear, or needed by several loops, are kept in a buffer of
// one row. Tasks are runs of rows. Short rows take each stage by several ("at_once"): to fold a row
// is a chain of operations that wait for each other, and the processor goes on with the next row.
// If rows are shorter still, vectors run across them ("across", "unroll").
#include <algorithm>

#include "kiln/kernel/nan_shows.h"
#include "kiln/schedule/facts.h"
#include "kiln/schedule/schedulers.h"

namespace kiln {
namespace {

constexpr int64_t kMostUnrolled = 8;  // rows up to this may be an expression,
constexpr int64_t kMostStrided = 4;   // or this, where whole rows are stored;
constexpr int64_t kMostAcross = 24;  // up to this vectors run across, if one row is folded at once,
constexpr int64_t kMostAcrossMax = 63;  // or this, if to fold takes long

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

// A step of the fold of a row is four instructions that wait for each other, for NaN's sake, not
// one.
bool FoldsSlowly(const Kernel& kernel) {
  for (size_t i = 0; i < kernel.stages.size(); ++i) {
    const Stage& stage = kernel.stages[i];
    const bool extreme = stage.op == ReduceOp::kMax || stage.op == ReduceOp::kMin;
    if (stage.kind == Stage::Kind::kReduce && extreme && IsFloat(stage.type) &&
        !NanShowsWithout(kernel, i))
      return true;
  }
  return false;
}

// Where folding is fast, vectors run along rows that fill one, and along those that leave one value
// each.
int64_t MostAcross(const Kernel& kernel, int64_t lanes, bool whole, bool several) {
  if (FoldsSlowly(kernel)) return kMostAcrossMax;
  if (!whole) return kMostUnrolled;
  return several ? std::max(lanes - 1, kMostUnrolled) : kMostAcross;
}

bool RunsAcross(const Kernel& kernel, const SizeClass& sizes, int64_t lanes, bool several) {
  const auto x = static_cast<size_t>(kernel.innermost());
  const bool whole =
      std::any_of(kernel.outputs.begin(), kernel.outputs.end(),
                  [&](const KernelOutput& output) { return SpansAll(kernel, output.dims); });
  const int64_t least = whole ? kMostStrided : kMostUnrolled;
  const int64_t most = MostAcross(kernel, lanes, whole, several);
  if (sizes.at_most[x] <= least || sizes.at_most[x] > most) return false;
  if (!ReadsWholeRows(kernel)) return false;
  int64_t rows = 1;
  for (size_t d = 0; d < x && rows < 2 * lanes; ++d) {
    rows = sizes.at_most[d] < 2 * lanes ? rows * sizes.at_most[d] : 2 * lanes;
  }
  return rows >= 2 * lanes;
}

// Elements of a loop step: for short rows half as many if less of the last step is empty then.
int64_t LanesAlong(const Kernel& kernel, const MachineProfile& profile, int64_t row) {
  const int64_t lanes = LanesForRow(kernel, profile, 2, row);
  const auto steps = [row](int64_t step) { return (row + step - 1) / step * step; };
  return row <= kShortRow && lanes > 16 && steps(lanes / 2) < steps(lanes) ? lanes / 2 : lanes;
}

}  // namespace

Params RowParams(const Kernel& kernel, const SizeClass& sizes, const MachineProfile& profile,
                 bool several) {
  Params params{.scheduler = "row", .values = {}, .in_place = {}};
  // Several outputs need not be written in one pass over the row.
  if (kernel.outputs.size() == 1) params.in_place = ElementwisePairs(kernel);
  // Extents are 32-bit numbers, so that an unbounded row needs 3 levels.
  const int64_t row =
      std::min<int64_t>(sizes.at_most[static_cast<size_t>(kernel.innermost())], INT32_MAX);
  params.values = {{"grain", GrainFor(kernel, profile)},
                   {"lanes", LanesAlong(kernel, profile, row)},
                   {"levels", LevelsFor(row, kReduceBlock)}};
  const int64_t lanes = profile.vector_bytes / 4;
  const bool across = RunsAcross(kernel, sizes, lanes, several);
  if (across) {
    params.values = {{"across", row}, {"grain", GrainFor(kernel, profile)}, {"lanes", lanes}};
  } else if (row <= kShortRow) {
    if (several) params.values.emplace_back("at_once", kMostAtOnce);
    SetAccumulators(params, row);
  }
  std::vector<bool> kept = MapsToKeep(kernel, {.shared_cost = 4, .single_cost = 12});
  for (size_t i = 0; i < kept.size(); ++i) {
    // One value per row costs nothing to keep, and would be computed for every vector of the row.
    const Stage& stage = kernel.stages[i];
    if (stage.kind == Stage::Kind::kMap && SpansOuter(kernel, stage.dims) && Cost(stage.expr) >= 4)
      kept[i] = true;
  }
  SetKept(params, kept);
  if (!across) SetUnrolled(params, kernel, sizes, profile, kMostUnrolled);
  return params;
}

namespace {

Params Choose(const Kernel& kernel, const SizeClass& sizes, const MachineProfile& profile) {
  return RowParams(kernel, sizes, profile, /*several=*/true);
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
