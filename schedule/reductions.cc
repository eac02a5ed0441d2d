// SPDX-License-Identifier: Apache-2.0
#include "schedule/reductions.h"

#include <algorithm>

#include "schedule/analysis.h"

namespace kiln {
namespace {

Decision AcceptsStage(const Kernel& kernel, const Stage& stage) {
  if (!IsReduction(stage)) return Decision::Yes();
  if (stage.over != std::vector<int32_t>{kernel.innermost()}) {
    return Decision::No("a reduction is over another dim than the innermost");
  }
  if (!SpansOuter(kernel, stage.dims)) {
    return Decision::No("a reduction does not depend on all outer dims");
  }
  return Decision::Yes();
}

}  // namespace

bool IsReduction(const Stage& stage) { return stage.kind == Stage::Kind::kReduce; }

Decision AcceptsRows(const Kernel& kernel) {
  if (kernel.num_iterated() < 2) return Decision::No("it has no rows");
  for (const Stage& stage : kernel.stages) {
    if (Decision stage_ok = AcceptsStage(kernel, stage); !stage_ok) return stage_ok;
  }
  if (std::none_of(kernel.stages.begin(), kernel.stages.end(), IsReduction))
    return Decision::No("it has no reduction");
  if (!OutputsInOrder(kernel, /*rows=*/true)) {
    return Decision::No("an output is not dense over all dims, or over the rows, in their order");
  }
  return StagesReadInPlace(kernel);
}

Decision AcceptsColumns(const Kernel& kernel) {
  if (std::none_of(kernel.stages.begin(), kernel.stages.end(), IsReduction))
    return Decision::No("it has no reduction");
  const Stage& first = FirstReduction(kernel);
  if (first.dims.empty()) return Decision::No("it reduces all dims");
  if (static_cast<int>(first.dims.size() + first.over.size()) != kernel.num_iterated())
    return Decision::No("a reduction does not depend on all dims");
  for (const Stage& stage : kernel.stages) {
    if (IsReduction(stage) && (stage.over != first.over || stage.dims != first.dims))
      return Decision::No("reductions are over different dims");
  }
  for (const KernelOutput& output : kernel.outputs) {
    if (output.layout != Layout::kDense ||
        (!SpansAll(kernel, output.dims) && output.dims != first.dims))
      return Decision::No("an output is not dense over all dims, or over those kept, in order");
  }
  return StagesReadInPlace(kernel);
}

const Stage& FirstReduction(const Kernel& kernel) {
  return *std::find_if(kernel.stages.begin(), kernel.stages.end(), IsReduction);
}

std::vector<bool> MapsOfRowsToMaterialise(const Kernel& kernel) {
  std::vector<bool> kept = MapsToMaterialise(kernel, {.single_cost = kWorthMaterialising});
  for (size_t i = 0; i < kept.size(); ++i) {
    const Stage& stage = kernel.stages[i];
    if (!IsReduction(stage) && SpansOuter(kernel, stage.dims) && Cost(stage.expr) >= kLeastOfRow)
      kept[i] = true;
  }
  return kept;
}

int64_t ColumnElements(const Stage& reduction, const SizeClass& sizes) {
  const auto bounded = [](int64_t extent) { return std::min<int64_t>(extent, INT32_MAX); };
  int64_t column = 1;
  for (const int32_t dim : reduction.over)
    column = bounded(column * bounded(sizes.at_most[static_cast<size_t>(dim)]));
  return column;
}

}  // namespace kiln
