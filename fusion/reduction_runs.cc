// SPDX-License-Identifier: Apache-2.0
#include "fusion/reduction_runs.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

namespace kiln {
namespace {

bool DependsOnOrder(const Stage& stage) {
  return stage.kind == Stage::Kind::kReduce && IsFloat(stage.type);
}

size_t Position(const std::vector<int32_t>& order, int32_t dim) {
  return static_cast<size_t>(std::find(order.begin(), order.end(), dim) - order.begin());
}

// The dim behind which a unit dim is missing.
std::optional<int32_t> MissingBehind(const std::vector<ReducedRun>& runs,
                                     const std::vector<int32_t>& order) {
  for (size_t k = 0; k + 1 < runs.size(); ++k) {
    const int32_t last = runs[k].dims.back();
    if (Position(order, last) + 1 == Position(order, runs[k + 1].dims.front())) return last;
  }
  if (!runs.empty() && !runs.back().by_lanes && runs.back().dims.back() == order.back())
    return order.back();
  return std::nullopt;
}

// Expressions with `unit` as a further axis of stages, and of inputs where `places` has one.
ScalarExpr WithUnit(const ScalarExpr& from, int32_t unit,
                    const std::vector<std::optional<size_t>>& places) {
  ScalarExpr to;
  const auto replace = [&](ExprId id, const std::vector<ExprId>& map) -> ExprId {
    ExprNode node = from.node(id);
    if (node.op != ScalarOp::kRead) return -1;
    for (IndexExpr& index : node.index) {
      if (index.load >= 0) index.load = map[static_cast<size_t>(index.load)];
    }
    std::optional<size_t> place = node.index.size();
    if (node.source == ReadSource::kInput) place = places[static_cast<size_t>(node.ref)];
    if (place) {
      node.index.insert(node.index.begin() + static_cast<std::ptrdiff_t>(*place),
                        IndexExpr::Dim(unit));
    }
    return to.Add(std::move(node));
  };
  to.set_root(CopyExpr(from, from.root(), to, replace));
  return to;
}

// Inputs have the unit dim where they have the dim before it; everything else as its last axis,
// since whatever a kernel computes runs over all dims that are not reduced.
void AddUnit(Kernel& kernel, int32_t before, int32_t unit) {
  std::vector<std::optional<size_t>> places;
  for (KernelInput& input : kernel.inputs) {
    const size_t at = Position(input.dims, before);
    const bool has = at < input.dims.size();
    places.push_back(has ? std::optional(at + 1) : std::nullopt);
    if (has) input.dims.insert(input.dims.begin() + static_cast<std::ptrdiff_t>(at) + 1, unit);
  }
  for (Stage& stage : kernel.stages) {
    stage.dims.push_back(unit);
    stage.expr = WithUnit(stage.expr, unit, places);
  }
  for (KernelOutput& output : kernel.outputs) {
    output.dims.push_back(unit);
    output.expr = WithUnit(output.expr, unit, places);
  }
}

}  // namespace

void KeepRunsApart(EmittedGroup& emitted, std::vector<int32_t>& order) {
  int32_t unit = kFirstUnit;
  for (size_t i = 0; i < emitted.kernel.stages.size(); ++i) {
    if (!DependsOnOrder(emitted.kernel.stages[i])) continue;
    while (const std::optional<int32_t> before = MissingBehind(emitted.runs[i], order)) {
      AddUnit(emitted.kernel, *before, unit);
      order.insert(order.begin() + static_cast<std::ptrdiff_t>(Position(order, *before)) + 1,
                   unit++);
    }
  }
}

absl::Status CheckRuns(const EmittedGroup& emitted, const CanonicalKernel& canonical) {
  const int innermost = canonical.kernel.innermost();
  const auto begin = canonical.dims.begin(), end = begin + canonical.kernel.num_iterated();
  for (size_t i = 0; i < emitted.kernel.stages.size(); ++i) {
    if (!DependsOnOrder(emitted.kernel.stages[i])) continue;
    for (const ReducedRun& run : emitted.runs[i]) {
      const auto dim = std::find(begin, end, run.dims);
      if (dim == end) {
        return absl::UnimplementedError(
            "the axes that a reduction takes together are not one dim of the kernel, so it would "
            "combine its elements in another order");
      }
      if ((dim - begin == innermost) != run.by_lanes) {
        return absl::UnimplementedError(
            "an axis that a reduction takes is innermost here and not in its operand, or the other "
            "way round, so it would combine its elements in another order");
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace kiln
