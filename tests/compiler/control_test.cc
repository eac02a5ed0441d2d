// SPDX-License-Identifier: Apache-2.0
// Branches, loops and data-dependent sizes: compiled models against the interpreter, at both ends
// of the optimisation levels.
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "gmock/gmock.h"
#include "graph/custom_op.h"
#include "graph/reference/interpreter.h"
#include "graph/tensors.h"
#include "graph/text.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"

namespace kiln {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor Floats(std::vector<int64_t> shape, const std::vector<float>& values) {
  Tensor t = Tensor::Allocate(DType::kF32, std::move(shape));
  std::copy(values.begin(), values.end(), static_cast<float*>(t.data()));
  return t;
}
Tensor Ints(std::vector<int64_t> shape, const std::vector<int64_t>& values) {
  Tensor t = Tensor::Allocate(DType::kI64, std::move(shape));
  std::copy(values.begin(), values.end(), static_cast<int64_t*>(t.data()));
  return t;
}
Tensor Bool(bool value) { return FilledTensor(DType::kBool, {}, value ? 1 : 0); }

CompileOptions Options(int level) {
  CompileOptions options;
  options.graph_opt_level = level;
  options.threads = 1;
  options.compile_mode = CompileMode::kNever;
  options.cache.enabled = false;
  return options;
}

void ExpectEqual(const std::vector<Tensor>& got, const std::vector<Tensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t k = 0; k < got.size(); ++k) {
    ASSERT_EQ(got[k].dtype(), want[k].dtype());
    ASSERT_EQ(got[k].shape(), want[k].shape());
    for (int64_t i = 0; i < got[k].num_elements(); ++i) {
      if (IsFloat(got[k].dtype())) {
        EXPECT_NEAR(ReadFloat(got[k], i), ReadFloat(want[k], i), 1e-5) << k << " at " << i;
      } else {
        EXPECT_EQ(ReadInt(got[k], i), ReadInt(want[k], i)) << k << " at " << i;
      }
    }
  }
}

// Runs the graph every way, one set of inputs after the other with the same models, and gives the
// interpreter's results of the last.
std::vector<Tensor> RunAll(const std::string& text, const std::vector<std::vector<Tensor>>& sets) {
  const absl::StatusOr<Graph> graph = ParseGraph(text);
  KILN_EXPECT_OK(graph.status());
  if (!graph.ok()) return {};
  const absl::StatusOr<Graph> again = ParseGraph(Print(*graph));
  KILN_EXPECT_OK(again.status());
  EXPECT_EQ(Print(*again), Print(*graph));
  std::vector<Tensor> last;
  for (const int level : {0, 3}) {
    absl::StatusOr<Model> model = Compile(*graph, Options(level));
    KILN_EXPECT_OK(model.status());
    if (!model.ok()) return {};
    for (const std::vector<Tensor>& inputs : sets) {
      absl::StatusOr<std::vector<Tensor>> want = Interpret(*graph, inputs);
      KILN_EXPECT_OK(want.status());
      std::vector<std::pair<std::string, Tensor>> named;
      for (size_t k = 0; k < inputs.size(); ++k)
        named.push_back({model->inputs()[k].name, inputs[k]});
      absl::StatusOr<std::vector<Tensor>> got = model->Run(named);
      KILN_EXPECT_OK(got.status());
      if (!got.ok() || !want.ok()) return {};
      ExpectEqual(*got, *want);
      last = *std::move(want);
    }
  }
  return last;
}

TEST(If, RunsTheChosenBranchAndGoesOnWithItsExtents) {
  const std::string text = R"(graph g
input c : bool []
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
r : f32 [m, 2] = if(c, x) {else_branch = b, extents = [m, 2], then_branch = a}
z : f32 [m] = reduce_sum(r) {axes = [1], keepdims = 0}
output r
output z
)";
  const Tensor x = Floats({2, 2}, {1, 2, 3, 4});
  const std::vector<Tensor> got = RunAll(text, {{Bool(true), x}, {Bool(false), x}});
  ASSERT_EQ(got.size(), 2u);
  EXPECT_THAT(got[1].shape(), ElementsAre(1));
  EXPECT_EQ(ReadFloat(got[1], 0), 3);
}

TEST(Loop, CarriesStacksAndStopsByItsCondition) {
  const std::string text = R"(graph g
input m : i64 []
input s : f32 [n]
input limit : f32 []
body b
input i : i64 []
input c : bool []
input s : f32 [n]
input limit : f32 []
d : f32 [n] = add(s, s)
t : f32 [] = reduce_max(d) {keepdims = 0}
more : bool [] = less(t, limit)
output more
output d
output t
end
last, all = loop(m, _, s, limit) {body = b, carried = 1, extents = [n, turns]}
z : f32 [turns] = neg(all)
output last
output z
)";
  const Tensor s = Floats({2}, {1, 3});
  const Tensor limit = Floats({}, {20});
  const std::vector<Tensor> got = RunAll(
      text, {{Ints({}, {2}), s, limit}, {Ints({}, {0}), s, limit}, {Ints({}, {9}), s, limit}});
  ASSERT_EQ(got.size(), 2u);
  EXPECT_THAT(got[1].shape(), ElementsAre(3));  // 6, 12, 24: then it stops
  EXPECT_EQ(ReadFloat(got[0], 1), 24);
}

TEST(Dynamic, ExtentsFoundInOneSegmentServeTheNext) {
  const std::string text = R"(graph g
input x : f32 [n]
y : f32 [n] = relu(x)
nz : i64 [1, count] = nonzero(y) {extents = [1, count]}
flat : i64 [count] = reshape(nz) {shape = [count], allowzero = 1}
picked : f32 [count] = gather(y, flat) {axis = 0}
twice : f32 [count] = add(picked, picked)
output twice
)";
  const std::vector<Tensor> got =
      RunAll(text, {{Floats({4}, {-1, 2, 0, 3})}, {Floats({3}, {-1, -1, -1})}, {Floats({1}, {5})}});
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(ReadFloat(got[0], 0), 10);
}

TEST(Dynamic, ElementsThatAreComputedBecomeExtents) {
  const std::string text = R"(graph g
input x : f32 [n]
input s : i64 [2]
one : i64 [2] = add(s, s)
known : i64 [2] = elements(one) {symbols = [h, w]}
y : f32 [h, w] = reshape(x) {shape = [h, w]}
z : f32 [h] = reduce_sum(y) {axes = [1], keepdims = 0}
output z
)";
  const std::vector<Tensor> got =
      RunAll(text, {{Floats({8}, {1, 2, 3, 4, 5, 6, 7, 8}), Ints({2}, {1, 2})},
                    {Floats({8}, {1, 2, 3, 4, 5, 6, 7, 8}), Ints({2}, {2, 1})}});
  ASSERT_EQ(got.size(), 1u);
  EXPECT_THAT(got[0].shape(), ElementsAre(4));
}

TEST(Dynamic, ElementsOfAnInputMakeNoNewProgram) {
  const std::string text = R"(graph g
input x : f32 [n]
input p : i64 [1] = [pos]
y : f32 [pos] = slice(x) {axes = [0], ends = [pos], starts = [0], steps = [1]}
output y
)";
  const Tensor x = Floats({4}, {1, 2, 3, 4});
  RunAll(text, {{x, Ints({1}, {1})}, {x, Ints({1}, {3})}});
}

// What shape arithmetic knows of truths and of elements of more than one axis goes along from one
// part to the next.
TEST(Dynamic, KnownTruthsAndMatricesServeTheNextSegment) {
  const std::string text = R"(graph g
input x : f32 [n, 2]
s : i64 [2] = shape(x)
grid : i64 [2, 1] = reshape(s) {shape = [2, 1], allowzero = 1}
row : bool [2] = less(s, s)
same : bool [2, 1] = equal(grid, grid)
mask : bool [2, 1] = not(same)
low : i64 [2, 1] = neg(grid)
nz : i64 [2, count] = nonzero(x) {extents = [2, count]}
a : i64 [2, count] = where(mask, nz, low)
b : i64 [2, count] = add(a, low)
y : f32 [n, 2] = where(row, x, x)
output b
output y
)";
  RunAll(text, {{Floats({2, 2}, {1, 0, 3, 4})}, {Floats({1, 2}, {0, 0})}});
}

TEST(If, BranchesTakeKnownTruthsAlong) {
  const std::string text = R"(graph g
input c : bool []
input x : f32 [n, 2]
body a
input mask : bool [1, 2] = [1, 1]
input low : i64 [1, 2] = [-n, -2]
input x : f32 [n, 2]
f : f32 [1, 2] = cast(low) {to = f32}
y : f32 [n, 2] = where(mask, x, f)
output y
end
body b
input mask : bool [1, 2] = [1, 1]
input low : i64 [1, 2] = [-n, -2]
input x : f32 [n, 2]
f : f32 [1, 2] = cast(low) {to = f32}
y : f32 [n, 2] = where(mask, f, x)
output y
end
s : i64 [2] = shape(x)
minus : i64 [2] = neg(s)
low : i64 [1, 2] = unsqueeze(minus) {axes = [0]}
mask : bool [1, 2] = equal(low, low)
z : f32 [n, 2] = if(c, mask, low, x) {else_branch = b, extents = [n, 2], then_branch = a}
output z
)";
  const Tensor x = Floats({3, 2}, {1, 2, 3, 4, 5, 6});
  RunAll(text, {{Bool(true), x}, {Bool(false), x}});
}

TEST(CustomOp, RunsBetweenKernels) {
  CustomOp op;
  op.domain = "test";
  op.name = "Reverse";
  op.infer = [](std::span<const Value* const> inputs,
                const Attrs&) -> absl::StatusOr<std::vector<CustomOutput>> {
    return std::vector<CustomOutput>{{inputs[0]->type, inputs[0]->shape}};
  };
  op.run = [](std::span<const Tensor> inputs, const Attrs&, std::span<Tensor> outputs) {
    const int64_t n = inputs[0].num_elements();
    for (int64_t i = 0; i < n; ++i) WriteFloat(outputs[0], i, ReadFloat(inputs[0], n - 1 - i));
    return absl::OkStatus();
  };
  Graph graph;
  graph.name = "g";
  const ValueId x = graph.AddInput("x", DType::kF32, {Dim::Symbol("n")});
  const Attrs none;
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<ValueId> made,
                            AddCustomOp(graph, op, {{x}, none}, "reverse"));
  GraphBuilder b(&graph);
  graph.AddOutput(b.Op("add", {made[0], x}), "y");
  KILN_ASSERT_OK(b.status());
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(graph, Options(3)));
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got,
                            model.Run({{"x", Floats({3}, {1, 2, 3})}}));
  ExpectEqual(got, {Floats({3}, {4, 4, 4})});
}

}  // namespace
}  // namespace kiln
