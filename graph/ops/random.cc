// SPDX-License-Identifier: Apache-2.0
// Random numbers that are a function of where they are: no state, so that they are the same bits in
// the interpreter, the VM and compiled code, for any number of threads.
//
//   bits of element i  = random_bits(key + i, key)         Philox2x32-10
//   key                = random_bits(random_bits(seed, lower(stream)) + step, upper(stream))
//
// `seed` is the user's, `stream` says which of the program's nodes it is. `step`, an optional
// input, counts runs: a state of the program gives fresh numbers in every run; without it all runs
// have the same ones. For one seed and stream no two steps share a key, since Philox with a fixed
// key maps counters one to one.
#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/gradient/rules.h"
#include "graph/infer.h"
#include "graph/ops/nodes.h"
#include "graph/ops/ops.h"
#include "graph/tensors.h"
#include "kiln/graph.h"

namespace kiln::ops {
namespace {

using Values = absl::StatusOr<std::vector<ValueId>>;

bool IsU64(DType type) { return type == DType::kU64; }

absl::Status InferBits64(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireType(c, 0, IsU64, "u64"));
  return InferInteger(c);
}

Ex PhiloxBody(ScalarBody& b) { return Apply(ScalarOp::kPhilox, b.in(0), b.in(1)); }

// ---- Type rules
bool IsStep(DType type) { return type == DType::kI64; }

absl::Status RequireStep(InferContext& c, int k) {
  if (!c.has_input(k)) return absl::OkStatus();
  KILN_RETURN_IF_ERROR(RequireType(c, k, IsStep, "i64"));
  if (c.shape(k).empty() || c.shape(k) == Shape{1}) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the step has the shape ", ToString(c.shape(k)), "; it must be one number"));
}

absl::StatusOr<DType> FloatType(const Node& node) {
  const DType type = TypeAttr(node, "type");
  if (IsFloat(type)) return type;
  return absl::InvalidArgumentError(
      absl::StrCat("type is ", Name(type), "; random numbers have a float type"));
}

absl::Status RequireFinite(const Node& node, const char* name) {
  const double value = FloatAttr(node, name);
  if (std::isfinite(value)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, "; it must be finite"));
}

absl::Status InferDrawn(InferContext& c) {
  KILN_ASSIGN_OR_RETURN(const DType type, FloatType(c.node()));
  KILN_RETURN_IF_ERROR(RequireStep(c, 1));
  KILN_ASSIGN_OR_RETURN(Shape shape, c.Dims("shape"));
  c.SetOutput(0, type, std::move(shape));
  return absl::OkStatus();
}

absl::Status InferUniform(InferContext& c) {
  const double low = FloatAttr(c.node(), "low"), high = FloatAttr(c.node(), "high");
  KILN_ASSIGN_OR_RETURN(const DType type, FloatType(c.node()));
  const double from = RoundTo(low, type), to = RoundTo(high, type);
  if (!(low <= high) || !std::isfinite(RoundTo(to - from, ComputeType(type))))
    return absl::InvalidArgumentError(absl::StrCat("low is ", low, " and high is ", high,
                                                   "; they must be finite and in order, and so "
                                                   "must their difference"));
  return InferDrawn(c);
}

absl::Status InferNormal(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireFinite(c.node(), "mean"));
  KILN_RETURN_IF_ERROR(RequireFinite(c.node(), "scale"));
  return InferDrawn(c);
}

absl::Status InferBernoulli(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireType(c, 0, IsFloat, "a float type"));
  KILN_RETURN_IF_ERROR(RequireStep(c, 1));
  c.SetOutput(0, HasAttr(c.node(), "to") ? TypeAttr(c.node(), "to") : c.type(0), c.shape(0));
  return absl::OkStatus();
}

absl::Status InferMultinomial(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireType(c, 0, IsFloat, "a float type"));
  KILN_RETURN_IF_ERROR(RequireRank(c, 0, 2));
  KILN_RETURN_IF_ERROR(RequireStep(c, 1));
  const DType to = TypeAttr(c.node(), "to");
  if (to != DType::kI32 && to != DType::kI64)
    return absl::InvalidArgumentError(absl::StrCat("to is ", Name(to), "; it must be i32 or i64"));
  const int64_t samples = IntAttr(c.node(), "samples");
  if (samples < 0) return absl::InvalidArgumentError(absl::StrCat("samples is ", samples));
  if (c.shape(0)[1].IsConst(0)) return absl::InvalidArgumentError("there is no class to draw");
  c.SetOutput(0, to, {c.shape(0)[0], samples});
  return absl::OkStatus();
}

absl::Status InferDropout(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireType(c, 0, IsFloat, "a float type"));
  KILN_RETURN_IF_ERROR(RequireStep(c, 1));
  const double ratio = FloatAttr(c.node(), "ratio");
  if (!(ratio >= 0 && ratio < 1))
    return absl::InvalidArgumentError(absl::StrCat("ratio is ", ratio, ", expected 0 to below 1"));
  c.SetOutput(0, c.type(0), c.shape(0));
  c.SetOutput(1, DType::kBool, c.shape(0));
  return absl::OkStatus();
}

// ---- Decompositions
ValueId Word(GraphBuilder& b, uint64_t value) {
  Tensor tensor = Tensor::Allocate(DType::kU64, {});
  WriteInt(tensor, 0, static_cast<int64_t>(value));
  return b.Constant(std::move(tensor));
}

ValueId Reshape(GraphBuilder& b, ValueId x, const Shape& shape) {
  return b.Op("reshape", {x}, {{"shape", DimsValue(shape)}, {"allowzero", int64_t{1}}});
}

ValueId KeyOf(GraphBuilder& b, const Node& node, size_t step) {
  const auto seed = static_cast<uint64_t>(IntAttr(node, "seed"));
  const auto stream = static_cast<uint64_t>(IntAttr(node, "stream"));
  ValueId counter = b.Op("random_bits", {Word(b, seed), Word(b, stream)});
  if (node.inputs.size() > step && node.inputs[step].valid()) {
    const ValueId count = To(b, Reshape(b, node.inputs[step], {}), DType::kU64);
    counter = b.Op("add", {counter, count});
  }
  return b.Op("random_bits", {counter, Word(b, stream >> 32)});
}

// 64 bits for each element of `shape`.
ValueId BitsOf(GraphBuilder& b, const Node& node, size_t step, const Shape& shape) {
  const ValueId key = KeyOf(b, node, step);
  const ValueId at = To(b, b.Op("iota", {}, {{"shape", DimsValue({Product(shape)})}}), DType::kU64);
  return Reshape(b, b.Op("random_bits", {b.Op("add", {key, at}), key}), shape);
}

// The `count` bits from bit 64 - count - skipped down, as a number of `type`; below 2^31 for f32.
ValueId Upper(GraphBuilder& b, ValueId bits, int count, DType type) {
  const ValueId word = b.Op("shift_right", {bits, Word(b, 64 - static_cast<uint64_t>(count))});
  return To(b, To(b, word, type == DType::kF64 ? DType::kI64 : DType::kI32), type);
}

// Bits of the significand of a float type: uniform numbers are multiples of 2^-n.
int SignificandBits(DType type) {
  switch (type) {
    case DType::kF64:
      return 53;
    case DType::kF16:
      return 11;
    case DType::kBF16:
      return 8;
    default:
      return 24;
  }
}

// Numbers of [0, 1) that `stored` holds, all equally likely, in its compute type.
ValueId Unit(GraphBuilder& b, ValueId bits, DType stored) {
  const DType type = ComputeType(stored);
  const int count = SignificandBits(stored);
  return b.Op("mul", {Upper(b, bits, count, type), b.Scalar(type, std::ldexp(1.0, -count))});
}

Values One(const GraphBuilder& b, ValueId value) {
  KILN_RETURN_IF_ERROR(b.status());
  return std::vector<ValueId>{value};
}

Values Uniform(GraphBuilder& b, const Node& node) {
  const DType stored = TypeAttr(node, "type"), type = ComputeType(stored);
  const double low = RoundTo(FloatAttr(node, "low"), stored);
  const double high = RoundTo(FloatAttr(node, "high"), stored);
  const ValueId unit = Unit(b, BitsOf(b, node, 1, DimsAttr(node, "shape")), stored);
  if (low == 0 && high == 1) return One(b, To(b, unit, stored));
  const ValueId scaled = b.Op("mul", {unit, b.Scalar(type, high - low)});
  const ValueId drawn = To(b, b.Op("add", {scaled, b.Scalar(type, low)}), stored);
  // What rounds up to `high` does not belong to the interval.
  const ValueId inside = b.Op("less", {drawn, b.Scalar(stored, high)});
  return One(b, b.Op("where", {inside, drawn, b.Scalar(stored, low)}));
}

// Box and Muller's sqrt(-2 log u) cos(angle) with u of (0, 1] and an angle of [-pi, pi].
Values Normal(GraphBuilder& b, const Node& node) {
  const DType stored = TypeAttr(node, "type"), type = ComputeType(stored);
  const auto number = [&](double value) { return b.Scalar(type, value); };
  const ValueId bits = BitsOf(b, node, 1, DimsAttr(node, "shape"));
  const ValueId half = b.Op("add", {Upper(b, bits, 31, type), number(0.5)});
  const ValueId log = b.Op("log", {b.Op("mul", {half, number(0x1p-31)})});
  const ValueId radius = b.Op("sqrt", {b.Op("mul", {log, number(-2)})});
  const ValueId turn = To(b, To(b, bits, DType::kI32), type);                // the lower word
  const ValueId angle = b.Op("mul", {turn, number(0x1.921fb54442d18p-30)});  // pi * 2^-31
  ValueId drawn = b.Op("mul", {radius, b.Op("cos", {angle})});
  const double scale = FloatAttr(node, "scale"), mean = FloatAttr(node, "mean");
  if (scale != 1) drawn = b.Op("mul", {drawn, number(scale)});
  if (mean != 0) drawn = b.Op("add", {drawn, number(mean)});
  return One(b, To(b, drawn, stored));
}

Values Bernoulli(GraphBuilder& b, const Node& node) {
  const Value& of = b.value(node.inputs[0]);
  const DType type = ComputeType(of.type), to = b.value(node.outputs[0]).type;
  const Shape shape = of.shape;
  const ValueId unit = Unit(b, BitsOf(b, node, 1, shape), type);
  return One(b, To(b, b.Op("less", {unit, To(b, node.inputs[0], type)}), to));
}

// The class whose part of the running sums of exp(x - max(x)) holds a uniform number.
Values Multinomial(GraphBuilder& b, const Node& node) {
  const Value& of = b.value(node.inputs[0]);
  const DType type = ComputeType(of.type);
  const Dim rows = of.shape[0], classes = of.shape[1];
  const int64_t samples = IntAttr(node, "samples");
  const auto along = [](int64_t axis, int64_t keepdims) -> Attrs {
    return {{"axes", std::vector<int64_t>{axis}}, {"keepdims", keepdims}};
  };
  const ValueId x = To(b, node.inputs[0], type);
  const ValueId weights = b.Op("exp", {b.Op("sub", {x, b.Op("reduce_max", {x}, along(1, 1))})});
  const ValueId sums = b.Op("cumulative", {weights}, {{"axis", int64_t{1}}});
  const ValueId total = b.Op("reduce_max", {sums}, along(1, 1));
  const ValueId unit = Unit(b, BitsOf(b, node, 1, {rows, samples}), type);
  const ValueId drawn = Reshape(b, b.Op("mul", {unit, total}), {rows, samples, 1});
  const ValueId below = b.Op("less_equal", {Reshape(b, sums, {rows, 1, classes}), drawn});
  const DType to = TypeAttr(node, "to");
  const ValueId place = b.Op("reduce_sum", {To(b, below, to)}, along(2, 0));
  return One(b, place);
}

Values Dropout(GraphBuilder& b, const Node& node) {
  const DType type = b.value(node.inputs[0]).type;
  const Shape shape = b.value(node.inputs[0]).shape;
  const double ratio = FloatAttr(node, "ratio");
  const ValueId unit = Unit(b, BitsOf(b, node, 1, shape), DType::kF32);
  const ValueId kept = b.Op("greater_equal", {unit, b.Scalar(DType::kF32, ratio)});
  const ValueId scaled = b.Op("mul", {node.inputs[0], b.Scalar(type, 1 / (1 - ratio))});
  const ValueId y = b.Op("where", {kept, scaled, b.Scalar(type, 0)});
  KILN_RETURN_IF_ERROR(b.status());
  return std::vector<ValueId>{y, kept};
}

// ---- Records
constexpr AttrSpec kShapeSpec = {"shape", AttrKind::kDims,           false, 0,
                                 nullptr, "the shape of the result", 0};
constexpr AttrSpec kTypeSpec = {"type", AttrKind::kType, false,
                                0,      nullptr,         "a float type; absent: f32"};
constexpr AttrSpec kSeedSpec = {"seed", AttrKind::kInt, false,
                                0,      nullptr,        "another one, other numbers"};
constexpr AttrSpec kStreamSpec = {
    "stream", AttrKind::kInt,
    false,    0,
    nullptr,  "tells nodes of one seed apart: those of one stream have the same bits"};
constexpr AttrSpec kUniformAttrs[] = {
    kShapeSpec,
    kTypeSpec,
    {"low", AttrKind::kFloat, false, 0, nullptr, "the least number"},
    {"high", AttrKind::kFloat, false, 1, nullptr, "above all numbers"},
    kSeedSpec,
    kStreamSpec};
constexpr AttrSpec kNormalAttrs[] = {
    kShapeSpec,
    kTypeSpec,
    {"mean", AttrKind::kFloat, false, 0, nullptr, "the mean"},
    {"scale", AttrKind::kFloat, false, 1, nullptr, "the standard deviation"},
    kSeedSpec,
    kStreamSpec};
constexpr AttrSpec kBernoulliAttrs[] = {
    {"to", AttrKind::kType, false, 0, nullptr, "the type of the result; absent: the input's"},
    kSeedSpec,
    kStreamSpec};
constexpr AttrSpec kMultinomialAttrs[] = {
    {"to", AttrKind::kType, true, 0, nullptr, "the type of the result, i32 or i64"},
    {"samples", AttrKind::kInt, false, 1, nullptr, "how many are drawn of each row"},
    kSeedSpec,
    kStreamSpec};
constexpr AttrSpec kDropoutAttrs[] = {
    {"ratio", AttrKind::kFloat, false, 0.5, nullptr, "the share of elements that become 0"},
    kSeedSpec,
    kStreamSpec};

constexpr OpDef kRandomOps[] = {
    {.name = "random_bits",
     .doc = "64 bits that look random, a function of counter and key, both u64: Philox2x32-10 of "
            "Random123, whose key is the low word of input 1.",
     .kind = OpKind::kScalar,
     .min_inputs = 2,
     .max_inputs = 2,
     .infer = InferBits64,
     .scalar = PhiloxBody,
     .test = {0, 1e9},
     .witness = "Random123: kat_vectors, philox2x32 10",
     .gradient = {.none = gradient::kGivesIntegers}},
    {.name = "random_uniform",
     .doc = "Random numbers of [low, high). Input 1, the step, gives other ones for each of its "
            "values.",
     .kind = OpKind::kComposite,
     .min_inputs = 0,
     .max_inputs = 2,
     .attrs = kUniformAttrs,
     .infer = InferUniform,
     .decompose = Uniform,
     .onnx_converted = "RandomUniform RandomUniformLike",
     .witness = "tests/ops: Kolmogorov and Smirnov's test"},
    {.name = "random_normal",
     .doc = "Normally distributed random numbers, by Box and Muller. Input 1 is the step.",
     .kind = OpKind::kComposite,
     .min_inputs = 0,
     .max_inputs = 2,
     .attrs = kNormalAttrs,
     .infer = InferNormal,
     .decompose = Normal,
     .onnx_converted = "RandomNormal RandomNormalLike",
     .witness = "tests/ops: Kolmogorov and Smirnov's test"},
    {.name = "bernoulli",
     .doc = "1 with the probability that the element is, else 0. Input 1 is the step.",
     .kind = OpKind::kComposite,
     .min_inputs = 1,
     .max_inputs = 2,
     .attrs = kBernoulliAttrs,
     .infer = InferBernoulli,
     .decompose = Bernoulli,
     .onnx_converted = "Bernoulli",
     .test = {0, 1},
     .witness = "tests/ops: a chi-squared test",
     .index_inputs = {1, 1}},
    {.name = "multinomial",
     .doc =
         "Classes drawn from rows of logits: class k as often as exp(x[k]). Input 1 is the step.",
     .kind = OpKind::kComposite,
     .min_inputs = 1,
     .max_inputs = 2,
     .attrs = kMultinomialAttrs,
     .infer = InferMultinomial,
     .decompose = Multinomial,
     .onnx_converted = "Multinomial",
     .test = {-2, 2},
     .witness = "tests/ops: a chi-squared test",
     .index_inputs = {1, 1}},
    {.name = "dropout",
     .doc = "x / (1 - ratio), or 0 for a random share of `ratio`; and where x is kept. Input 1 is "
            "the step.",
     .kind = OpKind::kComposite,
     .min_inputs = 1,
     .max_inputs = 2,
     .num_outputs = 2,
     .attrs = kDropoutAttrs,
     .infer = InferDropout,
     .decompose = Dropout,
     .onnx_converted = "Dropout",
     .test = {-4, 4},
     .witness = "onnx node tests: training_dropout, by the share of zeros",
     .index_inputs = {1, 1}},
};

}  // namespace

std::span<const OpDef> RandomOps() { return kRandomOps; }

}  // namespace kiln::ops
