// SPDX-License-Identifier: Apache-2.0
// Operators that work element by element and are more than one record: arithmetic, comparison,
// activation, type conversion.
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/onnx/compose.h"
#include "graph/onnx/converter.h"
#include "graph/onnx/node_view.h"

namespace kiln::onnx {
namespace {

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

// Before operator set 7 operands had one shape, or attribute broadcast laid the second one over the
// axes of the first from `axis` on (absent: over the last ones).
absl::Status OldBinary(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 2));
  const bool broadcast = n.Int("broadcast", 0) != 0;
  const int64_t gap = n.rank(0) - n.rank(1);
  const int64_t axis = n.Int("axis", gap);
  if (!broadcast || axis == gap) return n.Emit(n.record(), n.inputs());
  if (axis < 0 || axis > gap)
    return absl::InvalidArgumentError(absl::StrCat("axis ", axis, " does not fit the operands"));
  std::vector<int64_t> axes;
  for (int64_t k = axis; k < gap; ++k) axes.push_back(n.rank(1) + k - axis);
  return n.Emit(n.record(), {n.in(0), n.Op("unsqueeze", {n.in(1)}, {{"axes", axes}})});
}

// Before operator set 7 a slope per channel had no axes behind its own.
absl::Status OldPRelu(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 2));
  std::vector<int64_t> axes;
  for (int64_t axis = 1; n.rank(1) == 1 && axis < n.rank(0) - 1; ++axis) axes.push_back(axis);
  return n.Emit("prelu", {n.in(0), n.Op("unsqueeze", {n.in(1)}, {{"axes", axes}})});
}

absl::Status ClipByAttributes(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  const double most = std::numeric_limits<float>::max();
  const ValueId low = n.Scalar(n.value(0).type, n.Float("min", -most));
  const ValueId high = n.Scalar(n.value(0).type, n.Float("max", most));
  return n.Emit("clip", {n.in(0), low, high});
}

absl::Status ConvertCast(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  n.Ignore("saturate");    // only of casts to 8-bit floats
  n.Ignore("round_mode");  // the same
  KILN_ASSIGN_OR_RETURN(const DType to, ToDType(n.Int("to", 0)));
  return n.Emit("cast", {n.in(0)}, {{"to", to}});
}

absl::Status BitShift(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 2));
  const std::string direction = n.Text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT")
    return absl::InvalidArgumentError(
        absl::StrCat("direction is \"", direction, "\", expected LEFT or RIGHT"));
  return n.Emit(direction == "LEFT" ? "shift_left" : "shift_right", n.inputs());
}

absl::Status CastLike(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 2));
  n.Ignore("saturate");
  n.Ignore("round_mode");
  return n.Emit("cast", {n.in(0)}, {{"to", n.value(1).type}});
}

// x + bias below -lambd, x - bias above lambd, 0 between. Integers meet both as real numbers, and
// what is left of a fraction is cut off.
absl::Status Shrink(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  const DType stored = n.value(0).type;
  const DType type = IsFloat(stored) ? stored : DType::kF64;
  const ValueId x = onnx::Cast(n, n.in(0), type);
  const double lambd = n.Float("lambd", 0.5);
  const ValueId bias = n.Scalar(type, n.Float("bias", 0));
  const ValueId low = n.Op("less", {x, n.Scalar(type, -lambd)});
  const ValueId high = n.Op("greater", {x, n.Scalar(type, lambd)});
  const ValueId right = n.Op("where", {high, n.Op("sub", {x, bias}), n.Scalar(type, 0)});
  const ValueId left = n.Op("add", {x, bias});
  if (type == stored) return n.Emit("where", {low, left, right});
  return n.Emit("cast", {n.Op("where", {low, left, right})}, {{"to", stored}});
}

constexpr Converter kElementwiseRows[] = {
    {"Add", 6, OldBinary, "add"},
    {"And", 6, OldBinary, "and"},
    {"BitShift", 11, BitShift},
    {"Cast", 6, ConvertCast},
    {"CastLike", 15, CastLike},
    {"Clip", 6, ClipByAttributes},
    {"Div", 6, OldBinary, "div"},
    {"Equal", 6, OldBinary, "equal"},
    {"Greater", 6, OldBinary, "greater"},
    {"Less", 6, OldBinary, "less"},
    {"Max", 6, Fold, "max"},
    {"Mean", 6, Mean},
    {"Min", 6, Fold, "min"},
    {"Mul", 6, OldBinary, "mul"},
    {"Or", 6, OldBinary, "or"},
    {"PRelu", 6, OldPRelu},
    {"Pow", 6, OldBinary, "pow"},
    {"Shrink", 9, Shrink},
    {"Sub", 6, OldBinary, "sub"},
    {"Sum", 6, Fold, "add"},
    {"Xor", 6, OldBinary, "xor"},
};

}  // namespace

std::span<const Converter> ElementwiseConverters() { return kElementwiseRows; }

}  // namespace kiln::onnx
