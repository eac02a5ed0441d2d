// SPDX-License-Identifier: Apache-2.0
#include "fusion/lower.h"

#include <cstring>

#include "gmock/gmock.h"
#include "kernel/text.h"
#include "schedule/index_split.h"
#include "tests/fusion/nets.h"

namespace kiln {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// All nodes of the graph as one group.
Group Whole(const Graph& graph) {
  Group group;
  for (size_t i = 0; i < graph.nodes().size(); ++i)
    group.nodes.push_back(NodeId{static_cast<int32_t>(i)});
  for (const Graph::Output& output : graph.outputs()) group.outputs.push_back(output.value);
  std::sort(group.outputs.begin(), group.outputs.end());
  return group;
}

std::string KernelOf(absl::string_view text) {
  Graph graph = Parsed(text);
  if (const absl::Status status = RunPasses(graph, {}); !status.ok()) return status.ToString();
  const absl::StatusOr<LoweredGroup> lowered = LowerGroup(graph, Whole(graph));
  if (!lowered.ok()) return lowered.status().ToString();
  EXPECT_THAT(Verify(lowered->canonical.kernel), IsOk());
  return Print(lowered->canonical.kernel);
}

// The gradient of an embedding: slices are computed where they are added.
TEST(LowerGroup, WritesSumsAtPlacesOfWhatIsComputed) {
  EXPECT_EQ(KernelOf(R"(
    graph g
    input i : i64 [batch, s, 1]
    input g : f32 [batch, s, 64]
    input m : f32 [batch, s, 64]
    u = mul(g, m)
    y = scatter_sum(i, u) {shape = [vocabulary, 64]}
    output y
  )"),
            R"(kernel v1 math 1
dims a b
sizes n0
in   0 i64 [a] dense
in   1 f32 [a, b] dense
in   2 f32 [a, b] dense
out  0 f32 [n0, b] dense = add_at[[in0[a]], b](mul(in1[a, b], in2[a, b]))
)");
  // What is made of sums is another kernel, and so is another result of the slices.
  EXPECT_THAT(KernelOf("graph g\ninput i : i64 [n, 1]\ninput x : f32 [n]\n"
                       "s = scatter_sum(i, x) {shape = [4]}\ny = add(s, s)\noutput y\n"),
              HasSubstr("sums are known when all has been added"));
  EXPECT_THAT(KernelOf("graph g\ninput i : i64 [n, 1]\ninput x : f32 [n]\nu = mul(x, x)\n"
                       "s = scatter_sum(i, u) {shape = [4]}\noutput s\noutput u\n"),
              HasSubstr("only output"));
}

TEST(LowerGroup, WritesSoftmaxOfScaledAndMaskedScores) {
  EXPECT_EQ(KernelOf(R"(
    graph g
    input x : f32 [batch, 12, s, s]
    input mask : f32 [s]
    const scale : f32 [] = 0.125
    scaled = mul(x, scale)
    scores = add(scaled, mask)
    y = softmax(scores)
    output y
  )"),
            R"(kernel v1 math 1
dims a b
in   0 f32 [a, b] dense
in   1 f32 [b] dense
par  0 f32
s0 : f32 [a, b] = add(mul(in0[a, b], par0), in1[b])
s1 : f32 [a]    = reduce max over b (s0[a, b])
s2 : f32 [a, b] = exp(sub(s0[a, b], s1[a]))
s3 : f32 [a]    = reduce add over b (s2[a, b])
s4 : f32 [a]    = div(1, s3[a])
out  0 f32 [a, b] dense = mul(s2[a, b], s4[a])
)");
}

TEST(LowerGroup, WritesLayerNorm) {
  EXPECT_EQ(KernelOf(R"(
    graph g
    input x : f32 [n, 128, 768]
    input scale : f32 [768]
    input bias : f32 [768]
    y = layer_norm(x, scale, bias)
    output y
  )"),
            R"(kernel v1 math 1
dims a b
sizes n0
in   0 f32 [a, b] dense
in   1 f32 [b] dense
in   2 f32 [b] dense
par  0 f32
s0 : f32 [a]    = reduce add over b (in0[a, b])
s1 : f32 [a]    = div(s0[a], cast<f32>(extent(n0)))
s2 : f32 [a, b] = sub(in0[a, b], s1[a])
s3 : f32 [a]    = reduce add over b (mul(s2[a, b], s2[a, b]))
s4 : f32 [a]    = sqrt(add(div(s3[a], cast<f32>(extent(n0))), par0))
out  0 f32 [a, b] dense = add(mul(div(s2[a, b], s4[a]), in1[b]), in2[b])
)");
}

TEST(LowerGroup, WritesAProductOfThree) {
  EXPECT_EQ(KernelOf(R"(
    graph g
    input a : f32 [n, 64]
    input b : f32 [n, 64]
    input c : f32 [64]
    ab = mul(a, b)
    abc = mul(ab, c)
    output abc
  )"),
            R"(kernel v1 math 1
dims a b
in   0 f32 [a, b] dense
in   1 f32 [a, b] dense
in   2 f32 [b] dense
out  0 f32 [a, b] dense = mul(mul(in0[a, b], in1[a, b]), in2[b])
)");
}

TEST(LowerGroup, WritesGelu) {
  EXPECT_EQ(KernelOf(R"(
    graph g
    input x : f32 [n, 64]
    y = gelu(x)
    output y
  )"),
            R"(kernel v1 math 1
dims a
in   0 f32 [a] dense
par  0 f32
par  1 f32
out  0 f32 [a] dense = mul(add(erf(mul(in0[a], par0)), 1), mul(in0[a], par1))
)");
}

TEST(LowerGroup, WritesIndexOpsAsGuardedReads) {
  EXPECT_EQ(KernelOf(R"(
    graph g
    input x : f32 [n, 6]
    input y : f32 [n, 2]
    z = concat(x, y) {axis = 1}
    part = slice(z) {starts = [3], ends = [8], axes = [1]}
    output part
  )"),
            R"(kernel v1 math 1
dims a b
sizes n0 n1 n2
in   0 f32 [a, n0] dense
in   1 f32 [a, n1] dense
out  0 f32 [a, b] dense = guard(lt(add(extent(n2), index(b)), extent(n0)), in0[a, b+|n2|], guard(le(extent(n0), add(extent(n2), index(b))), in1[a, b-|n0|+|n2|], 0))
)");
}

// However large they are, parts are known to come one after the other.
TEST(LowerGroup, BoundsOfPartsAreSumsOfTheirExtents) {
  const std::string pieces = KernelOf(R"(
    graph g
    input x : f32 [n, 24]
    input y : f32 [n, 24]
    input z : f32 [n, 5]
    w = concat(x, y, z) {axis = 1}
    output w
  )");
  EXPECT_EQ(pieces, R"(kernel v1 math 1
dims a b
sizes n0 n1
in   0 f32 [a, n0] dense
in   1 f32 [a, n0] dense
in   2 f32 [a, n1] dense
out  0 f32 [a, b] dense = guard(lt(index(b), extent(n0)), in0[a, b], guard(and(lt(index(b), mul(extent(n0), i64:2)), le(extent(n0), index(b))), in1[a, b-|n0|], guard(le(mul(extent(n0), i64:2), index(b)), in2[a, b-2*|n0|], 0)))
)");
  EXPECT_EQ(Cuts(*ParseKernel(pieces)).size(), 2u);
  // A pad's end is its beginning and what is between.
  EXPECT_EQ(Cuts(*ParseKernel(KernelOf(R"(
    graph g
    input x : f32 [n, w]
    y = pad(x) {pads = [0, 3, 0, 4]}
    output y
  )")))
                .size(),
            2u);
}

TEST(LowerGroup, WritesAGatherAsALoadedIndex) {
  EXPECT_EQ(KernelOf(R"(
    graph g
    input table : f32 [1000, 64]
    input ids : i64 [n, s]
    input pos : f32 [s, 64]
    rows = gather(table, ids) {axis = 0}
    sum = add(rows, pos)
    output sum
  )"),
            R"(kernel v1 math 1
dims a b c
sizes n0
in   0 f32 [b, c] dense
in   1 f32 [n0, c] dense
in   2 i64 [a, b] dense
out  0 f32 [a, b, c] dense = add(in0[b, c], in1[[in2[a, b]], c])
)");
}

TEST(LowerGroup, SplitsAnAxisThatAReshapeSplits) {
  EXPECT_EQ(KernelOf(R"(
    graph g
    input x : f32 [n, 16, 64]
    input bias : f32 [64]
    biased = add(x, bias)
    parts = reshape(biased) {shape = [n, 16, 4, 16]}
    heads = transpose(parts) {perm = [0, 2, 1, 3]}
    output heads
  )"),
            R"(kernel v1 math 1
dims a b c d
in   0 f32 [a, c, b, d] dense
in   1 f32 [b, d] dense
out  0 f32 [a, b, c, d] dense = add(in0[a, c, b, d], in1[b, d])
)");
}

TEST(LowerGroup, BindsWhatTheKernelNeeds) {
  Graph graph = Parsed(R"(
    graph g
    input x : f32 [n, 64]
    input y : f32 [64]
    const third : f32 [] = 0.375
    s = add(y, x)
    z = mul(s, third)
    output z
  )");
  const absl::StatusOr<LoweredGroup> lowered = LowerGroup(graph, Whole(graph));
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  ASSERT_THAT(lowered->inputs, SizeIs(2));
  for (size_t k = 0; k < 2; ++k) {
    const bool full = graph.value(lowered->inputs[k]).name == "x";
    EXPECT_EQ(lowered->input_shapes[k], full ? Shape({Dim::Symbol("n"), 64}) : Shape({Dim(64)}));
  }
  EXPECT_EQ(lowered->dims, Shape({Dim::Symbol("n"), 64}));
  EXPECT_EQ(lowered->output_shapes[0], Shape({Dim::Symbol("n"), 64}));
  ASSERT_THAT(lowered->params, SizeIs(1));
  float param = 0;
  ASSERT_EQ(lowered->params[0].size(), sizeof(param));
  std::memcpy(&param, lowered->params[0].data(), sizeof(param));
  EXPECT_EQ(param, 0.375f);
}

TEST(LowerGroup, MergesDimsIntoOne) {
  Graph graph = Parsed(R"(
    graph g
    input x : f32 [n, 16, 64]
    y = exp(x)
    output y
  )");
  const absl::StatusOr<LoweredGroup> lowered = LowerGroup(graph, Whole(graph));
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  EXPECT_EQ(lowered->dims, Shape({Dim::Symbol("n") * 1024}));
  EXPECT_EQ(lowered->input_shapes[0], Shape({Dim::Symbol("n") * 1024}));
}

// Graphs that compute the same in other words are one kernel.
TEST(LowerGroup, ForgetsNamesSizesNumbersAndOperandOrder) {
  const std::string first = KernelOf(R"(
    graph g
    input x : f32 [n, 64]
    input y : f32 [64]
    const c : f32 [] = 0.3
    p = mul(x, c)
    q = add(p, y)
    r = exp(q)
    output r
  )");
  EXPECT_EQ(first, KernelOf(R"(
    graph other
    input second : f32 [1, 12]
    input first : f32 [7, 5, 12]
    const number : f32 [1] = [0.7]
    scaled = mul(number, first)
    moved = add(second, scaled)
    result = exp(moved)
    output result
  )"));
}

TEST(LowerGroup, ForgetsWhereASliceBegins) {
  const auto at = [](int start) {
    return KernelOf(absl::StrCat("graph g\ninput x : f32 [n, 64]\ny = slice(x) {starts = [", start,
                                 "], ends = [", start + 8,
                                 "], axes = [1]}\nz = relu(y)\noutput z\n"));
  };
  EXPECT_EQ(at(3), at(5));
}

TEST(LowerGroup, TellsOtherComputationsApart) {
  const auto with = [](absl::string_view op) {
    return KernelOf(absl::StrCat("graph g\ninput x : f32 [n, 64]\ninput y : f32 [n, 64]\nz = ", op,
                                 "\noutput z\n"));
  };
  EXPECT_NE(with("sub(x, y)"), with("add(x, y)"));
  EXPECT_NE(with("max(x, y)"), with("min(x, y)"));
  EXPECT_NE(with("relu(x)"), with("exp(x)"));
}

TEST(LowerGroup, RefusesTwoDomains) {
  Graph graph = Parsed(R"(
    graph g
    input x : f32 [n]
    input y : f32 [m]
    a = exp(x)
    b = exp(y)
    output a
    output b
  )");
  EXPECT_THAT(LowerGroup(graph, Whole(graph)).status(),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("same dims")));
}

TEST(LowerGroup, RefusesAGroupThatIsNoKernel) {
  Graph graph = Parsed("graph g\ninput x : f32 [n]\ny = exp(x)\noutput y\n");
  Group group = Whole(graph);
  group.kind = Group::Kind::kView;
  EXPECT_THAT(LowerGroup(graph, group).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("view")));
}

}  // namespace
}  // namespace kiln
