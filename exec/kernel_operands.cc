// SPDX-License-Identifier: Apache-2.0
#include "exec/kernel_operands.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

constexpr int64_t kMostExtent = int64_t{1} << 40;  // correctness: more elements than memory has

// Whether strides are what the kernel's text promises of the operand.
bool FitsLayout(const ResolvedRef& ref, Layout layout) {
  switch (layout) {
    case Layout::kDense:
      return ref.dense;
    case Layout::kRows:
      return ref.shape.empty() || ref.shape.back() == 1 || ref.strides.back() == 1;
    case Layout::kStrided:
      return true;
  }
  return false;
}

absl::Status CheckOperand(const ResolvedRef& ref, const std::vector<int32_t>& axes, Layout layout,
                          const std::vector<int64_t>& dims) {
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t extent = dims[static_cast<size_t>(axes[i])];
    if (ref.shape[i] != extent) {
      return Invalid("operand [", absl::StrJoin(ref.shape, ", "), "]: extent ", i, " is ",
                     ref.shape[i], ", the kernel's dim ", axes[i], " is ", extent);
    }
  }
  if (ref.elements > 0 && !FitsLayout(ref, layout)) {
    return Invalid("operand [", absl::StrJoin(ref.shape, ", "), "]: strides [",
                   absl::StrJoin(ref.strides, ", "), "] are not those the kernel was made for");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckKernelOperands(const Kernel& kernel, const Operands& operands) {
  for (size_t i = 0; i < operands.dims.size(); ++i) {
    const int64_t extent = operands.dims[i];
    if (extent < 0 || extent > kMostExtent) {
      return absl::OutOfRangeError(
          absl::StrCat("dim ", i, " is ", extent, "; kernels take 0 to ", kMostExtent));
    }
  }
  for (size_t i = 0; i < kernel.inputs.size(); ++i) {
    KILN_RETURN_IF_ERROR(Annotate(CheckOperand(operands.inputs[i], kernel.inputs[i].dims,
                                               kernel.inputs[i].layout, operands.dims),
                                  absl::StrCat("input ", i)));
  }
  for (size_t i = 0; i < kernel.outputs.size(); ++i) {
    KILN_RETURN_IF_ERROR(Annotate(CheckOperand(operands.outputs[i], kernel.outputs[i].dims,
                                               kernel.outputs[i].layout, operands.dims),
                                  absl::StrCat("output ", i)));
  }
  return absl::OkStatus();
}

}  // namespace kiln
