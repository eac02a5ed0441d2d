// SPDX-License-Identifier: Apache-2.0
#include "schedule/cpu/elementwise.h"

#include <algorithm>

#include "schedule/analysis.h"

namespace kiln {
namespace {

// Maps read at other elements than the reader's own are computed anew for each such read, and so
// are those they read: code grows with their number.
constexpr int64_t kMostCopies = 32;  // compile time

int64_t Copies(const Kernel& kernel) {
  const std::vector<const ScalarExpr*> exprs = Expressions(kernel);
  const size_t stages = kernel.stages.size();
  std::vector<int64_t> copies(exprs.size(), 1);
  int64_t most = 1;
  for (size_t reader = exprs.size(); reader-- > 0;) {
    for (const ExprNode& node : exprs[reader]->nodes()) {
      if (node.op != ScalarOp::kRead || node.source != ReadSource::kStage) continue;
      const auto stage = static_cast<size_t>(node.ref);
      if (stage >= stages || IsIdentityRead(node, kernel.stages[stage].dims)) continue;
      copies[stage] = std::min(copies[stage] + copies[reader], kMostCopies + 1);
      most = std::max(most, copies[stage]);
    }
  }
  return most;
}

}  // namespace

Decision AcceptsElementwise(const Kernel& kernel) {
  for (const Stage& stage : kernel.stages) {
    if (stage.kind == Stage::Kind::kReduce) return Decision::No("it has a reduction");
  }
  if (kernel.num_iterated() == 0) return Decision::No("it has no dim to loop over");
  if (!OutputsInOrder(kernel, /*rows=*/false)) {
    return Decision::No("an output is not dense over all dims in their order");
  }
  if (Copies(kernel) > kMostCopies) {
    return Decision::No(
        "stages read each other at too many other elements to be computed in place");
  }
  return Decision::Yes();
}

int32_t TransposedDim(const Kernel& kernel) {
  if (!StagesReadInPlace(kernel)) return -1;
  std::vector<int> votes(kernel.dims.size(), 0);
  for (size_t i = 0; i < kernel.inputs.size(); ++i) {
    const int32_t dim = TransposedAlong(kernel, i);
    if (dim >= 0) ++votes[static_cast<size_t>(dim)];
  }
  const auto most = std::max_element(votes.begin(), votes.end());
  return most == votes.end() || *most == 0 ? -1 : static_cast<int32_t>(most - votes.begin());
}

std::vector<Collapsed> CollapsedFor(const Kernel& kernel, const SizeClass& sizes) {
  std::vector<Collapsed> all = {Collapsed()};
  const int32_t x = kernel.innermost();
  for (int32_t first = 0; first < x; ++first) {
    auto expanded = BroadcastsToExpand(kernel, sizes, first, x);
    if (!expanded) continue;
    all.push_back({x - first + 1, *std::move(expanded)});
    break;
  }
  return all;
}

std::vector<int64_t> StepsFor(const Kernel& kernel, const Machine& machine, int64_t row) {
  std::vector<int64_t> steps;
  const auto add = [&](int64_t step) {
    if (std::find(steps.begin(), steps.end(), step) == steps.end()) steps.push_back(step);
  };
  for (int64_t vectors = kMostVectors; vectors > 0; vectors /= 2)
    add(LanesForRow(LanesFor(kernel, machine, vectors), row));
  const int64_t half = LanesFor(kernel, machine, 1) / 2;
  if (half >= kLeastLanes && row <= kMostVectors * half) add(half);
  return steps;
}

}  // namespace kiln
