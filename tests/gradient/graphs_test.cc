// SPDX-License-Identifier: Apache-2.0
// Gradients of whole graphs: what is asked for and refused, several readers of a value, second
// order, control flow, custom operators, and extents for which a graph is made again.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "graph/custom_op.h"
#include "graph/gradient/gradients.h"
#include "graph/op.h"
#include "graph/rebuild.h"
#include "graph/reference/gradient_check.h"
#include "graph/reference/interpreter.h"
#include "graph/text.h"
#include "gtest/gtest.h"
#include "kiln/gradients.h"
#include "tests/base/status_matchers.h"
#include "tests/gradient/control_texts.h"
#include "tests/gradient/distinct_numbers.h"
#include "tests/gradient/gradient_calls.h"
#include "tests/graph/tensors.h"

namespace kiln {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor F64(std::vector<int64_t> shape, const std::vector<double>& values) {
  return Make(DType::kF64, std::move(shape), values);
}
Tensor Noise(std::vector<int64_t> shape, uint64_t seed) {
  Tensor tensor = Tensor::Allocate(DType::kF64, std::move(shape));
  DistinctNumbers numbers(-1, 1, tensor.num_elements(), seed);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) WriteFloat(tensor, i, numbers.Next());
  return tensor;
}

int Count(const Graph& graph, absl::string_view op) {
  int count = 0;
  for (const Node& node : graph.nodes()) count += node.op->name == op ? 1 : 0;
  return count;
}

// The gradient of what two slices of x, [0, `end`) and [`begin`, 6) of axis 1, are squared to.
absl::StatusOr<Graph> GradientOfSlices(int64_t end, int64_t begin) {
  KILN_ASSIGN_OR_RETURN(const Graph graph, ParseGraph(absl::StrCat(R"(graph g
input x : f64 [2, 6, 3]
b = slice(x) {axes = [1], starts = [)",
                                                                   begin, R"(], ends = [6]}
a = slice(x) {axes = [1], starts = [0], ends = [)",
                                                                   end, R"(]}
p = mul(a, a)
q = exp(b)
r = reduce_sum(p) {keepdims = 0}
s = reduce_sum(q) {keepdims = 0}
loss = add(r, s)
output loss
)")));
  return Gradients(graph, graph.outputs()[0].value, graph.inputs());
}

TEST(Gradients, PartsThatFillAnAxisAreAConcat) {
  KILN_ASSERT_OK_AND_ASSIGN(const Graph whole, GradientOfSlices(2, 2));
  EXPECT_EQ(Count(whole, "concat"), 1);
  EXPECT_EQ(Count(whole, "pad"), 0);
  const Tensor x = Noise({2, 6, 3}, 1);
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got, Interpret(whole, {&x, 1}));
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const double v = ReadFloat(x, i), want = i / 3 % 6 < 2 ? 2 * v : std::exp(v);
    EXPECT_NEAR(ReadFloat(got[1], i), want, 1e-12) << i;
  }
}

TEST(Gradients, PartsWithGapsOrOverlapsAreSums) {
  for (const auto& [end, begin] : {std::pair(2, 3), std::pair(3, 2)}) {
    KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, GradientOfSlices(end, begin));
    EXPECT_EQ(Count(graph, "concat"), 0);
    EXPECT_EQ(Count(graph, "pad"), 2);
  }
}

TEST(Gradients, AsTheHeaderShows) {
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, ParseGraph(R"(graph g
input x : f32 [n]
y = exp(x)
loss = reduce_sum(y) {keepdims = 0}
output loss
)"));
  KILN_ASSERT_OK_AND_ASSIGN(const Graph gradients,
                            Gradients(graph, graph.outputs()[0].value, graph.inputs()));
  EXPECT_EQ(Print(gradients), R"(graph g
input x : f32 [n]
const const : f32 [] = 1.0
y : f32 [n] = exp(x)
loss : f32 [] = reduce_sum(y) {keepdims = 0}
unsqueeze : f32 [1] = unsqueeze(const) {axes = [0]}
expand : f32 [n] = expand(unsqueeze) {shape = [n]}
mul : f32 [n] = mul(expand, y)
output loss
output d_x = mul
)");
}

TEST(Gradients, OfABuilder) {
  GraphBuilder b("line");
  const ValueId x = b.Input("x", DType::kF32, {3});
  const ValueId w = b.Constant(F32({}, {2}));
  const ValueId unused = b.Input("unused", DType::kF32, {2});
  const ValueId y = b.Op("mul", {x, w});
  const ValueId loss = b.Op("reduce_sum", {b.Op("mul", {y, y})});
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<ValueId> d, Gradients(b, loss, {x, w, y, unused}));
  for (size_t k = 0; k < d.size(); ++k) b.Output(d[k], absl::StrCat("d", k));
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).Finish());
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got,
                            Interpret(graph, std::vector{F32({3}, {1, 2, 3}), F32({2}, {0, 0})}));
  EXPECT_THAT(Values(got[0]), ElementsAre(8, 16, 24));
  EXPECT_THAT(Values(got[1]), ElementsAre(56));
  EXPECT_THAT(Values(got[2]), ElementsAre(4, 8, 12));
  EXPECT_THAT(Values(got[3]), ElementsAre(0, 0));
}

TEST(Gradients, Refuses) {
  GraphBuilder b("wrong");
  const ValueId x = b.Input("x", DType::kF32, {3});
  const ValueId i = b.Input("i", DType::kI64, {3});
  const ValueId loss = b.Op("reduce_sum", {x});
  EXPECT_THAT(Gradients(b, x, {x}).status().message(),
              HasSubstr("the loss \"x\" is [3]; it must have one element"));
  EXPECT_THAT(Gradients(b, loss, {i}).status().message(),
              HasSubstr("\"i\" is i64; gradients are of floats"));
  EXPECT_THAT(Gradients(b, loss, {ValueId{99}}).status().message(), HasSubstr("no value"));
  CustomOp op;
  op.domain = "test";
  op.name = "Opaque";
  op.infer = [](std::span<const Value* const> inputs,
                const Attrs&) -> absl::StatusOr<std::vector<CustomOutput>> {
    return std::vector<CustomOutput>{{inputs[0]->type, inputs[0]->shape}};
  };
  op.run = [](std::span<const Tensor>, const Attrs&, std::span<Tensor>) {
    return absl::OkStatus();
  };
  Graph graph;
  const ValueId y = graph.AddInput("y", DType::kF32, {});
  const Attrs none;
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<ValueId> made,
                            AddCustomOp(graph, op, {{y}, none}, "mine"));
  EXPECT_THAT(Gradients(graph, made[0], {y}).status().message(),
              HasSubstr("gradient of node \"mine\" (custom): custom op \"test.Opaque\" has no "
                        "`gradient`"));
}

// A cube with a gradient of its own, `factor` x^2.
absl::StatusOr<Graph> CubeGraph(double factor) {
  CustomOp op;
  op.domain = "test";
  op.name = "Cube";
  op.infer = [](std::span<const Value* const> inputs,
                const Attrs&) -> absl::StatusOr<std::vector<CustomOutput>> {
    return std::vector<CustomOutput>{{inputs[0]->type, inputs[0]->shape}};
  };
  op.run = [](std::span<const Tensor> inputs, const Attrs&, std::span<Tensor> outputs) {
    for (int64_t i = 0; i < inputs[0].num_elements(); ++i)
      WriteFloat(outputs[0], i, std::pow(ReadFloat(inputs[0], i), 3));
    return absl::OkStatus();
  };
  op.gradient = [factor](GraphBuilder& b, const CustomCall& call, const std::vector<ValueId>&,
                         const std::vector<ValueId>& g) -> absl::StatusOr<std::vector<ValueId>> {
    const ValueId x = call.inputs[0];
    const ValueId slope = b.Op("mul", {b.Op("mul", {x, x}), b.Scalar(b.type(x), factor)});
    return std::vector<ValueId>{b.Op("mul", {g[0], slope})};
  };
  Graph graph;
  const ValueId x = graph.AddInput("x", DType::kF64, {5});
  const Attrs none;
  KILN_ASSIGN_OR_RETURN(const std::vector<ValueId> made,
                        AddCustomOp(graph, op, {{x}, none}, "cube"));
  graph.AddOutput(made[0], "y");
  return graph;
}

TEST(Gradients, OfACustomOp) {
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, CubeGraph(3));
  KILN_EXPECT_OK(CheckGradients(graph, {Noise({5}, 3)}));
}

TEST(GradientCheck, SeesAWrongGradient) {
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, CubeGraph(3.00001));
  for (const bool together : {false, true}) {
    const absl::Status status = CheckGradients(
        graph, {Noise({5}, 3)}, {.steps = {1e-3, 1e-4}, .most_elements = 0, .together = together});
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(status.message(), HasSubstr("differences say"));
  }
}

// round(x), whose gradient is that of x: a node until composites are expanded.
TEST(Gradients, OfAComposedOp) {
  CustomOp op;
  op.domain = "test";
  op.name = "StraightThrough";
  op.compose = [](GraphBuilder& b, const CustomCall& call) -> absl::StatusOr<std::vector<ValueId>> {
    return std::vector<ValueId>{b.Op("round", {call.inputs[0]})};
  };
  op.gradient = [](GraphBuilder&, const CustomCall&, const std::vector<ValueId>&,
                   const std::vector<ValueId>& g) -> absl::StatusOr<std::vector<ValueId>> {
    return g;
  };
  GraphBuilder b("through");
  const ValueId x = b.Input("x", DType::kF64, {Dim::Symbol("n")});
  Graph graph = b.graph();
  const Attrs none;
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<ValueId> made,
                            AddCustomOp(graph, op, {{x}, none}, "through"));
  GraphBuilder more(&graph);
  graph.AddOutput(more.Op("reduce_sum", {more.Op("mul", {made[0], made[0]})}), "loss");
  KILN_ASSERT_OK(more.status());
  KILN_ASSERT_OK_AND_ASSIGN(const Graph d, Gradients(graph, graph.outputs()[0].value, {x}));
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got,
                            Interpret(d, std::vector{F64({2}, {1.4, -2.7})}));
  EXPECT_THAT(Values(got[0]), ElementsAre(10));
  EXPECT_THAT(Values(got[1]), ElementsAre(2, -6));
}

// Gradients of gradients are gradients.
TEST(Gradients, OfSecondOrder) {
  for (const OpDef* op : AllOps()) {
    const bool smooth = op->kind == OpKind::kScalar || op->kind == OpKind::kComposite ||
                        op->kind == OpKind::kReduce;
    if (!smooth || op->gradient.none != nullptr || CallsOf(*op).empty()) continue;
    if (std::string(op->name) == "stop_gradient") continue;
    const std::string text = CallsOf(*op)[1];
    SCOPED_TRACE(text);
    KILN_ASSERT_OK_AND_ASSIGN(GradientCall call, MakeCall(text, DType::kF64, 5));
    std::vector<ValueId> wrt;
    for (const ValueId id : call.graph.inputs()) {
      if (IsFloat(call.graph.value(id).type)) wrt.push_back(id);
    }
    KILN_ASSERT_OK_AND_ASSIGN(const Graph loss, WithScalarLoss(call.graph, call.inputs, 1));
    KILN_ASSERT_OK_AND_ASSIGN(const Graph first, Gradients(loss, loss.outputs()[0].value, wrt));
    KILN_EXPECT_OK(CheckGradients(first, call.inputs, {.relative = 2e-6}));
  }
}

TEST(Gradients, OfIf) {
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, ParseGraph(BranchesText("f64")));
  for (const double c : {0.0, 1.0}) {
    KILN_EXPECT_OK(
        CheckGradients(graph, {Make(DType::kBool, {}, {c}), Noise({3, 2}, 1), F64({}, {0.7})}));
  }
}

TEST(Gradients, OfLoop) {
  const Tensor s = Noise({4}, 1), w = Noise({4}, 2);
  for (const int trips : {1, 3, 0}) {
    KILN_ASSERT_OK_AND_ASSIGN(
        const Graph known,
        ParseGraph(LoopText("f64", absl::StrCat("const m : i64 [] = ", trips), "output c")));
    if (trips > 0) {
      KILN_EXPECT_OK(CheckGradients(known, {s, w})) << trips;
    }
    KILN_ASSERT_OK_AND_ASSIGN(const Graph open,
                              ParseGraph(LoopText("f64", "input m : i64 []", "output c")));
    KILN_EXPECT_OK(CheckGradients(open, {I64({}, {static_cast<double>(trips)}), s, w})) << trips;
  }
}

// The condition ends it after the third turn.
TEST(Gradients, OfLoopThatItsConditionEnds) {
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph,
                            ParseGraph(LoopText("f64", "input m : i64 []", kUntilTwo)));
  KILN_EXPECT_OK(CheckGradients(graph, {I64({}, {9}), Noise({4}, 1), Noise({4}, 2)}));
}

// x [n] + y [m] is made under n == m; for n == 1 it repeats x, and the gradient of x is a sum.
constexpr char kBroadcast[] = R"(graph g
input x : f64 [n]
input y : f64 [m]
v = add(x, y)
q = mul(v, v)
loss = reduce_sum(q) {keepdims = 0}
output loss
)";

TEST(Gradients, AreMadeAgainForOtherExtents) {
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, ParseGraph(kBroadcast));
  KILN_ASSERT_OK_AND_ASSIGN(const Graph gradients,
                            Gradients(graph, graph.outputs()[0].value, graph.inputs()));
  KILN_ASSERT_OK_AND_ASSIGN(const Graph other, WithInputShapes(gradients, {{1}, {3}}));
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got,
                            Interpret(other, std::vector{F64({1}, {1}), F64({3}, {1, 2, 3})}));
  EXPECT_THAT(Values(got[1]), ElementsAre(18));
  EXPECT_THAT(Values(got[2]), ElementsAre(4, 6, 8));
}

TEST(Gradients, OfABuilderHoldToItsGuards) {
  GraphBuilder b("broadcast");
  const ValueId x = b.Input("x", DType::kF64, {Dim::Symbol("n")});
  const ValueId y = b.Input("y", DType::kF64, {Dim::Symbol("m")});
  const ValueId loss = b.Op("reduce_sum", {b.Op("mul", {x, y})});
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<ValueId> d, Gradients(b, loss, {x}));
  b.Output(d[0], "d");
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).Finish());
  KILN_EXPECT_OK(WithInputShapes(graph, {{3}, {3}}).status());
  EXPECT_THAT(Print(graph), HasSubstr("premise m == n\n"));
  KILN_ASSERT_OK_AND_ASSIGN(const Graph read, ParseGraph(Print(graph)));
  EXPECT_EQ(Print(read), Print(graph));
  EXPECT_EQ(WithInputShapes(read, {{1}, {3}}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(WithInputShapes(graph, {{1}, {3}}).status().message(),
              HasSubstr("its gradients are made for extents with"));
}

}  // namespace
}  // namespace kiln
