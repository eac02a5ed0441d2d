// SPDX-License-Identifier: Apache-2.0
// What must be one kernel that walks each input and output once, whether it comes as one node or in
// pieces.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "fusion/bytes_accessed.h"
#include "tests/fusion/nets.h"

namespace kiln {
namespace {

struct Case {
  const char* name;
  const char* text;  // SHAPE, AXIS, ONE: a shape, an axis of it, and the shape with 1 there
};

// Normalisations over one axis.
constexpr Case kOverAnAxis[] = {
    {"softmax", "input x : f32 SHAPE\ny = softmax(x) {axis = AXIS}\noutput y\n"},
    {"softmax_pieces",
     "input x : f32 SHAPE\nm = reduce_max(x) {axes = [AXIS], keepdims = 1}\nd = sub(x, m)\n"
     "e = exp(d)\ns = reduce_sum(e) {axes = [AXIS], keepdims = 1}\ny = div(e, s)\noutput y\n"},
    {"softmax_masked",
     "input x : f32 SHAPE\ninput mask : f32 SHAPE\nconst k : f32 [] = 0.125\na = mul(x, k)\n"
     "b = add(a, mask)\ny = softmax(b) {axis = AXIS}\noutput y\n"},
    {"log_softmax", "input x : f32 SHAPE\ny = log_softmax(x) {axis = AXIS}\noutput y\n"},
    {"log_softmax_pieces",
     "input x : f32 SHAPE\nm = reduce_max(x) {axes = [AXIS], keepdims = 1}\nd = sub(x, m)\n"
     "e = exp(d)\ns = reduce_sum(e) {axes = [AXIS], keepdims = 1}\nl = log(s)\ny = sub(d, l)\n"
     "output y\n"},
    {"l2_normalise",
     "input x : f32 SHAPE\nq = mul(x, x)\ns = reduce_sum(q) {axes = [AXIS], keepdims = 1}\n"
     "r = sqrt(s)\ny = div(x, r)\noutput y\n"},
    {"standardise",
     "input x : f32 SHAPE\nconst e : f32 [] = 1e-5\n"
     "m = reduce_mean(x) {axes = [AXIS], keepdims = 1}\nd = sub(x, m)\nq = mul(d, d)\n"
     "v = reduce_mean(q) {axes = [AXIS], keepdims = 1}\na = add(v, e)\nr = sqrt(a)\ny = div(d, r)\n"
     "output y\n"},
};

constexpr Case kOthers[] = {
    {"product",
     "input a : f32 [n, 64]\ninput b : f32 [n, 64]\ninput c : f32 [n, 64]\n"
     "t = mul(a, b)\ny = mul(t, c)\noutput y\n"},
    {"product_sum",
     "input a : f32 [n, 64]\ninput b : f32 [n, 64]\ninput c : f32 [n, 64]\n"
     "t = mul(a, b)\ny = add(t, c)\noutput y\n"},
    {"chain_of_8",
     "input a : f32 [n, 64]\ninput b : f32 [n, 64]\ninput c : f32 [n, 64]\nconst h : f32 [] = 0.5\n"
     "const i : f32 [] = 1\nconst s : f32 [] = 6\no1 = mul(a, b)\no2 = add(o1, c)\no3 = relu(o2)\n"
     "o4 = mul(o3, a)\no5 = sub(o4, b)\no6 = mul(o5, h)\no7 = add(o6, i)\ny = min(o7, s)\n"
     "output y\n"},
    {"layer_norm_backward",
     "input dy : f32 [n, 512]\ninput x : f32 [n, 512]\ninput g : f32 [512]\n"
     "input m : f32 [n, 1]\ninput r : f32 [n, 1]\nc = sub(x, m)\nh = mul(c, r)\n"
     "w = mul(dy, g)\np = mul(w, h)\npm = reduce_mean(p) {axes = [1], keepdims = 1}\n"
     "wm = reduce_mean(w) {axes = [1], keepdims = 1}\nhp = mul(h, pm)\nd = sub(w, hp)\n"
     "e = sub(d, wm)\ndx = mul(e, r)\nf = mul(dy, h)\n"
     "dg = reduce_sum(f) {axes = [0], keepdims = 0}\n"
     "db = reduce_sum(dy) {axes = [0], keepdims = 0}\noutput dx\noutput dg\noutput db\n"},
    {"swiglu",
     "input a : f32 [n, 512]\ninput b : f32 [n, 512]\ns = sigmoid(a)\nt = mul(a, s)\n"
     "y = mul(t, b)\noutput y\n"},
    {"swiglu_one_node",
     "input a : f32 [n, 512]\ninput b : f32 [n, 512]\ns = swish(a)\ny = mul(s, b)\noutput y\n"},
    {"gelu", "input x : f32 [n, 512]\ninput b : f32 [512]\na = add(x, b)\ny = gelu(a)\noutput y\n"},
    {"layer_norm",
     "input x : f32 [n, 768]\ninput s : f32 [768]\ninput b : f32 [768]\n"
     "y = layer_norm(x, s, b)\noutput y\n"},
    {"layer_norm_two_axes",
     "input x : f32 [n, 16, 48]\ninput s : f32 [16, 48]\n"
     "input b : f32 [16, 48]\ny = layer_norm(x, s, b) {axis = 1}\noutput y\n"},
    {"residual_layer_norm",
     "input x : f32 [n, 768]\ninput r : f32 [n, 768]\ninput s : f32 [768]\ninput b : f32 [768]\n"
     "h = add(x, r)\ny = layer_norm(h, s, b)\noutput y\noutput h\n"},
    {"rms_norm",
     "input x : f32 [n, 768]\ninput s : f32 [768]\nconst e : f32 [] = 1e-5\nq = mul(x, x)\n"
     "m = reduce_mean(q) {axes = [-1], keepdims = 1}\na = add(m, e)\nr = sqrt(a)\nz = div(x, r)\n"
     "y = mul(z, s)\noutput y\n"},
    {"instance_norm",
     "input x : f32 [n, 64, 14, 14]\ninput s : f32 [64]\ninput b : f32 [64]\n"
     "y = instance_norm(x, s, b)\noutput y\n"},
    {"group_norm",
     "input x : f32 [4, 32, 64, 64]\ninput s : f32 [32, 1, 1]\ninput b : f32 [32, 1, 1]\n"
     "const ones : f32 [8] = [1, 1, 1, 1, 1, 1, 1, 1]\n"
     "const zeros : f32 [8] = [0, 0, 0, 0, 0, 0, 0, 0]\ng = reshape(x) {shape = [4, 8, 16384]}\n"
     "n = instance_norm(g, ones, zeros)\nr = reshape(n) {shape = [4, 32, 64, 64]}\nt = mul(r, s)\n"
     "u = add(t, b)\ny = swish(u)\noutput y\n"},
    {"cross_entropy",
     "input x : f32 [n, 1000]\ninput label : i64 [n]\nl = log_softmax(x) {axis = 1}\n"
     "i = unsqueeze(label) {axes = [1]}\np = gather_elements(l, i) {axis = 1}\ny = neg(p)\n"
     "output y\n"},
    {"rope_halves",
     "input q : f32 [n, 12, 512, 64]\ninput cos : f32 [512, 64]\ninput sin : f32 [512, 64]\n"
     "lo = slice(q) {starts = [0], ends = [32], axes = [3], steps = [1]}\n"
     "hi = slice(q) {starts = [32], ends = [64], axes = [3], steps = [1]}\n"
     "m = neg(hi)\nrotated = concat(m, lo) {axis = -1}\na = mul(q, cos)\nb = mul(rotated, sin)\n"
     "y = add(a, b)\noutput y\n"},
    {"rope_interleaved",
     "input q : f32 [n, 12, 512, 64]\ninput cos : f32 [512, 32]\ninput sin : f32 [512, 32]\n"
     "const zero : i64 [] = 0\nconst one : i64 [] = 1\np = reshape(q) {shape = [0, 12, 512, 32, "
     "2]}\n"
     "even = gather(p, zero) {axis = 4}\nodd = gather(p, one) {axis = 4}\na = mul(even, cos)\n"
     "b = mul(odd, sin)\nc = sub(a, b)\nd = mul(even, sin)\ne = mul(odd, cos)\nf = add(d, e)\n"
     "g = unsqueeze(c) {axes = [-1]}\nh = unsqueeze(f) {axes = [-1]}\ni = concat(g, h) {axis = "
     "-1}\n"
     "y = reshape(i) {shape = [0, 12, 512, 64]}\noutput y\n"},
    {"batch_norm_training",
     "input x : f32 [8, 64, 56, 56]\ninput gamma : f32 [64, 1, 1]\ninput beta : f32 [64, 1, 1]\n"
     "input mean : f32 [64, 1, 1]\nconst epsilon : f32 [] = 1e-05\nconst keep : f32 [] = 0.9\n"
     "const take : f32 [] = 0.1\nm = reduce_mean(x) {axes = [0, 2, 3], keepdims = 1}\n"
     "d = sub(x, m)\nq = mul(d, d)\nv = reduce_mean(q) {axes = [0, 2, 3], keepdims = 1}\n"
     "a = add(v, epsilon)\nb = sqrt(a)\nt = div(d, b)\ng = mul(t, gamma)\nh = add(g, beta)\n"
     "y = relu(h)\nm1 = mul(mean, keep)\nm2 = mul(m, take)\nnew_mean = add(m1, m2)\noutput y\n"
     "output new_mean\n"},
    {"adam",
     "input p : f32 [n]\ninput g : f32 [n]\ninput m : f32 [n]\ninput v : f32 [n]\n"
     "const b1 : f32 [] = 0.9\nconst c1 : f32 [] = 0.1\nconst b2 : f32 [] = 0.999\n"
     "const c2 : f32 [] = 0.001\nconst e : f32 [] = 1e-8\nconst r : f32 [] = 0.01\nm1 = mul(m, "
     "b1)\n"
     "m2 = mul(g, c1)\nmm = add(m1, m2)\nv1 = mul(v, b2)\ng2 = mul(g, g)\nv2 = mul(g2, c2)\n"
     "vv = add(v1, v2)\ns = sqrt(vv)\nd = add(s, e)\nu = div(mm, d)\nt = mul(u, r)\npp = sub(p, "
     "t)\n"
     "output pp\noutput mm\noutput vv\n"},
};

std::string CaseName(const testing::TestParamInfo<Case>& info) { return info.param.name; }

void ExpectOneKernel(const std::string& text) {
  Graph graph = Parsed("graph g\n" + text);
  ASSERT_THAT(RunPasses(graph, {}), IsOk());
  const Grouping grouping = Grouped(graph);
  EXPECT_EQ(KernelGroups(grouping).size(), 1u) << ToString(grouping, graph);
  const BytesAccessed traffic = BytesAccessedOf(graph, grouping);
  EXPECT_EQ(traffic.launches, 1);
  EXPECT_EQ(traffic.walked, traffic.lower_bound);
}

class OverAnAxis : public testing::TestWithParam<Case> {};
TEST_P(OverAnAxis, IsOneKernel) {
  for (const auto& [shape, axis] : {std::pair("[n, 512]", "1"), std::pair("[n, 8, 49]", "-1"),
                                    std::pair("[128, 2048]", "0"), std::pair("[n, 64, 49]", "1")}) {
    ExpectOneKernel(absl::StrReplaceAll(GetParam().text, {{"SHAPE", shape}, {"AXIS", axis}}));
  }
}
INSTANTIATE_TEST_SUITE_P(Cases, OverAnAxis, testing::ValuesIn(kOverAnAxis), CaseName);

class Others : public testing::TestWithParam<Case> {};
TEST_P(Others, AreOneKernel) { ExpectOneKernel(GetParam().text); }
INSTANTIATE_TEST_SUITE_P(Cases, Others, testing::ValuesIn(kOthers), CaseName);

}  // namespace
}  // namespace kiln
