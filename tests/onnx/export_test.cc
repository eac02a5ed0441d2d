// SPDX-License-Identifier: Apache-2.0
// A graph that was written as ONNX and read again computes the same.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "graph/graph.h"
#include "graph/onnx/export.h"
#include "graph/onnx/import.h"
#include "graph/onnx/onnx.pb.h"
#include "graph/onnx/wire.h"
#include "graph/reference/interpreter.h"
#include "graph/tensors.h"
#include "graph/text.h"
#include "gtest/gtest.h"
#include "kiln/graph.h"
#include "tests/base/status_matchers.h"

namespace kiln {
namespace {

using ::testing::HasSubstr;

Tensor Ramp(DType type, std::vector<int64_t> shape) {
  Tensor tensor = Tensor::Allocate(type, std::move(shape));
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const int64_t value = (i * 7 + 3) % 11;
    if (IsFloat(type)) {
      WriteFloat(tensor, i, 0.25 * static_cast<double>(value) - 1);
    } else {
      WriteInt(tensor, i, value % 2);
    }
  }
  return tensor;
}

// Integers of both signs, whose products and sums wrap in few bits.
Tensor Extremes(DType type, std::vector<int64_t> shape) {
  Tensor tensor = Tensor::Allocate(type, std::move(shape));
  for (int64_t i = 0; i < tensor.num_elements(); ++i) WriteInt(tensor, i, 100 - 37 * i);
  return tensor;
}

// What the graph and its export give for the same inputs, symbols being 3.
void ExpectSame(const Graph& graph, const std::vector<OnnxFunction>& functions = {},
                Tensor (*fill)(DType, std::vector<int64_t>) = Ramp) {
  KILN_ASSERT_OK_AND_ASSIGN(const std::string bytes, ExportOnnx(graph, functions));
  KILN_ASSERT_OK_AND_ASSIGN(const OnnxImport again, ImportOnnxBytes(bytes));
  ASSERT_EQ(again.graph.inputs().size(), graph.inputs().size());
  ASSERT_EQ(again.graph.outputs().size(), graph.outputs().size());
  std::vector<Tensor> inputs;
  for (size_t k = 0; k < graph.inputs().size(); ++k) {
    const Value& input = graph.value(graph.inputs()[k]);
    const Value& read = again.graph.value(again.graph.inputs()[k]);
    EXPECT_EQ(read.name, input.name);
    EXPECT_EQ(read.type, input.type);
    EXPECT_EQ(ToString(read.shape), ToString(input.shape));
    std::vector<int64_t> shape;
    for (const Dim& dim : input.shape) shape.push_back(dim.constant().value_or(3));
    inputs.push_back(fill(input.type, shape));
  }
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> want, Interpret(graph, inputs));
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got, Interpret(again.graph, inputs));
  for (size_t k = 0; k < want.size(); ++k) {
    EXPECT_EQ(again.graph.outputs()[k].name, graph.outputs()[k].name);
    ASSERT_EQ(got[k].dtype(), want[k].dtype());
    ASSERT_EQ(got[k].shape(), want[k].shape());
    for (int64_t i = 0; i < want[k].num_elements(); ++i) {
      if (IsFloat(want[k].dtype())) {
        EXPECT_NEAR(ReadFloat(got[k], i), ReadFloat(want[k], i), 1e-5) << k << " at " << i;
      } else {
        EXPECT_EQ(ReadInt(got[k], i), ReadInt(want[k], i)) << k << " at " << i;
      }
    }
  }
}

Graph Parsed(const std::string& text) {
  absl::StatusOr<Graph> graph = ParseGraph(text);
  KILN_EXPECT_OK(graph.status());
  return graph.ok() ? *std::move(graph) : Graph();
}

TEST(ExportOnnx, KeepsWhatScalarOpsMean) {
  std::string text =
      "graph g\ninput x : f32 [2, 3]\ninput w : f32 [3]\ninput b : bool [2, 3]\n"
      "const half : f32 [] = 0.5\nconst low : f32 [] = -0.5\n";
  std::string outputs;
  int number = 0;
  const auto add = [&](const std::string& call) {
    const std::string name = "y" + std::to_string(number++);
    text += name + " = " + call + "\n";
    outputs += "output " + name + "\n";
  };
  for (const char* op : {"abs",      "neg",        "exp",        "tanh",         "relu",
                         "sigmoid",  "softplus",   "floor",      "round",        "sign",
                         "erf",      "hard_swish", "mish",       "swish",        "celu",
                         "elu",      "selu",       "leaky_relu", "hard_sigmoid", "thresholded_relu",
                         "softsign", "is_nan",     "is_inf",     "sin",          "identity"})
    add(std::string(op) + "(x)");
  for (const char* op : {"add", "sub", "mul", "div", "max", "min", "less", "less_equal", "greater",
                         "greater_equal", "equal", "not_equal", "prelu", "mod"})
    add(std::string(op) + "(x, w)");
  add("prelu(w, x)");
  add("mod(x, half) {fmod = 1}");
  add("clip(x, low, half)");
  add("clip(x, w)");
  add("clip(x, low, w)");
  add("swish(x) {alpha = 2.0}");
  add("where(b, x, w)");
  add("not(b)");
  add("and(b, b)");
  add("xor(b, b)");
  add("cast(x) {to = i32}");
  add("cast(b) {to = f32}");
  text += "p = abs(x)\nq = add(p, half)\n";
  for (const char* op : {"log", "sqrt", "rsqrt", "reciprocal"}) add(std::string(op) + "(q)");
  add("pow(q, half)");
  ExpectSame(Parsed(text + outputs));
}

// What ONNX has not for all integers (Neg of u8) is written with others, or not at all.
TEST(ExportOnnx, WritesIntegersThatOnnxLeavesOut) {
  struct Case {
    const char* call;
    std::vector<absl::string_view> widened;  // types of those that are computed in 64 bits
  };
  const std::vector<absl::string_view> narrow = {"i8", "i16", "u8", "u16"};
  const Case cases[] = {{"neg(x)", {"u8", "u16", "u32", "u64"}},
                        {"relu(x)", {}},
                        {"abs(x)", {}},
                        {"pow(x, x)", {"i8", "i16", "u8", "u16", "u32"}},
                        {"reduce_sum(x) {axes = [1]}", narrow},
                        {"reduce_prod(x) {axes = [0]}", narrow},
                        {"reduce_l1(x)", narrow},
                        {"reduce_sum_square(x)", narrow},
                        {"reduce_max(x) {axes = [1]}", {"i16", "u16"}},
                        {"reduce_min(x)", {"i16", "u16"}},
                        {"cumulative(x) {axis = 1}", narrow},
                        {"matmul(x, x) {trans_b = 1}", narrow},
                        {"prelu(x, x)", narrow}};
  for (const Case& test : cases) {
    for (const char* const type : {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"}) {
      SCOPED_TRACE(absl::StrCat(test.call, " of ", type));
      if (test.call == absl::string_view("pow(x, x)") && type == absl::string_view("u64")) continue;
      const Graph graph = Parsed(
          absl::StrCat("graph g\ninput x : ", type, " [2, 3]\ny = ", test.call, "\noutput y\n"));
      ExpectSame(graph, {}, Extremes);
      KILN_ASSERT_OK_AND_ASSIGN(const std::string bytes, ExportOnnx(graph));
      onnx::ModelProto model;
      KILN_ASSERT_OK(onnx::Parse(*onnx::Skeleton(bytes, onnx::Root::kModel), model));
      const bool widened = model.graph().node().rbegin()->op_type() == "Cast";
      EXPECT_EQ(widened, std::count(test.widened.begin(), test.widened.end(), type) == 1);
    }
  }
  const auto refused = [](absl::string_view call, absl::string_view type, absl::string_view why) {
    const Graph graph =
        Parsed(absl::StrCat("graph g\ninput x : ", type, " [2]\ny = ", call, "\noutput y\n"));
    EXPECT_THAT(ExportOnnx(graph).status(),
                StatusIs(absl::StatusCode::kUnimplemented, HasSubstr(std::string(why))));
  };
  for (const absl::string_view type : narrow)
    refused("reduce_mean(x)", type, absl::StrCat("ONNX has no mean of ", type));
  refused("pow(x, x)", "u64", "ONNX has no power of u64");
  for (const char* const type : {"i8", "i16", "i32", "u8", "u16", "u32", "u64"})
    for (const char* const call : {"reduce_max(x) {axes = [1]}", "reduce_min(x) {axes = [1]}"})
      ExpectSame(
          Parsed(absl::StrCat("graph g\ninput x : ", type, " [2, 0]\ny = ", call, "\noutput y\n")));
}

TEST(ExportOnnx, KeepsTables) {
  std::string rows = "[";
  for (int i = 0; i < 512; ++i) rows += (i == 0 ? "" : ", ") + std::to_string(i * 7 % 251);
  ExpectSame(Parsed(
      "graph g\ninput x : u8 [n, 2, 6]\ninput i : i8 [3, 2]\nconst t : u8 [2, 256] = " + rows +
      "]\ny = lookup(x, t) {axis = 1}\none = slice(t) {starts = [1], ends = [2], "
      "axes = [0]}\nz = lookup(i, one)\noutput y\noutput z\n"));
}

TEST(ExportOnnx, KeepsWhatMovesReducesAndMultiplies) {
  ExpectSame(Parsed(R"(graph g
input x : f32 [n, 4, 6]
input i : i64 [2]
input v : f32 [4, 6]
a = reduce_sum(x) {axes = [1], keepdims = 0}
b = reduce_mean(x) {axes = [-1]}
c = reduce_max(x)
d = transpose(x) {perm = [2, 0, 1]}
e = reshape(x) {shape = [n, 24]}
f = reshape(x) {shape = [n, 2, 2, 6]}
g = slice(x) {starts = [1, -1], ends = [3, -4], axes = [1, 2], steps = [1, -2]}
h = concat(x, x) {axis = 1}
j, k = split(x) {axis = 2, split = [2, 4]}
l = gather(x, i) {axis = 1}
m = pad(x) {pads = [0, 1, 0, 0, 0, 2], value = 0.5}
o = upsample(x) {scales = [1, 2, 1]}
p = softmax(x) {axis = 1}
q = matmul(x, v) {trans_b = 1}
r = cumulative(x) {axis = 1, reverse = 1}
s, t = top_k(x) {k = 2}
u = expand(v) {shape = [n, 4, 6]}
w = unsqueeze(v) {axes = [0, 3]}
y = squeeze(w) {axes = [0]}
z = iota() {shape = [n, 3], axis = 1}
aa = iota() {shape = [4]}
ab = take(v, i, i)
ac = constant_of_shape() {shape = [n, 2]}
ad = flatten(x) {axis = 2}
ae = reduce_l2(x) {axes = [0]}
output a
output b
output c
output d
output e
output f
output g
output h
output j
output k
output l
output m
output o
output p
output q
output r
output s
output t
output u
output w
output y
output z
output aa
output ab
output ac
output ad
output ae
)"));
}

TEST(ExportOnnx, KeepsWhatNetworksAreMadeOf) {
  ExpectSame(Parsed(R"(graph g
input x : f32 [n, 4, 6, 6]
input w : f32 [8, 2, 3, 3]
input v : f32 [4, 3, 2, 2]
input s : f32 [4]
a = conv(x, w) {group = 2, pads = [1, 1, 1, 1], strides = [2, 2]}
b = conv_transpose(x, v) {strides = [2, 2]}
c = max_pool(x) {kernel = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]}
d = average_pool(x) {kernel = [2, 2], ceil_mode = 1, strides = [2, 2]}
e = global_average_pool(x)
p = abs(s)
f = batch_norm(x, s, s, s, p)
g = instance_norm(x, s, s)
h = gelu(x)
i = gelu(x) {approximate = "tanh"}
j = log_softmax(x)
k = layer_norm(x) {axis = 2}
output a
output b
output c
output d
output e
output f
output g
output h
output i
output j
output k
)"));
}

// What gradients are made of: ONNX has no such operators, and extents only in numbers.
TEST(ExportOnnx, KeepsWhatGradientsAreMadeOf) {
  ExpectSame(Parsed(R"(graph g
input x : f32 [n, 4, 6, 6]
input y : f32 [n, 2, 3, 3]
input p : f32 [n, 4, 3, 3]
input s : f32 [2, 2, m]
input v : f32 [2, 4, 3]
input u : f32 [2, 3]
const i : i64 [2, 1] = [3, 3]
a = conv_backward_weights(x, y) {kernel = [3, 3], group = 2, pads = [1, 1, 1, 1], strides = [2, 2]}
b = max_pool_backward(x, p) {kernel = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]}
c = average_pool_backward(p) {kernel = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2], shape = [n, 4, 6, 6]}
d = scatter_sum(i, u) {shape = [4, 3]}
e = conv_transpose(s, v) {strides = [2], extents = [2 * m + 2]}
output a
output b
output c
output d
output e
)"));
}

// Numbers are of the seed and of the output's name, which an export keeps.
TEST(ExportOnnx, KeepsRandomNumbersOfAnImportedModel) {
  const Graph made = Parsed(R"(graph g
input x : f32 [n, 5]
u = random_uniform() {high = 3.5, shape = [2, 3], type = f64}
v = random_normal() {mean = 1.5, shape = [n, 4]}
p = sigmoid(x)
c = bernoulli(p) {to = i32}
k = multinomial(x) {samples = 4, to = i64}
y, m = dropout(x) {ratio = 0.25, seed = 7}
output u
output v
output c
output k
output y
output m
)");
  KILN_ASSERT_OK_AND_ASSIGN(const std::string bytes, ExportOnnx(made));
  KILN_ASSERT_OK_AND_ASSIGN(const OnnxImport imported, ImportOnnxBytes(bytes));
  ExpectSame(imported.graph);
  const Graph stepped = Parsed(R"(graph g
input x : f32 [5]
input s : i64 []
y, m = dropout(x, s)
output y
)");
  EXPECT_THAT(ExportOnnx(stepped),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("other numbers at each step")));
}

TEST(ExportOnnx, WritesArithmeticOnExtents) {
  ExpectSame(Parsed(R"(graph g
input x : f32 [n, m]
a = reshape(x) {shape = [m, n]}
b = concat(x, x) {axis = 0}
c = reshape(b) {shape = [m, 2, n]}
d = slice(x) {starts = [0], ends = [2], axes = [1], steps = [1]}
e = iota() {shape = [n*m + 1]}
output a
output c
output d
output e
)"));
}

TEST(ExportOnnx, WritesBranchesAndLoops) {
  ExpectSame(Parsed(R"(graph g
input c : bool []
input m : i64 []
input x : f32 [n, 2]
body a
input x : f32 [n, 2]
y : f32 [n, 2] = add(x, x)
output y
end
body b
input x : f32 [n, 2]
k : f32 [min(n, 1), 2] = slice(x) {axes = [0], ends = [1], starts = [0], steps = [1]}
output k
end
body t
input i : i64 []
input c : bool []
input s : f32 [n, 2]
input x : f32 [n, 2]
u : f32 [n, 2] = add(s, x)
v : f32 [2] = reduce_sum(u) {axes = [0], keepdims = 0}
output c
output u
output v
end
r : f32 [h, 2] = if(c, x) {else_branch = b, extents = [h, 2], then_branch = a}
z : f32 [h] = reduce_sum(r) {axes = [1], keepdims = 0}
e, f = loop(m, _, x, x) {body = t, carried = 1, extents = [n, 2, steps, 2]}
output r
output z
output e
output f
)"));
}

TEST(ExportOnnx, WrapsNodesInFunctions) {
  const Graph graph = Parsed(R"(graph g
input x : f32 [n, 4]
const half : f32 [] = 0.5
a = mul(x, half)
b = reshape(a) {shape = [n, 2, 2]}
c = exp(b)
d = neg(a)
e = reduce_sum(c) {axes = [1, 2]}
output d
output e
)");
  OnnxFunction function;
  function.name = "kernel_0";
  function.nodes = {{0}, {2}};
  function.copies = {{1}};
  function.outputs = {graph.node({0}).outputs[0], graph.node({2}).outputs[0]};
  function.metadata = {{"kiln.kind", "kernel"}};
  ExpectSame(graph, {function});
  KILN_ASSERT_OK_AND_ASSIGN(const std::string bytes, ExportOnnx(graph, {function}));
  EXPECT_THAT(bytes, HasSubstr("kiln.kind"));
}

TEST(ExportOnnx, NamesWhatOnnxLacks) {
  const Graph graph = Parsed("graph g\ninput x : i32 [2]\ny = shift_right(x, x)\noutput y\n");
  EXPECT_THAT(ExportOnnx(graph),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("(shift_right)")));
}

}  // namespace
}  // namespace kiln
