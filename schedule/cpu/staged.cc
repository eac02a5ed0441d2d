// SPDX-License-Identifier: Apache-2.0
// "general": whatever the grammar can say. Each reduction, and each map worth keeping, is a loop
// nest of its own that stores all its values; so is each output.
#include <algorithm>

#include "schedule/analysis.h"
#include "schedule/cpu/schedulers.h"
#include "schedule/cpu/staged.h"

namespace kiln {
namespace {

Decision Accepts(const Kernel&) { return Decision::Yes(); }

struct Longest {
  int64_t inner = 0;  // greatest extent reduced by the rule of the innermost dim
  int64_t outer = 0;  // and by that of all others
};

Longest LongestReductions(const Kernel& kernel, const SizeClass& sizes) {
  Longest longest;
  for (const Stage& stage : kernel.stages) {
    for (const int32_t dim : stage.over) {
      int64_t& extent = dim == kernel.innermost() ? longest.inner : longest.outer;
      extent = std::max(extent, sizes.at_most[static_cast<size_t>(dim)]);
    }
  }
  return longest;
}

// True if the innermost dim is reduced along with others only, of elements of whole rows: then the
// rows of all outer dims are reduced as one, by vectors across them.
bool ReducesRowsFirst(const Kernel& kernel) {
  if (!ReadsWholeRows(kernel)) return false;
  const auto reads_inputs = [&](const ScalarExpr& expr) {
    return std::none_of(expr.nodes().begin(), expr.nodes().end(), [](const ExprNode& node) {
      return node.op == ScalarOp::kRead && node.source == ReadSource::kStage;
    });
  };
  return std::all_of(kernel.stages.begin(), kernel.stages.end(), [&](const Stage& stage) {
    if (stage.kind == Stage::Kind::kMap || stage.over.back() != kernel.innermost()) return true;
    const auto dims = static_cast<int>(stage.dims.size() + stage.over.size());
    return stage.over.size() > 1 && dims == kernel.num_iterated() && reads_inputs(stage.expr);
  });
}

Schedule Choose(const Kernel& kernel, const SizeClass& sizes, const Machine& machine) {
  const Longest longest = LongestReductions(kernel, sizes);
  // Extents are 32-bit numbers, so that the unbounded class needs 3 and 7 levels.
  const auto levels = [](int64_t extent, int64_t block) {
    return LevelsFor(std::min<int64_t>(extent, INT32_MAX), block);
  };
  constexpr int64_t kMostStrided = 8;  // elements of a row that lie a constant apart in many rows
  const bool short_rows = longest.inner > 0 && longest.inner <= kShortRow;
  Staged staged;
  staged.inner_first = short_rows && ReducesRowsFirst(kernel);
  const bool across = staged.inner_first && longest.inner <= kMostStrided;
  staged.step = across ? machine.vector_bytes / 4 : LanesFor(kernel, machine, 2);
  staged.task = GrainFor(kernel, machine);
  staged.levels = levels(longest.inner, kReduceBlock);
  staged.outer_step = LanesFor(kernel, machine, 4);
  staged.outer_levels = levels(longest.outer, kOuterReduceBlock);
  if (across) staged.strided = longest.inner;
  if (staged.inner_first && !across) staged.folded = kMostFolded;
  if (!across && longest.inner > 0) staged.accumulators = AccumulatorsFor(longest.inner);
  staged.stored = Members(MapsToKeep(kernel, {.reindexed = true, .shared_cost = 12}));
  return {kStaged, std::move(staged)};
}

// Few need more than one level in the innermost dim and three in the others.
std::vector<SizeClass> Classes(const Kernel& kernel, const SizeClass& known) {
  SizeClass usual = known;
  for (const Stage& stage : kernel.stages) {
    for (const int32_t dim : stage.over) {
      int64_t& extent = usual.at_most[static_cast<size_t>(dim)];
      constexpr int64_t kOuterUsual = kOuterReduceBlock * kOuterReduceBlock * kOuterReduceBlock;
      extent = std::min(extent, dim == kernel.innermost() ? kReduceBlock : kOuterUsual);
    }
  }
  if (usual.at_most == known.at_most) return {known};
  return {usual, WidestReduced(kernel, known)};
}

}  // namespace

const Template kStaged = {"staged", "everything else: a loop nest per stage", Accepts,
                          Make<Staged>};

const Scheduler kGeneralScheduler = {
    .name = "general",
    .doc = "everything else: a loop nest per stage",
    .accepts = Accepts,
    .choose = Choose,
    .classes = Classes,
};

}  // namespace kiln
