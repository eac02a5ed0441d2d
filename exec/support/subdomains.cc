// SPDX-License-Identifier: Apache-2.0
#include "exec/support/subdomains.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>

#include "base/checked.h"

namespace kiln {
namespace {

// True if what of [0, cut) occurs in `dims` comes first, ascending. Extent 1 where a fixed dim is:
// so any subset keeps the subdomain dense if the range's dim, `cut - 1`, follows them directly.
bool OuterFirst(const std::vector<int32_t>& dims, int cut) {
  size_t leading = 0;
  while (leading < dims.size() && dims[leading] < cut) ++leading;
  const auto rest = dims.begin() + static_cast<ptrdiff_t>(leading);
  return std::is_sorted(dims.begin(), rest) &&
         std::all_of(rest, dims.end(), [cut](int32_t dim) { return dim >= cut; });
}

bool Has(const std::vector<int32_t>& dims, int32_t dim) {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

bool IsFree(const Kernel& kernel, const ScalarExpr& expr, int32_t dim) {
  for (const ExprNode& node : expr.nodes()) {
    if ((node.op == ScalarOp::kIndex || node.op == ScalarOp::kExtent) && node.ref == dim)
      return false;
    if (node.op != ScalarOp::kRead) continue;
    const auto ref = static_cast<size_t>(node.ref);
    const std::vector<int32_t>& dims =
        node.source == ReadSource::kInput ? kernel.inputs[ref].dims : kernel.stages[ref].dims;
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      const IndexExpr& index = node.index[axis];
      const bool own = index.IsDim() && index.terms[0].dim == dim;
      const bool uses = std::any_of(index.terms.begin(), index.terms.end(),
                                    [dim](const auto& term) { return term.dim == dim; });
      if ((dims[axis] == dim) != own || (uses && !own)) return false;
    }
  }
  return true;
}

// `dim` can be cut, given that all dims before it can.
bool CanCut(const Kernel& kernel, int32_t dim) {
  const auto ordered = [dim](const auto& operand) { return OuterFirst(operand.dims, dim + 1); };
  if (!std::all_of(kernel.inputs.begin(), kernel.inputs.end(), ordered)) return false;
  for (const Stage& stage : kernel.stages) {
    if (Has(stage.over, dim) || !IsFree(kernel, stage.expr, dim)) return false;
  }
  return std::all_of(kernel.outputs.begin(), kernel.outputs.end(), [&](const KernelOutput& output) {
    return output.layout == Layout::kDense && Has(output.dims, dim) && ordered(output) &&
           IsFree(kernel, output.expr, dim);
  });
}

}  // namespace

int CuttableDims(const Kernel& kernel) {
  if (Scatters(kernel)) return 0;
  const int most = std::max(1, kernel.num_iterated() - 1);
  int dims = 0;
  while (dims < most && dims < kernel.num_iterated() && CanCut(kernel, dims)) ++dims;
  return dims;
}

namespace {

constexpr int64_t kEndless = std::numeric_limits<int64_t>::max();

int64_t Times(int64_t a, int64_t b) { return CheckedMul(a, b).value_or(kEndless); }

// Elements per step of `dim` in an operand with these axes; 0 if it has no such axis.
int64_t StrideOf(const std::vector<int32_t>& dims, const OperandShape& operand, int32_t dim) {
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] == dim) return operand.strides[axis];
  }
  return 0;
}

const std::vector<int32_t>& DimsOf(const Kernel& kernel, size_t operand) {
  const size_t inputs = kernel.inputs.size();
  return operand < inputs ? kernel.inputs[operand].dims : kernel.outputs[operand - inputs].dims;
}

// Elements from the first to the last of an operand at one coordinate of each dim before `cut`.
int64_t SpanOf(const std::vector<int32_t>& dims, const OperandShape& operand, int cut) {
  int64_t span = 1;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] < cut || operand.shape[axis] == 0) continue;
    const int64_t steps = Times(operand.shape[axis] - 1, std::abs(operand.strides[axis]));
    span = CheckedAdd(span, steps).value_or(kEndless);
  }
  return span;
}

// Points of the iteration space at one coordinate of each dim before `cut`.
int64_t PointsOf(const Kernel& kernel, std::span<const int64_t> extents, int cut) {
  int64_t points = 1;
  for (int d = cut; d < kernel.num_iterated(); ++d)
    points = Times(points, std::max<int64_t>(1, extents[static_cast<size_t>(d)]));
  return points;
}

// The longest range of `dim` that stays below `most` at one coordinate of each dim before it; 0 if
// none does.
int64_t RangeBelow(int64_t most, const Kernel& kernel, std::span<const int64_t> extents,
                   std::span<const OperandShape> operands, int dim) {
  for (const int64_t size : extents.subspan(static_cast<size_t>(kernel.num_iterated()))) {
    if (size > most) return 0;
  }
  int64_t range = most / PointsOf(kernel, extents, dim + 1);
  for (size_t i = 0; i < operands.size(); ++i) {
    const int64_t room = most - SpanOf(DimsOf(kernel, i), operands[i], dim + 1);
    const int64_t stride = std::abs(StrideOf(DimsOf(kernel, i), operands[i], dim));
    range = room < 0 ? 0 : std::min(range, room / std::max<int64_t>(1, stride) + 1);
  }
  return range;
}

// Cuts all dims before plan.dim, and that one into ranges of plan.range.
void FillIn(const Kernel& kernel, std::span<const int64_t> extents,
            std::span<const OperandShape> operands, PartitionedLaunch& plan) {
  plan.inputs = kernel.inputs.size();
  plan.skipped = kernel.dims.size() + kernel.params.size();
  const auto cut = static_cast<size_t>(plan.dim) + 1;
  plan.extents.assign(extents.begin(), extents.begin() + static_cast<ptrdiff_t>(cut));
  const int64_t length = plan.extents.back();
  plan.range = std::min(length, plan.range);
  plan.along = length == 0 ? 0 : (length + plan.range - 1) / plan.range;
  plan.subdomains = plan.along;
  for (size_t d = 0; d + 1 < cut; ++d) plan.subdomains *= plan.extents[d];
  for (size_t i = 0; i < operands.size(); ++i) {
    std::vector<int64_t>& steps = plan.steps.emplace_back();
    for (int d = 0; d <= plan.dim; ++d)
      steps.push_back(StrideOf(DimsOf(kernel, i), operands[i], d) * operands[i].item);
  }
}

}  // namespace

bool FitsAtOnce(const Kernel& kernel, std::span<const int64_t> extents,
                std::span<const OperandShape> operands, int64_t most) {
  for (const int64_t extent : extents) {
    if (extent > most) return false;
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    if (SpanOf(DimsOf(kernel, i), operands[i], 0) > most) return false;
  }
  return PointsOf(kernel, extents, 0) <= most;
}

std::optional<PartitionedLaunch> PlanPieces(const Kernel& kernel, std::span<const int64_t> extents,
                                            std::span<const OperandShape> operands, int64_t most) {
  const int cuttable = CuttableDims(kernel);
  PartitionedLaunch plan;
  for (plan.dim = 0; plan.dim < cuttable; ++plan.dim) {
    plan.range = RangeBelow(most, kernel, extents, operands, plan.dim);
    if (plan.range == 0) continue;
    FillIn(kernel, extents, operands, plan);
    return plan;
  }
  return std::nullopt;
}

}  // namespace kiln
