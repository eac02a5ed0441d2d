// SPDX-License-Identifier: Apache-2.0
// Quantised tensors: x = (q - zero_point) * scale. Scale and zero point hold for the tensor, for
// each place of an axis, or for blocks along an axis. Products are made of whole numbers, exactly.
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/onnx/compose.h"
#include "graph/onnx/conv_attrs.h"
#include "graph/onnx/converter.h"
#include "graph/onnx/node_view.h"
#include "graph/op.h"

namespace kiln::onnx {
namespace {

struct Range {
  double low, high;
};

absl::StatusOr<Range> RangeOf(DType type) {
  switch (type) {
    case DType::kU8:
      return Range{0, 255};
    case DType::kI8:
      return Range{-128, 127};
    case DType::kU16:
      return Range{0, 65535};
    case DType::kI16:
      return Range{-32768, 32767};
    default:
      return absl::UnimplementedError(
          absl::StrCat("quantisation to ", Name(type), " is not supported"));
  }
}

// A scale or zero point, laid over the shape of x.
absl::StatusOr<ValueId> Over(NodeView& n, ValueId v, ValueId x, int64_t axis, int64_t block,
                             absl::string_view what) {
  const Shape shape = ShapeOf(n, v), whole = ShapeOf(n, x);
  const int64_t rank = RankOf(n, x);
  if (shape.empty()) return v;
  if (block == 0) {
    if (shape.size() == 1 && shape[0].IsConst(1)) return Reshape(n, v, {});
    KILN_ASSIGN_OR_RETURN(axis, n.Axis(axis, rank));
    KILN_RETURN_IF_ERROR(RequireShape(n, v, {whole[static_cast<size_t>(axis)]}, what));
    return OverAxis(n, v, axis, rank);
  }
  KILN_ASSIGN_OR_RETURN(axis, n.Axis(axis, rank));
  if (static_cast<int64_t>(shape.size()) != rank || block < 1)
    return absl::InvalidArgumentError("scales of blocks must have the rank of the input");
  Shape blocks = whole, wide = shape, joined = shape;
  Dim& count = blocks[static_cast<size_t>(axis)];
  count = (count + (block - 1)).FloorDiv(block);
  KILN_RETURN_IF_ERROR(RequireShape(n, v, blocks, what));
  wide.insert(wide.begin() + axis + 1, Dim(block));
  joined[static_cast<size_t>(axis)] = joined[static_cast<size_t>(axis)] * block;
  const ValueId repeated = Reshape(n, Expand(n, Unsqueeze(n, v, {axis + 1}), wide), joined);
  const Dim& extent = whole[static_cast<size_t>(axis)];
  if (extent == joined[static_cast<size_t>(axis)]) return repeated;
  return n.Op("slice", {repeated},
              {{"starts", Axes{0}}, {"ends", DimsValue({extent})}, {"axes", Axes{axis}}});
}

// The zero point, input 2, is one number or a vector as the scale, input 1, is.
absl::Status CheckZeroPoint(NodeView& n) {
  if (!n.has(2) || n.rank(1) > 1 || n.rank(2) > 1) return absl::OkStatus();
  if (n.rank(2) == 1)
    return RequireExtent(n, n.in(2), 0, n.rank(1) == 0 ? 1 : n.value(1).shape[0], "zero point");
  return n.rank(1) == 1 ? RequireExtent(n, n.in(1), 0, 1, "scale") : absl::OkStatus();
}

// A value in the precision of its type, where a tie depends on it: the interpreter keeps more.
ValueId Rounded(NodeView& n, ValueId x) { return n.Op("cast", {x}, {{"to", TypeOf(n, x)}}); }

// round(x) + zero, within the type: what is stored.
absl::StatusOr<ValueId> Stored(NodeView& n, ValueId x, ValueId zero, DType type) {
  KILN_ASSIGN_OR_RETURN(const Range range, RangeOf(type));
  const DType compute = TypeOf(n, x);
  ValueId whole = n.Op("round", {Rounded(n, x)});
  if (zero.valid()) whole = n.Op("add", {whole, Cast(n, zero, compute)});
  const ValueId kept =
      n.Op("clip", {whole, n.Scalar(compute, range.low), n.Scalar(compute, range.high)});
  return Cast(n, kept, type);
}

absl::StatusOr<DType> TypeAttrOr(NodeView& n, const char* name, DType otherwise) {
  const int64_t number = n.Int(name, 0);
  return number == 0 ? absl::StatusOr<DType>(otherwise) : ToDType(number);
}

absl::Status QuantizeLinear(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 3));
  n.Ignore("saturate");  // only of 8-bit floats
  const int64_t axis = n.Int("axis", 1), block = n.Int("block_size", 0);
  KILN_ASSIGN_OR_RETURN(DType type, TypeAttrOr(n, "output_dtype", DType::kU8));
  if (n.has(2)) type = n.value(2).type;
  KILN_ASSIGN_OR_RETURN(DType compute, TypeAttrOr(n, "precision", DType::kF32));
  if (n.value(0).type == DType::kF64) compute = DType::kF64;
  compute = ComputeType(compute);
  const ValueId x = Cast(n, n.in(0), compute);
  KILN_ASSIGN_OR_RETURN(ValueId scale, Over(n, n.in(1), x, axis, block, "scale"));
  KILN_RETURN_IF_ERROR(CheckZeroPoint(n));
  ValueId zero;
  if (n.has(2)) {
    KILN_ASSIGN_OR_RETURN(zero, Over(n, n.in(2), x, axis, block, "zero point"));
  }
  const ValueId scaled = n.Op("div", {x, Cast(n, scale, compute)});
  KILN_ASSIGN_OR_RETURN(const ValueId stored, Stored(n, scaled, zero, type));
  return n.Emit("identity", {stored});
}

absl::Status DequantizeLinear(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 3));
  const int64_t axis = n.Int("axis", 1), block = n.Int("block_size", 0);
  KILN_ASSIGN_OR_RETURN(const DType type, TypeAttrOr(n, "output_dtype", n.value(1).type));
  const DType compute = ComputeType(type);
  KILN_ASSIGN_OR_RETURN(const ValueId scale, Over(n, n.in(1), n.in(0), axis, block, "scale"));
  KILN_RETURN_IF_ERROR(CheckZeroPoint(n));
  ValueId x = Cast(n, n.in(0), DType::kI32);
  if (n.has(2)) {
    KILN_ASSIGN_OR_RETURN(const ValueId zero, Over(n, n.in(2), n.in(0), axis, block, "zero point"));
    x = n.Op("sub", {x, Cast(n, zero, DType::kI32)});
  }
  return n.Emit("cast", {n.Op("mul", {Cast(n, x, compute), Cast(n, scale, compute)})},
                {{"to", type}});
}

// The scale takes the range of x, with 0 in it, to 0 .. 255; of zeros alone it is 1.
absl::Status DynamicQuantizeLinear(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  const ValueId x = n.in(0);
  const DType type = n.value(0).type;
  const ValueId nothing = n.Scalar(type, 0);
  const Axes all = AxesFrom(0, n.rank(0));
  const ValueId high = n.Op("max", {Reduce(n, "reduce_max", x, all, false), nothing});
  const ValueId low = n.Op("min", {Reduce(n, "reduce_min", x, all, false), nothing});
  const ValueId range = n.Op("sub", {high, low});
  const ValueId some = n.Op("where", {n.Op("equal", {range, nothing}), n.Scalar(type, 255), range});
  const ValueId scale = Rounded(n, n.Op("div", {some, n.Scalar(type, 255)}));
  const ValueId offset = n.Op("div", {n.Op("sub", {nothing, low}), scale});
  KILN_ASSIGN_OR_RETURN(const ValueId zero, Stored(n, offset, {}, DType::kU8));
  KILN_ASSIGN_OR_RETURN(const ValueId y, Stored(n, n.Op("div", {x, scale}), zero, DType::kU8));
  KILN_RETURN_IF_ERROR(n.Give(1, scale));
  KILN_RETURN_IF_ERROR(n.Give(2, zero));
  return n.Emit("identity", {y});
}

// ---- products

// A scale or zero point of a matrix `x` by rows is a column.
ValueId ByRows(NodeView& n, ValueId v, ValueId x) {
  const Shape shape = ShapeOf(n, v);
  const bool rows = shape.size() == 1 && !shape[0].IsConst(1) && RankOf(n, x) > 1;
  return rows ? Unsqueeze(n, v, {1}) : v;
}

// Inputs of matmul_integer: a and b of the node, and their zero points, which are two further on.
absl::StatusOr<std::vector<ValueId>> Factors(NodeView& n, int a, int b) {
  std::vector<ValueId> inputs = {n.in(a), n.in(b), {}, {}};
  if (n.has(a + 2)) inputs[2] = ByRows(n, n.in(a + 2), n.in(a));
  if (n.has(b + 2)) inputs[3] = n.in(b + 2);
  for (const size_t k : {0, 1})
    KILN_RETURN_IF_ERROR(RequireWithin(n, inputs[k + 2], ShapeOf(n, inputs[k]), "zero point"));
  return inputs;
}

absl::Status MatMulInteger(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 4));
  KILN_ASSIGN_OR_RETURN(std::vector<ValueId> inputs, Factors(n, 0, 1));
  return n.Emit("matmul_integer", std::move(inputs));
}

absl::Status QLinearMatMul(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(8, 8));
  KILN_ASSIGN_OR_RETURN(std::vector<ValueId> inputs, Factors(n, 0, 3));
  const ValueId product = n.Op("matmul_integer", std::move(inputs));
  KILN_RETURN_IF_ERROR(n.status());
  const Shape whole = ShapeOf(n, product);
  const auto by_rows = [&](int k) { return ByRows(n, n.in(k), product); };
  const ValueId a = by_rows(1), scale = by_rows(6), zero = by_rows(7);
  KILN_RETURN_IF_ERROR(RequireWithin(n, a, whole, "scale of the first factor"));
  KILN_RETURN_IF_ERROR(RequireWithin(n, n.in(4), whole, "scale of the second factor"));
  KILN_RETURN_IF_ERROR(RequireWithin(n, scale, whole, "scale of the result"));
  KILN_RETURN_IF_ERROR(RequireWithin(n, zero, whole, "zero point of the result"));
  const auto real = [&](ValueId v) { return Cast(n, v, DType::kF32); };
  const ValueId scaled = n.Op(
      "div", {n.Op("mul", {n.Op("mul", {real(product), real(a)}), real(n.in(4))}), real(scale)});
  KILN_ASSIGN_OR_RETURN(const ValueId y, Stored(n, scaled, zero, n.value(7).type));
  return n.Emit("identity", {y});
}

// Input k, a vector of one element as a number.
ValueId OneOrChannels(NodeView& n, int k) {
  if (!n.has(k)) return {};
  const bool one = n.rank(k) == 1 && n.value(k).shape[0].IsConst(1);
  return one ? Reshape(n, n.in(k), {}) : n.in(k);
}

absl::Status CheckWeightZeros(NodeView& n, int zero, int weight) {
  if (!n.has(zero) || n.rank(zero) != 1 || n.value(zero).shape[0].IsConst(1))
    return absl::OkStatus();
  return RequireExtent(n, n.in(zero), 0, n.value(weight).shape[0], "zero point of the weight");
}

absl::Status ConvInteger(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 4));
  KILN_ASSIGN_OR_RETURN(Attrs attrs, ConvAttrs(n, 1));
  KILN_RETURN_IF_ERROR(CheckWeightZeros(n, 3, 1));
  const ValueId zero = n.has(2) && n.rank(2) == 1 ? Reshape(n, n.in(2), {}) : OneOrChannels(n, 2);
  return n.Emit("conv_integer", {n.in(0), n.in(1), zero, OneOrChannels(n, 3)}, std::move(attrs));
}

absl::Status QLinearConv(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(8, 9));
  KILN_ASSIGN_OR_RETURN(Attrs attrs, ConvAttrs(n, 3));
  const Dim channels = n.value(3).shape[0];
  if (n.has(8)) KILN_RETURN_IF_ERROR(RequireShape(n, n.in(8), {channels}, "bias"));
  KILN_RETURN_IF_ERROR(CheckWeightZeros(n, 5, 3));
  for (const int k : {1, 4, 6, 7}) {
    KILN_RETURN_IF_ERROR(RequireWithin(n, n.in(k), {channels}, absl::StrCat("input ", k)));
  }
  attrs["to"] = n.value(7).type;
  std::vector<ValueId> inputs;
  for (int k = 0; k < 8; ++k) inputs.push_back(k % 3 == 0 && k < 6 ? n.in(k) : OneOrChannels(n, k));
  if (n.rank(2) == 1) inputs[2] = Reshape(n, n.in(2), {});
  if (n.has(8)) inputs.push_back(n.in(8));
  return n.Emit("qlinear_conv", std::move(inputs), std::move(attrs));
}

constexpr Converter kQuantizedRows[] = {
    {"ConvInteger", 10, ConvInteger},
    {"DequantizeLinear", 10, DequantizeLinear},
    {"DynamicQuantizeLinear", 11, DynamicQuantizeLinear},
    {"MatMulInteger", 10, MatMulInteger},
    {"QLinearConv", 10, QLinearConv},
    {"QLinearMatMul", 10, QLinearMatMul},
    {"QuantizeLinear", 10, QuantizeLinear},
};

}  // namespace

std::span<const Converter> QuantizedConverters() { return kQuantizedRows; }

}  // namespace kiln::onnx
