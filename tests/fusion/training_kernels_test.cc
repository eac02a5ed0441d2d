// SPDX-License-Identifier: Apache-2.0
// How many kernels a layer and its gradient are, with products between the two as in a network: one
// forward, and one backward. Losses and their gradients are one.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "fusion/form_groups.h"
#include "fusion/recompute.h"
#include "graph/gradient/gradients.h"
#include "tests/fusion/nets.h"

namespace kiln {
namespace {

struct Layer {
  const char* name;
  const char* text;  // gives y; N stands for the batch
  const char* head;  // gives the loss by products
  int kernels;       // in all
};

// The gradient of y is a product, which reads the product that y goes into.
constexpr char kRows[] =
    "input w : f32 [768, 64]\nz = matmul(y, w)\ns = stop_gradient(z)\nq = mul(z, s)\n"
    "loss = reduce_sum(q) {keepdims = 0}\n";
constexpr char kImages[] =
    "input w : f32 [64, 64, 3, 3]\nz = conv(y, w) {pads = [1, 1, 1, 1]}\ns = stop_gradient(z)\n"
    "q = mul(z, s)\nloss = reduce_sum(q) {keepdims = 0}\n";

constexpr Layer kLayers[] = {
    {"relu", "input p : f32 [N, 64, 14, 14]\ny = relu(p)\n", kImages, 2},
    {"gelu", "input p : f32 [N, 512, 768]\ny = gelu(p)\n", kRows, 2},
    {"gelu_tanh", "input p : f32 [N, 512, 768]\ny = gelu(p) {approximate = \"tanh\"}\n", kRows, 2},
    {"swish", "input p : f32 [N, 512, 768]\ny = swish(p)\n", kRows, 2},
    {"biased_relu",
     "input p : f32 [N, 512, 768]\ninput p_b : f32 [768]\na = add(p, p_b)\ny = relu(a)\n", kRows,
     2},
    {"softmax", "input p : f32 [N, 512, 768]\ny = softmax(p)\n", kRows, 2},
    {"scaled_softmax",
     "input p : f32 [N, 12, 64, 768]\nconst k : f32 [] = 0.125\na = mul(p, k)\ny = softmax(a)\n",
     kRows, 2},
    {"layer_norm",
     "input p : f32 [N, 512, 768]\ninput p_s : f32 [768]\ninput p_b : f32 [768]\n"
     "y = layer_norm(p, p_s, p_b)\n",
     kRows, 2},
    {"residual_layer_norm",
     "input p : f32 [N, 512, 768]\ninput p_r : f32 [N, 512, 768]\ninput p_s : f32 [768]\ninput p_b "
     ": f32 "
     "[768]\n"
     "a = add(p, p_r)\ny = layer_norm(a, p_s, p_b)\n",
     kRows, 2},
    {"dropout_residual_layer_norm",
     "input p : f32 [N, 512, 768]\ninput p_r : f32 [N, 512, 768]\ninput p_s : f32 [768]\ninput p_b "
     ": f32 "
     "[768]\n"
     "input count : i64 []\nd, m = dropout(p, count) {ratio = 0.1}\n"
     "a = add(d, p_r)\ny = layer_norm(a, p_s, p_b)\n",
     kRows, 2},
    {"rms_norm",
     "input p : f32 [N, 512, 768]\ninput p_s : f32 [768]\nconst e : f32 [] = 1e-5\nsq = mul(p, p)\n"
     "m = reduce_mean(sq) {axes = [-1], keepdims = 1}\na = add(m, e)\nr = sqrt(a)\nh = div(p, r)\n"
     "y = mul(h, p_s)\n",
     kRows, 2},
    // Images have one more, which lays the first input out.
    {"instance_norm",
     "input p0 : f32 [N, 64, 14, 14]\ninput k : f32 [64, 64, 3, 3]\n"
     "p = conv(p0, k) {pads = [1, 1, 1, 1]}\ninput p_s : f32 [64]\ninput p_b : f32 [64]\n"
     "y = instance_norm(p, p_s, p_b)\n",
     kImages, 3},
    // Sums over a group's channels and places are two here (pass channel_groups), and sums over the
    // batch run beside them.
    {"group_norm",
     "input p0 : f32 [N, 64, 14, 14]\ninput k : f32 [64, 64, 3, 3]\n"
     "p = conv(p0, k) {pads = [1, 1, 1, 1]}\ninput p_s : f32 [64, 1, 1]\ninput p_b : f32 [64, 1, "
     "1]\n"
     "const ones : f32 [8] = [1, 1, 1, 1, 1, 1, 1, 1]\n"
     "const zeros : f32 [8] = [0, 0, 0, 0, 0, 0, 0, 0]\ng = reshape(p) {shape = [0, 8, -1]}\n"
     "i = instance_norm(g, ones, zeros)\nr = reshape(i) {shape = [-1, 64, 14, 14]}\nt = mul(r, "
     "p_s)\n"
     "y = add(t, p_b)\n",
     kImages, 5},
    {"batch_norm",
     "input p0 : f32 [N, 64, 14, 14]\ninput k : f32 [64, 64, 3, 3]\n"
     "p = conv(p0, k) {pads = [1, 1, 1, 1]}\ninput p_s : f32 [64, 1, 1]\ninput p_b : f32 [64, 1, "
     "1]\n"
     "input mean : f32 [64, 1, 1]\nconst epsilon : f32 [] = 1e-05\nconst keep : f32 [] = 0.9\n"
     "const take : f32 [] = 0.1\nm = reduce_mean(p) {axes = [0, 2, 3], keepdims = 1}\n"
     "d = sub(p, m)\nq0 = mul(d, d)\nv = reduce_mean(q0) "
     "{axes = [0, 2, 3], keepdims = 1}\n"
     "a = add(v, epsilon)\nb = sqrt(a)\nt = div(d, b)\ng = mul(t, p_s)\nh = add(g, p_b)\n"
     "y = relu(h)\nm1 = mul(mean, keep)\nm2 = mul(m, take)\nnew_mean = add(m1, m2)\n"
     "output new_mean\n",
     kImages, 3},
    {"batch_norm_rows",
     "input p : f32 [N, 512, 768]\ninput p_s : f32 [768]\ninput p_b : f32 [768]\n"
     "const epsilon : f32 [] = 1e-05\nm = reduce_mean(p) {axes = [0, 1], keepdims = 1}\n"
     "d = sub(p, m)\nq0 = mul(d, d)\nv = reduce_mean(q0) "
     "{axes = [0, 1], keepdims = 1}\n"
     "a = add(v, epsilon)\nb = sqrt(a)\nt = div(d, b)\ng = mul(t, p_s)\nh = add(g, p_b)\n"
     "y = relu(h)\n",
     kRows, 2},
};

// Losses: the gradient follows at once.
constexpr Layer kLosses[] = {
    {"cross_entropy_by_coordinates",
     "input p : f32 [N, 1000]\ninput label : i64 [N]\nm = reduce_max(p) {axes = [1], keepdims = "
     "1}\n"
     "z = sub(p, m)\ne = exp(z)\nt = reduce_sum(e) {axes = [1], keepdims = 0}\nk = log(t)\n"
     "i = unsqueeze(label) {axes = [1]}\nc = iota() {shape = [1, 1000], axis = 1}\nh = equal(c, "
     "i)\n"
     "const zero : f32 [] = 0\na = where(h, z, zero)\nb = reduce_sum(a) {axes = [1], keepdims = "
     "0}\n"
     "q = sub(k, b)\nloss = reduce_mean(q) {keepdims = 0}\n",
     "", 1},
    {"cross_entropy",
     "input p : f32 [N, 1000]\ninput label : i64 [N]\nk = log_softmax(p) {axis = 1}\n"
     "i = unsqueeze(label) {axes = [1]}\np0 = gather_elements(k, i) {axis = 1}\nq = neg(p0)\n"
     "loss = reduce_mean(q) {keepdims = 0}\n",
     "", 1},
    {"squared_error",
     "input p : f32 [N, 512, 768]\ninput t : f32 [N, 512, 768]\nd = sub(p, t)\nq = mul(d, d)\n"
     "loss = reduce_mean(q) {keepdims = 0}\n",
     "", 1},
};

// The gradients by all inputs whose name begins with p.
Graph Differentiated(const std::string& text) {
  Graph graph = Parsed(text);
  std::vector<ValueId> wrt;
  for (const ValueId id : graph.inputs()) {
    if (graph.value(id).name[0] == 'p') wrt.push_back(id);
  }
  ValueId loss;
  for (const Graph::Output& output : graph.outputs()) {
    if (output.name == "loss") loss = output.value;
  }
  absl::StatusOr<Graph> gradients = Gradients(graph, loss, wrt);
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  if (!gradients.ok()) return Graph();
  std::vector<Graph::Output> outputs;
  for (const Graph::Output& output : gradients->outputs()) {
    if (output.name != "loss") outputs.push_back(output);
  }
  gradients->SetOutputs(std::move(outputs));
  gradients->RemoveDead();
  return *std::move(gradients);
}

Grouping GroupsOf(const Layer& layer, const char* batch, Graph& graph) {
  const std::string text = absl::StrCat(layer.text, layer.head);
  graph = Differentiated(absl::StrCat(
      "graph g\n", absl::StrReplaceAll(text, {{"[N", absl::StrCat("[", batch)}}), "output loss\n"));
  EXPECT_THAT(RunPasses(graph, {}), IsOk());
  absl::StatusOr<Grouping> grouping = FormGroupsAndRecompute(graph, {});
  EXPECT_THAT(grouping, IsOk());
  return grouping.ok() ? *std::move(grouping) : Grouping();
}

class LayerTest : public testing::TestWithParam<Layer> {};
TEST_P(LayerTest, IsOneKernelEachWay) {
  for (const char* batch : {"64", "n"}) {
    SCOPED_TRACE(batch);
    Graph graph;
    const Grouping grouping = GroupsOf(GetParam(), batch, graph);
    EXPECT_EQ(KernelGroups(grouping).size(), static_cast<size_t>(GetParam().kernels))
        << ToString(grouping, graph) << Print(graph);
    EXPECT_THAT(Verify(graph), IsOk());
  }
}
std::string NameOf(const testing::TestParamInfo<Layer>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Layers, LayerTest, testing::ValuesIn(kLayers), NameOf);
INSTANTIATE_TEST_SUITE_P(Losses, LayerTest, testing::ValuesIn(kLosses), NameOf);

// Extents: as many as there are channels, others, 1, and unknown.
constexpr const char* kBatches[] = {"64", "48", "1", "n"};

// Groups the graph alone and with what is known of others: verdicts, groups and reasons are equal.
void ExpectNothingChangedBy(KnownVerdicts& known, const Graph& graph) {
  KnownVerdicts none;
  const absl::StatusOr<Grouping> alone = FormGroups(graph, {}, none);
  const absl::StatusOr<Grouping> after = FormGroups(graph, {}, known);
  ASSERT_THAT(alone, IsOk());
  ASSERT_THAT(after, IsOk());
  EXPECT_EQ(ToString(*after, graph), ToString(*alone, graph));
  for (const auto& [structure, form] : none.forms) {
    const GroupForm& remembered = known.forms.at(structure);
    for (const auto& [extents, verdict] : form.verdicts) {
      EXPECT_EQ(remembered.verdicts.at(extents).legal.reason(), verdict.legal.reason());
      EXPECT_EQ(remembered.verdicts.at(extents).price.ns, verdict.price.ns);
    }
  }
}

TEST(FormGroups, WhatIsKnownOfOtherGraphsChangesNothing) {
  KnownVerdicts known;
  for (const char* batch : kBatches) {
    for (const Layer& layer : kLayers) {
      SCOPED_TRACE(absl::StrCat(layer.name, ", batch ", batch));
      Graph graph;
      GroupsOf(layer, batch, graph);
      ExpectNothingChangedBy(known, graph);
    }
  }
}

// Networks have the same layers at many extents: a form is lowered once, and priced for each.
TEST(FormGroups, LowersLayersThatDifferInExtentsOnce) {
  for (const char* name : {"softmax", "layer_norm", "batch_norm"}) {
    SCOPED_TRACE(name);
    const auto* const layer =
        std::find_if(std::begin(kLayers), std::end(kLayers),
                     [&](const Layer& each) { return absl::string_view(name) == each.name; });
    KnownVerdicts known;
    std::vector<int64_t> lowered;
    for (const char* batch : {"48", "52"}) {
      Graph graph;
      GroupsOf(*layer, batch, graph);
      ASSERT_THAT(FormGroups(graph, {}, known), IsOk());
      lowered.push_back(known.lowered);
    }
    EXPECT_GT(lowered[0], 0);
    EXPECT_EQ(lowered[1], lowered[0]);
  }
}

// Parameters are parts of a flat tensor: where they lie makes no other kernel, and no other price.
TEST(FormGroups, LowersPartsOfAFlatTensorOnce) {
  KnownVerdicts known;
  std::vector<int64_t> lowered;
  for (const int first : {1000, 1600, 2500}) {
    const std::string part = absl::StrCat("{starts = [", first, "], ends = [", first + 768, "]}\n");
    Graph graph = Parsed(absl::StrCat(
        "graph g\ninput x : f32 [512, 768]\ninput f : f32 [4096]\ns = slice(f) ", part,
        "y = mul(x, s)\nm = reduce_mean(y) {axes = [1], keepdims = 1}\nz = sub(y, m)\noutput z\n"));
    ExpectNothingChangedBy(known, graph);
    lowered.push_back(known.lowered);
  }
  EXPECT_GT(lowered[0], 0);
  EXPECT_EQ(lowered[2], lowered[0]);
}

// What a 32-bit counter cannot count is a structure of its own, whatever is known of smaller ones.
TEST(FormGroups, LowersMoreThanACounterHoldsForItself) {
  KnownVerdicts known;
  std::vector<int64_t> lowered;
  for (const int side : {300, 70000}) {
    const Graph graph =
        Parsed(absl::StrCat("graph g\ninput x : f32 [", side, ", ", side,
                            "]\ny = exp(x)\nm = reduce_mean(y) {axes = [1], keepdims = 1}\n"
                            "z = sub(y, m)\noutput z\n"));
    ExpectNothingChangedBy(known, graph);
    lowered.push_back(known.lowered);
  }
  EXPECT_GT(lowered[1], lowered[0]);
}

// A factor for each channel, in a sum over whole images, is read at (c d) / |d|: the text has |d|.
TEST(FormGroups, LowersWhatDividesByExtentsForEach) {
  KnownVerdicts known;
  for (const int side : {14, 7}) {
    const Graph graph = Parsed(absl::StrCat(
        "graph g\ninput x : f32 [32, 64, ", side, ", ", side,
        "]\ninput s : f32 [64, 1, 1]\ny = mul(x, s)\n"
        "m = reduce_mean(y) {axes = [1, 2, 3], keepdims = 1}\nz = sub(y, m)\noutput z\n"));
    ExpectNothingChangedBy(known, graph);
  }
  EXPECT_TRUE(std::any_of(known.forms.begin(), known.forms.end(),
                          [](const auto& form) { return form.second.needs_extents; }));
}

// What the gradient can make of the layer's input and of a few numbers for each row is not stored.
TEST(Recompute, CheapElementsAreNotStored) {
  for (const auto& [name, stored] :
       {std::pair("gelu", 1), {"gelu_tanh", 1}, {"swish", 1}, {"layer_norm", 3}, {"rms_norm", 2}}) {
    SCOPED_TRACE(name);
    const absl::string_view wanted = name;
    const auto* const layer = std::find_if(std::begin(kLayers), std::end(kLayers),
                                           [&](const Layer& each) { return each.name == wanted; });
    Graph graph;
    const Grouping grouping = GroupsOf(*layer, "64", graph);
    EXPECT_EQ(KernelGroups(grouping)[0].outputs.size(), static_cast<size_t>(stored))
        << ToString(grouping, graph);
  }
}

// A kernel that reads many parts would look for each element's part; they are written in place.
TEST(Optimizer, ReadsAFlatGradientOfManyPartsAsOne) {
  std::string text = "graph g\ninput x : f32 [128, 128]\ninput m : f32 [196608]\n", parts;
  for (int k = 0; k < 12; ++k) {
    absl::StrAppend(&text, "input w", k, " : f32 [128, 128]\ng", k, " = matmul(x, w", k, ")\nf", k,
                    " = reshape(g", k, ") {shape = [-1]}\n");
    absl::StrAppend(&parts, k == 0 ? "" : ", ", "f", k);
  }
  absl::StrAppend(&text, "g = concat(", parts, ") {axis = 0}\n",
                  "const keep : f32 [] = 0.9\nd = sub(g, m)\nt = mul(d, keep)\ny = add(m, t)\n"
                  "output y\n");
  Graph graph = Parsed(text);
  EXPECT_THAT(RunPasses(graph, {}), IsOk());
  const absl::StatusOr<Grouping> grouping = FormGroupsAndRecompute(graph, {});
  ASSERT_THAT(grouping, IsOk());
  std::vector<size_t> nodes;
  for (const Group& group : KernelGroups(*grouping)) nodes.push_back(group.nodes.size());
  EXPECT_EQ(nodes, (std::vector<size_t>{1, 3})) << ToString(*grouping, graph);
}

// Concats of concats, as those of more parts than 256 become, are no launches at all.
TEST(Optimizer, WritesAFlatGradientOfHundredsOfPartsInParts) {
  std::string text = "graph g\ninput x : f32 [16, 16]\n", parts;
  for (int k = 0; k < 300; ++k) {
    absl::StrAppend(&text, "input w", k, " : f32 [16, 16]\ng", k, " = matmul(x, w", k, ")\n");
    absl::StrAppend(&parts, k == 0 ? "" : ", ", "g", k);
  }
  absl::StrAppend(&text, "g = concat(", parts, ") {axis = 0}\noutput g\n");
  Graph graph = Parsed(text);
  EXPECT_THAT(RunPasses(graph, {}), IsOk());
  for (const Group& group : KernelGroups(Grouped(graph))) EXPECT_EQ(group.nodes.size(), 1u);
}

}  // namespace
}  // namespace kiln
