// SPDX-License-Identifier: Apache-2.0
// What the weight of a convolution takes from the cotangent of its result. What its input takes is
// conv_transpose.
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

absl::Status RequireDivides(InferContext& c, const Dim& channels, int64_t group, const char* what) {
  const Guard divides = Guard::Divisible(channels, group);
  if (divides.Static() == false) {
    return absl::InvalidArgumentError(
        absl::StrCat(channels.ToString(), " ", what, " do not divide by group ", group));
  }
  c.Assume(divides);
  return absl::OkStatus();
}

absl::Status InferConvBackwardWeights(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireRankAtLeast(c, 0, 3));
  KILN_RETURN_IF_ERROR(RequireRank(c, 1, c.shape(0).size()));
  KILN_RETURN_IF_ERROR(RequireType(c, 0, IsFloat, "a float type"));
  KILN_RETURN_IF_ERROR(RequireSameTypes(c));
  const Shape &x = c.shape(0), &g = c.shape(1);
  const int64_t group = IntAttr(c.node(), "group");
  if (group < 1) return absl::InvalidArgumentError("attribute \"group\" is below 1");
  KILN_ASSIGN_OR_RETURN(const Window window, WindowOf(c.node(), IntsAttr(c.node(), "kernel")));
  if (window.rank() != x.size() - 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("the window has ", window.rank(), " axes; the input is ", ToString(x)));
  }
  KILN_RETURN_IF_ERROR(RequireDivides(c, x[1], group, "input channels"));
  KILN_RETURN_IF_ERROR(RequireDivides(c, g[1], group, "output channels"));
  KILN_RETURN_IF_ERROR(c.Require(x[0], g[0], "images of the input and of the cotangent"));
  const Shape places = ConvPlaces(window, x);
  for (size_t i = 0; i < places.size(); ++i)
    KILN_RETURN_IF_ERROR(
        c.Require(places[i], g[i + 2], "places of the window and of the cotangent"));
  Shape shape = {g[1], x[1].FloorDiv(group)};
  shape.insert(shape.end(), window.kernel.begin(), window.kernel.end());
  c.SetOutput(0, c.type(0), std::move(shape));
  return absl::OkStatus();
}

absl::Status ReferenceConvBackwardWeights(const Node& node, std::span<const Tensor> inputs,
                                          std::span<Tensor> outputs) {
  const std::vector<int64_t>&x = inputs[0].shape(), &g = inputs[1].shape();
  KILN_ASSIGN_OR_RETURN(const Window window, WindowOf(node, IntsAttr(node, "kernel")));
  const int64_t group = IntAttr(node, "group"), of_group = x[1] / group;
  const std::vector<int64_t> in(x.begin() + 2, x.end()), out(g.begin() + 2, g.end());
  const int64_t taps = Count(window.kernel), from_plane = Count(in), to_plane = Count(out);
  const auto* from = static_cast<const double*>(inputs[0].data());
  const auto* cotangent = static_cast<const double*>(inputs[1].data());
  auto* weights = static_cast<double*>(outputs[0].data());
  std::fill(weights, weights + outputs[0].num_elements(), 0.0);
  if (inputs[0].num_elements() == 0 || inputs[1].num_elements() == 0) return absl::OkStatus();
  for (int64_t n = 0; n < g[0]; ++n) {
    for (int64_t m = 0; m < g[1]; ++m) {
      for (int64_t c = 0; c < of_group; ++c) {
        const int64_t channel = m / (g[1] / group) * of_group + c;
        const double* seen = from + (n * x[1] + channel) * from_plane;
        const double* of = cotangent + (n * g[1] + m) * to_plane;
        double* sums = weights + (m * of_group + c) * taps;
        std::vector<int64_t> at(out.size(), 0);
        do {
          ForEachTap(window, in, at,
                     [&](int64_t k, int64_t place) { sums[k] += *of * seen[place]; });
          ++of;
        } while (Next(at, out));
      }
    }
  }
  return absl::OkStatus();
}

constexpr AttrSpec kAttrs[] = {
    {"kernel", AttrKind::kInts, true, 0, nullptr, "the spatial extents of the weight"},
    {"strides", AttrKind::kInts, false, 0, "", "of the convolution; absent: 1"},
    {"pads", AttrKind::kInts, false, 0, "", "of the convolution; absent: 0"},
    {"dilations", AttrKind::kInts, false, 0, "", "of the convolution; absent: 1"},
    {"group", AttrKind::kInt, false, 1, nullptr, "of the convolution"}};

constexpr OpDef kOps[] = {
    {.name = "conv_backward_weights",
     .doc =
         "What the weight of conv(x, w) takes from the cotangent g of its result: [M, C / group, "
         "kernel...] of x [N, C, ...] and g [N, M, ...].",
     .kind = OpKind::kLibrary,
     .min_inputs = 2,
     .max_inputs = 2,
     .attrs = kAttrs,
     .infer = InferConvBackwardWeights,
     .by_kernels = ConvBackwardWeightsByKernels,
     .reference = ReferenceConvBackwardWeights,
     .test = {-2, 2},
     .witness = "differences of conv",
     .gradient = {.rule = gradient::ConvBackwardWeights}},
};

}  // namespace

std::span<const OpDef> ConvBackwardOps() { return kOps; }

}  // namespace kiln::ops
