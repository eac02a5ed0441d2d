// SPDX-License-Identifier: Apache-2.0
// Operators as functions of arrays, with the names, operands and attributes of `kiln ops`. Made of
// the registry by trace_ops_header_test (KILN_WRITE_TRACE_OPS=1 writes it anew).
//
//   kiln::softmax(x, {.axis = 1});
//   kiln::where(x > 0.0f, x, 0.0f);
//   kiln::reduce_sum(x, {.axes = {0}, .keepdims = 0});
//
// Operands come first, then attributes, then operands that may be absent. Where C++ has the word
// (`and`), the name ends in an underscore.
#ifndef KILN_TRACE_OPS_H_
#define KILN_TRACE_OPS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "kiln/tensor.h"
#include "kiln/trace.h"

namespace kiln {

// |x|; |-0| is 0; integers wrap.
inline Array abs(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("abs");
  return tracing::Apply(op, "abs", {&a}, {}, where);
}

// The arc cosine; NaN outside [-1, 1].
inline Array acos(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("acos");
  return tracing::Apply(op, "acos", {&a}, {}, where);
}

// The inverse of cosh; NaN below 1.
inline Array acosh(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("acosh");
  return tracing::Apply(op, "acosh", {&a}, {}, where);
}

// a + b; integers wrap.
inline Array add(const Operand& a, const Operand& b, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("add");
  return tracing::Apply(op, "add", {&a, &b}, {}, where);
}

// a and b; bit by bit for integers.
inline Array and_(const Operand& a, const Operand& b, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("and");
  return tracing::Apply(op, "and", {&a, &b}, {}, where);
}

// The arc sine; NaN outside [-1, 1].
inline Array asin(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("asin");
  return tracing::Apply(op, "asin", {&a}, {}, where);
}

// The inverse of sinh.
inline Array asinh(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("asinh");
  return tracing::Apply(op, "asinh", {&a}, {}, where);
}

// The arc tangent.
inline Array atan(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("atan");
  return tracing::Apply(op, "atan", {&a}, {}, where);
}

// The inverse of tanh; NaN outside [-1, 1].
inline Array atanh(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("atanh");
  return tracing::Apply(op, "atanh", {&a}, {}, where);
}

// The mean over a window.
struct AveragePoolAttributes {
  Ints kernel = {};               // the extents of the window
  Ints strides = {};              // steps of the window; absent: 1
  Ints pads = {};                 // padding before each axis, then after each; absent: 0
  Ints dilations = {};            // distances between taps; absent: 1
  int64_t ceil_mode = 0;          // 1: a window that is cut off by the end counts too
  int64_t count_include_pad = 0;  // 1: padding counts in the divisor of the mean
};
inline Array average_pool(const Operand& a, const AveragePoolAttributes& attributes = {},
                          Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("average_pool");
  return tracing::Apply(op, "average_pool", {&a},
                        {{"kernel", attributes.kernel},
                         {"strides", attributes.strides},
                         {"pads", attributes.pads},
                         {"dilations", attributes.dilations},
                         {"ceil_mode", attributes.ceil_mode},
                         {"count_include_pad", attributes.count_include_pad}},
                        where);
}

// What the input of average_pool takes from the cotangent of its result.
struct AveragePoolBackwardAttributes {
  Ints kernel = {};               // the extents of the window
  Ints strides = {};              // steps of the window; absent: 1
  Ints pads = {};                 // padding before each axis, then after each; absent: 0
  Ints dilations = {};            // distances between taps; absent: 1
  int64_t ceil_mode = 0;          // 1: a window that is cut off by the end counts too
  int64_t count_include_pad = 0;  // 1: padding counts in the divisor of the mean
  Ints shape = {};                // of the input of the pool
};
inline Array average_pool_backward(const Operand& a,
                                   const AveragePoolBackwardAttributes& attributes = {},
                                   Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("average_pool_backward");
  return tracing::Apply(op, "average_pool_backward", {&a},
                        {{"kernel", attributes.kernel},
                         {"strides", attributes.strides},
                         {"pads", attributes.pads},
                         {"dilations", attributes.dilations},
                         {"ceil_mode", attributes.ceil_mode},
                         {"count_include_pad", attributes.count_include_pad},
                         {"shape", attributes.shape}},
                        where);
}

// (x - mean) * (scale / sqrt(variance + epsilon)) + bias; inputs x, scale, bias, mean, variance.
struct BatchNormAttributes {
  double epsilon = 1e-05;  // added to the variance
};
inline Array batch_norm(const Operand& a, const Operand& b, const Operand& c, const Operand& d,
                        const Operand& e, const BatchNormAttributes& attributes = {},
                        Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("batch_norm");
  return tracing::Apply(op, "batch_norm", {&a, &b, &c, &d, &e}, {{"epsilon", attributes.epsilon}},
                        where);
}

// 1 with the probability that the element is, else 0. Input 1 is the step.
struct BernoulliAttributes {
  std::optional<DType> to = {};  // the type of the result; absent: the input's
  int64_t seed = 0;              // another one, other numbers
  int64_t stream = 0;  // tells nodes of one seed apart: those of one stream have the same bits
};
inline Array bernoulli(const Operand& a, const BernoulliAttributes& attributes = {},
                       const Operand& b = {}, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("bernoulli");
  return tracing::Apply(
      op, "bernoulli", {&a, &b},
      {{"to", attributes.to}, {"seed", attributes.seed}, {"stream", attributes.stream}}, where);
}

// x in another type. Float to integer truncates and saturates, NaN gives 0; integers wrap; to bool
// is x != 0.
struct CastAttributes {
  tracing::Required<DType> to;  // the type of the result
};
inline Array cast(const Operand& a, const CastAttributes& attributes,
                  Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("cast");
  return tracing::Apply(op, "cast", {&a}, {{"to", attributes.to.value}}, where);
}

// Rounds up.
inline Array ceil(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("ceil");
  return tracing::Apply(op, "ceil", {&a}, {}, where);
}

// max(0, x) + min(0, alpha * (exp(x / alpha) - 1)).
struct CeluAttributes {
  double alpha = 1;  // minus the limit at -inf
};
inline Array celu(const Operand& a, const CeluAttributes& attributes = {},
                  Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("celu");
  return tracing::Apply(op, "celu", {&a}, {{"alpha", attributes.alpha}}, where);
}

// min(max(x, low), high); both bounds are optional; NaN stays NaN.
inline Array clip(const Operand& a, const Operand& b = {}, const Operand& c = {},
                  Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("clip");
  return tracing::Apply(op, "clip", {&a, &b, &c}, {}, where);
}

// The inputs one after the other along an axis.
struct ConcatAttributes {
  tracing::Required<int64_t> axis;  // the axis along which inputs follow each other
};
inline Array concat(const OperandList& operands, const ConcatAttributes& attributes,
                    Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("concat");
  std::vector<const Operand*> list;
  for (const Operand& operand : operands.list()) list.push_back(&operand);
  const std::initializer_list<tracing::Attribute> given = {{"axis", attributes.axis.value}};
  std::array<Array, 1> results;
  tracing::Apply(op, "concat", list.data(), list.size(), given.begin(), given.size(), where,
                 results.data(), results.size());
  return results[0];
}

// One value everywhere.
struct ConstantOfShapeAttributes {
  Ints shape = {};  // the shape of the result
};
inline Array constant_of_shape(const ConstantOfShapeAttributes& attributes = {},
                               Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("constant_of_shape");
  return tracing::Apply(op, "constant_of_shape", {}, {{"shape", attributes.shape}}, where);
}

// Convolution (not flipped); weight [M, C / group, ...].
struct ConvAttributes {
  Ints strides = {};    // steps of the window; absent: 1
  Ints pads = {};       // zeros before each axis, then after each; absent: 0
  Ints dilations = {};  // distances between taps; absent: 1
  int64_t group = 1;    // channels are split into this many groups that do not mix
};
inline Array conv(const Operand& a, const Operand& b, const ConvAttributes& attributes = {},
                  const Operand& c = {}, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("conv");
  return tracing::Apply(op, "conv", {&a, &b, &c},
                        {{"strides", attributes.strides},
                         {"pads", attributes.pads},
                         {"dilations", attributes.dilations},
                         {"group", attributes.group}},
                        where);
}

// What the weight of conv(x, w) takes from the cotangent g of its result: [M, C / group, kernel...]
// of x [N, C, ...] and g [N, M, ...].
struct ConvBackwardWeightsAttributes {
  Ints kernel = {};     // the spatial extents of the weight
  Ints strides = {};    // of the convolution; absent: 1
  Ints pads = {};       // of the convolution; absent: 0
  Ints dilations = {};  // of the convolution; absent: 1
  int64_t group = 1;    // of the convolution
};
inline Array conv_backward_weights(const Operand& a, const Operand& b,
                                   const ConvBackwardWeightsAttributes& attributes = {},
                                   Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("conv_backward_weights");
  return tracing::Apply(op, "conv_backward_weights", {&a, &b},
                        {{"kernel", attributes.kernel},
                         {"strides", attributes.strides},
                         {"pads", attributes.pads},
                         {"dilations", attributes.dilations},
                         {"group", attributes.group}},
                        where);
}

// conv of bytes less their zero points, inputs 2 and 3: one, or of the weight one for each channel;
// sums of 32 bits that wrap.
struct ConvIntegerAttributes {
  Ints strides = {};    // steps of the window; absent: 1
  Ints pads = {};       // zeros before each axis, then after each; absent: 0
  Ints dilations = {};  // distances between taps; absent: 1
  int64_t group = 1;    // channels are split into this many groups that do not mix
};
inline Array conv_integer(const Operand& a, const Operand& b,
                          const ConvIntegerAttributes& attributes = {}, const Operand& c = {},
                          const Operand& d = {}, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("conv_integer");
  return tracing::Apply(op, "conv_integer", {&a, &b, &c, &d},
                        {{"strides", attributes.strides},
                         {"pads", attributes.pads},
                         {"dilations", attributes.dilations},
                         {"group", attributes.group}},
                        where);
}

// The transpose of a convolution; weight [C, M / group, ...].
struct ConvTransposeAttributes {
  Ints strides = {};         // steps of the window; absent: 1
  Ints pads = {};            // zeros before each axis, then after each; absent: 0
  Ints dilations = {};       // distances between taps; absent: 1
  int64_t group = 1;         // channels are split into this many groups that do not mix
  Ints output_padding = {};  // extra extent at the end of each axis; absent: 0
  Ints extents = {};         // spatial extents of the result; absent: what output_padding says
};
inline Array conv_transpose(const Operand& a, const Operand& b,
                            const ConvTransposeAttributes& attributes = {}, const Operand& c = {},
                            Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("conv_transpose");
  return tracing::Apply(op, "conv_transpose", {&a, &b, &c},
                        {{"strides", attributes.strides},
                         {"pads", attributes.pads},
                         {"dilations", attributes.dilations},
                         {"group", attributes.group},
                         {"output_padding", attributes.output_padding},
                         {"extents", attributes.extents}},
                        where);
}

// The cosine; NaN at infinity.
inline Array cos(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("cos");
  return tracing::Apply(op, "cos", {&a}, {}, where);
}

// The hyperbolic cosine.
inline Array cosh(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("cosh");
  return tracing::Apply(op, "cosh", {&a}, {}, where);
}

// Running sums, or products, along an axis; integers wrap.
struct CumulativeAttributes {
  int64_t axis = 0;       // the axis that is run along
  int64_t product = 0;    // 1: products instead of sums
  int64_t exclusive = 0;  // 1: without the element itself
  int64_t reverse = 0;    // 1: from the end
};
inline Array cumulative(const Operand& a, const CumulativeAttributes& attributes = {},
                        Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("cumulative");
  return tracing::Apply(op, "cumulative", {&a},
                        {{"axis", attributes.axis},
                         {"product", attributes.product},
                         {"exclusive", attributes.exclusive},
                         {"reverse", attributes.reverse}},
                        where);
}

// a / b. Integers truncate; x / 0 is 0 and the least number / -1 is itself.
inline Array div(const Operand& a, const Operand& b, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("div");
  return tracing::Apply(op, "div", {&a, &b}, {}, where);
}

// x / (1 - ratio), or 0 for a random share of `ratio`; and where x is kept. Input 1 is the step.
struct DropoutAttributes {
  double ratio = 0.5;  // the share of elements that become 0
  int64_t seed = 0;    // another one, other numbers
  int64_t stream = 0;  // tells nodes of one seed apart: those of one stream have the same bits
};
inline std::array<Array, 2> dropout(const Operand& a, const DropoutAttributes& attributes = {},
                                    const Operand& b = {}, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("dropout");
  const std::array<const Operand*, 2> list = {&a, &b};
  const std::initializer_list<tracing::Attribute> given = {
      {"ratio", attributes.ratio}, {"seed", attributes.seed}, {"stream", attributes.stream}};
  std::array<Array, 2> results;
  tracing::Apply(op, "dropout", list.data(), list.size(), given.begin(), given.size(), where,
                 results.data(), results.size());
  return results;
}

// x, or alpha * (exp(x) - 1) up to zero.
struct EluAttributes {
  double alpha = 1;  // minus the limit at -inf
};
inline Array elu(const Operand& a, const EluAttributes& attributes = {},
                 Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("elu");
  return tracing::Apply(op, "elu", {&a}, {{"alpha", attributes.alpha}}, where);
}

// a == b; false with NaN.
inline Array equal(const Operand& a, const Operand& b, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("equal");
  return tracing::Apply(op, "equal", {&a, &b}, {}, where);
}

// The error function.
inline Array erf(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("erf");
  return tracing::Apply(op, "erf", {&a}, {}, where);
}

// e to the power x.
inline Array exp(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("exp");
  return tracing::Apply(op, "exp", {&a}, {}, where);
}

// Repeats along axes of extent 1, as broadcasting does.
struct ExpandAttributes {
  Ints shape = {};  // broadcast with the input's shape it gives the result's
};
inline Array expand(const Operand& a, const ExpandAttributes& attributes = {},
                    Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("expand");
  return tracing::Apply(op, "expand", {&a}, {{"shape", attributes.shape}}, where);
}

// A matrix: the axes before `axis`, and the others.
struct FlattenAttributes {
  int64_t axis = 1;  // axes before it become the first one of the result, the others the second
};
inline Array flatten(const Operand& a, const FlattenAttributes& attributes = {},
                     Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("flatten");
  return tracing::Apply(op, "flatten", {&a}, {{"axis", attributes.axis}}, where);
}

// Rounds down.
inline Array floor(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("floor");
  return tracing::Apply(op, "floor", {&a}, {}, where);
}

// Elements of input 0 whose coordinate along `axis` input 1 gives; negative ones count from the
// end; clamped.
struct GatherAttributes {
  int64_t axis = 0;  // the axis whose coordinate is looked up
};
inline Array gather(const Operand& a, const Operand& b, const GatherAttributes& attributes = {},
                    Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("gather");
  return tracing::Apply(op, "gather", {&a, &b}, {{"axis", attributes.axis}}, where);
}

// Element o is the input's at o, but for its coordinate along `axis`, which input 1 has at o;
// negative ones count from the end; clamped.
struct GatherElementsAttributes {
  int64_t axis = 0;  // the axis whose coordinate is looked up
};
inline Array gather_elements(const Operand& a, const Operand& b,
                             const GatherElementsAttributes& attributes = {},
                             Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("gather_elements");
  return tracing::Apply(op, "gather_elements", {&a, &b}, {{"axis", attributes.axis}}, where);
}

// x * (1 + erf(x / sqrt(2))) / 2, or the form by tanh.
struct GeluAttributes {
  std::string approximate = "none";  // "none": by erf; "tanh": by tanh
};
inline Array gelu(const Operand& a, const GeluAttributes& attributes = {},
                  Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("gelu");
  return tracing::Apply(op, "gelu", {&a}, {{"approximate", attributes.approximate}}, where);
}

// alpha * a * b + beta * c for matrices a and b; c is optional and broadcasts.
struct GemmAttributes {
  double alpha = 1;     // a factor of the product
  double beta = 1;      // a factor of input 2; 0: it is not read
  int64_t trans_a = 0;  // 1: input 0 is transposed
  int64_t trans_b = 0;  // 1: input 1 is transposed
};
inline Array gemm(const Operand& a, const Operand& b, const GemmAttributes& attributes = {},
                  const Operand& c = {}, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("gemm");
  return tracing::Apply(op, "gemm", {&a, &b, &c},
                        {{"alpha", attributes.alpha},
                         {"beta", attributes.beta},
                         {"trans_a", attributes.trans_a},
                         {"trans_b", attributes.trans_b}},
                        where);
}

// The mean over all axes but the first two.
inline Array global_average_pool(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("global_average_pool");
  return tracing::Apply(op, "global_average_pool", {&a}, {}, where);
}

// The maximum over all axes but the first two.
inline Array global_max_pool(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("global_max_pool");
  return tracing::Apply(op, "global_max_pool", {&a}, {}, where);
}

// a > b; false with NaN.
inline Array greater(const Operand& a, const Operand& b, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("greater");
  return tracing::Apply(op, "greater", {&a, &b}, {}, where);
}

// a >= b; false with NaN.
inline Array greater_equal(const Operand& a, const Operand& b, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("greater_equal");
  return tracing::Apply(op, "greater_equal", {&a, &b}, {}, where);
}

// alpha * x + beta, kept within [0, 1].
struct HardSigmoidAttributes {
  double alpha = 0.2;  // the slope
  double beta = 0.5;   // the value at zero
};
inline Array hard_sigmoid(const Operand& a, const HardSigmoidAttributes& attributes = {},
                          Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("hard_sigmoid");
  return tracing::Apply(op, "hard_sigmoid", {&a},
                        {{"alpha", attributes.alpha}, {"beta", attributes.beta}}, where);
}

// x * hard_sigmoid(x) with alpha 1/6 and beta 1/2.
inline Array hard_swish(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("hard_swish");
  return tracing::Apply(op, "hard_swish", {&a}, {}, where);
}

// x.
inline Array identity(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("identity");
  return tracing::Apply(op, "identity", {&a}, {}, where);
}

// Normalises every channel of every sample; inputs x, scale, bias.
struct InstanceNormAttributes {
  double epsilon = 1e-05;  // added to the variance
};
inline Array instance_norm(const Operand& a, const Operand& b, const Operand& c,
                           const InstanceNormAttributes& attributes = {},
                           Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("instance_norm");
  return tracing::Apply(op, "instance_norm", {&a, &b, &c}, {{"epsilon", attributes.epsilon}},
                        where);
}

// Every element is its own coordinate along an axis, i64.
struct IotaAttributes {
  Ints shape = {};   // the shape of the result
  int64_t axis = 0;  // the axis whose coordinate is the value
};
inline Array iota(const IotaAttributes& attributes = {}, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("iota");
  return tracing::Apply(op, "iota", {}, {{"shape", attributes.shape}, {"axis", attributes.axis}},
                        where);
}

// Whether x is infinite.
struct IsInfAttributes {
  int64_t detect_negative = 1;  // whether -inf counts
  int64_t detect_positive = 1;  // whether +inf counts
};
inline Array is_inf(const Operand& a, const IsInfAttributes& attributes = {},
                    Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("is_inf");
  return tracing::Apply(op, "is_inf", {&a},
                        {{"detect_negative", attributes.detect_negative},
                         {"detect_positive", attributes.detect_positive}},
                        where);
}

// Whether x is NaN.
inline Array is_nan(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("is_nan");
  return tracing::Apply(op, "is_nan", {&a}, {}, where);
}

// (x - mean) / sqrt(variance + epsilon) * scale + bias over the last axes.
struct LayerNormAttributes {
  int64_t axis = -1;       // the first of the axes that are normalised together
  double epsilon = 1e-05;  // added to the variance
};
inline Array layer_norm(const Operand& a, const LayerNormAttributes& attributes = {},
                        const Operand& b = {}, const Operand& c = {},
                        Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("layer_norm");
  return tracing::Apply(op, "layer_norm", {&a, &b, &c},
                        {{"axis", attributes.axis}, {"epsilon", attributes.epsilon}}, where);
}

// x, or alpha * x below zero.
struct LeakyReluAttributes {
  double alpha = 0.01;  // the slope below zero
};
inline Array leaky_relu(const Operand& a, const LeakyReluAttributes& attributes = {},
                        Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("leaky_relu");
  return tracing::Apply(op, "leaky_relu", {&a}, {{"alpha", attributes.alpha}}, where);
}

// a < b; false with NaN.
inline Array less(const Operand& a, const Operand& b, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("less");
  return tracing::Apply(op, "less", {&a, &b}, {}, where);
}

// a <= b; false with NaN.
inline Array less_equal(const Operand& a, const Operand& b, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("less_equal");
  return tracing::Apply(op, "less_equal", {&a, &b}, {}, where);
}

// The natural logarithm; -inf at 0, NaN below.
inline Array log(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("log");
  return tracing::Apply(op, "log", {&a}, {}, where);
}

// x - max - log(sum(exp(x - max))) over an axis.
struct LogSoftmaxAttributes {
  int64_t axis = -1;  // the axis over which the results sum to 1
};
inline Array log_softmax(const Operand& a, const LogSoftmaxAttributes& attributes = {},
                         Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("log_softmax");
  return tracing::Apply(op, "log_softmax", {&a}, {{"axis", attributes.axis}}, where);
}

// The element of input 1, [rows, 256], at the byte that is the element of input 0, in the row of
// its own coordinate along `axis`, or in the only row.
struct LookupAttributes {
  int64_t axis = 0;  // whose coordinate chooses the row of the table
};
inline Array lookup(const Operand& a, const Operand& b, const LookupAttributes& attributes = {},
                    Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("lookup");
  return tracing::Apply(op, "lookup", {&a, &b}, {{"axis", attributes.axis}}, where);
}

// Matrix product over the last two axes; the others broadcast. A vector is a row on the left, a
// column on the right.
struct MatmulAttributes {
  int64_t trans_a = 0;  // 1: the last two axes of input 0 are swapped
  int64_t trans_b = 0;  // 1: the last two axes of input 1 are swapped
};
inline Array matmul(const Operand& a, const Operand& b, const MatmulAttributes& attributes = {},
                    Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("matmul");
  return tracing::Apply(op, "matmul", {&a, &b},
                        {{"trans_a", attributes.trans_a}, {"trans_b", attributes.trans_b}}, where);
}

// matmul of bytes less their zero points, inputs 2 and 3: one for each row of a, each column of b,
// or fewer; sums of 32 bits that wrap.
inline Array matmul_integer(const Operand& a, const Operand& b, const Operand& c = {},
                            const Operand& d = {}, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("matmul_integer");
  return tracing::Apply(op, "matmul_integer", {&a, &b, &c, &d}, {}, where);
}

// The larger one; NaN if either is NaN.
inline Array max(const Operand& a, const Operand& b, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("max");
  return tracing::Apply(op, "max", {&a, &b}, {}, where);
}

// The maximum over a window; padding does not count; NaN wins.
struct MaxPoolAttributes {
  Ints kernel = {};       // the extents of the window
  Ints strides = {};      // steps of the window; absent: 1
  Ints pads = {};         // padding before each axis, then after each; absent: 0
  Ints dilations = {};    // distances between taps; absent: 1
  int64_t ceil_mode = 0;  // 1: a window that is cut off by the end counts too
};
inline Array max_pool(const Operand& a, const MaxPoolAttributes& attributes = {},
                      Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("max_pool");
  return tracing::Apply(op, "max_pool", {&a},
                        {{"kernel", attributes.kernel},
                         {"strides", attributes.strides},
                         {"pads", attributes.pads},
                         {"dilations", attributes.dilations},
                         {"ceil_mode", attributes.ceil_mode}},
                        where);
}

// What x takes from the cotangent g of max_pool(x): all of it goes to the first element of a window
// that is its maximum.
struct MaxPoolBackwardAttributes {
  Ints kernel = {};       // the extents of the window
  Ints strides = {};      // steps of the window; absent: 1
  Ints pads = {};         // padding before each axis, then after each; absent: 0
  Ints dilations = {};    // distances between taps; absent: 1
  int64_t ceil_mode = 0;  // 1: a window that is cut off by the end counts too
};
inline Array max_pool_backward(const Operand& a, const Operand& b,
                               const MaxPoolBackwardAttributes& attributes = {},
                               Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("max_pool_backward");
  return tracing::Apply(op, "max_pool_backward", {&a, &b},
                        {{"kernel", attributes.kernel},
                         {"strides", attributes.strides},
                         {"pads", attributes.pads},
                         {"dilations", attributes.dilations},
                         {"ceil_mode", attributes.ceil_mode}},
                        where);
}

// The smaller one; NaN if either is NaN.
inline Array min(const Operand& a, const Operand& b, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("min");
  return tracing::Apply(op, "min", {&a, &b}, {}, where);
}

// x * tanh(softplus(x)).
inline Array mish(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("mish");
  return tracing::Apply(op, "mish", {&a}, {}, where);
}

// The remainder of a / b, with the sign of b (or of a: attribute fmod); x mod 0 is 0 for integers.
// Of floats it is C's fmod, exact.
struct ModAttributes {
  int64_t fmod = 0;  // 1: the result has the sign of the dividend; 0: of the divisor
};
inline Array mod(const Operand& a, const Operand& b, const ModAttributes& attributes = {},
                 Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("mod");
  return tracing::Apply(op, "mod", {&a, &b}, {{"fmod", attributes.fmod}}, where);
}

// a * b; integers wrap.
inline Array mul(const Operand& a, const Operand& b, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("mul");
  return tracing::Apply(op, "mul", {&a, &b}, {}, where);
}

// Classes drawn from rows of logits: class k as often as exp(x[k]). Input 1 is the step.
struct MultinomialAttributes {
  tracing::Required<DType> to;  // the type of the result, i32 or i64
  int64_t samples = 1;          // how many are drawn of each row
  int64_t seed = 0;             // another one, other numbers
  int64_t stream = 0;  // tells nodes of one seed apart: those of one stream have the same bits
};
inline Array multinomial(const Operand& a, const MultinomialAttributes& attributes,
                         const Operand& b = {}, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("multinomial");
  return tracing::Apply(op, "multinomial", {&a, &b},
                        {{"to", attributes.to.value},
                         {"samples", attributes.samples},
                         {"seed", attributes.seed},
                         {"stream", attributes.stream}},
                        where);
}

// -x; integers wrap.
inline Array neg(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("neg");
  return tracing::Apply(op, "neg", {&a}, {}, where);
}

// not x; bit by bit for integers.
inline Array not_(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("not");
  return tracing::Apply(op, "not", {&a}, {}, where);
}

// a != b; true with NaN.
inline Array not_equal(const Operand& a, const Operand& b, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("not_equal");
  return tracing::Apply(op, "not_equal", {&a, &b}, {}, where);
}

// a or b; bit by bit for integers.
inline Array or_(const Operand& a, const Operand& b, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("or");
  return tracing::Apply(op, "or", {&a, &b}, {}, where);
}

// Surrounds the input with a fill value.
struct PadAttributes {
  Ints pads = {};  // elements to add before each axis, then after each; negative ones cut
  Ints axes = {};  // the axes `pads` is about; absent: all
  std::string mode = "constant";  // what to add: "constant", the fill value
  double value = 0;               // the fill value, unless input 2 gives it
};
inline Array pad(const Operand& a, const PadAttributes& attributes = {}, const Operand& c = {},
                 Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("pad");
  const Operand absent;
  return tracing::Apply(op, "pad", {&a, &absent, &c},
                        {{"pads", attributes.pads},
                         {"axes", attributes.axes},
                         {"mode", attributes.mode},
                         {"value", attributes.value}},
                        where);
}

// a to the power b, in the type of a. A constant exponent of 1 to 4 is multiplication. Integer
// powers wrap.
inline Array pow(const Operand& a, const Operand& b, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("pow");
  return tracing::Apply(op, "pow", {&a, &b}, {}, where);
}

// x, or slope * x below zero.
inline Array prelu(const Operand& a, const Operand& b, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("prelu");
  return tracing::Apply(op, "prelu", {&a, &b}, {}, where);
}

// conv_integer with bytes for sums: clip(round((sum + bias) * x_scale * w_scale / y_scale) +
// y_zero) in f64; inputs x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias.
struct QlinearConvAttributes {
  Ints strides = {};            // steps of the window; absent: 1
  Ints pads = {};               // zeros before each axis, then after each; absent: 0
  Ints dilations = {};          // distances between taps; absent: 1
  int64_t group = 1;            // channels are split into this many groups that do not mix
  tracing::Required<DType> to;  // the type of the result: that of its zero point
};
inline Array qlinear_conv(const Operand& a, const Operand& b, const Operand& c, const Operand& d,
                          const Operand& e, const Operand& f, const Operand& g, const Operand& h,
                          const QlinearConvAttributes& attributes, const Operand& i = {},
                          Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("qlinear_conv");
  return tracing::Apply(op, "qlinear_conv", {&a, &b, &c, &d, &e, &f, &g, &h, &i},
                        {{"strides", attributes.strides},
                         {"pads", attributes.pads},
                         {"dilations", attributes.dilations},
                         {"group", attributes.group},
                         {"to", attributes.to.value}},
                        where);
}

// 64 bits that look random, a function of counter and key, both u64: Philox2x32-10 of Random123,
// whose key is the low word of input 1.
inline Array random_bits(const Operand& a, const Operand& b, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("random_bits");
  return tracing::Apply(op, "random_bits", {&a, &b}, {}, where);
}

// Normally distributed random numbers, by Box and Muller. Input 1 is the step.
struct RandomNormalAttributes {
  Ints shape = {};                 // the shape of the result
  std::optional<DType> type = {};  // a float type; absent: f32
  double mean = 0;                 // the mean
  double scale = 1;                // the standard deviation
  int64_t seed = 0;                // another one, other numbers
  int64_t stream = 0;  // tells nodes of one seed apart: those of one stream have the same bits
};
inline Array random_normal(const RandomNormalAttributes& attributes = {}, const Operand& b = {},
                           Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("random_normal");
  const Operand absent;
  return tracing::Apply(op, "random_normal", {&absent, &b},
                        {{"shape", attributes.shape},
                         {"type", attributes.type},
                         {"mean", attributes.mean},
                         {"scale", attributes.scale},
                         {"seed", attributes.seed},
                         {"stream", attributes.stream}},
                        where);
}

// Random numbers of [low, high). Input 1, the step, gives other ones for each of its values.
struct RandomUniformAttributes {
  Ints shape = {};                 // the shape of the result
  std::optional<DType> type = {};  // a float type; absent: f32
  double low = 0;                  // the least number
  double high = 1;                 // above all numbers
  int64_t seed = 0;                // another one, other numbers
  int64_t stream = 0;  // tells nodes of one seed apart: those of one stream have the same bits
};
inline Array random_uniform(const RandomUniformAttributes& attributes = {}, const Operand& b = {},
                            Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("random_uniform");
  const Operand absent;
  return tracing::Apply(op, "random_uniform", {&absent, &b},
                        {{"shape", attributes.shape},
                         {"type", attributes.type},
                         {"low", attributes.low},
                         {"high", attributes.high},
                         {"seed", attributes.seed},
                         {"stream", attributes.stream}},
                        where);
}

// 1 / x.
inline Array reciprocal(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("reciprocal");
  return tracing::Apply(op, "reciprocal", {&a}, {}, where);
}

// The sum of absolute values.
struct ReduceL1Attributes {
  Ints axes = {};        // the axes to reduce; negative ones count from the end; empty: all
  int64_t keepdims = 1;  // 1: reduced axes stay, with extent 1
};
inline Array reduce_l1(const Operand& a, const ReduceL1Attributes& attributes = {},
                       Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("reduce_l1");
  return tracing::Apply(op, "reduce_l1", {&a},
                        {{"axes", attributes.axes}, {"keepdims", attributes.keepdims}}, where);
}

// The square root of the sum of squares.
struct ReduceL2Attributes {
  Ints axes = {};        // the axes to reduce; negative ones count from the end; empty: all
  int64_t keepdims = 1;  // 1: reduced axes stay, with extent 1
};
inline Array reduce_l2(const Operand& a, const ReduceL2Attributes& attributes = {},
                       Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("reduce_l2");
  return tracing::Apply(op, "reduce_l2", {&a},
                        {{"axes", attributes.axes}, {"keepdims", attributes.keepdims}}, where);
}

// The largest, or NaN if there is one; the least value of the type of nothing.
struct ReduceMaxAttributes {
  Ints axes = {};        // the axes to reduce; negative ones count from the end; empty: all
  int64_t keepdims = 1;  // 1: reduced axes stay, with extent 1
};
inline Array reduce_max(const Operand& a, const ReduceMaxAttributes& attributes = {},
                        Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("reduce_max");
  return tracing::Apply(op, "reduce_max", {&a},
                        {{"axes", attributes.axes}, {"keepdims", attributes.keepdims}}, where);
}

// The sum divided by the number of elements; NaN of nothing.
struct ReduceMeanAttributes {
  Ints axes = {};        // the axes to reduce; negative ones count from the end; empty: all
  int64_t keepdims = 1;  // 1: reduced axes stay, with extent 1
};
inline Array reduce_mean(const Operand& a, const ReduceMeanAttributes& attributes = {},
                         Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("reduce_mean");
  return tracing::Apply(op, "reduce_mean", {&a},
                        {{"axes", attributes.axes}, {"keepdims", attributes.keepdims}}, where);
}

// The smallest, or NaN if there is one; the greatest value of the type of nothing.
struct ReduceMinAttributes {
  Ints axes = {};        // the axes to reduce; negative ones count from the end; empty: all
  int64_t keepdims = 1;  // 1: reduced axes stay, with extent 1
};
inline Array reduce_min(const Operand& a, const ReduceMinAttributes& attributes = {},
                        Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("reduce_min");
  return tracing::Apply(op, "reduce_min", {&a},
                        {{"axes", attributes.axes}, {"keepdims", attributes.keepdims}}, where);
}

// The product; 1 of nothing.
struct ReduceProdAttributes {
  Ints axes = {};        // the axes to reduce; negative ones count from the end; empty: all
  int64_t keepdims = 1;  // 1: reduced axes stay, with extent 1
};
inline Array reduce_prod(const Operand& a, const ReduceProdAttributes& attributes = {},
                         Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("reduce_prod");
  return tracing::Apply(op, "reduce_prod", {&a},
                        {{"axes", attributes.axes}, {"keepdims", attributes.keepdims}}, where);
}

// The sum; 0 of nothing.
struct ReduceSumAttributes {
  Ints axes = {};        // the axes to reduce; negative ones count from the end; empty: all
  int64_t keepdims = 1;  // 1: reduced axes stay, with extent 1
};
inline Array reduce_sum(const Operand& a, const ReduceSumAttributes& attributes = {},
                        Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("reduce_sum");
  return tracing::Apply(op, "reduce_sum", {&a},
                        {{"axes", attributes.axes}, {"keepdims", attributes.keepdims}}, where);
}

// The sum of squares.
struct ReduceSumSquareAttributes {
  Ints axes = {};        // the axes to reduce; negative ones count from the end; empty: all
  int64_t keepdims = 1;  // 1: reduced axes stay, with extent 1
};
inline Array reduce_sum_square(const Operand& a, const ReduceSumSquareAttributes& attributes = {},
                               Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("reduce_sum_square");
  return tracing::Apply(op, "reduce_sum_square", {&a},
                        {{"axes", attributes.axes}, {"keepdims", attributes.keepdims}}, where);
}

// max(x, 0); NaN stays NaN.
inline Array relu(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("relu");
  return tracing::Apply(op, "relu", {&a}, {}, where);
}

// The same elements, row-major, under another shape.
struct ReshapeAttributes {
  Ints shape = {};        // the new shape; one -1 is inferred, 0 copies the extent at its place
  int64_t allowzero = 0;  // 1: a 0 in the shape is an extent of 0
};
inline Array reshape(const Operand& a, const ReshapeAttributes& attributes = {},
                     Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("reshape");
  return tracing::Apply(op, "reshape", {&a},
                        {{"shape", attributes.shape}, {"allowzero", attributes.allowzero}}, where);
}

// Rounds to the nearest whole number, ties to even.
inline Array round(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("round");
  return tracing::Apply(op, "round", {&a}, {}, where);
}

// 1 / sqrt(x).
inline Array rsqrt(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("rsqrt");
  return tracing::Apply(op, "rsqrt", {&a}, {}, where);
}

// Input 0, with element i of input 2 written to its own coordinates, but for that along `axis`,
// which input 1 gives. Updates of one element follow each other.
struct ScatterElementsAttributes {
  int64_t reduction =
      0;  // 0: the update replaces the element; 1: sum, 2: product, 3: maximum, 4: minimum of both
  int64_t axis = 0;  // the axis whose coordinate the indices give
};
inline Array scatter_elements(const Operand& a, const Operand& b, const Operand& c,
                              const ScatterElementsAttributes& attributes = {},
                              Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("scatter_elements");
  return tracing::Apply(op, "scatter_elements", {&a, &b, &c},
                        {{"reduction", attributes.reduction}, {"axis", attributes.axis}}, where);
}

// Input 0, with slices of input 2 written where the rows of input 1 say. Updates of one place
// follow each other.
struct ScatterNdAttributes {
  int64_t reduction =
      0;  // 0: the update replaces the element; 1: sum, 2: product, 3: maximum, 4: minimum of both
};
inline Array scatter_nd(const Operand& a, const Operand& b, const Operand& c,
                        const ScatterNdAttributes& attributes = {},
                        Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("scatter_nd");
  return tracing::Apply(op, "scatter_nd", {&a, &b, &c}, {{"reduction", attributes.reduction}},
                        where);
}

// Zeros, with slices of input 1 added in order where the rows of input 0 say, from the end where
// negative, clamped: what a gather's input takes.
struct ScatterSumAttributes {
  Ints shape = {};  // of the result
};
inline Array scatter_sum(const Operand& a, const Operand& b,
                         const ScatterSumAttributes& attributes = {},
                         Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("scatter_sum");
  return tracing::Apply(op, "scatter_sum", {&a, &b}, {{"shape", attributes.shape}}, where);
}

// gamma * elu(x).
struct SeluAttributes {
  double alpha = 1.67326;  // minus the limit at -inf, before gamma
  double gamma = 1.0507;   // a factor of everything
};
inline Array selu(const Operand& a, const SeluAttributes& attributes = {},
                  Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("selu");
  return tracing::Apply(op, "selu", {&a},
                        {{"alpha", attributes.alpha}, {"gamma", attributes.gamma}}, where);
}

// a << b; an amount outside the bits of a gives 0.
inline Array shift_left(const Operand& a, const Operand& b, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("shift_left");
  return tracing::Apply(op, "shift_left", {&a, &b}, {}, where);
}

// a >> b, with the sign; an amount outside the bits of a gives 0 or -1.
inline Array shift_right(const Operand& a, const Operand& b, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("shift_right");
  return tracing::Apply(op, "shift_right", {&a, &b}, {}, where);
}

// 1 / (1 + exp(-x)).
inline Array sigmoid(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("sigmoid");
  return tracing::Apply(op, "sigmoid", {&a}, {}, where);
}

// -1, 0 or 1; NaN and -0 stay.
inline Array sign(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("sign");
  return tracing::Apply(op, "sign", {&a}, {}, where);
}

// The sine; NaN at infinity.
inline Array sin(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("sin");
  return tracing::Apply(op, "sin", {&a}, {}, where);
}

// The hyperbolic sine.
inline Array sinh(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("sinh");
  return tracing::Apply(op, "sinh", {&a}, {}, where);
}

// A range of elements of some axes, with a step.
struct SliceAttributes {
  Ints starts = {};  // first element; negative: from the end; clamped
  Ints ends = {};    // one past the last; negative: from the end; clamped
  Ints axes = {};    // the axes that are sliced; absent: the first ones
  Ints steps = {};   // not 0; negative: backwards; absent: 1
};
inline Array slice(const Operand& a, const SliceAttributes& attributes = {},
                   Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("slice");
  return tracing::Apply(op, "slice", {&a},
                        {{"starts", attributes.starts},
                         {"ends", attributes.ends},
                         {"axes", attributes.axes},
                         {"steps", attributes.steps}},
                        where);
}

// exp(x - max) * (1 / sum(exp(x - max))) over an axis.
struct SoftmaxAttributes {
  int64_t axis = -1;  // the axis over which the results sum to 1
};
inline Array softmax(const Operand& a, const SoftmaxAttributes& attributes = {},
                     Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("softmax");
  return tracing::Apply(op, "softmax", {&a}, {{"axis", attributes.axis}}, where);
}

// log(1 + exp(x)).
inline Array softplus(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("softplus");
  return tracing::Apply(op, "softplus", {&a}, {}, where);
}

// x / (1 + |x|).
inline Array softsign(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("softsign");
  return tracing::Apply(op, "softsign", {&a}, {}, where);
}

// Consecutive parts along an axis; the inverse of concat.
struct SplitAttributes {
  int64_t axis = 0;  // the axis that is split
  Ints split = {};   // the extents of the parts; absent: equal ones, the last may be shorter
};
inline std::vector<Array> split(const Operand& a, const SplitAttributes& attributes,
                                Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("split");
  const std::array<const Operand*, 1> list = {&a};
  const std::initializer_list<tracing::Attribute> given = {{"axis", attributes.axis},
                                                           {"split", attributes.split}};
  std::vector<Array> results(attributes.split.size());
  tracing::Apply(op, "split", list.data(), list.size(), given.begin(), given.size(), where,
                 results.data(), results.size());
  return results;
}

// The square root; NaN below zero; -0 stays.
inline Array sqrt(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("sqrt");
  return tracing::Apply(op, "sqrt", {&a}, {}, where);
}

// Drops axes of extent 1.
struct SqueezeAttributes {
  Ints axes = {};  // the axes of extent 1 to drop; absent: all axes of extent 1
};
inline Array squeeze(const Operand& a, const SqueezeAttributes& attributes = {},
                     Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("squeeze");
  return tracing::Apply(op, "squeeze", {&a}, {{"axes", attributes.axes}}, where);
}

// x; no gradient goes through it.
inline Array stop_gradient(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("stop_gradient");
  return tracing::Apply(op, "stop_gradient", {&a}, {}, where);
}

// a - b; integers wrap.
inline Array sub(const Operand& a, const Operand& b, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("sub");
  return tracing::Apply(op, "sub", {&a, &b}, {}, where);
}

// x * sigmoid(alpha * x).
struct SwishAttributes {
  double alpha = 1;  // factor inside the sigmoid
};
inline Array swish(const Operand& a, const SwishAttributes& attributes = {},
                   Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("swish");
  return tracing::Apply(op, "swish", {&a}, {{"alpha", attributes.alpha}}, where);
}

// Slices of input 0 at coordinates that the other inputs, all of one shape, give for its first axes
// behind `batch`; clamped.
struct TakeAttributes {
  int64_t batch = 0;  // the first axes of the input that are also those of the indices
};
inline Array take(const OperandList& operands, const TakeAttributes& attributes = {},
                  Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("take");
  std::vector<const Operand*> list;
  for (const Operand& operand : operands.list()) list.push_back(&operand);
  const std::initializer_list<tracing::Attribute> given = {{"batch", attributes.batch}};
  std::array<Array, 1> results;
  tracing::Apply(op, "take", list.data(), list.size(), given.begin(), given.size(), where,
                 results.data(), results.size());
  return results[0];
}

// The tangent.
inline Array tan(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("tan");
  return tracing::Apply(op, "tan", {&a}, {}, where);
}

// The hyperbolic tangent.
inline Array tanh(const Operand& a, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("tanh");
  return tracing::Apply(op, "tanh", {&a}, {}, where);
}

// x above alpha, else 0.
struct ThresholdedReluAttributes {
  double alpha = 1;  // the threshold
};
inline Array thresholded_relu(const Operand& a, const ThresholdedReluAttributes& attributes = {},
                              Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("thresholded_relu");
  return tracing::Apply(op, "thresholded_relu", {&a}, {{"alpha", attributes.alpha}}, where);
}

// The k largest elements along an axis in order, and their places; of equal ones the first; NaN
// counts as largest.
struct TopKAttributes {
  tracing::Required<int64_t> k;  // how many
  int64_t axis = -1;             // the axis along which elements are compared
  int64_t largest = 1;           // 1: the largest; 0: the smallest
};
inline std::array<Array, 2> top_k(const Operand& a, const TopKAttributes& attributes,
                                  Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("top_k");
  const std::array<const Operand*, 1> list = {&a};
  const std::initializer_list<tracing::Attribute> given = {
      {"k", attributes.k.value}, {"axis", attributes.axis}, {"largest", attributes.largest}};
  std::array<Array, 2> results;
  tracing::Apply(op, "top_k", list.data(), list.size(), given.begin(), given.size(), where,
                 results.data(), results.size());
  return results;
}

// The axes in another order.
struct TransposeAttributes {
  Ints perm = {};  // axis i of the result is axis perm[i] of the input; absent: reversed
};
inline Array transpose(const Operand& a, const TransposeAttributes& attributes = {},
                       Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("transpose");
  return tracing::Apply(op, "transpose", {&a}, {{"perm", attributes.perm}}, where);
}

// Adds axes of extent 1.
struct UnsqueezeAttributes {
  Ints axes = {};  // where axes of extent 1 stand in the result
};
inline Array unsqueeze(const Operand& a, const UnsqueezeAttributes& attributes = {},
                       Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("unsqueeze");
  return tracing::Apply(op, "unsqueeze", {&a}, {{"axes", attributes.axes}}, where);
}

// Repeats every element: element i of an axis is element i / scale.
struct UpsampleAttributes {
  Ints scales = {};  // for each axis, how often an element is repeated
};
inline Array upsample(const Operand& a, const UpsampleAttributes& attributes = {},
                      Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("upsample");
  return tracing::Apply(op, "upsample", {&a}, {{"scales", attributes.scales}}, where);
}

// b where a is true, else c; the bits of the chosen one.
inline Array where(const Operand& a, const Operand& b, const Operand& c,
                   Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("where");
  return tracing::Apply(op, "where", {&a, &b, &c}, {}, where);
}

// Either a or b; bit by bit for integers.
inline Array xor_(const Operand& a, const Operand& b, Location where = Location::Here()) {
  static const OpDef* const op = tracing::FindOperator("xor");
  return tracing::Apply(op, "xor", {&a, &b}, {}, where);
}

}  // namespace kiln

#endif  // KILN_TRACE_OPS_H_
