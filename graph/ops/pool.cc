// SPDX-License-Identifier: Apache-2.0
// Maximum and mean over a sliding window of [N, C, ...].
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

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
  Shape shape = PoolPlaces(w, x, IntAttr(c.node(), "ceil_mode") != 0);
  shape.insert(shape.begin(), {x[0], x[1]});
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

// ---- What the input of a pool takes from the cotangent of its result.
absl::Status CheckCotangent(InferContext& c, int cotangent, const Shape& x) {
  const Shape& g = c.shape(cotangent);
  KILN_RETURN_IF_ERROR(RequireRank(c, cotangent, x.size()));
  KILN_ASSIGN_OR_RETURN(const Window w, WindowOf(c.node(), IntsAttr(c.node(), "kernel")));
  if (x.size() < 3 || w.rank() != x.size() - 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("the window has ", w.rank(), " axes; the input is ", ToString(x)));
  }
  Shape expected = PoolPlaces(w, x, IntAttr(c.node(), "ceil_mode") != 0);
  expected.insert(expected.begin(), {x[0], x[1]});
  for (size_t i = 0; i < x.size(); ++i)
    KILN_RETURN_IF_ERROR(c.Require(expected[i], g[i], "extents of the pool and of the cotangent"));
  c.SetOutput(0, c.type(0), x);
  return absl::OkStatus();
}

absl::Status InferMaxPoolBackward(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireType(c, 0, IsFloat, "a float type"));
  KILN_RETURN_IF_ERROR(RequireSameTypes(c));
  return CheckCotangent(c, 1, c.shape(0));
}

absl::Status InferAveragePoolBackward(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireType(c, 0, IsFloat, "a float type"));
  return CheckCotangent(c, 0, DimsAttr(c.node(), "shape"));
}

// Calls f(element of g, plane of x, its gradient, place) for every element of the cotangent.
template <typename F>
void ForEachCotangent(const Tensor& g, const double* x, Tensor& gradient, F&& f) {
  auto* to = static_cast<double*>(gradient.data());
  std::fill(to, to + gradient.num_elements(), 0.0);
  const std::vector<int64_t> in(gradient.shape().begin() + 2, gradient.shape().end());
  const std::vector<int64_t> out(g.shape().begin() + 2, g.shape().end());
  if (g.num_elements() == 0) return;
  const auto* from = static_cast<const double*>(g.data());
  for (int64_t plane = 0; plane < g.shape()[0] * g.shape()[1]; ++plane) {
    std::vector<int64_t> at(out.size(), 0);
    do {
      f(*from++, x == nullptr ? x : x + plane * Count(in), to + plane * Count(in), at, in);
    } while (Next(at, out));
  }
}

absl::Status ReferenceMaxPoolBackward(const Node& node, std::span<const Tensor> inputs,
                                      std::span<Tensor> outputs) {
  KILN_ASSIGN_OR_RETURN(const Window w, WindowOf(node, IntsAttr(node, "kernel")));
  ForEachCotangent(inputs[1], static_cast<const double*>(inputs[0].data()), outputs[0],
                   [&](double g, const double* x, double* gradient, const std::vector<int64_t>& at,
                       const std::vector<int64_t>& in) {
                     int64_t first = -1;
                     ForEachTap(w, in, at, [&](int64_t, int64_t place) {
                       const bool larger = first < 0 || x[place] > x[first] ||
                                           (std::isnan(x[place]) && !std::isnan(x[first]));
                       if (larger) first = place;
                     });
                     if (first >= 0) gradient[first] += g;
                   });
  return absl::OkStatus();
}

absl::Status ReferenceAveragePoolBackward(const Node& node, std::span<const Tensor> inputs,
                                          std::span<Tensor> outputs) {
  KILN_ASSIGN_OR_RETURN(const Window w, WindowOf(node, IntsAttr(node, "kernel")));
  const bool with_padding = IntAttr(node, "count_include_pad") != 0;
  ForEachCotangent(inputs[0], nullptr, outputs[0],
                   [&](double g, const double*, double* gradient, const std::vector<int64_t>& at,
                       const std::vector<int64_t>& in) {
                     int64_t taps = 0;
                     ForEachTap(w, in, at, [&](int64_t, int64_t) { ++taps; });
                     if (with_padding) taps = PaddedTaps(w, in, at);
                     const double part = g / static_cast<double>(taps);
                     ForEachTap(w, in, at,
                                [&](int64_t, int64_t place) { gradient[place] += part; });
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
     "1: padding counts in the divisor of the mean"},
    {"shape", AttrKind::kDims, true, 0, nullptr, "of the input of the pool"}};

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
     .attrs = std::span(kAttrs).first(6),
     .infer = InferPool,
     .by_kernels = AveragePoolByKernels,
     .reference = ReferenceAveragePool,
     .onnx = {{"AveragePool"}},
     .witness = "onnx node tests: averagepool",
     .gradient = {.rule = gradient::AveragePool}},
    {.name = "max_pool_backward",
     .doc = "What x takes from the cotangent g of max_pool(x): all of it goes to the first element "
            "of a window that is its maximum.",
     .kind = OpKind::kLibrary,
     .min_inputs = 2,
     .max_inputs = 2,
     .attrs = std::span(kAttrs).first(5),
     .infer = InferMaxPoolBackward,
     .by_kernels = gradient::MaxPoolBackwardByKernels,
     .reference = ReferenceMaxPoolBackward,
     .witness = "differences of max_pool",
     .linear = true,
     .gradient = {.rule = gradient::MaxPoolBackward, .note = "the places of the maxima stay"}},
    {.name = "average_pool_backward",
     .doc = "What the input of average_pool takes from the cotangent of its result.",
     .kind = OpKind::kLibrary,
     .attrs = kAttrs,
     .infer = InferAveragePoolBackward,
     .by_kernels = gradient::AveragePoolBackwardByKernels,
     .reference = ReferenceAveragePoolBackward,
     .witness = "differences of average_pool",
     .linear = true,
     .gradient = {.rule = gradient::AveragePoolBackward}},
};

}  // namespace

std::span<const OpDef> PoolOps() { return kPoolOps; }

}  // namespace kiln::ops
