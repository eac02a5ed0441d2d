// SPDX-License-Identifier: Apache-2.0
// One node as ONNX has it: by the form in its record (OnnxForm, graph/op.h), unless a function here
// writes more: other operators, operands made of attributes, calls that ONNX does not allow.
#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "graph/custom_op.h"
#include "graph/infer.h"
#include "graph/onnx/exporter.h"
#include "graph/op.h"
#include "graph/ops/window.h"
#include "graph/tensors.h"

namespace kiln::onnx {
namespace {

// A node that is being written, with short names for what it is made of.
struct Writer {
  ExportScope& scope;
  const Node& node;

  const Value& value(ValueId id) const { return scope.graph().value(id); }
  const Value& input(size_t k) const { return value(node.inputs[k]); }
  const Value& output(size_t k = 0) const { return value(node.outputs[k]); }
  bool has(size_t k) const { return k < node.inputs.size() && node.inputs[k].valid(); }
  std::string in(size_t k) const { return has(k) ? scope.NameOf(node.inputs[k]) : ""; }
  std::vector<std::string> ins() const {
    std::vector<std::string> names;
    for (size_t k = 0; k < node.inputs.size(); ++k) names.push_back(in(k));
    return names;
  }
  std::vector<std::string> outs() const {
    std::vector<std::string> names;
    for (const ValueId id : node.outputs) names.push_back(scope.NameOf(id));
    return names;
  }
  std::string Add(const std::string& op, const std::vector<std::string>& inputs,
                  const ExportAttrs& attrs = {}) {
    return scope.Add(op, inputs, attrs);
  }
  // The operator that gives the node's outputs.
  absl::Status Last(const std::string& op, const std::vector<std::string>& inputs,
                    const ExportAttrs& attrs = {}) {
    scope.Add(op, inputs, attrs, outs());
    return absl::OkStatus();
  }
  std::string Cast(const std::string& x, DType type) {
    return Add("Cast", {x}, {{"to", int64_t{ToOnnxType(type)}}});
  }
  // The cast that gives the node's output.
  absl::Status LastCast(const std::string& x) {
    return Last("Cast", {x}, {{"to", int64_t{ToOnnxType(output().type)}}});
  }
  std::string Index(size_t k) {  // input k as the integers that ONNX looks up by
    const DType type = input(k).type;
    return type == DType::kI64 || type == DType::kI32 ? in(k) : Cast(in(k), DType::kI64);
  }
  std::string Scalar(DType type, double value) {
    return scope.Constant(FilledTensor(type, {}, value), "kiln_scalar");
  }
  int64_t Int(const char* name) const { return IntAttr(node, name); }
};

// ---- integers that ONNX leaves out

bool IsUnsigned(DType type) { return IsInt(type) && !IsSigned(type); }
bool IsShort(DType type) { return IsInt(type) && SizeOf(type) < 4; }
bool Has16Bits(DType type) { return IsInt(type) && SizeOf(type) == 2; }
bool IsNoSignedWord(DType type) { return IsInt(type) && (IsShort(type) || !IsSigned(type)); }

// Operators that operator set kWrittenOpset has for all floats and not for these integers. The low
// bits of what they give depend on those of their operands alone, or both keep their order.
struct Lacking {
  const char* op;
  bool (*lacks)(DType);
};
constexpr Lacking kLacking[] = {{"CumSum", IsShort},          {"Gemm", IsShort},
                                {"MatMul", IsShort},          {"Neg", IsUnsigned},
                                {"PRelu", IsShort},           {"Pow", IsNoSignedWord},
                                {"ReduceL1", IsShort},        {"ReduceMax", Has16Bits},
                                {"ReduceMin", Has16Bits},     {"ReduceProd", IsShort},
                                {"ReduceSumSquare", IsShort}, {"ReduceSum", IsShort}};

bool Lacks(absl::string_view op, DType type) {
  for (const Lacking& row : kLacking) {
    if (op == row.op) return row.lacks(type);
  }
  return false;
}

// The operator that gives the node's output, where the first `elements` inputs have its type: of
// integers that ONNX has it not for in 64 bits.
absl::Status LastOf(Writer& w, const std::string& op, std::vector<std::string> inputs,
                    size_t elements, const ExportAttrs& attrs) {
  if (!Lacks(op, w.input(0).type)) return w.Last(op, inputs, attrs);
  for (size_t k = 0; k < elements; ++k) {
    if (!inputs[k].empty()) inputs[k] = w.Cast(inputs[k], DType::kI64);
  }
  return w.LastCast(w.Add(op, inputs, attrs));
}

// ---- several operators for one

// Floats of 16 bits are computed in f32, and rounded once.
DType WideType(const Writer& w) {
  const DType type = w.input(0).type;
  return IsFloat(type) && SizeOf(type) == 2 ? DType::kF32 : type;
}
std::string Wide(Writer& w, size_t k) {
  return WideType(w) == w.input(0).type ? w.in(k) : w.Cast(w.in(k), WideType(w));
}
absl::Status LastRounded(Writer& w, const std::string& op, const std::vector<std::string>& inputs) {
  if (WideType(w) == w.output().type) return w.Last(op, inputs);
  return w.LastCast(w.Add(op, inputs));
}

// ---- operators of the same meaning

// The form in which ONNX's operator set kWrittenOpset has the node; null if there is none.
const OnnxForm* FormOf(const Writer& w) {
  for (const OnnxForm& form : w.node.op->onnx) {
    if (form.op == nullptr || form.since > kWrittenOpset) continue;
    if (form.when == nullptr || form.when(w.input(0).type)) return &form;
  }
  return nullptr;
}

// A list of extents or axes is an operand; what ONNX finds out when it runs is not written.
absl::Status WriteDims(Writer& w, const AttrSpec& spec, std::vector<std::string>& inputs) {
  if (spec.input < 0) return absl::OkStatus();
  const auto at = static_cast<size_t>(spec.input);
  if (inputs.size() <= at) inputs.resize(at + 1);
  KILN_ASSIGN_OR_RETURN(inputs[at], w.scope.Extents(DimsAttr(w.node, spec.name)));
  return absl::OkStatus();
}

// An attribute that is absent is absent in ONNX too: defaults are the same.
absl::Status WriteForm(Writer& w, const OnnxForm& form) {
  std::vector<std::string> inputs = w.ins();
  ExportAttrs attrs;
  for (const AttrSpec& spec : w.node.op->attrs) {
    if (!HasAttr(w.node, spec.name)) continue;
    switch (spec.kind) {
      case AttrKind::kInt:
        attrs.emplace_back(OnnxName(spec), IntAttr(w.node, spec.name));
        break;
      case AttrKind::kFloat:
        attrs.emplace_back(OnnxName(spec), FloatAttr(w.node, spec.name));
        break;
      case AttrKind::kString:
        attrs.emplace_back(OnnxName(spec), StringAttr(w.node, spec.name));
        break;
      case AttrKind::kInts:
        attrs.emplace_back(OnnxName(spec), IntsAttr(w.node, spec.name));
        break;
      case AttrKind::kType:  // ONNX has it from an operand
        break;
      case AttrKind::kDims:
        KILN_RETURN_IF_ERROR(WriteDims(w, spec, inputs));
        break;
      default:
        return absl::UnimplementedError(
            absl::StrCat("attribute \"", spec.name, "\" has a kind that is not written"));
    }
  }
  return LastOf(w, form.op, inputs, w.node.inputs.size(), attrs);
}

// ---- element-wise

// A mark for Kiln alone.
absl::Status Identity(Writer& w) { return w.Last("Identity", {w.in(0)}); }
absl::Status Relu(Writer& w) {
  return IsUnsigned(w.input(0).type) ? Identity(w) : WriteForm(w, *FormOf(w));
}
// In 64 bits with a sign an exponent from 2^63 on is another one.
absl::Status Pow(Writer& w) {
  if (w.input(0).type == DType::kU64)
    return absl::UnimplementedError("ONNX has no power of u64; cast it to i64");
  return WriteForm(w, *FormOf(w));
}
absl::Status NotEqual(Writer& w) { return w.Last("Not", {w.Add("Equal", w.ins())}); }
absl::Status Rsqrt(Writer& w) {
  return LastRounded(w, "Reciprocal", {w.Add("Sqrt", {Wide(w, 0)})});
}

absl::Status Shift(Writer& w) {
  if (IsSigned(w.input(0).type))
    return absl::UnimplementedError("ONNX shifts unsigned integers only");
  const bool left = absl::string_view(w.node.op->name) == "shift_left";
  return w.Last("BitShift", w.ins(), {{"direction", std::string(left ? "LEFT" : "RIGHT")}});
}

absl::Status Mod(Writer& w) {
  const int64_t fmod = IsFloat(w.output().type) ? 1 : w.Int("fmod");
  if (fmod != 0 && w.Int("fmod") == 0) {  // ONNX has fmod only for floats: x - floor(x / y) * y
    const std::string x = Wide(w, 0), y = Wide(w, 1);
    const std::string whole = w.Add("Floor", {w.Add("Div", {x, y})});
    return LastRounded(w, "Sub", {x, w.Add("Mul", {whole, y})});
  }
  return w.Last("Mod", w.ins(), {{"fmod", fmod}});
}

absl::Status Cast(Writer& w) { return w.LastCast(w.in(0)); }

absl::Status Swish(Writer& w) {
  const double alpha = FloatAttr(w.node, "alpha");
  const std::string x = Wide(w, 0);
  const std::string scaled = alpha == 1 ? x : w.Add("Mul", {x, w.Scalar(WideType(w), alpha)});
  return LastRounded(w, "Mul", {x, w.Add("Sigmoid", {scaled})});
}

absl::Status Clip(Writer& w) {
  const auto is_scalar = [&](size_t k) { return !w.has(k) || w.input(k).shape.empty(); };
  if (is_scalar(1) && is_scalar(2)) return WriteForm(w, *FormOf(w));
  std::string x = w.in(0);
  if (w.has(1)) x = w.has(2) ? w.Add("Max", {x, w.in(1)}) : x;
  return w.has(2) ? w.Last("Min", {x, w.in(2)}) : w.Last("Max", {x, w.in(1)});
}

// ONNX's slope broadcasts to x only.
absl::Status Prelu(Writer& w) {
  if (w.output().shape == w.input(0).shape) return WriteForm(w, *FormOf(w));
  const std::string below = w.Add("Less", {w.in(0), w.Scalar(w.input(0).type, 0)});
  return w.Last("Where", {below, w.Add("Mul", w.ins()), w.in(0)});
}

// ---- reductions, running sums, order

absl::Status Reduce(Writer& w, const OnnxForm& form) {
  if (IsShort(w.input(0).type) && absl::string_view(form.op) == "ReduceMean") {
    return absl::UnimplementedError(absl::StrCat("ONNX has no mean of ", Name(w.input(0).type),
                                                 "; cast it to i32"));  // whose sum wraps elsewhere
  }
  const std::vector<int64_t> axes = IntsAttr(w.node, "axes");
  const std::string over = axes.empty() ? "" : w.scope.Ints(axes);
  const ExportAttrs attrs = {{"keepdims", w.Int("keepdims")}};
  const absl::string_view op = form.op;
  if (!Lacks(op, w.input(0).type) || (op != "ReduceMax" && op != "ReduceMin"))
    return LastOf(w, form.op, {w.in(0), over}, 1, attrs);
  // Over no elements: the limit of the type, and not that of 64 bits.
  const bool is_max = op == "ReduceMax";
  const DType type = w.output().type;
  const std::string limit =
      w.Scalar(DType::kI64, IsSigned(type) ? (is_max ? -32768 : 32767) : (is_max ? 0 : 65535));
  const std::string wide = w.Add(form.op, {w.Cast(w.in(0), DType::kI64), over}, attrs);
  return w.LastCast(w.Add(is_max ? "Max" : "Min", {wide, limit}));
}

absl::Status Cumulative(Writer& w) {
  if (w.Int("product") != 0)
    return absl::UnimplementedError("ONNX's operator set 20 has no running product");
  const std::string axis = w.Scalar(DType::kI64, static_cast<double>(w.Int("axis")));
  return LastOf(w, "CumSum", {w.in(0), axis}, 1,
                {{"exclusive", w.Int("exclusive")}, {"reverse", w.Int("reverse")}});
}

absl::Status TopK(Writer& w) {
  return w.Last("TopK", {w.in(0), w.scope.Ints({w.Int("k")})},
                {{"axis", w.Int("axis")}, {"largest", w.Int("largest")}});
}

constexpr const char* kReductions[] = {"none", "add", "mul", "max", "min"};

absl::Status ScatterElements(Writer& w) {
  return w.Last(
      "ScatterElements", {w.in(0), w.Index(1), w.in(2)},
      {{"axis", w.Int("axis")}, {"reduction", std::string(kReductions[w.Int("reduction")])}});
}

absl::Status ScatterNd(Writer& w) {
  return w.Last("ScatterND", {w.in(0), w.Cast(w.in(1), DType::kI64), w.in(2)},
                {{"reduction", std::string(kReductions[w.Int("reduction")])}});
}

absl::Status ScatterSum(Writer& w) {
  KILN_ASSIGN_OR_RETURN(const std::string shape, w.scope.Extents(w.output().shape));
  const Tensor zero = FilledTensor(w.output().type, {1}, 0);
  // ONNX refuses indices outside; ours are clamped.
  const Shape& all = w.output().shape;
  const auto depth = w.input(0).shape.back().constant().value_or(0);
  KILN_ASSIGN_OR_RETURN(const std::string extents,
                        w.scope.Extents(Shape(all.begin(), all.begin() + depth)));
  const std::string last = w.Add("Sub", {extents, w.scope.Ints({1})});
  const std::string low = w.Add("Max", {w.Cast(w.in(0), DType::kI64), w.Add("Neg", {extents})});
  return w.Last(
      "ScatterND",
      {w.Add("ConstantOfShape", {shape}, {{"value", zero}}), w.Add("Min", {low, last}), w.in(1)},
      {{"reduction", std::string("add")}});
}

// ---- windows

// ONNX's extents are numbers: those that are none are padding behind the least.
absl::Status ConvTranspose(Writer& w) {
  if (!HasAttr(w.node, "extents")) return WriteForm(w, *FormOf(w));
  const Shape &x = w.input(0).shape, &y = w.output().shape, &weight = w.input(1).shape;
  const std::optional<std::vector<int64_t>> kernel =
      kiln::Constant(Shape(weight.begin() + 2, weight.end()));
  KILN_ASSIGN_OR_RETURN(const ops::Window window, ops::WindowOf(w.node, *kernel));
  Shape pads(2 * y.size(), 0);
  for (size_t i = 0; i < window.rank(); ++i) {
    const int64_t span = window.dilation[i] * (window.kernel[i] - 1) + 1;
    pads[y.size() + i + 2] = y[i + 2] - ((x[i + 2] - 1) * window.stride[i] +
                                         (span - window.before[i] - window.after[i]));
  }
  std::vector<int64_t> own = window.before;
  own.insert(own.end(), window.after.begin(), window.after.end());
  const std::string least = w.Add("ConvTranspose", w.ins(),
                                  {{"strides", window.stride},
                                   {"dilations", window.dilation},
                                   {"pads", own},
                                   {"group", w.Int("group")}});
  KILN_ASSIGN_OR_RETURN(const std::string more, w.scope.Extents(pads));
  return w.Last("Pad", {least, more});
}

// ---- shapes

// A shape operand without arithmetic where it can be: an extent that stays at its place is 0, and
// one that does not is -1.
absl::StatusOr<std::string> NewShape(Writer& w, int64_t* allow_zero) {
  const Shape& from = w.input(0).shape;
  const Shape& to = w.output().shape;
  std::vector<int64_t> numbers;
  int open = 0;
  bool zero = false;
  for (size_t i = 0; i < to.size(); ++i) {
    const auto number = to[i].constant();
    zero = zero || number == 0;
    if (number) {
      numbers.push_back(*number);
    } else if (i < from.size() && from[i] == to[i]) {
      numbers.push_back(0);
    } else {
      numbers.push_back(-1);
      ++open;
    }
  }
  *allow_zero = 0;
  if (kiln::Constant(to)) {
    *allow_zero = 1;
    return w.scope.Ints(numbers);
  }
  if (open <= 1 && !zero) return w.scope.Ints(numbers);
  *allow_zero = 1;
  return w.scope.Extents(to);
}

absl::Status Reshape(Writer& w) {
  int64_t allow_zero = 0;
  KILN_ASSIGN_OR_RETURN(const std::string shape, NewShape(w, &allow_zero));
  return w.Last("Reshape", {w.in(0), shape}, {{"allowzero", allow_zero}});
}

absl::Status Axes(Writer& w) {
  if (!HasAttr(w.node, "axes")) return Reshape(w);
  const auto axes = kiln::Constant(DimsAttr(w.node, "axes"));
  if (!axes) return Reshape(w);
  const bool squeeze = absl::string_view(w.node.op->name) == "squeeze";
  return w.Last(squeeze ? "Squeeze" : "Unsqueeze", {w.in(0), w.scope.Ints(*axes)});
}

absl::Status Expand(Writer& w) {
  KILN_ASSIGN_OR_RETURN(const std::string shape, w.scope.Extents(w.output().shape));
  return w.Last("Expand", {w.in(0), shape});
}

absl::Status Split(Writer& w) {
  const auto rank = static_cast<int64_t>(w.input(0).shape.size());
  const int64_t axis = w.Int("axis");
  Shape parts;
  for (const ValueId id : w.node.outputs)
    parts.push_back(w.value(id).shape[static_cast<size_t>(axis < 0 ? axis + rank : axis)]);
  KILN_ASSIGN_OR_RETURN(const std::string split, w.scope.Extents(parts));
  return w.Last("Split", {w.in(0), split}, {{"axis", axis}});
}

absl::Status Pad(Writer& w) {
  KILN_ASSIGN_OR_RETURN(const std::string pads, w.scope.Extents(DimsAttr(w.node, "pads")));
  std::string axes;
  if (HasAttr(w.node, "axes")) {
    KILN_ASSIGN_OR_RETURN(axes, w.scope.Extents(DimsAttr(w.node, "axes")));
  }
  std::string fill = w.in(2);
  if (fill.empty()) fill = w.Scalar(w.input(0).type, FloatAttr(w.node, "value"));
  return w.Last("Pad", {w.in(0), pads, fill, axes}, {{"mode", StringAttr(w.node, "mode")}});
}

absl::Status ConstantOfShape(Writer& w) {
  KILN_ASSIGN_OR_RETURN(const std::string shape, w.scope.Extents(w.output().shape));
  Tensor one = FilledTensor(w.output().type, {1}, 0);
  if (const auto value = w.node.attrs.find("value"); value != w.node.attrs.end()) {
    const Tensor given = Dense(std::get<Tensor>(value->second));
    std::memcpy(one.data(), given.data(), SizeOf(given.dtype()));
  }
  return w.Last("ConstantOfShape", {shape}, {{"value", one}});
}

absl::Status Iota(Writer& w) {
  const Shape& shape = w.output().shape;
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t axis = w.Int("axis") < 0 ? w.Int("axis") + rank : w.Int("axis");
  KILN_ASSIGN_OR_RETURN(const std::string extent,
                        w.scope.Extents({shape[static_cast<size_t>(axis)]}));
  const std::string limit = w.Add("Squeeze", {extent});
  const std::vector<std::string> bounds = {w.Scalar(DType::kI64, 0), limit,
                                           w.Scalar(DType::kI64, 1)};
  if (rank == 1) return w.Last("Range", bounds);
  std::vector<int64_t> column(static_cast<size_t>(rank), 1);
  column[static_cast<size_t>(axis)] = -1;
  const std::string row = w.Add("Reshape", {w.Add("Range", bounds), w.scope.Ints(column)});
  KILN_ASSIGN_OR_RETURN(const std::string all, w.scope.Extents(shape));
  return w.Last("Expand", {row, all});
}

absl::Status Upsample(Writer& w) {
  const std::vector<int64_t> scales = IntsAttr(w.node, "scales");
  Tensor factors = FilledTensor(DType::kF32, {static_cast<int64_t>(scales.size())}, 1);
  for (size_t i = 0; i < scales.size(); ++i)
    WriteFloat(factors, static_cast<int64_t>(i), static_cast<double>(scales[i]));
  return w.Last("Resize", {w.in(0), "", w.scope.Constant(factors, "kiln_scales")},
                {{"mode", std::string("nearest")},
                 {"coordinate_transformation_mode", std::string("asymmetric")},
                 {"nearest_mode", std::string("floor")}});
}

// ---- looking up

absl::Status Gather(Writer& w) {
  return w.Last("Gather", {w.in(0), w.Index(1)}, {{"axis", w.Int("axis")}});
}
absl::Status GatherElements(Writer& w) {
  return w.Last("GatherElements", {w.in(0), w.Index(1)}, {{"axis", w.Int("axis")}});
}

absl::Status Take(Writer& w) {
  std::vector<std::string> columns;
  for (size_t k = 1; k < w.node.inputs.size(); ++k) {
    const std::string index = w.Cast(w.in(k), DType::kI64);
    columns.push_back(w.Add("Unsqueeze", {index, w.scope.Ints({-1})}));
  }
  const std::string rows = w.Add("Concat", columns, {{"axis", int64_t{-1}}});
  return w.Last("GatherND", {w.in(0), rows}, {{"batch_dims", w.Int("batch")}});
}

// A gather from all rows of the table, one behind the other.
absl::Status Lookup(Writer& w) {
  const std::optional<int64_t> rows = w.input(1).shape[0].constant();
  if (!rows) return absl::UnimplementedError("has a table of an unknown number of rows");
  const double bytes = 256;
  std::string index = w.Cast(w.in(0), DType::kI64);
  if (w.input(0).type == DType::kI8) index = w.Add("Mod", {index, w.Scalar(DType::kI64, bytes)});
  if (*rows > 1) {
    const auto rank = static_cast<int64_t>(w.input(0).shape.size());
    const int64_t axis = w.Int("axis") < 0 ? w.Int("axis") + rank : w.Int("axis");
    std::vector<int64_t> shape(static_cast<size_t>(rank - axis), 1);
    shape[0] = *rows;
    Tensor starts = Tensor::Allocate(DType::kI64, shape);
    for (int64_t row = 0; row < *rows; ++row) WriteInt(starts, row, row * 256);
    index = w.Add("Add", {index, w.scope.Constant(starts, "kiln_rows")});
  }
  return w.Last("Gather", {w.Add("Reshape", {w.in(1), w.scope.Ints({-1})}), index},
                {{"axis", int64_t{0}}});
}

// ---- products

absl::Status Matmul(Writer& w) {
  std::vector<std::string> operands = w.ins();
  const char* const flags[] = {"trans_a", "trans_b"};
  for (size_t k = 0; k < 2; ++k) {
    if (w.Int(flags[k]) == 0) continue;
    std::vector<int64_t> perm;
    for (size_t i = 0; i < w.input(k).shape.size(); ++i) perm.push_back(static_cast<int64_t>(i));
    if (perm.size() > 1) std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    operands[k] = w.Add("Transpose", {operands[k]}, {{"perm", perm}});
  }
  return LastOf(w, "MatMul", operands, 2, {});
}

// ONNX has no layer norm without a scale.
absl::Status LayerNorm(Writer& w) {
  std::vector<std::string> operands = w.ins();
  if (!w.has(1)) {
    const Shape& shape = w.input(0).shape;
    KILN_ASSIGN_OR_RETURN(const int axis, NormalAxis(w.Int("axis"), shape.size()));
    const auto extents = kiln::Constant(Shape(shape.begin() + axis, shape.end()));
    operands.resize(std::max<size_t>(operands.size(), 2));
    operands[1] = w.scope.Constant(
        FilledTensor(w.input(0).type, extents.value_or(std::vector<int64_t>{1}), 1), "kiln_scale");
  }
  return w.Last("LayerNormalization", operands,
                {{"axis", w.Int("axis")}, {"epsilon", FloatAttr(w.node, "epsilon")}});
}

// ---- control flow, custom operators

// The graph of a branch or body whose k-th input is called names[k]; empty: it is an input of the
// written graph as well.
absl::StatusOr<GraphProto> WriteBody(Writer& w, const Graph& body,
                                     const std::vector<std::string>& names) {
  GraphProto proto;
  ExportScope inner(body, &w.scope, w.scope.names(), &proto);
  proto.set_name(w.scope.names().Fresh(body.name));
  for (size_t k = 0; k < body.inputs().size(); ++k) {
    const ValueId id = body.inputs()[k];
    if (!names[k].empty()) {
      inner.SetName(id, names[k]);
    } else {
      FillPort(body.value(id), inner.NameOf(id), proto.add_input());
    }
  }
  KILN_RETURN_IF_ERROR(WriteNodes(inner));
  for (const Graph::Output& output : body.outputs()) {
    // Outputs are results of nodes, each under a name of its own.
    const std::string name = inner.Add("Identity", {inner.NameOf(output.value)});
    FillPort(body.value(output.value), name, proto.add_output());
  }
  return proto;
}

absl::Status If(Writer& w) {
  std::vector<std::string> names = w.ins();
  const std::string condition = names[0];
  names.erase(names.begin());
  ExportAttrs attrs;
  for (const char* branch : {"then_branch", "else_branch"}) {
    KILN_ASSIGN_OR_RETURN(GraphProto proto, WriteBody(w, GraphAttr(w.node, branch), names));
    attrs.emplace_back(branch, std::move(proto));
  }
  return w.Last("If", {condition}, attrs);
}

absl::Status Loop(Writer& w) {
  const auto formal = static_cast<size_t>(w.Int("carried")) + 2;
  std::vector<std::string> inputs = w.ins(), names(formal);
  names.insert(names.end(), inputs.begin() + static_cast<std::ptrdiff_t>(formal), inputs.end());
  inputs.resize(formal);
  KILN_ASSIGN_OR_RETURN(GraphProto body, WriteBody(w, GraphAttr(w.node, "body"), names));
  return w.Last("Loop", inputs, {{"body", std::move(body)}});
}

// ---- random numbers: those of a model that was imported are read again as the same ones, since
// seed and name make them; other runtimes draw others.

absl::Status RequireNoStep(const Writer& w) {
  if (!w.has(1)) return absl::OkStatus();
  return absl::UnimplementedError("draws other numbers at each step, which ONNX cannot say");
}

// Import has made an integer of the bits of ONNX's float.
void AddSeed(const Writer& w, ExportAttrs& attrs) {
  if (w.Int("seed") == 0) return;
  const auto of_bits = std::bit_cast<double>(w.Int("seed"));
  const bool is_float = static_cast<double>(static_cast<float>(of_bits)) == of_bits;
  attrs.emplace_back("seed", is_float ? of_bits : static_cast<double>(w.Int("seed")));
}

absl::Status Drawn(Writer& w, const char* op, const char* first, const char* second) {
  KILN_RETURN_IF_ERROR(RequireNoStep(w));
  ExportAttrs attrs = {{"dtype", int64_t{ToOnnxType(w.output().type)}},
                       {first, FloatAttr(w.node, first)},
                       {second, FloatAttr(w.node, second)}};
  AddSeed(w, attrs);
  const std::optional<std::vector<int64_t>> shape = kiln::Constant(w.output().shape);
  if (shape) {
    attrs.emplace_back("shape", *shape);
    return w.Last(op, {}, attrs);
  }
  KILN_ASSIGN_OR_RETURN(const std::string extents, w.scope.Extents(w.output().shape));
  return w.Last(absl::StrCat(op, "Like"), {w.Add("ConstantOfShape", {extents})}, attrs);
}
absl::Status RandomUniform(Writer& w) { return Drawn(w, "RandomUniform", "low", "high"); }
absl::Status RandomNormal(Writer& w) { return Drawn(w, "RandomNormal", "mean", "scale"); }

absl::Status Bernoulli(Writer& w) {
  KILN_RETURN_IF_ERROR(RequireNoStep(w));
  ExportAttrs attrs = {{"dtype", int64_t{ToOnnxType(w.output().type)}}};
  AddSeed(w, attrs);
  return w.Last("Bernoulli", {w.in(0)}, attrs);
}

absl::Status Multinomial(Writer& w) {
  KILN_RETURN_IF_ERROR(RequireNoStep(w));
  ExportAttrs attrs = {{"dtype", int64_t{ToOnnxType(w.output().type)}},
                       {"sample_size", w.Int("samples")}};
  AddSeed(w, attrs);
  return w.Last("Multinomial", {w.in(0)}, attrs);
}

absl::Status Dropout(Writer& w) {
  KILN_RETURN_IF_ERROR(RequireNoStep(w));
  const std::string ratio = w.Scalar(DType::kF32, FloatAttr(w.node, "ratio"));
  return w.Last("Dropout", {w.in(0), ratio, w.Scalar(DType::kBool, 1)}, {{"seed", w.Int("seed")}});
}

absl::Status Custom(Writer& w) {
  const CustomOp& op = CustomOpOf(w.node);
  return absl::UnimplementedError(absl::StrCat("is the custom operator ", op.domain, ".", op.name));
}

using WriteFn = absl::Status (*)(Writer& w);
struct Special {
  const char* op;
  WriteFn write;
};
constexpr Special kSpecials[] = {
    {"bernoulli", Bernoulli},
    {"cast", Cast},
    {"clip", Clip},
    {"composed", Custom},
    {"constant_of_shape", ConstantOfShape},
    {"conv_transpose", ConvTranspose},
    {"cumulative", Cumulative},
    {"custom", Custom},
    {"dropout", Dropout},
    {"elements", Identity},
    {"expand", Expand},
    {"gather", Gather},
    {"gather_elements", GatherElements},
    {"if", If},
    {"iota", Iota},
    {"layer_norm", LayerNorm},
    {"lookup", Lookup},
    {"loop", Loop},
    {"match_extent", Identity},
    {"matmul", Matmul},
    {"measure", Identity},
    {"mod", Mod},
    {"multinomial", Multinomial},
    {"not_equal", NotEqual},
    {"pad", Pad},
    {"pow", Pow},
    {"prelu", Prelu},
    {"random_normal", RandomNormal},
    {"random_uniform", RandomUniform},
    {"relu", Relu},
    {"reshape", Reshape},
    {"rsqrt", Rsqrt},
    {"scatter_elements", ScatterElements},
    {"scatter_nd", ScatterNd},
    {"scatter_sum", ScatterSum},
    {"shift_left", Shift},
    {"shift_right", Shift},
    {"split", Split},
    {"squeeze", Axes},
    {"stop_gradient", Identity},
    {"swish", Swish},
    {"take", Take},
    {"top_k", TopK},
    {"unsqueeze", Axes},
    {"upsample", Upsample},
};

absl::Status Write(Writer& w) {
  const absl::string_view op = w.node.op->name;
  for (const Special& special : kSpecials) {
    if (op == special.op) return special.write(w);
  }
  const OnnxForm* const form = FormOf(w);
  if (form == nullptr) return absl::UnimplementedError("ONNX has no such operator");
  return w.node.op->kind == OpKind::kReduce ? Reduce(w, *form) : WriteForm(w, *form);
}

}  // namespace

absl::Status WriteNode(ExportScope& scope, const Node& node) {
  Writer writer{scope, node};
  KILN_RETURN_IF_ERROR(
      Annotate(Write(writer), absl::StrCat("node \"", node.name, "\" (", node.op->name, ")")));
  // A name of its own, not that of its value, is the user's.
  if (node.name != scope.graph().value(node.outputs[0]).name)
    scope.list()->rbegin()->set_name(scope.names().Fresh(node.name));
  return absl::OkStatus();
}

absl::Status WriteNodes(ExportScope& scope) {
  for (const Node& node : scope.graph().nodes()) KILN_RETURN_IF_ERROR(WriteNode(scope, node));
  return absl::OkStatus();
}

}  // namespace kiln::onnx
