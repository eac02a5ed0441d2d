// SPDX-License-Identifier: Apache-2.0
// Activations: formulas of one float, written with the primitives and functions of ScalarExpr.
#include "graph/gradient/rules.h"
#include "graph/infer.h"
#include "graph/ops/ops.h"

namespace kiln::ops {
namespace {

Ex Attr(ScalarBody& b, const char* name) { return b.in(0).Like(FloatAttr(b.node(), name)); }
// exp(x) - 1 where x <= 0, kept from overflow where x > 0 and the other branch is taken.
Ex ExpMinusOne(Ex x) { return Apply(ScalarOp::kExpm1, Apply(ScalarOp::kMin, x, x.Like(0))); }

Ex Relu(ScalarBody& b) { return Apply(ScalarOp::kMax, b.in(0), b.in(0).Like(0)); }
Ex Sigmoid(ScalarBody& b) { return Apply(ScalarOp::kSigmoid, b.in(0)); }
Ex Softplus(ScalarBody& b) { return Apply(ScalarOp::kSoftplus, b.in(0)); }

Ex LeakyRelu(ScalarBody& b) {
  const Ex x = b.in(0);
  return Select(x < x.Like(0), x * Attr(b, "alpha"), x);
}

Ex Prelu(ScalarBody& b) {
  const Ex x = b.in(0);
  return Select(x < x.Like(0), x * b.in(1), x);
}

Ex Elu(ScalarBody& b) {
  const Ex x = b.in(0);
  return Select(x > x.Like(0), x, ExpMinusOne(x) * Attr(b, "alpha"));
}

Ex Selu(ScalarBody& b) {
  const Ex x = b.in(0);
  return Select(x > x.Like(0), x, ExpMinusOne(x) * Attr(b, "alpha")) * Attr(b, "gamma");
}

// max(0, x) + min(0, alpha * (exp(x / alpha) - 1))
Ex Celu(ScalarBody& b) {
  const Ex x = b.in(0);
  const Ex alpha = Attr(b, "alpha");
  const Ex low = alpha * Apply(ScalarOp::kExpm1, x / alpha);
  return Apply(ScalarOp::kMax, x, x.Like(0)) + Apply(ScalarOp::kMin, low, x.Like(0));
}

Ex ClampToUnit(Ex x) {
  return Apply(ScalarOp::kMin, Apply(ScalarOp::kMax, x, x.Like(0)), x.Like(1));
}

Ex HardSigmoid(ScalarBody& b) { return ClampToUnit(b.in(0) * Attr(b, "alpha") + Attr(b, "beta")); }

Ex HardSwish(ScalarBody& b) {
  const Ex x = b.in(0);
  return x * ClampToUnit(x * x.Like(1.0F / 6) + x.Like(0.5));
}

Ex Softsign(ScalarBody& b) {
  const Ex x = b.in(0);
  return x / (x.Like(1) + Apply(ScalarOp::kAbs, x));
}

Ex Swish(ScalarBody& b) {
  const Ex x = b.in(0);
  return x * Apply(ScalarOp::kSigmoid, x * Attr(b, "alpha"));
}

Ex Mish(ScalarBody& b) {
  const Ex x = b.in(0);
  return x * Apply(ScalarOp::kTanh, Apply(ScalarOp::kSoftplus, x));
}

Ex ThresholdedRelu(ScalarBody& b) {
  const Ex x = b.in(0);
  return Select(Attr(b, "alpha") < x, x, x.Like(0));  // a NaN is not above: 0, as ONNX defines it
}

constexpr AttrSpec kLeakyAttrs[] = {
    {"alpha", AttrKind::kFloat, false, 0.01, nullptr, "the slope below zero"}};
constexpr AttrSpec kEluAttrs[] = {
    {"alpha", AttrKind::kFloat, false, 1, nullptr, "minus the limit at -inf"}};
constexpr AttrSpec kSeluAttrs[] = {{"alpha", AttrKind::kFloat, false, 1.67326319217681884765625,
                                    nullptr, "minus the limit at -inf, before gamma"},
                                   {"gamma", AttrKind::kFloat, false, 1.05070102214813232421875,
                                    nullptr, "a factor of everything"}};
constexpr AttrSpec kHardSigmoidAttrs[] = {
    {"alpha", AttrKind::kFloat, false, 0.2, nullptr, "the slope"},
    {"beta", AttrKind::kFloat, false, 0.5, nullptr, "the value at zero"}};
constexpr AttrSpec kSwishAttrs[] = {
    {"alpha", AttrKind::kFloat, false, 1, nullptr, "factor inside the sigmoid"}};
constexpr AttrSpec kThresholdAttrs[] = {
    {"alpha", AttrKind::kFloat, false, 1, nullptr, "the threshold"}};

constexpr OpDef Activation(const char* name, const char* doc, Ex (*body)(ScalarBody&),
                           OnnxForm onnx, const char* witness, std::span<const AttrSpec> attrs = {},
                           GradientSlot gradient = {}) {
  return {.name = name,
          .doc = doc,
          .kind = OpKind::kScalar,
          .attrs = attrs,
          .infer = InferFloat,
          .scalar = body,
          .onnx = {onnx},
          .test = {-4, 4},
          .witness = witness,
          .gradient = gradient};
}

constexpr OpDef kActivationOps[] = {
    {.name = "relu",
     .doc = "max(x, 0); NaN stays NaN.",
     .kind = OpKind::kScalar,
     .infer = InferNumber,
     .scalar = Relu,
     .onnx = {{"Relu"}},
     .test = {-4, 4},
     .witness = "onnx node tests: relu",
     .gradient = {.rule = gradient::Relu, .note = "0 at 0"}},
    Activation("sigmoid", "1 / (1 + exp(-x)).", Sigmoid, {"Sigmoid"}, "onnx node tests: sigmoid"),
    Activation("leaky_relu", "x, or alpha * x below zero.", LeakyRelu, {"LeakyRelu"},
               "onnx node tests: leakyrelu", kLeakyAttrs,
               {.rule = gradient::LeakyRelu, .note = "alpha at 0"}),
    Activation("elu", "x, or alpha * (exp(x) - 1) up to zero.", Elu, {"Elu"},
               "onnx node tests: elu", kEluAttrs, {.rule = gradient::Elu, .note = "alpha at 0"}),
    Activation("selu", "gamma * elu(x).", Selu, {"Selu"}, "onnx node tests: selu", kSeluAttrs,
               {.rule = gradient::Elu, .note = "alpha * gamma at 0"}),
    Activation("celu", "max(0, x) + min(0, alpha * (exp(x / alpha) - 1)).", Celu, {"Celu", 12},
               "onnx node tests: celu", kEluAttrs, {.rule = gradient::Elu}),
    Activation("hard_sigmoid", "alpha * x + beta, kept within [0, 1].", HardSigmoid,
               {"HardSigmoid"}, "onnx node tests: hardsigmoid", kHardSigmoidAttrs,
               {.note = "0 at the bounds"}),
    Activation("hard_swish", "x * hard_sigmoid(x) with alpha 1/6 and beta 1/2.", HardSwish,
               {"HardSwish", 14}, "onnx node tests: hardswish", {}, {.note = "at -3 0, at 3 1"}),
    Activation("softplus", "log(1 + exp(x)).", Softplus, {"Softplus"}, "onnx node tests: softplus"),
    Activation("softsign", "x / (1 + |x|).", Softsign, {"Softsign"}, "onnx node tests: softsign"),
    Activation("swish", "x * sigmoid(alpha * x).", Swish, {"Swish", 24}, "onnx node tests: swish",
               kSwishAttrs),
    Activation("mish", "x * tanh(softplus(x)).", Mish, {"Mish", 18}, "onnx node tests: mish"),
    {.name = "prelu",
     .doc = "x, or slope * x below zero.",
     .kind = OpKind::kScalar,
     .min_inputs = 2,
     .max_inputs = 2,
     .infer = InferNumber,
     .scalar = Prelu,
     .onnx = {{"PRelu", 7}},
     .test = {-4, 4},
     .witness = "onnx node tests: prelu",
     .gradient = {.rule = gradient::Prelu, .note = "at 0 the slope; of the slope 0"}},
    Activation("thresholded_relu", "x above alpha, else 0.", ThresholdedRelu,
               {"ThresholdedRelu", 10}, "onnx node tests: thresholdedrelu", kThresholdAttrs,
               {.note = "0 at alpha"}),
};

}  // namespace

std::span<const OpDef> ActivationOps() { return kActivationOps; }

}  // namespace kiln::ops
