// SPDX-License-Identifier: Apache-2.0
// The rulings on special values and the meaning of ops, by vectors written by hand or taken from
// the ONNX specification.
#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "graph/reference/interpreter.h"
#include "gtest/gtest.h"
#include "kiln/graph.h"
#include "tests/base/status_matchers.h"
#include "tests/graph/tensors.h"

namespace kiln {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::Pointwise;

constexpr double kInf = INFINITY;
const double kNan = std::numeric_limits<double>::quiet_NaN();
using L = std::vector<int64_t>;

Tensor Call(const char* op, const std::vector<Tensor>& inputs, Attrs attrs = {}) {
  GraphBuilder b("g");
  std::vector<ValueId> ids;
  for (size_t k = 0; k < inputs.size(); ++k)
    ids.push_back(b.Input("x" + std::to_string(k), inputs[k].dtype(), ToShape(inputs[k].shape())));
  b.Output(b.Op(op, ids, std::move(attrs)), "y");
  absl::StatusOr<Graph> g = std::move(b).Finish();
  EXPECT_TRUE(g.ok()) << g.status();
  if (!g.ok()) return F32({0}, {});
  absl::StatusOr<std::vector<Tensor>> out = Interpret(*g, inputs);
  EXPECT_TRUE(out.ok()) << out.status();
  return out.ok() ? (*out)[0] : F32({0}, {});
}

std::vector<double> On(const char* op, const std::vector<double>& x, Attrs attrs = {}) {
  return Values(Call(op, {F32({static_cast<int64_t>(x.size())}, x)}, std::move(attrs)));
}
std::vector<double> On2(const char* op, const std::vector<double>& x,
                        const std::vector<double>& y) {
  return Values(Call(
      op, {F32({static_cast<int64_t>(x.size())}, x), F32({static_cast<int64_t>(y.size())}, y)}));
}
std::vector<double> Ints(const char* op, DType type, const std::vector<double>& x,
                         const std::vector<double>& y, Attrs attrs = {}) {
  return Values(Call(op,
                     {Make(type, {static_cast<int64_t>(x.size())}, x),
                      Make(type, {static_cast<int64_t>(y.size())}, y)},
                     std::move(attrs)));
}

MATCHER(SameFloat, "") {
  const auto& [a, b] = arg;
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}
auto Exactly(std::vector<double> want) { return Pointwise(SameFloat(), want); }
auto Near(std::vector<double> want) { return Pointwise(testing::FloatNear(1e-6f), want); }

TEST(SemanticsTest, NanGoesThroughMaxMinReluAndClip) {
  EXPECT_THAT(On2("max", {kNan, 1, 2}, {1, kNan, 3}), Exactly({kNan, kNan, 3}));
  EXPECT_THAT(On2("min", {kNan, 1, 2}, {1, kNan, 3}), Exactly({kNan, kNan, 2}));
  EXPECT_THAT(On("relu", {kNan, -1, kInf, -kInf}), Exactly({kNan, 0, kInf, 0}));
  EXPECT_THAT(Values(Call("clip", {F32({3}, {kNan, -9, 9}), F32({}, {-1}), F32({}, {1})})),
              Exactly({kNan, -1, 1}));
  EXPECT_THAT(Values(Call("reduce_max", {F32({3}, {1, kNan, 3})})), Exactly({kNan}));
  EXPECT_THAT(On("sign", {kNan, -0.0, 0.0, -kInf, 7}), Exactly({kNan, -0.0, 0, -1, 1}));
}

TEST(SemanticsTest, NegativeZero) {
  EXPECT_THAT(On("abs", {-0.0}), Exactly({0.0}));
  EXPECT_THAT(On("neg", {0.0, -0.0}), Exactly({-0.0, 0.0}));
  EXPECT_THAT(On("sqrt", {-0.0, -1}), Exactly({-0.0, kNan}));
  EXPECT_THAT(On("round", {-0.4, 0.5, 1.5, 2.5, -2.5}), Exactly({-0.0, 0, 2, 2, -2}));
  EXPECT_THAT(On("floor", {-0.0, -0.5}), Exactly({-0.0, -1}));
  EXPECT_THAT(On("ceil", {-0.5, 0.5}), Exactly({-0.0, 1}));
  EXPECT_THAT(On2("add", {-0.0, -0.0}, {-0.0, 0.0}), Exactly({-0.0, 0.0}));
  EXPECT_THAT(Values(Call("where", {Make(DType::kBool, {2}, {1, 0}), F32({2}, {-0.0, 1}),
                                    F32({2}, {1, -0.0})})),
              Exactly({-0.0, -0.0}));
}

TEST(SemanticsTest, FloatDivisionAndPowers) {
  EXPECT_THAT(On2("div", {1, -1, 0}, {0, 0, 0}), Exactly({kInf, -kInf, kNan}));
  EXPECT_THAT(On("reciprocal", {0.0, -0.0, 4}), Exactly({kInf, -kInf, 0.25}));
  EXPECT_THAT(On2("pow", {2, 0, -8, -2, kNan}, {3, 0, 1.0 / 3, 3, 0}),
              Exactly({8, 1, kNan, -8, 1}));
  EXPECT_THAT(On("log", {0, -1, 1}), Exactly({-kInf, kNan, 0}));
  EXPECT_THAT(On("exp", {-kInf, kInf, 1000, 0}), Exactly({0, kInf, kInf, 1}));
}

TEST(SemanticsTest, SimpleExponentsBecomeMultiplications) {
  for (const double exponent : {1.0, 2.0, 3.0, 4.0, 0.5, 5.0, -1.0}) {
    GraphBuilder b("g");
    b.Output(b.Op("pow", {b.Input("x", DType::kF32, {3}), b.Scalar(DType::kF32, exponent)}), "y");
    KILN_ASSERT_OK_AND_ASSIGN(const Graph g, std::move(b).Finish());
    bool calls = false;
    const ScalarExpr body = ScalarBodyOf(g, g.nodes()[0]);
    for (const ExprNode& node : body.nodes()) calls |= node.op == ScalarOp::kPow;
    EXPECT_EQ(calls, exponent == 5.0) << exponent;
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> out,
                              Interpret(g, std::vector<Tensor>{F32({3}, {1.5, -0.0, -kInf})}));
    EXPECT_THAT(Values(out[0]), Exactly({static_cast<float>(std::pow(1.5, exponent)),
                                         std::pow(-0.0, exponent), std::pow(-kInf, exponent)}))
        << exponent;
  }
}

TEST(SemanticsTest, IntegersWrap) {
  EXPECT_THAT(Ints("add", DType::kI8, {127, -128}, {1, -1}), ElementsAre(-128, 127));
  EXPECT_THAT(Ints("mul", DType::kU8, {200}, {2}), ElementsAre(144));
  EXPECT_THAT(Ints("sub", DType::kU32, {0}, {1}), ElementsAre(4294967295.0));
  EXPECT_THAT(Values(Call("neg", {Make(DType::kI8, {1}, {-128})})), ElementsAre(-128));
  EXPECT_THAT(Values(Call("abs", {Make(DType::kI16, {2}, {-32768, -3})})), ElementsAre(-32768, 3));
  EXPECT_THAT(Values(Call("reduce_sum", {Make(DType::kU8, {2}, {200, 100})})), ElementsAre(44));
  EXPECT_THAT(Ints("pow", DType::kI32, {3, -2, 7, 2, 1, 2}, {4, 3, 0, 31, -5, -1}),
              ElementsAre(81, -8, 1, -2147483648.0, 1, 0));
}

TEST(SemanticsTest, IntegerDivisionNeverTraps) {
  EXPECT_THAT(Ints("div", DType::kI32, {7, -7, 5, -2147483648.0}, {2, 2, 0, -1}),
              ElementsAre(3, -3, 0, -2147483648.0));
  EXPECT_THAT(Ints("mod", DType::kI32, {7, -7, 7, -7, 5}, {3, 3, -3, -3, 0}),
              ElementsAre(1, 2, -2, -1, 0));
  EXPECT_THAT(Ints("mod", DType::kI32, {-7, 7}, {3, -3}, {{"fmod", int64_t{1}}}),
              ElementsAre(-1, 1));
  EXPECT_THAT(Ints("div", DType::kU64, {-1}, {2}), ElementsAre(0x1p63));
}

TEST(SemanticsTest, CastsSaturateTruncateAndWrap) {
  const auto to = [](DType type, const Tensor& x) {
    return Values(Call("cast", {x}, {{"to", type}}));
  };
  EXPECT_THAT(to(DType::kI8, F32({5}, {300, -300, kNan, -1.9, kInf})),
              ElementsAre(127, -128, 0, -1, 127));
  EXPECT_THAT(to(DType::kU8, F32({3}, {-5, 255.9, 256})), ElementsAre(0, 255, 255));
  EXPECT_THAT(to(DType::kI8, I64({2}, {300, -129})), ElementsAre(44, 127));
  EXPECT_THAT(to(DType::kBool, F32({4}, {0, -0.0, kNan, 0.5})), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(to(DType::kF16, F32({3}, {65520, 1e-8, 2049})), Exactly({kInf, 0, 2048}));
  EXPECT_THAT(to(DType::kF32, I64({1}, {16777217})), ElementsAre(16777216));
}

TEST(SemanticsTest, ComparisonsWithNanAreFalse) {
  EXPECT_THAT(On2("equal", {kNan, 1, 0}, {kNan, 1, -0.0}), ElementsAre(0, 1, 1));
  EXPECT_THAT(On2("not_equal", {kNan, 1}, {kNan, 1}), ElementsAre(1, 0));
  EXPECT_THAT(On2("less", {kNan, 1, 1}, {1, kNan, 2}), ElementsAre(0, 0, 1));
  EXPECT_THAT(On2("greater_equal", {kNan, 2, 1}, {1, 2, 2}), ElementsAre(0, 1, 0));
  EXPECT_THAT(Ints("less", DType::kU64, {1}, {-1}), ElementsAre(1));  // 2^64 - 1
  EXPECT_THAT(On("is_nan", {kNan, kInf, 0}), ElementsAre(1, 0, 0));
  EXPECT_THAT(On("is_inf", {kNan, kInf, -kInf}, {{"detect_negative", int64_t{0}}}),
              ElementsAre(0, 1, 0));
}

TEST(SemanticsTest, LogicOnBoolsAndBits) {
  EXPECT_THAT(Ints("and", DType::kBool, {0, 0, 1, 1}, {0, 1, 0, 1}), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(Ints("xor", DType::kBool, {0, 0, 1, 1}, {0, 1, 0, 1}), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(Values(Call("not", {Make(DType::kBool, {2}, {0, 1})})), ElementsAre(1, 0));
  EXPECT_THAT(Values(Call("not", {Make(DType::kU8, {1}, {1})})), ElementsAre(254));
  EXPECT_THAT(Ints("or", DType::kI32, {5}, {-8}), ElementsAre(-3));
}

// By the formulas, evaluated outside.
TEST(SemanticsTest, Activations) {
  EXPECT_THAT(On("leaky_relu", {-2, 3}, {{"alpha", 0.1}}), Near({-0.2, 3}));
  EXPECT_THAT(On("elu", {-1, 2}, {{"alpha", 2.0}}), Near({-1.2642411, 2}));
  EXPECT_THAT(On("selu", {-1, 1}), Near({-1.1113307, 1.0507010}));
  EXPECT_THAT(On("celu", {-1, 1}, {{"alpha", 2.0}}), Near({-0.7869387, 1}));
  EXPECT_THAT(On("hard_sigmoid", {-5, 0, 1, 5}), Near({0, 0.5, 0.7, 1}));
  EXPECT_THAT(Values(Call("hard_sigmoid", {Make(DType::kF64, {1}, {1})})),  // attributes are f32
              ElementsAre(static_cast<double>(0.2F) + 0.5));
  EXPECT_THAT(On("hard_swish", {-4, -1, 0, 4}), Near({0, -1.0 / 3, 0, 4}));
  EXPECT_THAT(On("softplus", {-1, 0, 1000}), Near({0.3132617, 0.6931472, 1000}));
  EXPECT_THAT(On("softsign", {-1, 3}), Near({-0.5, 0.75}));
  EXPECT_THAT(On("swish", {-1, 1}), Near({-0.2689414, 0.7310586}));
  EXPECT_THAT(On("mish", {-1, 1}), Near({-0.3034015, 0.8650984}));
  EXPECT_THAT(On("sigmoid", {-kInf, kInf, 0}), Exactly({0, 1, 0.5}));
  EXPECT_THAT(On("gelu", {-1, 0, 1}), Near({-0.1586553, 0, 0.8413447}));
  EXPECT_THAT(On("gelu", {-1, 1}, {{"approximate", std::string("tanh")}}),
              Near({-0.1588080, 0.8411920}));
  EXPECT_THAT(On("thresholded_relu", {-1, 1.5, kNan}, {{"alpha", 1.0}}), Exactly({0, 1.5, 0}));
}

TEST(SemanticsTest, Broadcasting) {
  EXPECT_THAT(Values(Call("sub", {F32({2, 1}, {10, 20}), F32({3}, {1, 2, 3})})),
              ElementsAre(9, 8, 7, 19, 18, 17));
  EXPECT_THAT(Values(Call("mul", {F32({}, {2}), F32({2, 2}, {1, 2, 3, 4})})),
              ElementsAre(2, 4, 6, 8));
}

TEST(SemanticsTest, Reductions) {
  const Tensor x = F32({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(Values(Call("reduce_sum", {x}, {{"axes", L{1}}})), ElementsAre(6, 15));
  EXPECT_THAT(Values(Call("reduce_mean", {x}, {{"axes", L{0}}, {"keepdims", int64_t{0}}})),
              ElementsAre(2.5, 3.5, 4.5));
  EXPECT_THAT(Values(Call("reduce_prod", {x})), ElementsAre(720));
  EXPECT_THAT(Values(Call("reduce_l1", {F32({2}, {-3, 4})})), ElementsAre(7));
  EXPECT_THAT(Values(Call("reduce_l2", {F32({2}, {-3, 4})})), ElementsAre(5));
  EXPECT_THAT(Values(Call("reduce_sum_square", {x}, {{"axes", L{-1}}})), ElementsAre(14, 77));
  EXPECT_THAT(Values(Call("reduce_mean", {Make(DType::kI32, {3}, {-1, -2, -4})})), ElementsAre(-2));
  EXPECT_THAT(Values(Call("reduce_min", {Make(DType::kI8, {0}, {})})), ElementsAre(127));
}

TEST(SemanticsTest, Movement) {
  const Tensor x = F32({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(Values(Call("transpose", {x})), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(Values(Call("slice", {x},
                          {{"starts", L{-1}}, {"ends", L{-4}}, {"axes", L{1}}, {"steps", L{-2}}})),
              ElementsAre(3, 1, 6, 4));
  EXPECT_THAT(Values(Call("concat", {x, F32({2, 1}, {7, 8})}, {{"axis", int64_t{1}}})),
              ElementsAre(1, 2, 3, 7, 4, 5, 6, 8));
  EXPECT_THAT(Values(Call("gather", {x, I64({2}, {-1, 0})}, {{"axis", int64_t{1}}})),
              ElementsAre(3, 1, 6, 4));
  EXPECT_THAT(Values(Call("gather", {x, I64({2}, {99, -99})}, {{"axis", int64_t{0}}})),
              ElementsAre(4, 5, 6, 1, 2, 3));
  EXPECT_THAT(Values(Call("pad", {x}, {{"pads", L{0, 1, 1, -1}}, {"value", 9.0}})),
              ElementsAre(9, 1, 2, 9, 4, 5, 9, 9, 9));
  EXPECT_THAT(Values(Call("expand", {F32({2, 1}, {1, 2})}, {{"shape", L{1, 2}}})),
              ElementsAre(1, 1, 2, 2));
  EXPECT_THAT(Values(Call("upsample", {x}, {{"scales", L{1, 2}}})),
              ElementsAre(1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6));
  EXPECT_THAT(Values(Call("shape", {x})), ElementsAre(2, 3));
}

TEST(SemanticsTest, Normalisations) {
  EXPECT_THAT(On("softmax", {1, 2, 3}), Near({0.09003057, 0.24472848, 0.66524094}));
  EXPECT_THAT(On("log_softmax", {1, 2, 3}), Near({-2.4076059, -1.4076059, -0.4076059}));
  EXPECT_THAT(
      Values(Call("layer_norm", {F32({1, 2}, {1, 3}), F32({2}, {2, 2}), F32({2}, {0.5, 0.5})},
                  {{"epsilon", 0.0}})),
      Near({-1.5, 2.5}));
  EXPECT_THAT(Values(Call("batch_norm",
                          {F32({1, 2, 1}, {3, 5}), F32({2}, {2, 1}), F32({2}, {0, 1}),
                           F32({2}, {1, 5}), F32({2}, {4, 1})},
                          {{"epsilon", 0.0}})),
              Near({2, 1}));
  EXPECT_THAT(Values(Call("instance_norm", {F32({1, 1, 2}, {1, 3}), F32({1}, {1}), F32({1}, {0})},
                          {{"epsilon", 0.0}})),
              Near({-1, 1}));
  EXPECT_THAT(Values(Call("global_average_pool", {F32({1, 2, 2}, {1, 3, 5, 9})})),
              ElementsAre(2, 7));
}

TEST(SemanticsTest, MatrixProducts) {
  const Tensor a = F32({2, 2}, {1, 2, 3, 4});
  const Tensor b = F32({2, 2}, {5, 6, 7, 8});
  EXPECT_THAT(Values(Call("matmul", {a, b})), ElementsAre(19, 22, 43, 50));
  EXPECT_THAT(Values(Call("matmul", {a, b}, {{"trans_a", int64_t{1}}})),
              ElementsAre(26, 30, 38, 44));
  EXPECT_THAT(Values(Call("matmul", {a, b}, {{"trans_b", int64_t{1}}})),
              ElementsAre(17, 23, 39, 53));
  EXPECT_THAT(Values(Call("matmul", {F32({2}, {1, 2}), b})), ElementsAre(19, 22));
  EXPECT_THAT(Values(Call("matmul", {a, F32({2}, {1, 2})})), ElementsAre(5, 11));
  EXPECT_THAT(Values(Call("matmul", {F32({2, 1, 1}, {2, 3}), F32({1, 1, 2}, {1, 5})})),
              ElementsAre(2, 10, 3, 15));
  EXPECT_THAT(Values(Call("matmul", {F32({2, 0}, {}), F32({0, 2}, {})})), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(
      Values(Call("matmul", {Make(DType::kI8, {1, 1}, {100}), Make(DType::kI8, {1, 1}, {2})})),
      ElementsAre(-56));
  EXPECT_THAT(Values(Call("gemm", {a, b, F32({2}, {1, 10})}, {{"alpha", 2.0}, {"beta", 0.5}})),
              ElementsAre(38.5, 49, 86.5, 105));
}

// The first two from the ONNX specification's examples for Conv and ConvTranspose.
TEST(SemanticsTest, Convolutions) {
  std::vector<double> count(25);
  for (size_t i = 0; i < count.size(); ++i) count[i] = static_cast<double>(i);
  const Tensor x = F32({1, 1, 5, 5}, count);
  const Tensor ones = FilledTensor(DType::kF32, {1, 1, 3, 3}, 1);
  EXPECT_THAT(Values(Call("conv", {x, ones}, {{"pads", L{1, 1, 1, 1}}, {"strides", L{2, 2}}})),
              ElementsAre(12, 27, 24, 63, 108, 81, 72, 117, 84));
  EXPECT_THAT(Values(Call("conv_transpose", {F32({1, 1, 2, 2}, {0, 1, 2, 3}), ones}, {})),
              ElementsAre(0, 1, 1, 1, 2, 6, 6, 4, 2, 6, 6, 4, 2, 5, 5, 3));
  EXPECT_THAT(Values(Call("conv",
                          {F32({1, 2, 3}, {1, 2, 3, 4, 5, 6}), F32({2, 1, 2}, {1, 1, 1, -1}),
                           F32({2}, {0, 100})},
                          {{"group", int64_t{2}}})),
              ElementsAre(3, 5, 99, 99));
  EXPECT_THAT(Values(Call("conv", {F32({1, 1, 5}, {1, 2, 3, 4, 5}), F32({1, 1, 2}, {1, 10})},
                          {{"dilations", L{3}}})),
              ElementsAre(41, 52));
  EXPECT_THAT(Values(Call("conv_transpose", {F32({1, 1, 2}, {1, 2}), F32({1, 1, 3}, {1, 10, 100})},
                          {{"strides", L{2}}, {"pads", L{1, 1}}, {"output_padding", L{1}}})),
              ElementsAre(10, 102, 20, 200));
}

TEST(SemanticsTest, Pools) {
  const Tensor x = F32({1, 1, 4}, {1, 2, 3, 4});
  const auto pool = [&](const char* op, Attrs attrs) {
    attrs["kernel"] = L{3};
    return Values(Call(op, {x}, std::move(attrs)));
  };
  EXPECT_THAT(pool("max_pool", {{"pads", L{1, 1}}}), ElementsAre(2, 3, 4, 4));
  EXPECT_THAT(pool("max_pool", {{"strides", L{2}}, {"ceil_mode", int64_t{1}}}), ElementsAre(3, 4));
  EXPECT_THAT(pool("average_pool", {{"pads", L{1, 1}}}), ElementsAre(1.5, 2, 3, 3.5));
  EXPECT_THAT(pool("average_pool", {{"pads", L{1, 1}}, {"count_include_pad", int64_t{1}}}),
              Near({1, 2, 3, 7.0 / 3}));
  EXPECT_THAT(Values(Call("max_pool", {F32({1, 1, 3}, {1, kNan, 3})}, {{"kernel", L{2}}})),
              Exactly({kNan, kNan}));
}

TEST(SemanticsTest, GradientsOfWindows) {
  const Tensor g = F32({1, 1, 2}, {10, 1});
  EXPECT_THAT(
      Values(Call("conv_backward_weights", {F32({1, 1, 3}, {1, 2, 3}), g}, {{"kernel", L{2}}})),
      ElementsAre(12, 23));
  EXPECT_THAT(
      Values(Call("max_pool_backward", {F32({1, 1, 4}, {1, 3, 3, 2}), F32({1, 1, 3}, {1, 10, 100})},
                  {{"kernel", L{2}}})),
      ElementsAre(0, 11, 100, 0));
  EXPECT_THAT(Values(Call("average_pool_backward", {F32({1, 1, 3}, {2, 4, 6})},
                          {{"kernel", L{2}}, {"shape", L{1, 1, 4}}})),
              ElementsAre(1, 3, 5, 3));
  EXPECT_THAT(Values(Call("conv_transpose", {F32({1, 1, 2}, {1, 2}), F32({1, 1, 1}, {3})},
                          {{"strides", L{3}}, {"extents", L{6}}})),
              ElementsAre(3, 0, 0, 6, 0, 0));
}

TEST(SemanticsTest, SixteenBitFloatsRoundOnceInAComposite) {
  const Tensor x = Make(DType::kF16, {1, 3}, {1, 2, 3});
  EXPECT_THAT(Values(Call("softmax", {x})),
              ElementsAre(RoundTo(0.09003057317, DType::kF16), RoundTo(0.2447284711, DType::kF16),
                          RoundTo(0.6652409558, DType::kF16)));
}

}  // namespace
}  // namespace kiln
