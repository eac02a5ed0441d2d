// SPDX-License-Identifier: Apache-2.0
// "row": reductions over the innermost dim, with maps before, between and after; softmax and layer
// norm are such.
//
// The dims but the innermost are run as one (rows); a row passes through all stages while it is in
// the cache. Maps over the row that are dear, or needed by several loops, are kept in a buffer of
// one row. Tasks are runs of rows. Short rows take each stage by several ("at_once"): to fold a row
// is a chain of operations that wait for each other, and the processor goes on with the next row.
// If rows have a few elements only, vectors run across them
// ("unroll").
#include <algorithm>

#include "kiln/schedule/facts.h"
#include "kiln/schedule/schedulers.h"

namespace kiln {
namespace {

constexpr int64_t kMostAtOnce = 8;
constexpr int64_t kMostUnrolled = 8;  // rows up to this are made by vectors across rows

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

Params Choose(const Kernel& kernel, const SizeClass& sizes, const MachineProfile& profile) {
  Params params{.scheduler = "row", .values = {}, .in_place = {}};
  // Several outputs need not be written in one pass over the row.
  if (kernel.outputs.size() == 1) params.in_place = ElementwisePairs(kernel);
  // Extents are 32-bit numbers, so that an unbounded row needs 3 levels.
  const int64_t row =
      std::min<int64_t>(sizes.at_most[static_cast<size_t>(kernel.innermost())], INT32_MAX);
  params.values = {{"grain", profile.parallel_grain},
                   {"lanes", LanesForRow(LanesFor(kernel, profile, 2), row)},
                   {"levels", LevelsFor(row, kReduceBlock)}};
  if (row <= kShortRow) params.values.emplace_back("at_once", kMostAtOnce);
  std::vector<bool> kept = MapsToKeep(kernel, {.shared_cost = 4, .single_cost = 12});
  for (size_t i = 0; i < kept.size(); ++i) {
    // One value per row costs nothing to keep, and would be computed for every vector of the row.
    const Stage& stage = kernel.stages[i];
    if (stage.kind == Stage::Kind::kMap && SpansOuter(kernel, stage.dims) && Cost(stage.expr) >= 4)
      kept[i] = true;
  }
  SetKept(params, kept);
  SetUnrolled(params, kernel, sizes, profile, kMostUnrolled);
  return params;
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
