// SPDX-License-Identifier: Apache-2.0
// What library calls take along, and why not more.
#include "fusion/library_call.h"
#include "fusion/form_groups.h"

#include "absl/strings/str_replace.h"
#include "fusion/bytes_accessed.h"
#include "gmock/gmock.h"
#include "tests/fusion/nets.h"

namespace kiln {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<LibraryCall> CallsOf(const Graph& graph, int level = 3) {
  std::vector<LibraryCall> calls;
  for (LibraryCall& call : FindLibraryCalls(graph, level)) {
    if (call.op.v >= 0) calls.push_back(std::move(call));
  }
  return calls;
}

std::vector<std::string> PostOps(const LibraryCall& call) {
  std::vector<std::string> names;
  for (const LibraryPostOp& op : call.post_ops) names.push_back(op.name);
  return names;
}

TEST(StridedOf, SeesHeadsThroughReshapeAndTranspose) {
  GraphBuilder b("heads");
  const Dim s = Dim::Symbol("s");
  const ValueId q = b.Input("q", DType::kF32, {2, s, 144});
  const ValueId part =
      b.Op("slice", {q},
           {{"starts", DimsValue({48})}, {"ends", DimsValue({96})}, {"axes", DimsValue({2})}});
  const ValueId split = b.Op("reshape", {part}, {{"shape", DimsValue({2, s, 3, 16})}});
  const ValueId heads = b.Op("transpose", {split}, {{"perm", std::vector<int64_t>{0, 2, 3, 1}}});
  b.Output(heads, "heads");
  const Graph graph = FinishOrDie(b);
  const StridedView view = StridedOf(graph, heads);
  EXPECT_EQ(view.base, q);
  EXPECT_EQ(view.offset, Dim(48));
  EXPECT_EQ(view.strides, (Shape{Dim(144) * s, 16, 1, 144}));
  EXPECT_FALSE(IsDense(view));
  EXPECT_EQ(StridedOf(graph, q).base, q);
}

TEST(StridedOf, StopsWhereStridesCannotSayIt) {
  GraphBuilder b("mixed");
  const ValueId x = b.Input("x", DType::kF32, {4, 6});
  const ValueId moved = b.Op("transpose", {x}, {{"perm", std::vector<int64_t>{1, 0}}});
  const ValueId mixed = b.Op("reshape", {moved}, {{"shape", DimsValue({3, 8})}});
  const ValueId wide =
      b.Op("expand", {b.Input("y", DType::kF32, {4, 1})}, {{"shape", DimsValue({4, 6})}});
  const ValueId back = b.Op("slice", {x},
                            {{"starts", DimsValue({-1})},
                             {"ends", DimsValue({-100})},
                             {"axes", DimsValue({1})},
                             {"steps", DimsValue({-1})}});
  for (const ValueId value : {mixed, wide, back}) b.Output(value, "out");
  const Graph graph = FinishOrDie(b);
  for (const ValueId value : {mixed, wide, back}) EXPECT_EQ(StridedOf(graph, value).base, value);
}

TEST(ReshapedStrides, SplitsAndJoinsAxes) {
  const Dim n = Dim::Symbol("n");
  EXPECT_EQ(ReshapedStrides({n, 12}, {24, 2}, {n, 3, 4}), (Shape{24, 8, 2}));
  EXPECT_EQ(ReshapedStrides({n, 3, 4}, {24, 8, 2}, {n, 12}), (Shape{24, 2}));
  EXPECT_EQ(ReshapedStrides({n, 3, 4}, {24, 6, 2}, {n, 12}), std::nullopt);
  EXPECT_EQ(ReshapedStrides({2, n}, {Dim(3) * n, 1}, {n, 2}), std::nullopt);
}

struct Layer {
  GraphBuilder b{"layer"};
  ValueId x = b.Input("x", DType::kF32, {Sym("n"), 8});
  ValueId y = b.Op("matmul", {x, Weights(b, {8, 16})}, {}, "dense");
};

TEST(FindLibraryCalls, TakesBiasActivationAndResidualInOrder) {
  Layer l;
  const ValueId skip = l.b.Input("skip", DType::kF32, {Sym("n"), 16});
  const ValueId bias = l.b.Op("add", {Weights(l.b, {16}), l.y});
  l.b.Output(l.b.Op("relu", {l.b.Op("add", {l.b.Op("tanh", {bias}), skip})}), "out");
  const std::vector<LibraryCall> calls = CallsOf(FinishOrDie(l.b));
  ASSERT_THAT(calls, SizeIs(1));
  EXPECT_THAT(PostOps(calls[0]), ElementsAre("add", "tanh", "add", "relu"));
  EXPECT_THAT(calls[0].inputs, SizeIs(4));
  EXPECT_EQ(calls[0].inputs[2].shape, (Shape{1, 16}));
  EXPECT_EQ(calls[0].inputs[3].base, skip);
  EXPECT_THAT(calls[0].stopped, HasSubstr("output"));
}

// More than oneDNN takes, as where many gradients of one parameter are added up.
TEST(FindLibraryCalls, TakesAsManyPostOpsAsOneDnn) {
  GraphBuilder b("sum");
  const ValueId x = b.Input("x", DType::kF32, {4, 4});
  ValueId sum = b.Op("matmul", {x, x});
  for (int i = 0; i < 40; ++i) sum = b.Op("add", {sum, b.Input("y", DType::kF32, {4, 4})});
  b.Output(sum, "sum");
  const std::vector<LibraryCall> calls = CallsOf(FinishOrDie(b));
  ASSERT_THAT(calls, SizeIs(1));
  EXPECT_THAT(calls[0].post_ops, SizeIs(32));
  EXPECT_EQ(calls[0].stopped, "it has all post-ops that a call takes");
}

TEST(FindLibraryCalls, AddsRowsOfALargerValueWhereTheyLie) {
  GraphBuilder b("net");
  const ValueId all = b.Input("all", DType::kF32, {35, 16});
  const ValueId rows = b.Op("slice", {all, b.Ints({4}), b.Ints({6}), b.Ints({0})}, {}, "rows");
  const ValueId y = b.Op("matmul", {b.Input("x", DType::kF32, {2, 8}), Weights(b, {8, 16})});
  b.Output(b.Op("add", {y, rows}), "out");
  const Graph graph = FinishOrDie(b);
  const std::vector<LibraryCall> calls = CallsOf(graph);
  ASSERT_THAT(calls, SizeIs(1));
  ASSERT_THAT(calls[0].inputs, SizeIs(3));
  EXPECT_EQ(calls[0].inputs[2].base, all);
  EXPECT_EQ(calls[0].inputs[2].offset, Dim(4 * 16));
  EXPECT_THAT(KindsInOrder(Grouped(graph)), ElementsAre("library"));
}

// x * (1 + erf(x / s)) / 2 is gelu where s is sqrt(2) as well as f32 can say, and not nearly so.
TEST(FindLibraryCalls, TakesAnActivationInPiecesForTheExactOneOnly) {
  for (const double s : {1.41421354, 1.4142135, 1.4142, 1.41}) {
    Layer l;
    const auto number = [&](double value) { return l.b.Scalar(DType::kF32, value); };
    const ValueId erf = l.b.Op("erf", {l.b.Op("div", {l.y, number(s)})});
    const ValueId bell = l.b.Op("mul", {l.y, l.b.Op("add", {erf, number(1)})});
    l.b.Output(l.b.Op("mul", {bell, number(0.5)}), "out");
    const std::vector<LibraryCall> calls = CallsOf(FinishOrDie(l.b));
    ASSERT_THAT(calls, SizeIs(1));
    if (s > 1.4142001) {
      EXPECT_THAT(PostOps(calls[0]), ElementsAre("gelu_erf")) << s;
    } else {
      EXPECT_THAT(PostOps(calls[0]), IsEmpty()) << s;
    }
  }
}

TEST(FindLibraryCalls, DividesByPowersOfTwo) {
  for (const double divisor : {8.0, -0.25, 3.0, 11.3137085}) {
    Layer l;
    l.b.Output(l.b.Op("relu", {l.b.Op("div", {l.y, l.b.Scalar(DType::kF32, divisor)})}), "out");
    const std::vector<LibraryCall> calls = CallsOf(FinishOrDie(l.b));
    ASSERT_THAT(calls, SizeIs(1));
    EXPECT_EQ(calls[0].post_ops.empty(), divisor > 1 && divisor != 8) << divisor;
  }
}

TEST(FindLibraryCalls, DoesItsNodeAloneBelowLevelTwo) {
  Layer l;
  l.b.Output(l.b.Op("relu", {l.y}), "out");
  EXPECT_THAT(CallsOf(FinishOrDie(l.b), 1)[0].post_ops, IsEmpty());
}

// A sum of products is taken along by the later of two, whose operands are there: of many, each
// adds to the sum so far.
TEST(FindLibraryCalls, SumsAreTakenAlongByTheLastProduct) {
  const Graph graph = Parsed(
      "graph sum\ninput x : f32 [64, 32]\ninput y : f32 [64, 32]\ninput w : f32 [32, 16]\n"
      "p0 = matmul(x, w)\np1 = matmul(y, w)\ns1 = add(p0, p1)\na = relu(x)\n"
      "p2 = matmul(a, w)\ns2 = add(p2, s1)\noutput s2\n");
  const std::vector<LibraryCall> calls = CallsOf(graph);
  ASSERT_THAT(calls, SizeIs(3));
  EXPECT_THAT(PostOps(calls[0]), IsEmpty());
  EXPECT_EQ(calls[0].stopped, "the call that comes last takes the sum along");
  for (const size_t k : {1, 2}) {
    EXPECT_THAT(PostOps(calls[k]), ElementsAre("add")) << k;
    EXPECT_EQ(calls[k].inputs.back().base, calls[k - 1].output.base) << k;
  }
}

TEST(FindLibraryCalls, SaysWhyItStops) {
  struct Case {
    ValueId (*next)(Layer& l);
    const char* reason;
  };
  const Case cases[] = {
      {[](Layer& l) { return l.b.Op("erf", {l.y}); }, "\"erf\" is no post-op"},
      {[](Layer& l) {
         return l.b.Op("add", {l.b.Op("exp", {l.y}), l.y});
       },
       "several readers"},
      {[](Layer& l) {
         return l.b.Op("mul", {l.y, l.y});
       },
       "operand"},
      {[](Layer& l) {
         return l.b.Op("add", {l.y, l.b.Input("m", DType::kF32, {Sym("n"), 1})});
       },
       "neither a vector"},
      {[](Layer& l) {
         return l.b.Op("cast", {l.y}, {{"to", DType::kF64}});
       },
       "type or shape"},
      {[](Layer& l) { return ReduceOver(l.b, "reduce_max", l.y, {1}); }, "\"reduce_max\""},
      {[](Layer& l) {
         return l.b.Op("exp", {l.b.Op("mul", {l.y, l.b.Scalar(DType::kF32, 3)})});
       },
       "left to the kernel"},
      {[](Layer& l) {
         return l.b.Op("transpose", {l.y}, {{"perm", std::vector<int64_t>{1, 0}}});
       },
       "does not write"},
  };
  for (const Case& c : cases) {
    Layer l;
    l.b.Output(c.next(l), "out");
    const std::vector<LibraryCall> calls = CallsOf(FinishOrDie(l.b));
    EXPECT_THAT(calls[0].post_ops, IsEmpty()) << c.reason;
    EXPECT_THAT(calls[0].stopped, HasSubstr(c.reason));
  }
}

TEST(FormGroups, ShowsWhatACallTakesAndWhyItStops) {
  Layer l;
  const ValueId r = l.b.Op("relu", {l.y}, {}, "act");
  l.b.Output(l.b.Op("erf", {r}, {}, "after"), "out");
  const Graph graph = FinishOrDie(l.b);
  const Grouping grouping = Grouped(graph);
  EXPECT_THAT(KindsInOrder(grouping), ElementsAre("library", "kernel"));
  ASSERT_THAT(grouping.edges, SizeIs(2));
  EXPECT_TRUE(grouping.edges[0].fused);
  EXPECT_EQ(grouping.edges[0].reason, "one library call");
  EXPECT_FALSE(grouping.edges[1].fused);
  EXPECT_THAT(grouping.edges[1].reason, HasSubstr("\"erf\" is no post-op"));
}

TEST(FormGroups, RunsACallAfterAllThatItReads) {
  // The residual is made after the product and before the sum.
  Layer l;
  const ValueId skip = l.b.Op("exp", {l.b.Input("s", DType::kF32, {Sym("n"), 16})});
  l.b.Output(l.b.Op("add", {l.y, skip}), "out");
  EXPECT_THAT(KindsInOrder(Grouped(FinishOrDie(l.b))), ElementsAre("kernel", "library"));
}

TEST(ChannelsLast, MovesARegionWithTwoTransposes) {
  Graph graph = Parsed(R"(
graph net
input x : f32 [1, 3, 8, 8]
input w1 : f32 [16, 3, 3, 3]
input w2 : f32 [16, 16, 3, 3]
a = conv(x, w1)
b = exp(a)
c = reduce_mean(b) {axes = [2, 3]}
d = mul(b, c)
e = conv(d, w2)
f = erf(e)
output f
)");
  const Pass* pass = FindPass("channels_last");
  ASSERT_NE(pass, nullptr);
  for (const bool changed : {true, false}) {
    const absl::StatusOr<bool> got = RunPass(*pass, graph, {});
    KILN_ASSERT_OK(got.status());
    EXPECT_EQ(*got, changed);
  }
  int kernels = 0;
  for (const Group& group : Grouped(graph, {.level = 2}).groups)
    kernels += group.kind == Group::Kind::kKernel ? 1 : 0;
  EXPECT_EQ(kernels, 6) << Print(graph);  // exp, mean, mul, erf, and the borders' transposes
}

TEST(ChannelsLast, GroupNormAndWhatFollowsAreOneKernelBetweenConvolutions) {
  for (const char* groups : {"1", "8", "32"}) {
    Graph graph = Parsed(absl::StrReplaceAll(R"(graph g
input x : f32 [1, 32, 16, 16]
input w : f32 [32, 32, 3, 3]
input scale : f32 [32, 1, 1]
input bias : f32 [32, 1, 1]
const e : f32 [] = 1e-5
a = conv(x, w) {pads = [1, 1, 1, 1]}
g = reshape(a) {shape = [0, GROUPS, -1]}
m = reduce_mean(g) {axes = [2], keepdims = 1}
d = sub(g, m)
q = mul(d, d)
v = reduce_mean(q) {axes = [2], keepdims = 1}
s = add(v, e)
r = sqrt(s)
n = div(d, r)
b = reshape(n) {shape = [1, 32, 16, 16]}
c = mul(b, scale)
h = add(c, bias)
i = swish(h)
y = conv(i, w) {pads = [1, 1, 1, 1]}
output y
)",
                                             {{"GROUPS", groups}}));
    ASSERT_THAT(RunPasses(graph, {}), IsOk());
    const Grouping grouping = Grouped(graph);
    const BytesAccessed traffic = BytesAccessedOf(graph, grouping);
    EXPECT_EQ(traffic.launches, 4) << ToString(grouping, graph);  // and the transposed input
  }
}

TEST(ChannelsLast, WritesThemSoWhereTheInputHasThemSo) {
  Graph graph = Parsed(R"(graph g
input x : f32 [2, 20, 8]
input w : f32 [16, 8, 5, 1]
u = unsqueeze(x) {axes = [3]}
t = transpose(u) {perm = [0, 2, 1, 3]}
a = conv(t, w)
s = squeeze(a) {axes = [-1]}
b = exp(s)
c = reduce_max(b) {axes = [2]}
output c
)");
  const Pass* pass = FindPass("channels_last");
  ASSERT_NE(pass, nullptr);
  for (const bool changed : {true, false}) {
    const absl::StatusOr<bool> got = RunPass(*pass, graph, {});
    KILN_ASSERT_OK(got.status());
    EXPECT_EQ(*got, changed) << Print(graph);
  }
  const Grouping grouping = Grouped(graph, {.level = 2});
  int kernels = 0;
  for (const Group& group : grouping.groups) {
    if (group.kind == Group::Kind::kKernel) ++kernels;
    if (!group.call) continue;
    EXPECT_TRUE(group.call->output.strides[1].IsConst(1)) << Print(graph);
  }
  EXPECT_EQ(kernels, 2) << Print(graph);  // exp, max
}

// A step of training: what goes back reads channels last as what goes forward does, and weights and
// their gradients lie as they are written.
TEST(ChannelsLast, GradientsReadAndWriteIt) {
  Graph graph = Parsed(R"(graph g
input x : f32 [2, 16, 12, 12]
input w : f32 [16, 16, 3, 3]
input v : f32 [16, 16, 3, 3]
input g : f32 [2, 16, 6, 6]
const rate : f32 [] = 0.5
a = conv(x, w) {pads = [1, 1, 1, 1]}
r = relu(a)
p = max_pool(r) {kernel = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]}
b = conv(p, v) {pads = [1, 1, 1, 1]}
l = mul(b, g)
dv = conv_backward_weights(p, l) {kernel = [3, 3], pads = [1, 1, 1, 1]}
dp = conv_transpose(l, v) {pads = [1, 1, 1, 1]}
dr = max_pool_backward(r, dp) {kernel = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]}
da = mul(dr, r)
dw = conv_backward_weights(x, da) {kernel = [3, 3], pads = [1, 1, 1, 1]}
s = mul(dw, rate)
n = sub(w, s)
output dv
output n
)");
  const Pass* pass = FindPass("channels_last");
  for (const bool changed : {true, false}) {
    const absl::StatusOr<bool> got = RunPass(*pass, graph, {});
    KILN_ASSERT_OK(got.status());
    EXPECT_EQ(*got, changed) << Print(graph);
  }
  int calls = 0, kernels = 0;
  for (const Group& group : Grouped(graph, {.level = 2}).groups) {
    if (group.kind == Group::Kind::kKernel) ++kernels;
    if (!group.call) continue;
    ++calls;
    const std::string op = graph.node(group.call->op).op->name;
    const bool weights = op == "conv_backward_weights";
    EXPECT_EQ(group.call->output.strides[1].IsConst(1), !weights) << op << "\n" << Print(graph);
    EXPECT_TRUE(group.call->inputs[0].strides[1].IsConst(1)) << op;
    const bool second = weights || op == "max_pool_backward";
    if (second) {
      EXPECT_TRUE(group.call->inputs[1].strides[1].IsConst(1)) << op;
    }
  }
  EXPECT_EQ(calls, 7);
  EXPECT_EQ(kernels, 5) << Print(graph);  // the transposes of x and g; l, da, the step
}

TEST(ChannelsLast, LeavesAGraphWithoutConvolutionsAlone) {
  Graph graph = Parsed("graph g\ninput x : f32 [1, 3, 8, 8]\ny = exp(x)\noutput y\n");
  const absl::StatusOr<bool> changed = RunPass(*FindPass("channels_last"), graph, {});
  KILN_ASSERT_OK(changed.status());
  EXPECT_FALSE(*changed);
}

// Rows times a stack of panels that `products` products read, each followed by a transpose and,
// `kernels`, an element-wise node.
Graph OfPanels(int products, bool kernels) {
  GraphBuilder b("panels");
  const ValueId cut = b.Input("w", DType::kF32, {64, 3, 32});
  const ValueId panels = b.Op("transpose", {cut}, {{"perm", std::vector<int64_t>{1, 0, 2}}});
  for (int i = 0; i < products; ++i) {
    const ValueId x = b.Input(absl::StrCat("x", i), DType::kF32, {4, 64});
    ValueId y =
        b.Op("transpose", {b.Op("matmul", {x, panels})}, {{"perm", std::vector<int64_t>{1, 0, 2}}});
    if (kernels) y = b.Op("exp", {y});
    b.Output(y, absl::StrCat("y", i));
  }
  return FinishOrDie(b);
}

TEST(LibraryCall, ReadsAStackThatSeveralProductsShareAsItIsWritten) {
  for (const LibraryCall& call : CallsOf(OfPanels(3, true))) {
    EXPECT_TRUE(IsDense(call.inputs[1]));
    EXPECT_TRUE(IsDense(call.output)) << call.stopped;
    EXPECT_THAT(call.stopped, HasSubstr("panels"));
  }
  for (const LibraryCall& call : CallsOf(OfPanels(3, false))) EXPECT_FALSE(IsDense(call.output));
  const std::vector<LibraryCall> two = CallsOf(OfPanels(2, true));
  ASSERT_THAT(two, SizeIs(2));
  EXPECT_FALSE(IsDense(two[0].inputs[1]));
  EXPECT_FALSE(IsDense(two[0].output));
}

}  // namespace
}  // namespace kiln
