// SPDX-License-Identifier: Apache-2.0
// Operators that work element by element: arithmetic, comparison, activation, type conversion.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kiln/base/status_macros.h"
#include "kiln/graph/onnx/converter.h"
#include "kiln/graph/onnx/node_view.h"
#include "kiln/graph/op.h"

namespace kiln::onnx {
namespace {

// The record means the same as the operator, inputs in the same order, no attributes.
absl::Status Same(NodeView& n) {
  if (const OpDef* def = FindOp(n.record())) KILN_RETURN_IF_ERROR(n.Need(def->min_inputs, def->max_inputs));
  return n.Emit(n.record(), n.inputs());
}

// A chain of a two-input op over any number of inputs.
absl::Status Fold(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, n.num_inputs()));
  if (n.num_inputs() == 1) return n.Emit("identity", {n.in(0)});
  ValueId sum = n.in(0);
  for (int k = 1; k + 1 < n.num_inputs(); ++k) sum = n.Op(n.record(), {sum, n.in(k)});
  return n.Emit(n.record(), {sum, n.in(n.num_inputs() - 1)});
}

absl::Status Mean(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, n.num_inputs()));
  ValueId sum = n.in(0);
  for (int k = 1; k < n.num_inputs(); ++k) sum = n.Op("add", {sum, n.in(k)});
  return n.Emit("div", {sum, n.Scalar(n.value(0).type, n.num_inputs())});
}

// The result has the type of the base; the exponent may have another.
absl::Status Pow(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 2));
  const DType base = n.value(0).type;
  const DType exponent = n.value(1).type;
  if (base == exponent) return n.Emit("pow", n.inputs());
  if (IsFloat(exponent) && !IsFloat(base)) {
    const ValueId wide = n.Op("cast", {n.in(0)}, {{"to", exponent}});
    return n.Emit("cast", {n.Op("pow", {wide, n.in(1)})}, {{"to", base}});
  }
  return n.Emit("pow", {n.in(0), n.Op("cast", {n.in(1)}, {{"to", base}})});
}

absl::Status ClipByInputs(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 3));
  if (n.has(1) && n.has(2)) return n.Emit("clip", n.inputs());
  if (n.has(1)) return n.Emit("max", {n.in(0), n.in(1)});
  if (n.has(2)) return n.Emit("min", {n.in(0), n.in(2)});
  return n.Emit("identity", {n.in(0)});
}

absl::Status ClipByAttributes(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  const double most = std::numeric_limits<float>::max();
  const ValueId low = n.Scalar(n.value(0).type, n.Float("min", -most));
  const ValueId high = n.Scalar(n.value(0).type, n.Float("max", most));
  return n.Emit("clip", {n.in(0), low, high});
}

absl::Status Cast(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  n.Ignore("saturate");    // only of casts to 8-bit floats
  n.Ignore("round_mode");  // the same
  KILN_ASSIGN_OR_RETURN(const DType to, ToDType(static_cast<int32_t>(n.Int("to", 0))));
  return n.Emit("cast", {n.in(0)}, {{"to", to}});
}

absl::Status CastLike(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 2));
  n.Ignore("saturate");
  n.Ignore("round_mode");
  return n.Emit("cast", {n.in(0)}, {{"to", n.value(1).type}});
}

absl::Status LeakyRelu(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  return n.Emit("leaky_relu", {n.in(0)}, {{"alpha", n.Float("alpha", 0.01)}});
}

absl::Status Elu(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  return n.Emit("elu", {n.in(0)}, {{"alpha", n.Float("alpha", 1)}});
}

absl::Status HardSigmoid(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  return n.Emit("hard_sigmoid", {n.in(0)}, {{"alpha", n.Float("alpha", 0.2)}, {"beta", n.Float("beta", 0.5)}});
}

// max(0, x) + min(0, alpha * (exp(x / alpha) - 1))
absl::Status Celu(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  const DType type = n.value(0).type;
  const ValueId alpha = n.Scalar(type, n.Float("alpha", 1));
  const ValueId rise = n.Op("sub", {n.Op("exp", {n.Op("div", {n.in(0), alpha})}), n.Scalar(type, 1)});
  const ValueId below = n.Op("min", {n.Scalar(type, 0), n.Op("mul", {alpha, rise})});
  return n.Emit("add", {n.Op("relu", {n.in(0)}), below});
}

absl::Status Selu(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  const double alpha = n.Float("alpha", 1.67326319217681884765625);
  const ValueId gamma = n.Scalar(n.value(0).type, n.Float("gamma", 1.05070102214813232421875));
  return n.Emit("mul", {n.Op("elu", {n.in(0)}, {{"alpha", alpha}}), gamma});
}

absl::Status ThresholdedRelu(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  const DType type = n.value(0).type;
  const ValueId above = n.Op("greater", {n.in(0), n.Scalar(type, n.Float("alpha", 1))});
  return n.Emit("where", {above, n.in(0), n.Scalar(type, 0)});
}

absl::Status PRelu(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 2));
  const ValueId negative = n.Op("less", {n.in(0), n.Scalar(n.value(0).type, 0)});
  return n.Emit("where", {negative, n.Op("mul", {n.in(0), n.in(1)}), n.in(0)});
}

// x + bias below -lambd, x - bias above lambd, 0 between.
absl::Status Shrink(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  const DType type = n.value(0).type;
  const double lambd = n.Float("lambd", 0.5);
  const ValueId bias = n.Scalar(type, n.Float("bias", 0));
  const ValueId low = n.Op("less", {n.in(0), n.Scalar(type, -lambd)});
  const ValueId high = n.Op("greater", {n.in(0), n.Scalar(type, lambd)});
  const ValueId right = n.Op("where", {high, n.Op("sub", {n.in(0), bias}), n.Scalar(type, 0)});
  return n.Emit("where", {low, n.Op("add", {n.in(0), bias}), right});
}

absl::Status Softsign(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  return n.Emit("div", {n.in(0), n.Op("add", {n.Op("abs", {n.in(0)}), n.Scalar(n.value(0).type, 1)})});
}

absl::Status Mish(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  return n.Emit("mul", {n.in(0), n.Op("tanh", {n.Op("softplus", {n.in(0)})})});
}

absl::Status Swish(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  const ValueId scaled = n.Op("mul", {n.in(0), n.Scalar(n.value(0).type, n.Float("alpha", 1))});
  return n.Emit("mul", {n.in(0), n.Op("sigmoid", {scaled})});
}

absl::Status Tan(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  return n.Emit("div", {n.Op("sin", {n.in(0)}), n.Op("cos", {n.in(0)})});
}

absl::Status IsInf(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  const bool negative = n.Int("detect_negative", 1) != 0;
  const bool positive = n.Int("detect_positive", 1) != 0;
  const ValueId inf = n.Scalar(n.value(0).type, std::numeric_limits<double>::infinity());
  if (negative && positive) return n.Emit("equal", {n.Op("abs", {n.in(0)}), inf});
  if (positive) return n.Emit("equal", {n.in(0), inf});
  if (negative) return n.Emit("equal", {n.Op("neg", {n.in(0)}), inf});
  return n.Emit("less", {inf, n.Op("abs", {n.in(0)})});  // false for every element
}

absl::Status Gelu(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  const std::string approximate = n.Text("approximate", "none");
  if (approximate != "none" && approximate != "tanh") {
    return absl::InvalidArgumentError(absl::StrCat("attribute approximate is \"", approximate, "\", expected none or tanh"));
  }
  return n.Emit("gelu", {n.in(0)}, {{"approximate", approximate}});
}

// At inference the data pass unchanged and the mask is all true.
absl::Status Dropout(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 3));
  n.Ignore("ratio");
  n.Ignore("seed");
  if (n.has(2)) {
    KILN_ASSIGN_OR_RETURN(const std::vector<double> training, n.ConstFloats(2, "training_mode"));
    if (training.size() != 1 || training[0] != 0) return absl::UnimplementedError("training mode is not supported");
  }
  if (n.wants(1)) {
    const ValueId mask = n.Op("expand", {n.Scalar(DType::kBool, 1), n.Op("shape", {n.in(0)})});
    KILN_RETURN_IF_ERROR(n.Give(1, mask));
  }
  return n.Give(0, n.Op("identity", {n.in(0)}));
}

constexpr Converter kRows[] = {
    {"Abs", 7, Same, "abs"},
    {"Add", 7, Same, "add"},
    {"And", 7, Same, "and"},
    {"Cast", 7, Cast},
    {"CastLike", 15, CastLike},
    {"Ceil", 7, Same, "ceil"},
    {"Celu", 12, Celu},
    {"Clip", 7, ClipByAttributes},
    {"Clip", 11, ClipByInputs},
    {"Cos", 7, Same, "cos"},
    {"Div", 7, Same, "div"},
    {"Dropout", 7, Dropout},
    {"Elu", 7, Elu},
    {"Equal", 7, Same, "equal"},
    {"Erf", 9, Same, "erf"},
    {"Exp", 7, Same, "exp"},
    {"Floor", 7, Same, "floor"},
    {"Gelu", 20, Gelu},
    {"Greater", 7, Same, "greater"},
    {"GreaterOrEqual", 12, Same, "greater_equal"},
    {"HardSigmoid", 7, HardSigmoid},
    {"HardSwish", 14, Same, "hard_swish"},
    {"Identity", 7, Same, "identity"},
    {"IsInf", 10, IsInf},
    {"IsNaN", 9, Same, "is_nan"},
    {"LeakyRelu", 7, LeakyRelu},
    {"Less", 7, Same, "less"},
    {"LessOrEqual", 12, Same, "less_equal"},
    {"Log", 7, Same, "log"},
    {"Max", 7, Fold, "max"},
    {"Mean", 7, Mean},
    {"Min", 7, Fold, "min"},
    {"Mish", 18, Mish},
    {"Mul", 7, Same, "mul"},
    {"Neg", 7, Same, "neg"},
    {"Not", 7, Same, "not"},
    {"Or", 7, Same, "or"},
    {"PRelu", 7, PRelu},
    {"Pow", 7, Pow},
    {"Reciprocal", 7, Same, "reciprocal"},
    {"Relu", 7, Same, "relu"},
    {"Round", 11, Same, "round"},
    {"Selu", 7, Selu},
    {"Shrink", 9, Shrink},
    {"Sigmoid", 7, Same, "sigmoid"},
    {"Sign", 9, Same, "sign"},
    {"Sin", 7, Same, "sin"},
    {"Softplus", 7, Same, "softplus"},
    {"Softsign", 7, Softsign},
    {"Sqrt", 7, Same, "sqrt"},
    {"Sub", 7, Same, "sub"},
    {"Sum", 7, Fold, "add"},
    {"Swish", 24, Swish},
    {"Tan", 7, Tan},
    {"Tanh", 7, Same, "tanh"},
    {"ThresholdedRelu", 10, ThresholdedRelu},
    {"Where", 9, Same, "where"},
    {"Xor", 7, Same, "xor"},
};

}  // namespace

std::span<const Converter> ElementwiseConverters() { return kRows; }

}  // namespace kiln::onnx
