// SPDX-License-Identifier: Apache-2.0
#include "fusion/form_groups.h"

#include <algorithm>

#include "fusion/bytes_accessed.h"
#include "gmock/gmock.h"
#include "tests/compiler/counted_malloc.h"
#include "tests/fusion/nets.h"

namespace kiln {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const Dim kBatch = Dim::Symbol("n");

// Every live value is made before it is read, by one group.
void ExpectRunnable(const Graph& graph, const Grouping& grouping) {
  std::set<ValueId> made(graph.inputs().begin(), graph.inputs().end());
  for (size_t i = 0; i < graph.values().size(); ++i) {
    if (graph.values()[i].producer.v < 0) made.insert(ValueId{static_cast<int32_t>(i)});
  }
  for (const Group& group : grouping.groups) {
    std::vector<ValueId> reads;
    if (group.kind == Group::Kind::kKernel) {
      const absl::StatusOr<LoweredGroup> lowered = LowerGroup(graph, group);
      ASSERT_TRUE(lowered.ok()) << lowered.status();
      reads = lowered->inputs;
    } else if (group.kind == Group::Kind::kLibrary) {
      for (const StridedView& input : group.call->inputs) reads.push_back(input.base);
    } else {
      reads = graph.node(group.nodes[0]).inputs;
    }
    for (const ValueId read : reads)
      EXPECT_TRUE(!read.valid() || made.count(read)) << graph.value(read).name;
    for (const ValueId output : group.outputs)
      EXPECT_TRUE(made.insert(output).second) << "made twice";
  }
  for (const Graph::Output& output : graph.outputs())
    EXPECT_TRUE(made.count(output.value)) << output.name;
}

const EdgeDecision* FindEdge(const Graph& graph, const Grouping& grouping, const char* producer,
                             const char* consumer) {
  for (const EdgeDecision& edge : grouping.edges) {
    if (graph.node(edge.producer).name == producer && graph.node(edge.consumer).name == consumer)
      return &edge;
  }
  ADD_FAILURE() << "no edge " << producer << " -> " << consumer << "\n"
                << ToString(grouping, graph);
  return nullptr;
}

TEST(FormGroups, MakesOneKernelOfAChain) {
  GraphBuilder b("chain");
  const ValueId x = b.Input("x", DType::kF32, {kBatch, 64});
  const ValueId y = b.Input("y", DType::kF32, {kBatch, 64});
  b.Output(b.Op("mul", {b.Op("mul", {x, y}), b.Input("z", DType::kF32, {kBatch, 64})}), "out");
  const Graph graph = Optimised(b);
  const Grouping grouping = Grouped(graph);
  EXPECT_THAT(grouping.groups, SizeIs(1));
  ASSERT_THAT(grouping.edges, SizeIs(1));
  EXPECT_TRUE(grouping.edges[0].fused);
  EXPECT_EQ(grouping.edges[0].bytes, 32 * 64 * 4);
}

// Numbers that a program is called with are no streams: registers hold them, as literals.
TEST(FormGroups, MakesOneKernelOfALongChainWithNumbers) {
  GraphBuilder b("polynomial");
  const ValueId x = b.Input("x", DType::kF32, {1 << 18});
  ValueId y = x;
  for (int k = 0; k < 48; ++k)
    y = b.Op("add", {b.Op("mul", {y, x}), b.Input(absl::StrCat("c", k), DType::kF32, {})});
  b.Output(y, "out");
  EXPECT_THAT(Grouped(Optimised(b)).groups, SizeIs(1));
}

TEST(FormGroups, KernelsHaveSoManyOperands) {
  const auto groups = [](int64_t extent) {
    GraphBuilder b("sum");
    ValueId y = b.Input("x", DType::kF32, {4096});
    for (int k = 0; k < 80; ++k)
      y = b.Op("add", {y, b.Input(absl::StrCat("c", k), DType::kF32, {extent})});
    b.Output(y, "out");
    const Graph graph = Optimised(b);
    const Grouping grouping = Grouped(graph);
    ExpectRunnable(graph, grouping);
    return grouping.groups.size();
  };
  EXPECT_EQ(groups(1), 2U);     // 64 numbers in one
  EXPECT_EQ(groups(4096), 6U);  // 14 more with what one leaves for the next
}

// Places in an axis of one element are not read; nor then is the view of them, nor made.
TEST(FormGroups, LeavesOutViewsOfWhatNobodyReads) {
  GraphBuilder b("take");
  const ValueId x = b.Input("x", DType::kF32, {1, 4});
  const ValueId places = b.Input("i", DType::kI64, {3, 2});
  using L = std::vector<int64_t>;
  const ValueId column =
      b.Op("slice", {places}, {{"starts", L{0}}, {"ends", L{1}}, {"axes", L{1}}});
  b.Output(b.Op("take", {x, b.Op("squeeze", {column}, {{"axes", L{1}}})}), "y");
  const Graph graph = Optimised(b);
  const Grouping grouping = Grouped(graph);
  ExpectRunnable(graph, grouping);
  EXPECT_THAT(grouping.groups, SizeIs(1));
}

TEST(FormGroups, KeepsNodesApartBelowLevelThreeAndAtJitLevelZero) {
  GraphBuilder b("chain");
  const ValueId x = b.Input("x", DType::kF32, {kBatch, 64});
  b.Output(b.Op("exp", {b.Op("relu", {x}, {}, "first")}, {}, "second"), "out");
  const Graph graph = Optimised(b);
  for (const GroupOptions& options : {GroupOptions{.level = 2}, GroupOptions{.jit_level = 0}}) {
    const Grouping grouping = Grouped(graph, options);
    EXPECT_THAT(grouping.groups, SizeIs(2));
    const EdgeDecision* edge = FindEdge(graph, grouping, "first", "second");
    ASSERT_NE(edge, nullptr);
    EXPECT_FALSE(edge->fused);
    EXPECT_THAT(edge->reason, HasSubstr("level"));
  }
}

TEST(FormGroups, KeepsReductionsApartAtJitLevelOne) {
  GraphBuilder b("rows");
  const ValueId x = b.Input("x", DType::kF32, {kBatch, 64});
  b.Output(b.Op("relu", {b.Op("exp", {ReduceOver(b, "reduce_sum", b.Op("mul", {x, x}), {-1})})}),
           "out");
  const Graph graph = Optimised(b);
  const Grouping grouping = Grouped(graph, {.jit_level = 1});
  EXPECT_THAT(grouping.groups, SizeIs(3));
  EXPECT_THAT(Grouped(graph).groups, SizeIs(1));
}

TEST(FormGroups, MakesOneKernelOfSoftmaxWithItsPrologueAndEpilogue) {
  for (const bool composite : {false, true}) {
    GraphBuilder b("attention");
    const Dim s = Dim::Symbol("s");
    const ValueId scores = b.Input("scores", DType::kF32, {kBatch, 12, s, s});
    const ValueId mask = b.Input("mask", DType::kF32, {kBatch, 1, 1, s});
    const ValueId x = b.Op("add", {b.Op("mul", {scores, b.Scalar(DType::kF32, 0.125)}), mask});
    const ValueId p =
        composite ? b.Op("softmax", {x}, {{"axis", int64_t{-1}}}) : SoftmaxParts(b, x);
    b.Output(b.Op("mul", {p, b.Input("keep", DType::kF32, {kBatch, 12, s, s})}), "out");
    const Graph graph = Optimised(b);
    const Grouping grouping = Grouped(graph);
    EXPECT_THAT(grouping.groups, SizeIs(1)) << ToString(grouping, graph);
  }
}

TEST(FormGroups, MakesOneKernelOfLayerNormWithItsResidual) {
  for (const bool composite : {false, true}) {
    GraphBuilder b("norm");
    const ValueId x = b.Input("x", DType::kF32, {kBatch, 128, 64});
    const ValueId skip = b.Input("skip", DType::kF32, {kBatch, 128, 64});
    const ValueId sum = b.Op("add", {b.Op("add", {x, Weights(b, {64})}), skip});
    const ValueId scale = Weights(b, {64}), bias = Weights(b, {64});
    const ValueId y =
        composite ? b.Op("layer_norm", {sum, scale, bias}) : LayerNormParts(b, sum, scale, bias);
    b.Output(y, "normed");
    b.Output(sum, "sum");
    const Graph graph = Optimised(b);
    const Grouping grouping = Grouped(graph);
    ASSERT_THAT(grouping.groups, SizeIs(1)) << ToString(grouping, graph);
    EXPECT_THAT(grouping.groups[0].outputs, SizeIs(2));
  }
}

TEST(FormGroups, NormalisesASingleRow) {
  GraphBuilder b("classes");
  b.Output(b.Op("softmax", {b.Input("x", DType::kF32, {1, 1000})}), "p");
  const Graph graph = Optimised(b);
  EXPECT_THAT(Grouped(graph).groups, SizeIs(1));
}

TEST(FormGroups, TakesTheMapsBeforeAndAfterAColumnSum) {
  GraphBuilder b("columns");
  const ValueId x = b.Input("x", DType::kF32, {512, 64});
  const ValueId sum = ReduceOver(b, "reduce_sum", b.Op("mul", {x, x}), {0});
  b.Output(b.Op("sqrt", {sum}), "norms");
  const Graph graph = Optimised(b);
  EXPECT_THAT(Grouped(graph).groups, SizeIs(1));
}

TEST(FormGroups, PutsAValueWithItsOnlyReader) {
  const Graph graph = Parsed(R"(
    graph g
    input x : f32 [512, 1024]
    y = relu(x)
    rows = reduce_sum(y) {axes = [1]}
    square = mul(y, y)
    columns = reduce_sum(square) {axes = [0]}
    output y
    output rows
    output columns
  )");
  const Grouping grouping = Grouped(graph);
  ASSERT_THAT(grouping.groups, SizeIs(2)) << ToString(grouping, graph);
  for (const EdgeDecision& edge : grouping.edges) {  // the square is never stored
    const bool of_square = graph.node(edge.producer).op->name == std::string("mul");
    EXPECT_TRUE(edge.fused || !of_square) << ToString(grouping, graph);
  }
}

// One encoder layer as exporters write it: projections are library nodes between fused pieces.
ValueId EncoderLayer(GraphBuilder& b, ValueId x, ValueId mask, int64_t seq, int64_t heads,
                     int64_t width, bool decomposed) {
  const auto dense = [&](ValueId v, int64_t in, int64_t out) {
    return b.Op("add", {b.Op("matmul", {v, Weights(b, {in, out}, 0.01)}), Weights(b, {out})});
  };
  const auto norm = [&](ValueId v) {
    const ValueId scale = Weights(b, {width}, 1.5), bias = Weights(b, {width});
    return decomposed ? LayerNormParts(b, v, scale, bias) : b.Op("layer_norm", {v, scale, bias});
  };
  const auto split = [&](ValueId v, std::vector<int64_t> perm) {
    const ValueId parts = b.Op("reshape", {v, b.Ints({0, seq, heads, width / heads})});
    return b.Op("transpose", {parts}, {{"perm", std::move(perm)}});
  };
  const ValueId q = split(dense(x, width, width), {0, 2, 1, 3});
  const ValueId k = split(dense(x, width, width), {0, 2, 3, 1});
  const ValueId v = split(dense(x, width, width), {0, 2, 1, 3});
  const ValueId scores = b.Op("div", {b.Op("matmul", {q, k}), b.Scalar(DType::kF32, 4)});
  const ValueId masked = b.Op("add", {scores, mask});
  const ValueId p = decomposed ? SoftmaxParts(b, masked) : b.Op("softmax", {masked});
  const ValueId context =
      b.Op("transpose", {b.Op("matmul", {p, v})}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  const ValueId joined = dense(b.Op("reshape", {context, b.Ints({0, seq, width})}), width, width);
  x = norm(b.Op("add", {x, joined}));
  const ValueId h = dense(x, width, 4 * width);
  const ValueId erf = b.Op("erf", {b.Op("div", {h, b.Scalar(DType::kF32, 1.4142135)})});
  const ValueId gelu = b.Op("mul", {b.Op("mul", {h, b.Op("add", {erf, b.Scalar(DType::kF32, 1)})}),
                                    b.Scalar(DType::kF32, 0.5)});
  return norm(b.Op("add", {x, dense(gelu, 4 * width, width)}));
}

Graph Encoder(int layers, bool decomposed) {
  GraphBuilder b("encoder");
  const ValueId ids = b.Input("ids", DType::kI64, {kBatch, 16});
  const ValueId keep = b.Input("keep", DType::kI64, {kBatch, 16});
  ValueId x = b.Op("gather", {Weights(b, {100, 32}), ids}, {{"axis", int64_t{0}}});
  x = b.Op("add", {x, Weights(b, {1, 16, 32})});
  const ValueId flags =
      b.Op("cast", {b.Op("unsqueeze", {keep, b.Ints({1, 2})})}, {{"to", DType::kF32}});
  const ValueId mask =
      b.Op("mul", {b.Op("sub", {b.Scalar(DType::kF32, 1), flags}), b.Scalar(DType::kF32, -10000)});
  for (int i = 0; i < layers; ++i) x = EncoderLayer(b, x, mask, 16, 2, 32, decomposed);
  b.Output(x, "last");
  return Optimised(b);
}

TEST(FormGroups, GroupsAnEncoderLayer) {
  for (const bool decomposed : {false, true}) {
    const Graph graph = Encoder(2, decomposed);
    const Grouping grouping = Grouped(graph);
    ExpectRunnable(graph, grouping);
    // Embedding, mask; a layer: softmax, two norms. The rest goes with the products.
    EXPECT_EQ(KernelGroups(grouping).size(), 2u + 2 * 3) << ToString(grouping, graph);
    std::vector<std::string> texts = KernelTexts(graph);
    std::sort(texts.begin(), texts.end());
    texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
    EXPECT_LE(texts.size(), 4u);  // the layers share all kernels, and the two norms theirs
  }
}

TEST(FormGroups, FusesTheGatesOfAWrittenOutCell) {
  const Graph graph = Parsed(R"(
    graph cell
    input z0 : f32 [n, 128]
    input c : f32 [n, 32]
    input bias : f32 [128]
    z = add(z0, bias)
    i, f, g, o = split(z) {axis = 1}
    si = sigmoid(i)
    sf = sigmoid(f)
    tg = tanh(g)
    so = sigmoid(o)
    kept = mul(sf, c)
    added = mul(si, tg)
    next = add(kept, added)
    t = tanh(next)
    h = mul(so, t)
    output next
    output h
  )");
  const Grouping grouping = Grouped(graph);
  ExpectRunnable(graph, grouping);
  EXPECT_THAT(KernelGroups(grouping), SizeIs(1)) << ToString(grouping, graph);
}

TEST(FormGroups, FusesOneHotByComparison) {
  GraphBuilder b("one_hot");
  const ValueId bytes = b.Input("bytes", DType::kI32, {kBatch, 2048});
  Tensor range = Tensor::Allocate(DType::kI32, {257});
  for (int i = 0; i < 257; ++i) WriteInt(range, i, i);
  const ValueId hot = b.Op("equal", {b.Op("unsqueeze", {bytes, b.Ints({-1})}), b.Constant(range)});
  b.Output(b.Op("cast", {hot}, {{"to", DType::kF32}}), "out");
  const Graph graph = Optimised(b);
  EXPECT_THAT(KernelGroups(Grouped(graph)), SizeIs(1));
}

TEST(FormGroups, LooksThroughViewsInsideAKernel) {
  GraphBuilder b("views");
  const ValueId x = b.Input("x", DType::kF32, {kBatch, 12, 5});
  const ValueId y = b.Op("reshape", {b.Op("exp", {x}), b.Ints({0, 3, 20})});
  b.Output(b.Op("mul", {y, b.Input("s", DType::kF32, {3, 1})}), "out");
  const Graph graph = Optimised(b);
  const Grouping grouping = Grouped(graph);
  ExpectRunnable(graph, grouping);
  EXPECT_THAT(KindsInOrder(grouping), ElementsAre("kernel"));
}

TEST(FormGroups, KeepsAViewThatOthersNeed) {
  GraphBuilder b("views");
  const ValueId x = b.Input("x", DType::kF32, {kBatch, 6});
  const ValueId y = b.Op("reshape", {b.Op("exp", {x}), b.Ints({0, 2, 3})});
  b.Output(b.Op("relu", {y}), "out");
  b.Output(y, "y");
  const Graph graph = Optimised(b);
  const Grouping grouping = Grouped(graph);
  ExpectRunnable(graph, grouping);
  EXPECT_THAT(KindsInOrder(grouping), ElementsAre("kernel", "view"));
}

TEST(FormGroups, DoesNotCloseACycle) {
  GraphBuilder b("skip");
  const ValueId x = b.Input("x", DType::kF32, {kBatch, 16});
  const ValueId a = b.Op("relu", {x}, {}, "a");
  const ValueId m = b.Op("matmul", {a, Weights(b, {16, 16})}, {}, "m");
  b.Output(b.Op("add", {a, b.Op("erf", {m}, {}, "e")}, {}, "sum"), "out");
  const Graph graph = Optimised(b);
  const Grouping grouping = Grouped(graph);
  ExpectRunnable(graph, grouping);
  EXPECT_THAT(KindsInOrder(grouping), ElementsAre("kernel", "library", "kernel"));
  EXPECT_THAT(FindEdge(graph, grouping, "a", "sum")->reason, HasSubstr("\"m\""));
  EXPECT_THAT(FindEdge(graph, grouping, "a", "m")->reason, HasSubstr("library"));
}

TEST(FormGroups, DoesNotComputeDearElementsAgainAndAgain) {
  GraphBuilder b("broadcast");
  const ValueId x = b.Input("x", DType::kF32, {512, 64});
  const ValueId g = b.Op("exp", {b.Input("g", DType::kF32, {64})}, {}, "expensive");
  b.Output(b.Op("mul", {x, g}, {}, "use"), "out");
  const Graph graph = Optimised(b);
  const Grouping grouping = Grouped(graph);
  EXPECT_THAT(grouping.groups, SizeIs(2));
  EXPECT_THAT(FindEdge(graph, grouping, "expensive", "use")->reason, HasSubstr("512 times"));
}

TEST(FormGroups, FusesWhatItIsToldToOnceTheWayAroundHasMerged) {
  GraphBuilder b("forced");
  const ValueId x = b.Input("x", DType::kF32, {512, 64});
  const ValueId g = b.Op("exp", {b.Input("g", DType::kF32, {64})}, {}, "expensive");
  const ValueId around = b.Op("mul", {x, g}, {}, "around");
  b.Output(b.Op("add", {around, g}, {}, "use"), "out");
  const Graph graph = Optimised(b);
  EXPECT_THAT(Grouped(graph).groups, SizeIs(2));
  const Grouping grouping = Grouped(graph, {.forced = {{"expensive", "use"}}});
  EXPECT_THAT(grouping.groups, SizeIs(1)) << ToString(grouping, graph);
}

TEST(FormGroups, DoesNotMixIterationDomains) {
  GraphBuilder b("domains");
  const ValueId m = b.Op("neg", {b.Input("m", DType::kF32, {64})}, {}, "small");
  b.Output(b.Op("mul", {b.Input("x", DType::kF32, {512, 64}), m}, {}, "large"), "out");
  b.Output(m, "m_too");
  const Graph graph = Optimised(b);
  const Grouping grouping = Grouped(graph);
  EXPECT_THAT(grouping.groups, SizeIs(2));
  EXPECT_THAT(FindEdge(graph, grouping, "small", "large")->reason, HasSubstr("same dims"));
}

TEST(FormGroups, RefusesToReadAValueTransposedOntoItself) {
  GraphBuilder b("square");
  const ValueId x = b.Op("relu", {b.Input("x", DType::kF32, {64, 64})});
  const ValueId t = b.Op("transpose", {x});
  b.Output(b.Op("add", {x, t}), "out");
  const Graph graph = Optimised(b);
  const Grouping grouping = Grouped(graph);
  ExpectRunnable(graph, grouping);
  EXPECT_THAT(grouping.groups, SizeIs(2));
}

TEST(FormGroups, HoldsTheCapOnBuffers) {
  GraphBuilder b("wide");
  ValueId sum = b.Input("x", DType::kF32, {kBatch, 64});
  for (int i = 0; i < 40; ++i)
    sum = b.Op("add", {sum, b.Input(absl::StrCat("x", i), DType::kF32, {kBatch, 64})});
  b.Output(sum, "out");
  const Graph graph = Optimised(b);
  const Grouping grouping = Grouped(graph);
  ExpectRunnable(graph, grouping);
  for (const Group& group : grouping.groups)
    EXPECT_LE(LowerGroup(graph, group)->inputs.size(), 15u);
  EXPECT_LE(grouping.groups.size(), 6u);
}

TEST(FormGroups, CutsChainsOfFunctionsThatWouldTakeLongToCompile) {
  const auto kernels = [](const char* op, int length) {
    GraphBuilder b("chain");
    ValueId x = b.Input("x", DType::kF32, {kBatch, 64});
    for (int i = 0; i < length; ++i) x = b.Op(op, {x});
    b.Output(x, "out");
    const Graph graph = FinishOrDie(b);
    return KernelGroups(Grouped(graph)).size();
  };
  EXPECT_EQ(kernels("neg", 60), 1u);
  EXPECT_EQ(kernels("tanh", 8), 1u);
  EXPECT_GE(kernels("tanh", 60), 2u);
  EXPECT_LE(kernels("tanh", 60), 8u);
  EXPECT_GE(kernels("tan", 20), 3u);
}

TEST(FormGroups, RefusesCompositesByName) {
  GraphBuilder b("raw");
  b.Output(b.Op("softmax", {b.Input("x", DType::kF32, {4, 4})}, {}, "soft"), "out");
  const Graph graph = FinishOrDie(b);
  EXPECT_THAT(FormGroups(graph, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"soft\"")));
}

TEST(FormGroups, MakesOneKernelOfSiblings) {
  const Graph graph = Parsed(
      "graph g\ninput x : f32 [n, 64]\na = exp(x)\nb = neg(x)\ns = reduce_sum(x) {axes = [1]}\n"
      "output a\noutput b\noutput s\n");
  const Grouping grouping = Grouped(graph);
  ExpectRunnable(graph, grouping);
  ASSERT_THAT(grouping.groups, SizeIs(1));
  EXPECT_THAT(grouping.groups[0].outputs, SizeIs(3));
}

TEST(FormGroups, KeepsSiblingsApartThatNeedEachOther) {
  const Graph graph = Parsed(
      "graph g\ninput x : f32 [8, 8]\na = exp(x)\nm = matmul(a, a)\nb = max(x, m)\noutput b\n");
  const Grouping grouping = Grouped(graph);
  ExpectRunnable(graph, grouping);
  EXPECT_THAT(grouping.groups, SizeIs(3));
}

TEST(FormGroups, KeepsSiblingsApartThatShareOnlyASmallValue) {
  const Graph graph = Parsed(
      "graph g\ninput x : f32 [n, 64]\ninput y : f32 [n, 64]\ninput c : f32 [64]\na = mul(x, c)\n"
      "b = mul(y, c)\noutput a\noutput b\n");
  EXPECT_THAT(Grouped(graph).groups, SizeIs(2));
}

// The products need the sum, so exp(x) with it would live across them, beside x.
TEST(FormGroups, KeepsSiblingsApartThatWouldRaiseThePeak) {
  const Graph graph = Parsed(
      "graph g\ninput y : f32 [512, 512]\ninput r : f32 [1, 512]\nx = matmul(y, y)\n"
      "a = reduce_sum(x) {axes = [1], keepdims = 1}\nt = matmul(a, r)\nm = matmul(t, x)\n"
      "p = matmul(m, m)\nq = matmul(p, m)\nb = exp(x)\nc = matmul(b, q)\nd = matmul(c, x)\n"
      "output d\n");
  const Grouping grouping = Grouped(graph);
  ExpectRunnable(graph, grouping);
  for (const Group& group : grouping.groups) EXPECT_THAT(group.nodes, SizeIs(1));
}

TEST(FormGroups, LeavesANodeAloneThatIsToBeAlone) {
  const Graph graph =
      Parsed("graph g\ninput x : f32 [n, 64]\na = exp(x)\nb = neg(a)\nc = abs(b)\noutput c\n");
  ASSERT_THAT(Grouped(graph).groups, SizeIs(1));
  const std::string name = graph.node(NodeId{1}).name;
  const Grouping grouping = Grouped(graph, {.alone = {name}});
  EXPECT_THAT(grouping.groups, SizeIs(3));
  EXPECT_THAT(grouping.edges[0].reason, HasSubstr("stands alone by option"));
  EXPECT_THAT(FormGroups(graph, {.alone = {"nobody"}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("nobody")));
}

TEST(FormGroups, GreedyRulesCutAtBroadcastsAndSecondOutputs) {
  GraphBuilder b("softmax");
  const ValueId x = b.Input("x", DType::kF32, {kBatch, 64});
  b.Output(SoftmaxParts(b, b.Op("neg", {x})), "out");
  const Graph graph = Optimised(b);
  ASSERT_THAT(Grouped(graph).groups, SizeIs(1));
  const Grouping grouping = Grouped(graph, {.rules = FusionRules::kGreedy});
  ExpectRunnable(graph, grouping);
  EXPECT_THAT(grouping.groups, SizeIs(5));  // neg, max, exp of sub, sum, div
  for (const Group& group : grouping.groups) EXPECT_THAT(group.outputs, SizeIs(1));
}

TEST(BytesAccessedOf, CountsEachValueOnceAndTheLowerBound) {
  const Graph graph = Parsed(
      "graph g\ninput x : f32 [10]\ninput y : f32 [10]\na = mul(x, y)\nb = add(a, x)\noutput b\n");
  const BytesAccessed fused = BytesAccessedOf(graph, Grouped(graph));
  EXPECT_EQ(fused.launches, 1);
  EXPECT_EQ(fused.walked, 120);
  EXPECT_EQ(fused.lower_bound, 120);
  EXPECT_EQ(fused.unfused, 240);
  const BytesAccessed apart = BytesAccessedOf(graph, Grouped(graph, {.level = 0}));
  EXPECT_EQ(apart.launches, 2);
  EXPECT_EQ(apart.walked, 240);
}

TEST(ToDot, DrawsAClusterPerGroupAndTheBytesOfWhatIsNotFused) {
  const Graph graph =
      Parsed("graph g\ninput x : f32 [4, 4]\na = exp(x)\nb = neg(a)\nm = matmul(b, b)\noutput m\n");
  const std::string dot = ToDot(Grouped(graph), graph);
  EXPECT_THAT(dot, HasSubstr("subgraph cluster_0"));
  EXPECT_THAT(dot, HasSubstr("n0 -> n1;"));
  EXPECT_THAT(dot, HasSubstr("n1 -> n2 [style=dashed, label=\"64 B\"]"));
}

TEST(FormGroups, IsDeterministic) {
  const Graph graph = Encoder(1, true);
  EXPECT_EQ(ToString(Grouped(graph), graph), ToString(Grouped(graph), graph));
}

// A chain of `layers`, of ten nodes each.
Graph Deep(int layers) {
  GraphBuilder b("deep");
  ValueId x = b.Input("x", DType::kF32, {kBatch, 64});
  const ValueId skip = b.Op("relu", {x});
  for (int i = 0; i < layers; ++i) {
    x = SoftmaxParts(b, b.Op("mul", {x, b.Scalar(DType::kF32, 0.5)}));
    x = b.Op("add", {b.Op("tanh", {b.Op("neg", {x})}), b.Op("matmul", {x, Weights(b, {64, 64})})});
  }
  b.Output(b.Op("add", {x, skip}), "out");
  return FinishOrDie(b);
}

// One value with many readers, and siblings that could all merge: four nodes for each.
Graph Wide(int readers) {
  GraphBuilder b("wide");
  const ValueId x = b.Op("relu", {b.Input("x", DType::kF32, {kBatch, 64})});
  for (int i = 0; i < readers; ++i) {
    const ValueId y = b.Op("mul", {b.Op("neg", {x}), b.Scalar(DType::kF32, i)});
    b.Output(b.Op("matmul", {b.Op("exp", {y}), Weights(b, {64, 64})}), absl::StrCat("out", i));
  }
  return FinishOrDie(b);
}

// How often grouping asks for memory: each merge that is tried does.
int64_t AllocationsOf(const Graph& graph) {
  const Allocations before = CountedAllocations();
  Grouped(graph);
  return (CountedAllocations() - before).others;
}

TEST(FormGroups, TriesAsMuchForEachNodeOfALargeGraph) {
  EXPECT_LT(AllocationsOf(Deep(400)), 5 * AllocationsOf(Deep(100)));
  EXPECT_LT(KernelGroups(Grouped(Deep(100))).size(), 210u);
}

TEST(FormGroups, TriesAsMuchForEachOfManyReadersOfOneValue) {
  EXPECT_LT(AllocationsOf(Wide(800)), 5 * AllocationsOf(Wide(200)));
  EXPECT_LE(KernelGroups(Grouped(Wide(200))).size(), 201u);
}

}  // namespace
}  // namespace kiln
