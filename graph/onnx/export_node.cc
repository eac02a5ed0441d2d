// SPDX-License-Identifier: Apache-2.0
// One node as ONNX has it: by a table where ONNX has an operator of the same meaning and
// attributes, else by a function below it.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "graph/custom_op.h"
#include "graph/onnx/exporter.h"
#include "graph/op.h"
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
  std::string Index(size_t k) {  // input k as the integers that ONNX looks up by
    const DType type = input(k).type;
    return type == DType::kI64 || type == DType::kI32 ? in(k) : Cast(in(k), DType::kI64);
  }
  std::string Scalar(DType type, double value) {
    return scope.Constant(FilledTensor(type, {}, value), "kiln_scalar");
  }
  int64_t Int(const char* name) const { return IntAttr(node, name); }
};

// ---- operators of the same meaning

struct AttrRow {
  const char* ours;
  const char* theirs;
  bool optional = false;  // absent here is absent there
};
struct Row {
  const char* op;
  const char* onnx;
  std::vector<AttrRow> attrs = {};
};

const std::vector<Row>& Rows() {
  static const auto* const rows = new std::vector<Row>{
      {"abs", "Abs"},
      {"acos", "Acos"},
      {"acosh", "Acosh"},
      {"add", "Add"},
      {"asin", "Asin"},
      {"asinh", "Asinh"},
      {"atan", "Atan"},
      {"atanh", "Atanh"},
      {"average_pool",
       "AveragePool",
       {{"kernel", "kernel_shape"},
        {"strides", "strides"},
        {"pads", "pads"},
        {"dilations", "dilations"},
        {"ceil_mode", "ceil_mode"},
        {"count_include_pad", "count_include_pad"}}},
      {"batch_norm", "BatchNormalization", {{"epsilon", "epsilon"}}},
      {"ceil", "Ceil"},
      {"celu", "Celu", {{"alpha", "alpha"}}},
      {"compress", "Compress", {{"axis", "axis", true}}},
      {"concat", "Concat", {{"axis", "axis"}}},
      {"conv",
       "Conv",
       {{"strides", "strides"}, {"pads", "pads"}, {"dilations", "dilations"}, {"group", "group"}}},
      {"conv_transpose",
       "ConvTranspose",
       {{"strides", "strides"},
        {"pads", "pads"},
        {"dilations", "dilations"},
        {"group", "group"},
        {"output_padding", "output_padding"}}},
      {"cos", "Cos"},
      {"cosh", "Cosh"},
      {"div", "Div"},
      {"elements", "Identity"},
      {"elu", "Elu", {{"alpha", "alpha"}}},
      {"equal", "Equal"},
      {"erf", "Erf"},
      {"exp", "Exp"},
      {"flatten", "Flatten", {{"axis", "axis"}}},
      {"floor", "Floor"},
      {"gelu", "Gelu", {{"approximate", "approximate"}}},
      {"gemm",
       "Gemm",
       {{"alpha", "alpha"}, {"beta", "beta"}, {"trans_a", "transA"}, {"trans_b", "transB"}}},
      {"global_average_pool", "GlobalAveragePool"},
      {"global_max_pool", "GlobalMaxPool"},
      {"greater", "Greater"},
      {"greater_equal", "GreaterOrEqual"},
      {"hard_sigmoid", "HardSigmoid", {{"alpha", "alpha"}, {"beta", "beta"}}},
      {"hard_swish", "HardSwish"},
      {"identity", "Identity"},
      {"instance_norm", "InstanceNormalization", {{"epsilon", "epsilon"}}},
      {"is_inf",
       "IsInf",
       {{"detect_negative", "detect_negative"}, {"detect_positive", "detect_positive"}}},
      {"is_nan", "IsNaN"},
      {"layer_norm", "LayerNormalization", {{"axis", "axis"}, {"epsilon", "epsilon"}}},
      {"leaky_relu", "LeakyRelu", {{"alpha", "alpha"}}},
      {"less", "Less"},
      {"less_equal", "LessOrEqual"},
      {"log", "Log"},
      {"log_softmax", "LogSoftmax", {{"axis", "axis"}}},
      {"match_extent", "Identity"},
      {"max", "Max"},
      {"max_pool",
       "MaxPool",
       {{"kernel", "kernel_shape"},
        {"strides", "strides"},
        {"pads", "pads"},
        {"dilations", "dilations"},
        {"ceil_mode", "ceil_mode"}}},
      {"measure", "Identity"},
      {"min", "Min"},
      {"mish", "Mish"},
      {"mul", "Mul"},
      {"neg", "Neg"},
      {"non_max_suppression", "NonMaxSuppression", {{"center_point_box", "center_point_box"}}},
      {"nonzero", "NonZero"},
      {"pow", "Pow"},
      {"range", "Range"},
      {"reciprocal", "Reciprocal"},
      {"relu", "Relu"},
      {"round", "Round"},
      {"selu", "Selu", {{"alpha", "alpha"}, {"gamma", "gamma"}}},
      {"shape", "Shape", {{"start", "start"}, {"end", "end", true}}},
      {"sigmoid", "Sigmoid"},
      {"sign", "Sign"},
      {"sin", "Sin"},
      {"sinh", "Sinh"},
      {"size", "Size"},
      {"softmax", "Softmax", {{"axis", "axis"}}},
      {"softplus", "Softplus"},
      {"softsign", "Softsign"},
      {"sqrt", "Sqrt"},
      {"sub", "Sub"},
      {"tan", "Tan"},
      {"tanh", "Tanh"},
      {"thresholded_relu", "ThresholdedRelu", {{"alpha", "alpha"}}},
      {"transpose", "Transpose", {{"perm", "perm"}}},
      {"unique", "Unique", {{"axis", "axis", true}, {"sorted", "sorted"}}},
      {"where", "Where"},
  };
  return *rows;
}

absl::Status WriteRow(Writer& w, const Row& row) {
  ExportAttrs attrs;
  for (const AttrRow& attr : row.attrs) {
    if (attr.optional && !HasAttr(w.node, attr.ours)) continue;
    const auto spec =
        std::find_if(w.node.op->attrs.begin(), w.node.op->attrs.end(),
                     [&](const AttrSpec& s) { return absl::string_view(s.name) == attr.ours; });
    switch (spec->kind) {
      case AttrKind::kInt:
        attrs.emplace_back(attr.theirs, IntAttr(w.node, attr.ours));
        break;
      case AttrKind::kFloat:
        attrs.emplace_back(attr.theirs, FloatAttr(w.node, attr.ours));
        break;
      case AttrKind::kString:
        attrs.emplace_back(attr.theirs, StringAttr(w.node, attr.ours));
        break;
      default:
        if (std::vector<int64_t> list = IntsAttr(w.node, attr.ours); !list.empty())
          attrs.emplace_back(attr.theirs, std::move(list));
        break;
    }
  }
  return w.Last(row.onnx, w.ins(), attrs);
}

// ---- element-wise

absl::Status Logic(Writer& w, const char* of_bools, const char* of_bits) {
  return w.Last(w.input(0).type == DType::kBool ? of_bools : of_bits, w.ins());
}
absl::Status And(Writer& w) { return Logic(w, "And", "BitwiseAnd"); }
absl::Status Or(Writer& w) { return Logic(w, "Or", "BitwiseOr"); }
absl::Status Xor(Writer& w) { return Logic(w, "Xor", "BitwiseXor"); }
absl::Status Not(Writer& w) { return Logic(w, "Not", "BitwiseNot"); }
absl::Status NotEqual(Writer& w) { return w.Last("Not", {w.Add("Equal", w.ins())}); }
absl::Status Rsqrt(Writer& w) { return w.Last("Reciprocal", {w.Add("Sqrt", w.ins())}); }

absl::Status Shift(Writer& w) {
  if (IsSigned(w.input(0).type))
    return absl::UnimplementedError("ONNX shifts unsigned integers only");
  const bool left = absl::string_view(w.node.op->name) == "shift_left";
  return w.Last("BitShift", w.ins(), {{"direction", std::string(left ? "LEFT" : "RIGHT")}});
}

absl::Status Mod(Writer& w) {
  const int64_t fmod = IsFloat(w.output().type) ? 1 : w.Int("fmod");
  if (fmod != 0 && w.Int("fmod") == 0) {  // ONNX has fmod only for floats: x - floor(x / y) * y
    const std::string whole = w.Add("Floor", {w.Add("Div", w.ins())});
    return w.Last("Sub", {w.in(0), w.Add("Mul", {whole, w.in(1)})});
  }
  return w.Last("Mod", w.ins(), {{"fmod", fmod}});
}

absl::Status Cast(Writer& w) {
  return w.Last("Cast", w.ins(), {{"to", int64_t{ToOnnxType(w.output().type)}}});
}

absl::Status Swish(Writer& w) {
  const double alpha = FloatAttr(w.node, "alpha");
  const std::string x = w.in(0);
  const std::string scaled = alpha == 1 ? x : w.Add("Mul", {x, w.Scalar(w.input(0).type, alpha)});
  return w.Last("Mul", {x, w.Add("Sigmoid", {scaled})});
}

absl::Status Clip(Writer& w) {
  const auto is_scalar = [&](size_t k) { return !w.has(k) || w.input(k).shape.empty(); };
  if (is_scalar(1) && is_scalar(2)) return w.Last("Clip", w.ins());
  std::string x = w.in(0);
  if (w.has(1)) x = w.has(2) ? w.Add("Max", {x, w.in(1)}) : x;
  return w.has(2) ? w.Last("Min", {x, w.in(2)}) : w.Last("Max", {x, w.in(1)});
}

// ONNX's slope broadcasts to x only.
absl::Status Prelu(Writer& w) {
  if (w.output().shape == w.input(0).shape) return w.Last("PRelu", w.ins());
  const std::string below = w.Add("Less", {w.in(0), w.Scalar(w.input(0).type, 0)});
  return w.Last("Where", {below, w.Add("Mul", w.ins()), w.in(0)});
}

// ---- reductions, running sums, order

absl::Status Reduce(Writer& w, const char* onnx) {
  const std::vector<int64_t> axes = IntsAttr(w.node, "axes");
  return w.Last(onnx, {w.in(0), axes.empty() ? "" : w.scope.Ints(axes)},
                {{"keepdims", w.Int("keepdims")}});
}
absl::Status ReduceSum(Writer& w) { return Reduce(w, "ReduceSum"); }
absl::Status ReduceMean(Writer& w) { return Reduce(w, "ReduceMean"); }
absl::Status ReduceMax(Writer& w) { return Reduce(w, "ReduceMax"); }
absl::Status ReduceMin(Writer& w) { return Reduce(w, "ReduceMin"); }
absl::Status ReduceProd(Writer& w) { return Reduce(w, "ReduceProd"); }
absl::Status ReduceL1(Writer& w) { return Reduce(w, "ReduceL1"); }
absl::Status ReduceL2(Writer& w) { return Reduce(w, "ReduceL2"); }
absl::Status ReduceSumSquare(Writer& w) { return Reduce(w, "ReduceSumSquare"); }

absl::Status Cumulative(Writer& w) {
  if (w.Int("product") != 0)
    return absl::UnimplementedError("ONNX's operator set 20 has no running product");
  const std::string axis = w.Scalar(DType::kI64, static_cast<double>(w.Int("axis")));
  return w.Last("CumSum", {w.in(0), axis},
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

absl::Status Slice(Writer& w) {
  std::vector<std::string> inputs = {w.in(0)};
  for (const char* name : {"starts", "ends", "axes", "steps"}) {
    if (!HasAttr(w.node, name)) {
      inputs.emplace_back();
      continue;
    }
    KILN_ASSIGN_OR_RETURN(inputs.emplace_back(), w.scope.Extents(DimsAttr(w.node, name)));
  }
  return w.Last("Slice", inputs);
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
  return w.Last("MatMul", operands);
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
    {"and", And},
    {"cast", Cast},
    {"clip", Clip},
    {"constant_of_shape", ConstantOfShape},
    {"cumulative", Cumulative},
    {"custom", Custom},
    {"expand", Expand},
    {"gather", Gather},
    {"gather_elements", GatherElements},
    {"if", If},
    {"iota", Iota},
    {"lookup", Lookup},
    {"loop", Loop},
    {"matmul", Matmul},
    {"mod", Mod},
    {"not", Not},
    {"not_equal", NotEqual},
    {"or", Or},
    {"pad", Pad},
    {"prelu", Prelu},
    {"reduce_l1", ReduceL1},
    {"reduce_l2", ReduceL2},
    {"reduce_max", ReduceMax},
    {"reduce_mean", ReduceMean},
    {"reduce_min", ReduceMin},
    {"reduce_prod", ReduceProd},
    {"reduce_sum", ReduceSum},
    {"reduce_sum_square", ReduceSumSquare},
    {"reshape", Reshape},
    {"rsqrt", Rsqrt},
    {"scatter_elements", ScatterElements},
    {"scatter_nd", ScatterNd},
    {"shift_left", Shift},
    {"shift_right", Shift},
    {"slice", Slice},
    {"split", Split},
    {"squeeze", Axes},
    {"swish", Swish},
    {"take", Take},
    {"top_k", TopK},
    {"unsqueeze", Axes},
    {"upsample", Upsample},
    {"xor", Xor},
};

absl::Status Write(Writer& w) {
  const absl::string_view op = w.node.op->name;
  for (const Special& special : kSpecials) {
    if (op == special.op) return special.write(w);
  }
  for (const Row& row : Rows()) {
    if (op == row.op) return WriteRow(w, row);
  }
  return absl::UnimplementedError("ONNX has no such operator");
}

}  // namespace

absl::Status WriteNode(ExportScope& scope, const Node& node) {
  Writer writer{scope, node};
  return Annotate(Write(writer), absl::StrCat("node \"", node.name, "\" (", node.op->name, ")"));
}

absl::Status WriteNodes(ExportScope& scope) {
  for (const Node& node : scope.graph().nodes()) KILN_RETURN_IF_ERROR(WriteNode(scope, node));
  return absl::OkStatus();
}

}  // namespace kiln::onnx
