// SPDX-License-Identifier: Apache-2.0
// Fused kernels against the interpreter: random graphs of element-wise, reduce and index nodes, and
// each against the same graph without fusion, bit by bit.
#include <random>

#include "base/compare.h"
#include "gmock/gmock.h"
#include "graph/reference/interpreter.h"
#include "tests/fusion/nets.h"
#include "tests/fusion/run_groups.h"

namespace kiln {
namespace {

Tensor RandomTensor(DType type, std::vector<int64_t> shape, std::mt19937& random) {
  Tensor tensor = Tensor::Allocate(type, std::move(shape));
  std::uniform_real_distribution<double> number(-2, 2);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    if (IsFloat(type)) {
      WriteFloat(tensor, i, number(random));
    } else {
      WriteInt(tensor, i, static_cast<int64_t>(random() % 7) - 3);
    }
  }
  return tensor;
}

// Passes, groups and runs `graph` and compares its outputs with the interpreter's; returns the
// outputs.
std::vector<Tensor> RunAndCompare(Graph graph, const SymbolValues& symbols, int jit_level,
                                  unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Tensor> inputs;
  for (const ValueId input : graph.inputs()) {
    const Value& value = graph.value(input);
    inputs.push_back(RandomTensor(value.type, *Evaluate(value.shape, symbols), random));
  }
  const absl::StatusOr<std::vector<Tensor>> want = Interpret(graph, inputs);
  EXPECT_TRUE(want.ok()) << want.status();
  const absl::Status passed = RunPasses(graph, {});
  EXPECT_TRUE(passed.ok()) << passed;
  const Grouping grouping = Grouped(graph, {.jit_level = jit_level});
  const absl::StatusOr<std::vector<Tensor>> got = RunGroups(graph, grouping, inputs, symbols);
  EXPECT_TRUE(got.ok()) << got.status() << "\n" << Print(graph) << ToString(grouping, graph);
  if (!got.ok() || !want.ok()) return {};
  for (size_t k = 0; k < want->size(); ++k) {
    const Comparison comparison = Compare((*got)[k], (*want)[k], 2e-4, 2e-5);
    EXPECT_TRUE(comparison.ok) << comparison.what << "\nseed " << seed << "\n"
                               << Print(graph) << ToString(grouping, graph);
  }
  return *got;
}

// Fusing keeps every bit, unless a factor cuts an axis that is reduced: the sums over its two parts
// are of another order than those over the whole (`cuts`).
void RunAtAllLevels(const Graph& graph, const SymbolValues& symbols, unsigned seed,
                    bool cuts = false) {
  const std::vector<Tensor> apart = RunAndCompare(graph, symbols, 0, seed);
  for (const int jit_level : {1, 2}) {
    const std::vector<Tensor> fused = RunAndCompare(graph, symbols, jit_level, seed);
    ASSERT_EQ(fused.size(), apart.size());
    for (size_t k = 0; k < apart.size(); ++k) {
      const Comparison comparison =
          cuts ? Compare(fused[k], apart[k], 1e-5, 1e-6) : CompareBits(fused[k], apart[k]);
      EXPECT_TRUE(comparison.ok) << "fusing changes bits at jit level " << jit_level << ": "
                                 << comparison.what << "\n"
                                 << Print(graph);
    }
  }
}

// A random graph over values of shape [n, 4, 6] and what index nodes and reductions make of them.
class RandomNet {
 public:
  explicit RandomNet(unsigned seed) : random_(seed) {
    for (int i = 0; i < 2; ++i) {
      values_.push_back(b_.Input(absl::StrCat("x", i), DType::kF32, {Dim::Symbol("n"), 4, 6}));
    }
    small_ = b_.Input("small", DType::kF32, {6});
    for (int i = 0; i < 12; ++i) values_.push_back(Step());
  }

  Graph Finish() {
    b_.Output(values_.back(), "last");
    b_.Output(Pick(), "some");
    return FinishOrDie(b_);
  }

 private:
  unsigned Below(unsigned n) { return static_cast<unsigned>(random_() % n); }
  ValueId Pick() { return values_[Below(static_cast<unsigned>(values_.size()))]; }
  ValueId Transposed(ValueId v, std::vector<int64_t> perm) {
    return b_.Op("transpose", {v}, {{"perm", std::move(perm)}});
  }
  ValueId Slice(ValueId v, int64_t axis, int64_t start, int64_t end, int64_t step = 1) {
    return b_.Op("slice", {v, b_.Ints({start}), b_.Ints({end}), b_.Ints({axis}), b_.Ints({step})});
  }

  // One value of shape [n, 4, 6] made of others.
  ValueId Step() {
    constexpr const char* kUnary[] = {"relu", "exp", "tanh", "neg", "sigmoid", "abs"};
    constexpr const char* kBinary[] = {"add", "sub", "mul", "max", "min"};
    const ValueId x = Pick();
    switch (Below(11)) {
      case 0:
      case 1:
        return b_.Op("tanh", {b_.Op(kUnary[Below(6)], {x})});
      case 2:
      case 3:
        return b_.Op("tanh", {b_.Op(kBinary[Below(5)], {x, Pick()})});
      case 4:
        return b_.Op("mul", {x, small_});
      case 5:
        return SoftmaxParts(b_, x);
      case 6:
        return b_.Op("sub",
                     {x, ReduceOver(b_, "reduce_mean", x, {static_cast<int64_t>(1 + Below(2))})});
      case 7: {  // through a reshape that splits, and back
        const ValueId parts = b_.Op("reshape", {x, b_.Ints({0, 2, 2, 6})});
        return b_.Op("reshape", {b_.Op("neg", {parts}), b_.Ints({0, 4, 6})});
      }
      case 8:  // halves swapped
        return b_.Op("concat", {Slice(x, 2, 3, 6), Slice(Pick(), 2, 0, 3)}, {{"axis", int64_t{2}}});
      case 9:
        return Slice(x, 1, -1, INT64_MIN, -1);  // reversed
      default: {                                // [n, 6, 4] in between
        const ValueId t = b_.Op("neg", {Transposed(x, {0, 2, 1})});
        return Transposed(t, {0, 2, 1});
      }
    }
  }

  GraphBuilder b_{"random"};
  std::mt19937 random_;
  std::vector<ValueId> values_;
  ValueId small_;
};

TEST(FusedKernels, ComputeWhatTheInterpreterComputes) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    RunAtAllLevels(RandomNet(seed).Finish(), {{"n", 1 + seed % 3}}, seed);
    if (HasFailure()) break;
  }
}

TEST(FusedKernels, TakeEmptyTensors) { RunAtAllLevels(RandomNet(7).Finish(), {{"n", 0}}, 1); }

TEST(FusedKernels, NormaliseAndAttend) {
  for (const char* text : {
           R"(graph norm
              input x : f32 [n, 5, 70]
              input skip : f32 [n, 5, 70]
              input scale : f32 [70]
              input bias : f32 [70]
              sum = add(x, skip)
              y = layer_norm(sum, scale, bias)
              output y
              output sum)",
           R"(graph attention
              input x : f32 [n, 3, 9, 9]
              input mask : f32 [n, 1, 1, 9]
              const c : f32 [] = 0.125
              scaled = mul(x, c)
              scores = add(scaled, mask)
              y = softmax(scores)
              output y)",
           R"(graph groups
              input x : f32 [n, 8, 5, 5]
              input g : f32 [8, 1, 1]
              parts = reshape(x) {shape = [n, 4, 50]}
              const one : f32 [4] = [1, 1, 1, 1]
              const zero : f32 [4] = [0, 0, 0, 0]
              normed = instance_norm(parts, one, zero)
              back = reshape(normed) {shape = [n, 8, 5, 5]}
              y = mul(back, g)
              z = relu(y)
              output z)",
           R"(graph outer
              input x : f32 [n, 33, 7]
              y = softmax(x) {axis = 1}
              output y)"}) {
    RunAtAllLevels(Parsed(text), {{"n", 2}}, 3, Parsed(text).name == "groups");
  }
}

TEST(FusedKernels, IndexAndPad) {
  for (const char* text : {
           R"(graph lookup
              input table : f32 [9, 4]
              input ids : i64 [n, 5]
              input pos : f32 [5, 4]
              rows = gather(table, ids) {axis = 0}
              sum = add(rows, pos)
              y = softmax(sum)
              output y)",
           R"(graph padded
              input x : f32 [n, 5]
              r = exp(x)
              p = pad(r) {pads = [0, 2, 0, 1]}
              y = neg(p)
              output y)",
           R"(graph rope
              input x : f32 [n, 3, 8]
              input cos : f32 [3, 8]
              input sin : f32 [3, 8]
              low = slice(x) {starts = [0], ends = [4], axes = [2]}
              high = slice(x) {starts = [4], ends = [8], axes = [2]}
              minus = neg(high)
              rotated = concat(minus, low) {axis = 2}
              a = mul(x, cos)
              b = mul(rotated, sin)
              y = add(a, b)
              output y)"}) {
    RunAtAllLevels(Parsed(text), {{"n", 2}}, 5);
  }
}

}  // namespace
}  // namespace kiln
