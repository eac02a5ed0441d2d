// SPDX-License-Identifier: Apache-2.0
// Composites: what they mean is their decomposition into other ops. 16-bit floats are widened first
// and narrowed last, so that the whole rounds once.
#include "base/status_macros.h"
#include "graph/gradient/rules.h"
#include "graph/graph.h"
#include "graph/infer.h"
#include "graph/ops/nodes.h"
#include "graph/ops/ops.h"
#include "kiln/graph.h"

namespace kiln::ops {
namespace {

using Values = absl::StatusOr<std::vector<ValueId>>;

// Carries out `formula` in the compute type of input 0 and gives the result in the type of input 0.
template <typename Formula>
Values InComputeType(GraphBuilder& b, const Node& node, Formula&& formula) {
  const DType stored = b.value(node.inputs[0]).type;
  std::vector<ValueId> inputs;
  for (const ValueId input : node.inputs) {
    const bool widen = input.valid() && IsFloat(b.value(input).type);
    inputs.push_back(widen ? To(b, input, ComputeType(stored)) : input);
  }
  const ValueId result = To(b, formula(inputs), stored);
  KILN_RETURN_IF_ERROR(b.status());
  return std::vector<ValueId>{result};
}

ValueId Reduce(GraphBuilder& b, const char* op, ValueId x, std::vector<int64_t> axes) {
  return b.Op(op, {x}, {{"axes", std::move(axes)}, {"keepdims", int64_t{1}}});
}

size_t Rank(GraphBuilder& b, ValueId x) { return b.value(x).shape.size(); }

std::vector<int64_t> AxesFrom(int64_t first, size_t rank) {
  std::vector<int64_t> axes;
  for (int64_t axis = first; axis < static_cast<int64_t>(rank); ++axis) axes.push_back(axis);
  return axes;
}

// x / y for y that many elements of x share: one division for each y, a product for each x.
ValueId DivideByShared(GraphBuilder& b, ValueId x, ValueId y) {
  if (!b.status().ok()) return {};
  return b.Op("mul", {x, b.Op("div", {b.Scalar(b.value(y).type, 1.0), y})});
}

struct Centred {
  ValueId difference, deviation;  // x - mean, sqrt(variance + epsilon)
};

// Over `axes`; the variance is that of the differences.
Centred Centre(GraphBuilder& b, ValueId x, const std::vector<int64_t>& axes, double epsilon) {
  if (!b.status().ok()) return {};
  const DType type = b.value(x).type;
  const ValueId difference = b.Op("sub", {x, Reduce(b, "reduce_mean", x, axes)});
  const ValueId variance = Reduce(b, "reduce_mean", b.Op("mul", {difference, difference}), axes);
  return {difference, b.Op("sqrt", {b.Op("add", {variance, b.Scalar(type, epsilon)})})};
}

// ---- softmax
absl::Status InferSoftmax(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireType(c, 0, IsFloat, "a float type"));
  KILN_RETURN_IF_ERROR(NormalAxis(IntAttr(c.node(), "axis"), c.shape(0).size()).status());
  c.SetOutput(0, c.type(0), c.shape(0));
  return absl::OkStatus();
}

Values Softmax(GraphBuilder& b, const Node& node) {
  return InComputeType(b, node, [&](const std::vector<ValueId>& in) {
    const std::vector<int64_t> axes = {IntAttr(node, "axis")};
    const ValueId e = b.Op("exp", {b.Op("sub", {in[0], Reduce(b, "reduce_max", in[0], axes)})});
    return DivideByShared(b, e, Reduce(b, "reduce_sum", e, axes));
  });
}

Values LogSoftmax(GraphBuilder& b, const Node& node) {
  return InComputeType(b, node, [&](const std::vector<ValueId>& in) {
    const std::vector<int64_t> axes = {IntAttr(node, "axis")};
    const ValueId shifted = b.Op("sub", {in[0], Reduce(b, "reduce_max", in[0], axes)});
    return b.Op("sub",
                {shifted, b.Op("log", {Reduce(b, "reduce_sum", b.Op("exp", {shifted}), axes)})});
  });
}

// ---- layer_norm
absl::Status InferLayerNorm(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireType(c, 0, IsFloat, "a float type"));
  KILN_RETURN_IF_ERROR(NormalAxis(IntAttr(c.node(), "axis"), c.shape(0).size()).status());
  for (int k = 1; k < c.num_inputs(); ++k) {
    if (!c.has_input(k)) continue;
    KILN_RETURN_IF_ERROR(RequireType(c, k, IsFloat, "a float type"));
    KILN_RETURN_IF_ERROR(
        BroadcastTo(c, c.shape(0), c.shape(k), k == 1 ? "scale" : "bias").status());
  }
  c.SetOutput(0, c.type(0), c.shape(0));
  return absl::OkStatus();
}

Values LayerNorm(GraphBuilder& b, const Node& node) {
  return InComputeType(b, node, [&](const std::vector<ValueId>& in) {
    const size_t rank = Rank(b, in[0]);
    int64_t axis = IntAttr(node, "axis");
    if (axis < 0) axis += static_cast<int64_t>(rank);
    const Centred x = Centre(b, in[0], AxesFrom(axis, rank), FloatAttr(node, "epsilon"));
    ValueId y = b.Op("div", {x.difference, x.deviation});  // as exporters write it
    if (in.size() > 1 && in[1].valid()) y = b.Op("mul", {y, in[1]});
    if (in.size() > 2 && in[2].valid()) y = b.Op("add", {y, in[2]});
    return y;
  });
}

// ---- batch_norm, instance_norm
absl::Status InferOverChannels(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireType(c, 0, IsFloat, "a float type"));
  KILN_RETURN_IF_ERROR(RequireRankAtLeast(c, 0, 2));
  for (int k = 1; k < c.num_inputs(); ++k) {
    KILN_RETURN_IF_ERROR(RequireType(c, k, IsFloat, "a float type"));
    KILN_RETURN_IF_ERROR(RequireRank(c, k, 1));
    KILN_RETURN_IF_ERROR(
        c.Require(c.shape(k)[0], c.shape(0)[1], "extent of a channel vector and the channels"));
  }
  c.SetOutput(0, c.type(0), c.shape(0));
  return absl::OkStatus();
}

Values BatchNorm(GraphBuilder& b, const Node& node) {
  return InComputeType(b, node, [&](const std::vector<ValueId>& in) {
    const size_t rank = Rank(b, in[0]);
    const ValueId epsilon = b.Scalar(b.value(in[0]).type, FloatAttr(node, "epsilon"));
    const ValueId factor = b.Op("div", {in[1], b.Op("sqrt", {b.Op("add", {in[4], epsilon})})});
    const ValueId difference = b.Op("sub", {in[0], OverChannels(b, in[3], rank)});
    return b.Op("add", {b.Op("mul", {difference, OverChannels(b, factor, rank)}),
                        OverChannels(b, in[2], rank)});
  });
}

Values InstanceNorm(GraphBuilder& b, const Node& node) {
  return InComputeType(b, node, [&](const std::vector<ValueId>& in) {
    const size_t rank = Rank(b, in[0]);
    const Centred x = Centre(b, in[0], AxesFrom(2, rank), FloatAttr(node, "epsilon"));
    const ValueId y = DivideByShared(b, x.difference, x.deviation);
    return b.Op("add",
                {b.Op("mul", {y, OverChannels(b, in[1], rank)}), OverChannels(b, in[2], rank)});
  });
}

// ---- gelu
Values Gelu(GraphBuilder& b, const Node& node) {
  const bool by_tanh = StringAttr(node, "approximate") == "tanh";
  return InComputeType(b, node, [&](const std::vector<ValueId>& in) {
    const ValueId x = in[0];
    const auto number = [&](double value) {
      return b.Scalar(ComputeType(b.value(node.inputs[0]).type), value);
    };
    ValueId bell;
    if (by_tanh) {
      const ValueId cube = b.Op("mul", {b.Op("mul", {x, x}), x});
      const ValueId inner = b.Op("add", {x, b.Op("mul", {cube, number(0.044715)})});
      bell = b.Op("tanh", {b.Op("mul", {inner, number(0.79788456080286535588)})});
    } else {
      bell = b.Op("erf", {b.Op("mul", {x, number(0.70710678118654752440)})});
    }
    return b.Op("mul", {b.Op("mul", {x, number(0.5)}), b.Op("add", {bell, number(1)})});
  });
}

absl::Status InferGelu(InferContext& c) {
  const std::string form = StringAttr(c.node(), "approximate");
  if (form != "none" && form != "tanh") {
    return absl::InvalidArgumentError("attribute \"approximate\" is neither \"none\" nor \"tanh\"");
  }
  return InferFloat(c);
}

// ---- pooling over everything
absl::Status InferGlobalPool(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireType(c, 0, IsFloat, "a float type"));
  KILN_RETURN_IF_ERROR(RequireRankAtLeast(c, 0, 2));
  Shape shape(c.shape(0).size(), 1);
  shape[0] = c.shape(0)[0];
  shape[1] = c.shape(0)[1];
  c.SetOutput(0, c.type(0), std::move(shape));
  return absl::OkStatus();
}

Values GlobalPool(GraphBuilder& b, const Node& node, const char* op) {
  return InComputeType(b, node, [&](const std::vector<ValueId>& in) {
    const std::vector<int64_t> axes = AxesFrom(2, Rank(b, in[0]));
    return axes.empty() ? b.Op("identity", {in[0]}) : Reduce(b, op, in[0], axes);
  });
}

Values GlobalAverage(GraphBuilder& b, const Node& node) {
  return GlobalPool(b, node, "reduce_mean");
}
Values GlobalMax(GraphBuilder& b, const Node& node) { return GlobalPool(b, node, "reduce_max"); }

constexpr AttrSpec kAxisAttrs[] = {
    {"axis", AttrKind::kInt, false, -1, nullptr, "the axis over which the results sum to 1"}};
constexpr AttrSpec kLayerNormAttrs[] = {
    {"axis", AttrKind::kInt, false, -1, nullptr,
     "the first of the axes that are normalised together"},
    {"epsilon", AttrKind::kFloat, false, 1e-5, nullptr, "added to the variance"}};
constexpr AttrSpec kEpsilonAttrs[] = {
    {"epsilon", AttrKind::kFloat, false, 1e-5, nullptr, "added to the variance"}};
constexpr AttrSpec kGeluAttrs[] = {
    {"approximate", AttrKind::kString, false, 0, "none", "\"none\": by erf; \"tanh\": by tanh"}};

constexpr OpDef kNormalizeOps[] = {
    {.name = "softmax",
     .doc = "exp(x - max) * (1 / sum(exp(x - max))) over an axis.",
     .kind = OpKind::kComposite,
     .attrs = kAxisAttrs,
     .infer = InferSoftmax,
     .decompose = Softmax,
     .onnx = {{"Softmax", 13}},
     .witness = "onnx node tests: softmax",
     .gradient = {.rule = gradient::Softmax}},
    {.name = "log_softmax",
     .doc = "x - max - log(sum(exp(x - max))) over an axis.",
     .kind = OpKind::kComposite,
     .attrs = kAxisAttrs,
     .infer = InferSoftmax,
     .decompose = LogSoftmax,
     .onnx = {{"LogSoftmax", 13}},
     .witness = "onnx node tests: logsoftmax",
     .gradient = {.rule = gradient::LogSoftmax}},
    {.name = "layer_norm",
     .doc = "(x - mean) / sqrt(variance + epsilon) * scale + bias over the last axes.",
     .kind = OpKind::kComposite,
     .min_inputs = 1,
     .max_inputs = 3,
     .attrs = kLayerNormAttrs,
     .infer = InferLayerNorm,
     .decompose = LayerNorm,
     .onnx = {{"LayerNormalization", 17}},
     .witness = "onnx node tests: layer_normalization"},
    {.name = "batch_norm",
     .doc = "(x - mean) * (scale / sqrt(variance + epsilon)) + bias; inputs x, "
            "scale, bias, mean, variance.",
     .kind = OpKind::kComposite,
     .min_inputs = 5,
     .max_inputs = 5,
     .attrs = kEpsilonAttrs,
     .infer = InferOverChannels,
     .decompose = BatchNorm,
     .onnx = {{"BatchNormalization"}},
     .test = {0.5, 2},
     .witness = "onnx node tests: batchnorm"},
    {.name = "instance_norm",
     .doc = "Normalises every channel of every sample; inputs x, scale, bias.",
     .kind = OpKind::kComposite,
     .min_inputs = 3,
     .max_inputs = 3,
     .attrs = kEpsilonAttrs,
     .infer = InferOverChannels,
     .decompose = InstanceNorm,
     .onnx = {{"InstanceNormalization"}},
     .witness = "onnx node tests: instancenorm",
     .gradient = {.rule = gradient::InstanceNorm}},
    {.name = "gelu",
     .doc = "x * (1 + erf(x / sqrt(2))) / 2, or the form by tanh.",
     .kind = OpKind::kComposite,
     .attrs = kGeluAttrs,
     .infer = InferGelu,
     .decompose = Gelu,
     .onnx = {{"Gelu", 20}},
     .witness = "onnx node tests: gelu"},
    {.name = "global_average_pool",
     .doc = "The mean over all axes but the first two.",
     .kind = OpKind::kComposite,
     .infer = InferGlobalPool,
     .decompose = GlobalAverage,
     .onnx = {{"GlobalAveragePool"}},
     .witness = "onnx node tests: globalaveragepool"},
    {.name = "global_max_pool",
     .doc = "The maximum over all axes but the first two.",
     .kind = OpKind::kComposite,
     .infer = InferGlobalPool,
     .decompose = GlobalMax,
     .onnx = {{"GlobalMaxPool"}},
     .witness = "onnx node tests: globalmaxpool",
     .gradient = {.note = "a tie: equal parts"}},
};

}  // namespace

std::span<const OpDef> NormalizeOps() { return kNormalizeOps; }

}  // namespace kiln::ops
