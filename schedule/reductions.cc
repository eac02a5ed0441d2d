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

std::vector<size_t> PassesOf(const Kernel& kernel, const std::vector<bool>& stored) {
  std::vector<size_t> passes, before;  // `before`: behind the last stored stage that each needs
  for (size_t i = 0; i < kernel.stages.size(); ++i) {
    const Stage& stage = kernel.stages[i];
    before.push_back(0);
    for (const ExprNode& node : stage.expr.nodes()) {
      if (node.op != ScalarOp::kRead || node.source != ReadSource::kStage) continue;
      const auto ref = static_cast<size_t>(node.ref);
      const bool kept = IsReduction(kernel.stages[ref]) || stored[ref];
      before[i] = std::max(before[i], kept ? ref + 1 : before[ref]);
    }
    passes.push_back(i);
    if (!IsReduction(stage) || stage.over.back() == kernel.innermost()) continue;
    for (size_t first = before[i]; first < i; ++first) {
      const Stage& other = kernel.stages[first];
      if (passes[first] != first || !IsReduction(other) || stage.over != other.over ||
          stage.dims != other.dims)
        continue;
      passes[i] = first;
      break;
    }
  }
  return passes;
}

int64_t LargestPass(const Kernel& kernel, const std::vector<bool>& stored) {
  const std::vector<size_t> passes = PassesOf(kernel, stored);
  std::ptrdiff_t most = 1;
  for (const size_t first : passes)
    most = std::max(most, std::count(passes.begin(), passes.end(), first));
  return most;
}

std::vector<size_t> StagesOf(const std::vector<size_t>& passes, size_t first) {
  std::vector<size_t> stages;
  for (size_t i = first; i < passes.size(); ++i)
    if (passes[i] == first) stages.push_back(i);
  return stages;
}

int64_t ColumnElements(const Stage& reduction, const SizeClass& sizes) {
  const auto bounded = [](int64_t extent) { return std::min<int64_t>(extent, INT32_MAX); };
  int64_t column = 1;
  for (const int32_t dim : reduction.over)
    column = bounded(column * bounded(sizes.at_most[static_cast<size_t>(dim)]));
  return column;
}

}  // namespace kiln
