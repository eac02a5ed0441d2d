// SPDX-License-Identifier: Apache-2.0
// Operators that work element by element: arithmetic, comparison, activation, type conversion.
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

// The record means the same as the operator: inputs in the same order, attributes of the same names and defaults.
absl::Status Same(NodeView& n) {
  const OpDef* def = FindOp(n.record());
  if (def == nullptr) return n.Emit(n.record(), n.inputs());
  KILN_RETURN_IF_ERROR(n.Need(def->min_inputs, def->max_inputs));
  Attrs attrs;
  for (const AttrSpec& spec : def->attrs) {
    if (!n.HasAttr(spec.name)) continue;
    switch (spec.kind) {
      case AttrKind::kInt: attrs[spec.name] = n.Int(spec.name, 0); break;
      case AttrKind::kFloat: attrs[spec.name] = n.Float(spec.name, 0); break;
      case AttrKind::kString: attrs[spec.name] = n.Text(spec.name, ""); break;
      default: break;  // stays unread, so that the node is refused
    }
  }
  return n.Emit(n.record(), n.inputs(), std::move(attrs));
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
  return n.Emit("identity", {n.in(0)});
}

constexpr Converter kRows[] = {
    {"Abs", 7, Same, "abs"},
    {"Acos", 7, Same, "acos"},
    {"Acosh", 9, Same, "acosh"},
    {"Add", 7, Same, "add"},
    {"And", 7, Same, "and"},
    {"Asin", 7, Same, "asin"},
    {"Asinh", 9, Same, "asinh"},
    {"Atan", 7, Same, "atan"},
    {"Atanh", 9, Same, "atanh"},
    {"BitwiseAnd", 18, Same, "and"},
    {"BitwiseNot", 18, Same, "not"},
    {"BitwiseOr", 18, Same, "or"},
    {"BitwiseXor", 18, Same, "xor"},
    {"Cast", 7, Cast},
    {"CastLike", 15, CastLike},
    {"Ceil", 7, Same, "ceil"},
    {"Celu", 12, Same, "celu"},
    {"Clip", 7, ClipByAttributes},
    {"Clip", 11, Same, "clip"},
    {"Cos", 7, Same, "cos"},
    {"Cosh", 9, Same, "cosh"},
    {"Div", 7, Same, "div"},
    {"Dropout", 7, Dropout},
    {"Elu", 7, Same, "elu"},
    {"Equal", 7, Same, "equal"},
    {"Erf", 9, Same, "erf"},
    {"Exp", 7, Same, "exp"},
    {"Floor", 7, Same, "floor"},
    {"Gelu", 20, Gelu},
    {"Greater", 7, Same, "greater"},
    {"GreaterOrEqual", 12, Same, "greater_equal"},
    {"HardSigmoid", 7, Same, "hard_sigmoid"},
    {"HardSwish", 14, Same, "hard_swish"},
    {"Identity", 7, Same, "identity"},
    {"IsInf", 10, Same, "is_inf"},
    {"IsNaN", 9, Same, "is_nan"},
    {"LeakyRelu", 7, Same, "leaky_relu"},
    {"Less", 7, Same, "less"},
    {"LessOrEqual", 12, Same, "less_equal"},
    {"Log", 7, Same, "log"},
    {"Max", 7, Fold, "max"},
    {"Mean", 7, Mean},
    {"Min", 7, Fold, "min"},
    {"Mish", 18, Same, "mish"},
    {"Mod", 10, Same, "mod"},
    {"Mul", 7, Same, "mul"},
    {"Neg", 7, Same, "neg"},
    {"Not", 7, Same, "not"},
    {"Or", 7, Same, "or"},
    {"PRelu", 7, Same, "prelu"},
    {"Pow", 7, Same, "pow"},
    {"Reciprocal", 7, Same, "reciprocal"},
    {"Relu", 7, Same, "relu"},
    {"Round", 11, Same, "round"},
    {"Selu", 7, Same, "selu"},
    {"Shrink", 9, Shrink},
    {"Sigmoid", 7, Same, "sigmoid"},
    {"Sign", 9, Same, "sign"},
    {"Sin", 7, Same, "sin"},
    {"Sinh", 9, Same, "sinh"},
    {"Softplus", 7, Same, "softplus"},
    {"Softsign", 7, Same, "softsign"},
    {"Sqrt", 7, Same, "sqrt"},
    {"Sub", 7, Same, "sub"},
    {"Sum", 7, Fold, "add"},
    {"Swish", 24, Same, "swish"},
    {"Tan", 7, Same, "tan"},
    {"Tanh", 7, Same, "tanh"},
    {"ThresholdedRelu", 10, Same, "thresholded_relu"},
    {"Where", 9, Same, "where"},
    {"Xor", 7, Same, "xor"},
};

}  // namespace

std::span<const Converter> ElementwiseConverters() { return kRows; }

}  // namespace kiln::onnx
