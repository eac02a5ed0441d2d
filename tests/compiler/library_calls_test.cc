// SPDX-License-Identifier: Apache-2.0
// What library calls take along, run against the interpreter at every level: folded weights,
// post-ops, strided operands, channels last, and NaN through all of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/compare.h"
#include "compiler/compile.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "graph/reference/interpreter.h"
#include "graph/tensors.h"
#include "kiln/graph.h"
#include "tests/base/status_matchers.h"

namespace kiln {
namespace {

Tensor Random(std::vector<int64_t> shape, unsigned seed, double scale = 1) {
  Tensor tensor = Tensor::Allocate(DType::kF32, std::move(shape));
  std::mt19937 random(seed);
  for (int64_t i = 0; i < tensor.num_elements(); ++i)
    WriteFloat(tensor, i, scale * (static_cast<double>(random() % 2001) - 1000) / 1000);
  return tensor;
}

// Builds a graph of one input and runs it.
class Net {
 public:
  explicit Net(Shape shape) : x(b.Input("x", DType::kF32, std::move(shape))) {}

  ValueId Weights(std::vector<int64_t> shape, double scale = 0.5) {
    return b.Constant(Random(std::move(shape), ++seed_, scale));
  }
  ValueId Number(double value) { return b.Scalar(DType::kF32, value); }
  ValueId Conv(ValueId in, std::vector<int64_t> w, int64_t pad = 0, int64_t stride = 1,
               int64_t group = 1) {
    const auto axes = static_cast<size_t>(w.size() - 2);
    return b.Op("conv", {in, Weights(std::move(w), 0.2)},
                {{"pads", std::vector<int64_t>(2 * axes, pad)},
                 {"strides", std::vector<int64_t>(axes, stride)},
                 {"group", group}});
  }

  // Runs at all levels on `input`, and counts the launches of level 3 (kernels: unless negative).
  void Check(ValueId y, const Tensor& input, int library, int kernels, double tolerance = 2e-5) {
    b.Output(y, "y");
    absl::StatusOr<Graph> graph = std::move(b).Finish();
    KILN_ASSERT_OK(graph.status());
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> want, Interpret(*graph, {&input, 1}));
    for (const int level : {0, 1, 2, 3}) {
      for (const int threads : {1, 2}) {
        CompileOptions options;
        options.compile_mode = CompileMode::kNever;
        options.cache.enabled = false;
        options.threads = threads;
        options.graph_opt_level = level;
        KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(*graph, options));
        Context context = model.NewContext();
        KILN_ASSERT_OK(context.Bind("x", input));
        KILN_ASSERT_OK(context.Run());
        KILN_ASSERT_OK(context.Run());
        KILN_ASSERT_OK_AND_ASSIGN(const Tensor got, context.Output("y"));
        const Comparison comparison = Compare(got, want[0], tolerance, tolerance);
        EXPECT_TRUE(comparison.ok) << "level " << level << ": " << comparison.what;
        if (level != 3) continue;
        EXPECT_EQ(context.report().library_launches, library);
        if (kernels >= 0) {
          EXPECT_EQ(context.report().kernel_launches, kernels);
        }
      }
    }
  }

  GraphBuilder b{"net"};
  ValueId x;

 private:
  unsigned seed_ = 0;
};

// A slice of a buffer without elements begins behind its end.
TEST(LibraryCalls, TakeSlicesOfAnEmptyBatch) {
  for (const int64_t n : {0, 3}) {
    SCOPED_TRACE(n);
    Net net({Dim::Symbol("n"), 6});
    const ValueId part = net.b.Op("slice", {net.x},
                                  {{"starts", std::vector<int64_t>{1}},
                                   {"ends", std::vector<int64_t>{2}},
                                   {"axes", std::vector<int64_t>{1}}});
    net.Check(net.b.Op("matmul", {part, net.x}, {{"trans_a", int64_t{1}}}), Random({n, 6}, 9), 1,
              0);
  }
}

TEST(LibraryCalls, FoldABatchNormAndTakeTheActivation) {
  Net net({Dim::Symbol("n"), 5, 9, 7});
  const ValueId c = net.Conv(net.x, {16, 5, 3, 3}, 1);
  const ValueId norm =
      net.b.Op("batch_norm", {c, net.Weights({16}), net.Weights({16}), net.Weights({16}),
                              net.b.Constant(FilledTensor(DType::kF32, {16}, 2))});
  net.Check(net.b.Op("relu", {norm}), Random({2, 5, 9, 7}, 9), 1, 2);
}

TEST(LibraryCalls, FoldIntoGroupedConvolutionsAndRunTransposedOnes) {
  Net net({1, 8, 6, 6});
  const ValueId c = net.Conv(net.x, {12, 4, 1, 1}, 0, 1, 2);
  const ValueId d = net.b.Op(
      "conv_transpose", {net.b.Op("mul", {c, net.Weights({12, 1, 1})}), net.Weights({12, 3, 4, 4})},
      {{"strides", std::vector<int64_t>{2, 2}},
       {"pads", std::vector<int64_t>{1, 1, 1, 1}},
       {"group", int64_t{2}}});
  const ValueId e = net.b.Op("div", {d, net.b.Constant(FilledTensor(DType::kF32, {6, 1, 1}, 4))});
  net.Check(net.b.Op("tanh", {net.b.Op("sub", {e, net.Weights({6, 1, 1})})}),
            Random({1, 8, 6, 6}, 9), 2, -1);
}

TEST(LibraryCalls, TakeAResidualAndWhatFollowsIt) {
  Net net({1, 16, 8, 8});
  const ValueId a = net.b.Op("relu", {net.Conv(net.x, {16, 16, 3, 3}, 1)});
  const ValueId c = net.Conv(a, {16, 16, 3, 3}, 1);
  const ValueId y = net.b.Op("relu", {net.b.Op("add", {c, a})});
  net.Check(net.Conv(y, {8, 16, 1, 1}, 0, 2), Random({1, 16, 8, 8}, 9), 3, 1);
}

TEST(LibraryCalls, TakeEveryActivation) {
  const std::vector<std::pair<const char*, Attrs>> ops = {
      {"relu", {}},
      {"sigmoid", {}},
      {"tanh", {}},
      {"hard_swish", {}},
      {"leaky_relu", {{"alpha", 0.1}}},
      {"elu", {{"alpha", 0.7}}},
      {"swish", {{"alpha", 1.5}}},
      {"hard_sigmoid", {{"alpha", 0.3}, {"beta", 0.4}}},
      {"gelu", {}},
      {"gelu", {{"approximate", std::string("tanh")}}}};
  for (const auto& [op, attrs] : ops) {
    Net net({Dim::Symbol("n"), 32});
    const ValueId y = net.b.Op("matmul", {net.x, net.Weights({32, 48})});
    net.Check(net.b.Op(op, {net.b.Op("add", {y, net.Weights({48})})}, attrs), Random({3, 32}, 9, 2),
              1, 0);
  }
  Net net({Dim::Symbol("n"), 32});
  const ValueId y = net.b.Op("matmul", {net.x, net.Weights({32, 48})});
  net.Check(net.b.Op("clip", {y, net.Number(-0.5), net.Number(1)}), Random({3, 32}, 9), 1, 0);
}

TEST(LibraryCalls, TakeActivationsWrittenInPieces) {
  Net net({4, 32});
  const auto matmul = [&](ValueId in) { return net.b.Op("matmul", {in, net.Weights({32, 32})}); };
  const ValueId a = matmul(net.x);
  const ValueId erf = net.b.Op("erf", {net.b.Op("div", {a, net.Number(1.4142135623730951)})});
  const ValueId gelu = net.b.Op(
      "mul", {net.b.Op("mul", {a, net.b.Op("add", {erf, net.Number(1)})}), net.Number(0.5)});
  const ValueId c = matmul(gelu);
  const ValueId silu = net.b.Op("mul", {c, net.b.Op("sigmoid", {c})});
  const ValueId d = matmul(silu);
  const ValueId clipped =
      net.b.Op("clip", {net.b.Op("add", {d, net.Number(3)}), net.Number(0), net.Number(6)});
  const ValueId swish = net.b.Op("div", {net.b.Op("mul", {d, clipped}), net.Number(6)});
  net.Check(matmul(swish), Random({4, 32}, 9), 4, 0);
}

TEST(LibraryCalls, LeaveAnActivationWhoseInsideIsReadToo) {
  Net net({4, 32});
  const ValueId a = net.b.Op("matmul", {net.x, net.Weights({32, 32})});
  const ValueId s = net.b.Op("sigmoid", {a});
  net.Check(net.b.Op("add", {net.b.Op("mul", {a, s}), s}), Random({4, 32}, 9), 1, 1);
}

TEST(LibraryCalls, ReadAndWriteAttentionHeadsInPlace) {
  const Dim s = Dim::Symbol("s");
  Net net({2, s, 48});
  const ValueId qkv = net.b.Op("matmul", {net.x, net.Weights({48, 144})});
  const auto heads = [&](int64_t start, std::vector<int64_t> perm) {
    const ValueId part = net.b.Op("slice", {qkv},
                                  {{"starts", DimsValue({Dim(start)})},
                                   {"ends", DimsValue({Dim(start + 48)})},
                                   {"axes", DimsValue({Dim(2)})}});
    const ValueId split = net.b.Op("reshape", {part}, {{"shape", DimsValue({2, s, 3, 16})}});
    return net.b.Op("transpose", {split}, {{"perm", std::move(perm)}});
  };
  const ValueId scores = net.b.Op("matmul", {heads(0, {0, 2, 1, 3}), heads(48, {0, 2, 3, 1})});
  const ValueId p =
      net.b.Op("softmax", {net.b.Op("mul", {scores, net.Number(0.25)})}, {{"axis", int64_t{-1}}});
  const ValueId o = net.b.Op("matmul", {p, heads(96, {0, 2, 1, 3})});
  const ValueId joined = net.b.Op(
      "reshape", {net.b.Op("transpose", {o}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}})},
      {{"shape", DimsValue({2, s, 48})}});
  const ValueId y = net.b.Op("matmul", {joined, net.Weights({48, 48})});
  net.Check(net.b.Op("add", {net.b.Op("add", {y, net.Weights({48})}), net.x}),
            Random({2, 5, 48}, 9), 4, 1);
}

// The pool writes the transpose: the product reads that, and not the pool's result, which is
// nowhere.
TEST(LibraryCalls, ReadWhatAnotherCallWrites) {
  Net net({3, 5, 5});
  const ValueId pool = net.b.Op("average_pool", {net.x},
                                {{"kernel", std::vector<int64_t>{2}},
                                 {"pads", std::vector<int64_t>{1, 0}},
                                 {"count_include_pad", int64_t{1}}});
  const ValueId transposed =
      net.b.Op("transpose", {pool}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
  net.Check(net.b.Op("matmul", {net.x, transposed}), Random({3, 5, 5}, 9), 2, 0);
}

// A transpose that moves nothing is an operand of another call's post-op, whichever comes first.
TEST(LibraryCalls, ReadResidualsThatAnotherCallWrites) {
  for (const bool first : {false, true}) {
    Net net({4, 1, 6});
    const auto pooled = [&] {
      const ValueId pool = net.b.Op("max_pool", {net.x}, {{"kernel", std::vector<int64_t>{1}}});
      return net.b.Op("transpose", {pool}, {{"perm", std::vector<int64_t>{1, 0, 2}}});
    };
    const auto product = [&] {
      const ValueId rows = net.b.Op("reshape", {net.x}, {{"shape", DimsValue({1, 4, 6})}});
      return net.b.Op("matmul", {rows, net.Weights({6, 6})});
    };
    const ValueId a = first ? pooled() : product(), b = first ? product() : pooled();
    net.Check(net.b.Op("add", {a, b}), Random({4, 1, 6}, 9), 2, -1);
  }
}

TEST(LibraryCalls, FollowChannelsLastThroughPoolsConcatsAndReductions) {
  Net net({1, 3, 16, 16});
  const ValueId a = net.b.Op("relu", {net.Conv(net.x, {8, 3, 3, 3}, 1, 2)});
  const ValueId p = net.b.Op(
      "max_pool", {a},
      {{"kernel", std::vector<int64_t>{3, 3}}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  const ValueId c = net.b.Op("concat", {net.Conv(p, {8, 8, 1, 1}), a}, {{"axis", int64_t{1}}});
  const ValueId pad = net.b.Op("pad", {c}, {{"pads", DimsValue({0, 0, 0, 1, 0, 0, 1, 0})}});
  const ValueId up = net.b.Op("upsample", {pad}, {{"scales", std::vector<int64_t>{1, 1, 2, 1}}});
  const ValueId d = net.Conv(up, {12, 16, 3, 3});
  const ValueId gate =
      net.b.Op("sigmoid", {net.Conv(net.b.Op("global_average_pool", {d}), {12, 12, 1, 1})});
  const ValueId e = net.Conv(net.b.Op("mul", {d, gate}), {12, 1, 3, 3}, 1, 1, 12);
  const ValueId y = net.b.Op("reduce_mean", {e},
                             {{"axes", std::vector<int64_t>{2, 3}}, {"keepdims", int64_t{0}}});
  net.Check(net.b.Op("matmul", {y, net.Weights({12, 5})}), Random({1, 3, 16, 16}, 9), 7, -1);
}

TEST(LibraryCalls, KeepNan) {
  for (const char* op : {"relu", "sigmoid", "tanh", "hard_swish", "elu"}) {
    Net net({1, 16, 6, 6});
    Tensor input = Random({1, 16, 6, 6}, 9);
    WriteFloat(input, 40, std::numeric_limits<double>::quiet_NaN());
    net.Check(net.b.Op(op, {net.Conv(net.x, {16, 16, 3, 3}, 1)}), input, 1, 2);
  }
  Net net({4, 32});
  Tensor input = Random({4, 32}, 9);
  WriteFloat(input, 40, std::numeric_limits<double>::quiet_NaN());
  const ValueId y = net.b.Op("matmul", {net.x, net.Weights({32, 48})});
  net.Check(
      net.b.Op("clip", {net.b.Op("add", {y, net.Weights({48})}), net.Number(0), net.Number(6)}),
      input, 1, 0);
}

TEST(LibraryCalls, KeepInfinityThroughRelu) {
  Net net({4, 32});
  Tensor input = Random({4, 32}, 9);
  WriteFloat(input, 40, std::numeric_limits<double>::infinity());
  net.Check(net.b.Op("relu", {net.b.Op("matmul", {net.x, net.Weights({32, 48})})}), input, 1, 0);
}

TEST(LibraryCalls, DoNotFoldFactorsThatOverflow) {
  Net net({1, 4, 5, 5});
  const ValueId c =
      net.b.Op("conv", {net.x, net.b.Constant(FilledTensor(DType::kF32, {4, 4, 1, 1}, 1e30))});
  const ValueId big = net.b.Constant(FilledTensor(DType::kF32, {4, 1, 1}, 1e30));
  Tensor input = FilledTensor(DType::kF32, {1, 4, 5, 5}, 1e-30);
  net.Check(net.b.Op("mul", {c, big}), input, 1, 2);
}

TEST(LibraryCalls, FollowChannelsLastThroughAxesOfOneElement) {
  Net net({2, 4, 20});
  const auto axis = [&](const char* op, ValueId x) {
    return net.b.Op(op, {x}, {{"axes", DimsValue({3})}});
  };
  const ValueId a = net.Conv(axis("unsqueeze", net.b.Op("exp", {net.x})), {16, 4, 5, 1});
  const ValueId b = net.b.Op("erf", {axis("squeeze", a)});
  const ValueId c = net.Conv(axis("unsqueeze", b), {6, 16, 3, 1});
  const ValueId y = net.b.Op("reduce_max", {axis("squeeze", c)},
                             {{"axes", std::vector<int64_t>{2}}, {"keepdims", int64_t{0}}});
  net.Check(y, Random({2, 4, 20}, 9), 2, 3);
}

TEST(LibraryCalls, TakeOneDimensionalConvolutionsAndVolumes) {
  Net line({2, 4, 20});
  line.Check(line.b.Op("relu", {line.Conv(line.b.Op("relu", {line.Conv(line.x, {16, 4, 3}, 1)}),
                                          {6, 16, 5}, 0, 2)}),
             Random({2, 4, 20}, 9), 2, 2);
  Net volume({1, 2, 4, 5, 6});
  volume.Check(volume.b.Op("relu", {volume.Conv(volume.x, {3, 2, 2, 2, 2})}),
               Random({1, 2, 4, 5, 6}, 9), 1, 2);
}

// Three steps of a recurrence, whose matrix is packed once: a kernel, and one behind each product.
TEST(LibraryCalls, ShareThePanelsOfAMatrixThatChanges) {
  for (const int64_t transposed : {0, 1}) {
    Net net({72, 64});
    const auto rows = [&](int64_t begin, int64_t end) {
      return net.b.Op("slice", {net.x},
                      {{"starts", DimsValue({begin})}, {"ends", DimsValue({end})}});
    };
    const ValueId matrix = rows(8, 72);
    ValueId state = rows(0, 8);
    for (int step = 0; step < 3; ++step)
      state = net.b.Op("tanh", {net.b.Op("matmul", {state, matrix}, {{"trans_b", transposed}})});
    net.Check(state, Random({72, 64}, 3, 0.3), 3, 4);
  }
}

}  // namespace
}  // namespace kiln
