// SPDX-License-Identifier: Apache-2.0
// Which template a kernel of reductions over the same dims takes.
#include <algorithm>
#include <optional>

#include "base/cpu_features.h"
#include "schedule/analysis.h"
#include "schedule/cpu/outer_reduction.h"
#include "schedule/cpu/row_reduction.h"
#include "schedule/cpu/schedulers.h"

namespace kiln {
namespace {

const Stage* FirstReduction(const Kernel& kernel) {
  for (const Stage& stage : kernel.stages) {
    if (stage.kind == Stage::Kind::kReduce) return &stage;
  }
  return nullptr;
}

bool IsDense(const KernelOutput& output) { return output.layout == Layout::kDense; }

// True if some output over all dims needs what was reduced: elements meet their column again.
bool BroadcastsBack(const Kernel& kernel) {
  std::vector<bool> reduced;
  const auto needs = [&](const ScalarExpr& expr) {
    return std::any_of(expr.nodes().begin(), expr.nodes().end(), [&](const ExprNode& node) {
      return node.op == ScalarOp::kRead && node.source == ReadSource::kStage &&
             reduced[static_cast<size_t>(node.ref)];
    });
  };
  for (const Stage& stage : kernel.stages) {
    reduced.push_back(stage.kind == Stage::Kind::kReduce || needs(stage.expr));
  }
  return std::any_of(kernel.outputs.begin(), kernel.outputs.end(), [&](const KernelOutput& output) {
    return SpansAll(kernel, output.dims) && needs(output.expr);
  });
}

Decision Accepts(const Kernel& kernel) {
  const Stage* first = FirstReduction(kernel);
  if (first == nullptr) return Decision::No("it has no reduction");
  if (first->dims.empty()) return Decision::No("it reduces all dims");
  if (static_cast<int>(first->dims.size() + first->over.size()) != kernel.num_iterated()) {
    return Decision::No("a reduction does not depend on all dims");
  }
  for (const Stage& stage : kernel.stages) {
    if (stage.kind != Stage::Kind::kReduce) continue;
    if (stage.over != first->over || stage.dims != first->dims) {
      return Decision::No("reductions are over different dims");
    }
  }
  for (const KernelOutput& output : kernel.outputs) {
    if (!IsDense(output) || (!SpansAll(kernel, output.dims) && output.dims != first->dims)) {
      return Decision::No("an output is not dense over all dims, or over those kept, in order");
    }
  }
  return StagesReadInPlace(kernel);
}

constexpr int64_t kL2s = 8;  // operands of so many lie in the cache behind

// Whether a reduction's operand, as large as it may be, comes from memory.
bool IsFar(const Kernel& kernel, const SizeClass& sizes, const Machine& machine) {
  const auto element = static_cast<int64_t>(SizeOf(FirstReduction(kernel)->type));
  return ElementsOf(sizes, 0, kernel.innermost()) * element >= kL2s * machine.l2_bytes;
}

constexpr int64_t kManyPages = 1024;  // steps, each of another page, whose addresses stay known

// One reduction that no element meets again.
bool IsSingle(const Kernel& kernel) {
  const auto is_reduction = [](const Stage& stage) { return stage.kind == Stage::Kind::kReduce; };
  return std::count_if(kernel.stages.begin(), kernel.stages.end(), is_reduction) == 1 &&
         !BroadcastsBack(kernel);
}

// Extents are 32-bit numbers.
int64_t Bounded(int64_t extent) { return std::min<int64_t>(extent, INT32_MAX); }

// What the reduced dims span.
int64_t ColumnElements(const Stage& reduction, const SizeClass& sizes) {
  int64_t column = 1;
  for (const int32_t dim : reduction.over)
    column = Bounded(column * Bounded(sizes.at_most[static_cast<size_t>(dim)]));
  return column;
}

// A single reduction goes over its operand once either way. Cells keep their
// accumulators in registers, but steps along a column of long rows find neither a line nor a page
// of the step before: then blocks of whole rows are better, and they may have as many tasks.
bool SweepsRows(const Kernel& kernel, const SizeClass& sizes) {
  constexpr int64_t kMostRowBytes = 1024;
  constexpr int64_t kFewSteps = 16;  // whose lines and pages the processor follows
  if (!IsSingle(kernel)) return false;
  // An output over all dims is a loop nest of its own, which would walk the columns once more.
  const auto is_whole = [&](const KernelOutput& output) { return SpansAll(kernel, output.dims); };
  if (std::any_of(kernel.outputs.begin(), kernel.outputs.end(), is_whole)) return true;
  const Stage& reduction = *FirstReduction(kernel);
  if (reduction.over.back() == kernel.innermost()) return true;
  const int64_t column = ColumnElements(reduction, sizes);
  const int64_t row = Bounded(sizes.at_most[static_cast<size_t>(kernel.innermost())]);
  return column > kFewSteps && row * static_cast<int64_t>(SizeOf(reduction.type)) > kMostRowBytes;
}

// A cell that is a whole row reads its operand line after line. If it takes many vectors it takes
// longer to store, which does not count where columns are long, or come from memory.
bool TakesWholeRows(const Kernel& kernel, const SizeClass& sizes, const Machine& machine,
                    int64_t vector) {
  constexpr int64_t kLongColumn = 64;
  const int64_t registers = IsaOf(machine.target) == IsaLevel::kV4 ? 16 : 12;  // for accumulators
  const int64_t row = sizes.at_most[static_cast<size_t>(kernel.innermost())];
  if (!IsSingle(kernel) || row > std::min(registers * vector, kMostLanes)) return false;
  return row <= 2 * vector || IsFar(kernel, sizes, machine) ||
         ColumnElements(*FirstReduction(kernel), sizes) > kLongColumn;
}

// Few cells are few tasks, and have each thread read a part of every row, where what comes before
// and after runs along rows. The blocks of a single reduction are made by tasks of their own then.
bool BlocksApart(const Kernel& kernel, const SizeClass& sizes, const Machine& machine,
                 int64_t lanes) {
  constexpr int64_t kFewCells = 8;
  const auto extent = [&](int32_t dim) { return Bounded(sizes.at_most[static_cast<size_t>(dim)]); };
  const Stage& reduction = *FirstReduction(kernel);
  if (!IsSingle(kernel) || reduction.over.size() != 1 || reduction.over[0] == kernel.innermost())
    return false;
  int64_t cells = extent(kernel.innermost()) / lanes + 1, elements = extent(kernel.innermost());
  for (int32_t dim = 0; dim < kernel.innermost(); ++dim) {
    elements = Bounded(elements * extent(dim));
    if (dim != reduction.over[0]) cells = Bounded(cells * extent(dim));
  }
  return cells < kFewCells && elements > machine.parallel_grain;
}

// True if to fold a column takes longer than to read it; what is kept over columns would need
// memory for several.
bool ShortColumns(const Kernel& kernel, const SizeClass& sizes, const std::vector<bool>& kept) {
  const Stage& reduction = *FirstReduction(kernel);
  for (size_t i = 0; i < kept.size(); ++i)
    if (kept[i] && SpansAll(kernel, kernel.stages[i].dims)) return false;
  return !reduction.dims.empty() && ColumnElements(reduction, sizes) <= 2 * kShortRow;
}

// Where the reduced dims are the last, columns lie side by side like rows of several dims: then
// outputs run along all of them. Columns that fold together are read piece by piece, which pays
// where they come from a cache.
std::optional<RowReduction> AsRows(const Kernel& kernel, const SizeClass& sizes,
                                   const Machine& machine, const std::vector<bool>& kept) {
  const Stage& reduction = *FirstReduction(kernel);
  const auto dims = static_cast<int32_t>(reduction.over.size());
  const int32_t x = kernel.innermost(), first = x + 1 - dims;
  if (dims < 2 || reduction.over.front() != first) return std::nullopt;
  const int64_t element = static_cast<int64_t>(SizeOf(reduction.type));
  const int64_t column = element * ColumnElements(reduction, sizes);
  if (IsFar(kernel, sizes, machine) || ElementsOf(sizes, 0, first - 1) < 2 * kMostFolded ||
      kMostFolded * column > machine.l1_bytes * 5 / 8)
    return std::nullopt;
  for (size_t i = 0; i < kept.size(); ++i)
    if (kept[i] && kernel.stages[i].dims != reduction.dims) return std::nullopt;
  auto expanded = TablesToRunAsOne(kernel, sizes, first, x);
  if (!expanded) return std::nullopt;
  RowReduction rows;
  rows.dims = dims;
  rows.folded = kMostFolded;
  rows.expanded = *std::move(expanded);
  rows.stored = Members(kept);
  return rows;
}

// Whether outputs that need what all cells have are made row by row as these lie in memory, not
// cell by cell. Lines that two cells share are then written once, which counts where they come from
// memory; but what a cell has is loaded for each row, which counts where rows are short.
bool AsTheyLie(const Kernel& kernel, const SizeClass& sizes, const Machine& machine) {
  constexpr int64_t kLongRow = 128;
  constexpr int64_t kShare = 48;  // elements of rows of so many, for each byte of the near cache
  const int32_t x = kernel.innermost();
  const int64_t row = sizes.at_most[static_cast<size_t>(x)];
  return row >= kLongRow || row * ElementsOf(sizes, 0, x) > kShare * machine.l2_bytes;
}

Schedule Choose(const Kernel& kernel, const SizeClass& sizes, const Machine& machine) {
  if (SweepsRows(kernel, sizes)) return kGeneralScheduler.choose(kernel, sizes, machine);
  // Nothing in place: the VM runs through such kernels row by row.
  const Stage& reduction = *FirstReduction(kernel);
  const int32_t x = kernel.innermost();
  const bool tiles = reduction.over.back() != x;
  int64_t inner = 1, outer = 1;  // greatest extents reduced by either rule
  for (const int32_t dim : reduction.over) {
    int64_t& extent = dim == x ? inner : outer;
    extent = std::max(extent, Bounded(sizes.at_most[static_cast<size_t>(dim)]));
  }
  // In tiles a vector is all that a step has, so that it takes several to hide their latency; and
  // more where a step finds its page no longer known.
  const int64_t vectors = !tiles ? 2 : outer > kManyPages ? 8 : 4;
  const int64_t row = sizes.at_most[static_cast<size_t>(x)];
  const int64_t vector = LanesFor(kernel, machine, 1);
  OuterReduction columns;
  columns.step = std::min(LanesForRow(kernel, machine, vectors, row), kMostLanes);
  if (tiles && row > columns.step && TakesWholeRows(kernel, sizes, machine, vector))
    columns.step = (row + vector - 1) / vector * vector;
  columns.task = GrainFor(kernel, machine);
  columns.levels = LevelsFor(inner, kReduceBlock);
  columns.outer_levels = LevelsFor(outer, kOuterReduceBlock);
  columns.whole_row = tiles && row <= columns.step && reduction.dims.size() > 1;
  if (!tiles) columns.accumulators = AccumulatorsFor(inner);
  std::vector<bool> kept = MapsToKeep(kernel, {.shared_cost = 4, .single_cost = 12});
  for (size_t i = 0; i < kept.size(); ++i) {
    // A value per cell costs nothing to keep.
    const Stage& stage = kernel.stages[i];
    const bool of_cell = std::includes(reduction.dims.begin(), reduction.dims.end(),
                                       stage.dims.begin(), stage.dims.end());
    if (stage.kind == Stage::Kind::kMap && of_cell && Cost(stage.expr) >= 4) kept[i] = true;
  }
  columns.stored = Members(kept);
  if (!tiles && ShortColumns(kernel, sizes, kept)) {
    if (auto rows = AsRows(kernel, sizes, machine, kept)) {
      rows->step = columns.step;
      rows->task = columns.task;
      rows->levels = columns.levels;
      rows->accumulators = columns.accumulators;
      return {kRowReduction, *std::move(rows)};
    }
    columns.batch = kMostBatch;
  }
  columns.two_stage = columns.stored.empty() && BlocksApart(kernel, sizes, machine, columns.step);
  columns.memory_order = !tiles && kernel.outputs.size() > 1 && AsTheyLie(kernel, sizes, machine);
  return {kOuterReduction, std::move(columns)};
}

// Few columns need more than one level in the innermost dim and two in the others.
std::vector<SizeClass> Classes(const Kernel& kernel, const SizeClass& known) {
  SizeClass usual = known;
  for (const int32_t dim : FirstReduction(kernel)->over) {
    int64_t& extent = usual.at_most[static_cast<size_t>(dim)];
    constexpr int64_t kOuterUsual = kOuterReduceBlock * kOuterReduceBlock;
    extent = std::min(extent, dim == kernel.innermost() ? kReduceBlock : kOuterUsual);
  }
  if (usual.at_most == known.at_most) return {known};
  return {usual, WidestReduced(kernel, known)};
}

}  // namespace

const Template kOuterReduction = {"outer_reduction", "reductions over the same dims, tile by tile",
                                  Accepts, Make<OuterReduction>};

const Scheduler kColumnScheduler = {
    .name = "column",
    .doc = "reductions over the same outer or several dims with maps around them, column by column",
    .accepts = Accepts,
    .choose = Choose,
    .classes = Classes,
};

}  // namespace kiln
