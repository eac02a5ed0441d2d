// SPDX-License-Identifier: Apache-2.0
// Maximum and mean over a sliding window of [N, C, ...].
#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/gradient/rules.h"
#include "graph/infer.h"
#include "graph/ops/by_kernels.h"
#include "graph/ops/ops.h"
#include "graph/ops/window.h"

namespace kiln::ops {
namespace {

absl::Status InferPool(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireType(c, 0, IsFloat, "a float type"));
  KILN_RETURN_IF_ERROR(RequireRankAtLeast(c, 0, 3));
  const Shape& x = c.shape(0);
  KILN_ASSIGN_OR_RETURN(const Window w, WindowOf(c.node(), IntsAttr(c.node(), "kernel")));
  if (w.rank() != x.size() - 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("the window has ", w.rank(), " axes; the input is ", ToString(x)));
  }
  const bool up = IntAttr(c.node(), "ceil_mode") != 0;
  Shape shape = {x[0], x[1]};
  for (size_t i = 0; i < w.rank(); ++i) {
    const int64_t span = w.dilation[i] * (w.kernel[i] - 1) + 1;
    const Dim room = x[2 + i] + (w.before[i] + w.after[i] - span);
    Dim extent = (room + (up ? w.stride[i] - 1 : 0)).FloorDiv(w.stride[i]) + 1;
    // A last window that would begin in the padding behind the input is left out.
    if (up && w.stride[i] > 1) {
      extent = Dim::Min(extent, (x[2 + i] + (w.before[i] + w.stride[i] - 1)).FloorDiv(w.stride[i]));
    }
    shape.push_back(std::move(extent));
  }
  c.SetOutput(0, c.type(0), std::move(shape));
  return absl::OkStatus();
}

// Calls f(output element, plane of the input, place) for every output element.
template <typename F>
void ForEachOutput(const Tensor& in, Tensor& out, F&& f) {
  const std::vector<int64_t> from(in.shape().begin() + 2, in.shape().end());
  const std::vector<int64_t> to(out.shape().begin() + 2, out.shape().end());
  if (out.num_elements() == 0) return;
  const auto* x = static_cast<const double*>(in.data());
  auto* y = static_cast<double*>(out.data());
  for (int64_t plane = 0; plane < in.shape()[0] * in.shape()[1]; ++plane) {
    std::vector<int64_t> at(to.size(), 0);
    do {
      f(*y++, x + plane * Count(from), at, from);
    } while (Next(at, to));
  }
}

absl::Status ReferenceMaxPool(const Node& node, std::span<const Tensor> inputs,
                              std::span<Tensor> outputs) {
  KILN_ASSIGN_OR_RETURN(const Window w, WindowOf(node, IntsAttr(node, "kernel")));
  ForEachOutput(inputs[0], outputs[0],
                [&](double& y, const double* x, const std::vector<int64_t>& at,
                    const std::vector<int64_t>& in) {
                  y = -std::numeric_limits<double>::infinity();
                  ForEachTap(w, in, at, [&](int64_t, int64_t place) {
                    if (std::isnan(x[place]) || x[place] > y) y = x[place];
                  });
                });
  return absl::OkStatus();
}

absl::Status ReferenceAveragePool(const Node& node, std::span<const Tensor> inputs,
                                  std::span<Tensor> outputs) {
  KILN_ASSIGN_OR_RETURN(const Window w, WindowOf(node, IntsAttr(node, "kernel")));
  const bool with_padding = IntAttr(node, "count_include_pad") != 0;
  ForEachOutput(inputs[0], outputs[0],
                [&](double& y, const double* x, const std::vector<int64_t>& at,
                    const std::vector<int64_t>& in) {
                  double sum = 0;
                  int64_t taps = 0;
                  ForEachTap(w, in, at, [&](int64_t, int64_t place) {
                    sum += x[place];
                    ++taps;
                  });
                  y = sum / static_cast<double>(with_padding ? PaddedTaps(w, in, at) : taps);
                });
  return absl::OkStatus();
}

constexpr AttrSpec kAttrs[] = {
    {"kernel", AttrKind::kInts, true, 0, nullptr, "the extents of the window", -1, "kernel_shape"},
    {"strides", AttrKind::kInts, false, 0, "", "steps of the window; absent: 1"},
    {"pads", AttrKind::kInts, false, 0, "", "padding before each axis, then after each; absent: 0"},
    {"dilations", AttrKind::kInts, false, 0, "", "distances between taps; absent: 1"},
    {"ceil_mode", AttrKind::kInt, false, 0, nullptr,
     "1: a window that is cut off by the end counts too"},
    {"count_include_pad", AttrKind::kInt, false, 0, nullptr,
     "1: padding counts in the divisor of the mean"}};

constexpr OpDef kPoolOps[] = {
    {.name = "max_pool",
     .doc = "The maximum over a window; padding does not count; NaN wins.",
     .kind = OpKind::kLibrary,
     .attrs = std::span(kAttrs).first(5),
     .infer = InferPool,
     .by_kernels = MaxPoolByKernels,
     .reference = ReferenceMaxPool,
     .onnx = {{"MaxPool"}},
     .witness = "onnx node tests: maxpool",
     .gradient = {.rule = gradient::MaxPool, .note = "a tie: the first of the window"}},
    {.name = "average_pool",
     .doc = "The mean over a window.",
     .kind = OpKind::kLibrary,
     .attrs = kAttrs,
     .infer = InferPool,
     .by_kernels = AveragePoolByKernels,
     .reference = ReferenceAveragePool,
     .onnx = {{"AveragePool"}},
     .witness = "onnx node tests: averagepool",
     .gradient = {.rule = gradient::AveragePool}},
};

}  // namespace

std::span<const OpDef> PoolOps() { return kPoolOps; }

}  // namespace kiln::ops
