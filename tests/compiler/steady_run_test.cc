// SPDX-License-Identifier: Apache-2.0
// What a run of compiled models costs beside its launches, once it has run: no allocation but
// oneDNN's own. With a file and the environment KILN_STEADY_MODEL the same is printed for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "graph/graph.h"
#include "graph/text.h"
#include "kiln/graph.h"
#include "kiln/runtime.h"
#include "tests/base/status_matchers.h"
#include "tests/compiler/counted_malloc.h"

namespace kiln {
namespace {

constexpr int kRuns = 20;

Tensor Ones(DType type, const Shape& shape) {
  std::vector<int64_t> extents;
  for (const Dim& dim : shape) extents.push_back(dim.constant().value_or(1));
  Tensor tensor = Tensor::Allocate(type, extents);
  std::memset(tensor.data(), 0, static_cast<size_t>(tensor.size_bytes()));
  return tensor;
}

// Allocations of kRuns runs in all, of a context whose outputs are its own.
Allocations Steady(Model& model, PlanReport* report = nullptr) {
  Context context = model.NewContext();
  for (const PortInfo& port : model.inputs())
    KILN_EXPECT_OK(context.Bind(port.name, Ones(port.type, port.shape)));
  for (int i = 0; i < 3; ++i) KILN_EXPECT_OK(context.Run());
  const Allocations before = CountedAllocations();
  for (int i = 0; i < kRuns; ++i)
    if (!context.Run().ok()) std::abort();
  const Allocations after = CountedAllocations();
  if (report != nullptr) *report = context.report();
  return after - before;
}

CompileOptions Options() {
  CompileOptions options;
  options.cache.enabled = false;
  options.threads = 2;
  return options;
}

Tensor Weights(std::vector<int64_t> shape) {
  Tensor tensor = Tensor::Allocate(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < tensor.num_elements(); ++i)
    static_cast<float*>(tensor.data())[i] = static_cast<float>(i % 13 - 6) / 16;
  return tensor;
}

TEST(SteadyRun, OfConvolutionsAllocatesNothing) {
  GraphBuilder b("steady");
  ValueId x = b.Input("x", DType::kF32, {1, 16, 28, 28});
  for (int i = 0; i < 3; ++i) {
    const ValueId y = b.Op("conv", {x, b.Constant(Weights({16, 16, 3, 3}))},
                           {{"pads", std::vector<int64_t>(4, 1)}});
    x = b.Op("add", {b.Op("tanh", {y}), x});
  }
  b.Output(b.Op("softmax", {x}, {{"axis", int64_t{-1}}}), "y");
  KILN_ASSERT_OK_AND_ASSIGN(Graph graph, std::move(b).Finish());
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(std::move(graph), Options()));
  PlanReport report;
  EXPECT_EQ(Steady(model, &report).others, 0);
  EXPECT_GE(report.library_launches, 3);
  EXPECT_GE(report.kernel_launches, 1);
  EXPECT_EQ(report.vm_launches, 0);
}

// oneDNN brings an operand into another layout.
TEST(SteadyRun, OfAReorderAllocatesNothing) {
  GraphBuilder b("steady");
  const ValueId x = b.Input("x", DType::kF32, {1, 512, 14, 14});
  b.Output(b.Op("conv", {x, b.Constant(Weights({512, 512, 1, 1}))}), "y");
  KILN_ASSERT_OK_AND_ASSIGN(Graph graph, std::move(b).Finish());
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(std::move(graph), Options()));
  PlanReport report;
  EXPECT_EQ(Steady(model, &report).others, 0);
  EXPECT_EQ(report.library_launches, 1);
}

TEST(SteadyRun, OfARecurrenceAllocatesNothing) {
  GraphBuilder b("steady");
  const ValueId x = b.Input("x", DType::kF32, {1, 64});
  ValueId h = x;
  for (int i = 0; i < 6; ++i) {
    const ValueId gates = b.Op("matmul", {h, b.Constant(Weights({64, 64}))});
    h = b.Op("mul", {b.Op("sigmoid", {gates}), b.Op("tanh", {b.Op("add", {gates, x})})});
  }
  b.Output(h, "y");
  KILN_ASSERT_OK_AND_ASSIGN(Graph graph, std::move(b).Finish());
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(std::move(graph), Options()));
  EXPECT_EQ(Steady(model).others, 0);
}

// Iterations of a loop reuse two sets of outputs and the arguments of the body: what a run
// allocates does not depend on how many there are, but for the memory of what they give, which
// doubles.
TEST(SteadyRun, OfALoopAllocatesNothingPerIteration) {
  KILN_ASSERT_OK_AND_ASSIGN(Graph graph, ParseGraph(R"(graph g
input m : i64 []
input s : f32 [64]
body b
input i : i64 []
input c : bool []
input s : f32 [64]
d : f32 [64] = tanh(s)
t : f32 [] = reduce_max(d) {keepdims = 0}
output c
output d
output t
end
last, all = loop(m, _, s) {body = b, carried = 1, extents = [64, turns]}
z : f32 [turns] = neg(all)
output last
output z
)"));
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(std::move(graph), Options()));
  Context context = model.NewContext();
  Tensor trips = Tensor::Allocate(DType::kI64, {});
  KILN_ASSERT_OK(context.Bind("m", trips));
  KILN_ASSERT_OK(context.Bind("s", Ones(DType::kF32, {64})));
  const auto allocations = [&](int64_t count) {
    *static_cast<int64_t*>(trips.data()) = count;
    for (int i = 0; i < 2; ++i) KILN_EXPECT_OK(context.Run());
    const Allocations before = CountedAllocations();
    KILN_EXPECT_OK(context.Run());
    return (CountedAllocations() - before).others;
  };
  const int64_t few = allocations(16), many = allocations(1024);
  EXPECT_LE(many - few, 12 * 6) << few << " and " << many;  // six doublings of one stack
}

constexpr int64_t kCapacity = 1024, kDepth = 16;

// A step of attention over a cache of fixed capacity: rows at `position` of the caches become those
// of x, and x looks at all rows up to there.
Graph DecoderStep() {
  GraphBuilder b("step");
  const ValueId x = b.Input("x", DType::kF32, {1, kDepth});
  const ValueId position = b.Input("position", DType::kI64, {1, 1});
  const ValueId keys = b.Input("keys", DType::kF32, {kCapacity, kDepth});
  const ValueId values = b.Input("values", DType::kF32, {kCapacity, kDepth});
  Tensor rows = Tensor::Allocate(DType::kI64, {kCapacity, 1});
  for (int64_t i = 0; i < kCapacity; ++i) static_cast<int64_t*>(rows.data())[i] = i;
  const ValueId row = b.Constant(rows);
  const auto place = [&](ValueId cache, float scale) {
    return b.Op("where", {b.Op("equal", {row, position}),
                          b.Op("mul", {x, b.Scalar(DType::kF32, scale)}), cache});
  };
  const ValueId next_keys = place(keys, 1), next_values = place(values, 2);
  const ValueId scores =
      b.Op("reduce_sum", {b.Op("mul", {next_keys, x})},
           {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{1}}});  // [capacity, 1]
  const ValueId seen =
      b.Op("where", {b.Op("less_equal", {row, position}), scores, b.Scalar(DType::kF32, -1e9)});
  const ValueId weights = b.Op("softmax", {seen}, {{"axis", int64_t{0}}});
  const ValueId y = b.Op("reduce_sum", {b.Op("mul", {weights, next_values})},
                         {{"axes", std::vector<int64_t>{0}}, {"keepdims", int64_t{1}}});
  b.Output(y, "y");
  b.Output(next_keys, "next_keys");
  b.Output(next_values, "next_values");
  return *std::move(b).Finish();
}

// The same in double precision, over all tokens so far.
std::vector<double> Attend(const std::vector<std::vector<float>>& tokens) {
  const std::vector<float>& x = tokens.back();
  std::vector<double> weights, y(x.size());
  double most = -1e30, sum = 0;
  for (const std::vector<float>& token : tokens) {
    double score = 0;
    for (size_t d = 0; d < x.size(); ++d) score += static_cast<double>(token[d]) * x[d];
    most = std::max(most, score);
    weights.push_back(score);
  }
  for (double& weight : weights) sum += weight = std::exp(weight - most);
  for (size_t t = 0; t < tokens.size(); ++t)
    for (size_t d = 0; d < y.size(); ++d) y[d] += weights[t] / sum * 2 * tokens[t][d];
  return y;
}

TEST(SteadyRun, OfADecoderMakesNothingAtAnyPosition) {
  CompileOptions options = Options();
  options.runtime = *Runtime::Create({.threads = 2});
  options.states = {{"keys", "next_keys"}, {"values", "next_values"}};
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(DecoderStep(), options));
  Context context = model.NewContext();
  Tensor x = Tensor::Allocate(DType::kF32, {1, kDepth}),
         position = Tensor::Allocate(DType::kI64, {1, 1});
  KILN_ASSERT_OK(context.Bind("x", x));
  KILN_ASSERT_OK(context.Bind("position", position));
  std::vector<std::vector<float>> tokens;
  Allocations total;
  const auto built = [&] {
    const RuntimeMetrics metrics = options.runtime->metrics();
    return metrics.kernels_built + metrics.plans + metrics.variants;
  };
  int64_t before = 0;
  for (int64_t step = 0; step < 1000; ++step) {
    std::vector<float>& token = tokens.emplace_back();
    for (int64_t d = 0; d < kDepth; ++d)
      token.push_back(static_cast<float>((step * 7 + d * 3) % 11 - 5) / 8);
    std::memcpy(x.data(), token.data(), sizeof(float) * kDepth);
    *static_cast<int64_t*>(position.data()) = step;
    const Allocations start = CountedAllocations();
    ASSERT_TRUE(context.Run().ok());
    const Allocations run = CountedAllocations() - start;
    if (step == 2) before = built();
    if (step > 2) total.others += run.others;
    if (step % 97 != 0) continue;
    const std::vector<double> want = Attend(tokens);
    KILN_ASSERT_OK_AND_ASSIGN(const Tensor y, context.Output("y"));
    for (size_t d = 0; d < want.size(); ++d)
      ASSERT_NEAR(static_cast<const float*>(y.data())[d], want[d], 1e-5) << step;
  }
  EXPECT_EQ(total.others, 0);
  EXPECT_EQ(built(), before);
  EXPECT_EQ(model.memory().plans, 1);
  // Written in place, or by two buffers that take turns.
  EXPECT_LE(model.memory().states, 2 * 2 * kCapacity * kDepth * 4);
}

TEST(SteadyRun, CountsAreAlive) {
  const Allocations before = CountedAllocations();
  void* volatile const memory = std::malloc(1000);
  std::free(memory);
  EXPECT_EQ((CountedAllocations() - before).others, 1);
}

TEST(SteadyRun, LiveBytesAreAlive) {
  TrackLiveBytes();
  void* volatile const memory = std::malloc(100'000);
  EXPECT_GE(LiveBytes().others, 100'000);
  std::free(memory);
  EXPECT_LT(LiveBytes().others, 100'000);
}

// What one more model over the same file has allocated once it has run, beside its arena.
TEST(SteadyRun, OneMoreOfTheModelThatIsNamed) {
  const char* const path = std::getenv("KILN_STEADY_MODEL");
  if (path == nullptr) GTEST_SKIP() << "KILN_STEADY_MODEL names no model to measure";
  CompileOptions options = Options();
  options.cache.enabled = true;
  std::vector<Model> models;
  for (int i = 0; i < 3; ++i) {
    if (i == 2) TrackLiveBytes();
    KILN_ASSERT_OK_AND_ASSIGN(models.emplace_back(), Compile(path, options));
    NamedTensors inputs;
    for (const PortInfo& port : models.back().inputs())
      inputs.emplace_back(port.name, Ones(port.type, port.shape));
    KILN_ASSERT_OK(models.back().Run(inputs));
  }
  const Allocations bytes = LiveBytes();
  std::printf("one more model: %ld bytes of oneDNN, %ld of others; its arena %ld\n", bytes.onednn,
              bytes.others, models.back().memory().arenas);
}

// Each shape has a plan and primitives of its own: those of shapes long ago are given back.
TEST(SteadyRun, ManyShapesLevelOff) {
  GraphBuilder b("steady");
  const ValueId x = b.Input("x", DType::kF32, {Dim::Symbol("n"), 96});
  b.Output(b.Op("tanh", {b.Op("matmul", {x, b.Constant(Weights({96, 96}))})}), "y");
  KILN_ASSERT_OK_AND_ASSIGN(Graph graph, std::move(b).Finish());
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(std::move(graph), Options()));
  const auto run = [&](int64_t rows) {
    KILN_EXPECT_OK(model.Run({{"x", Ones(DType::kF32, {rows, 96})}}));
  };
  TrackLiveBytes();
  for (int64_t rows = 640; rows > 600; --rows) run(rows);
  const Allocations few = LiveBytes();
  for (int64_t rows = 600; rows > 500; --rows) run(rows);
  const Allocations many = LiveBytes();
  EXPECT_GT(few.onednn, 0);
  EXPECT_LE(many.onednn, few.onednn + few.onednn / 4);
  EXPECT_LE(many.others, few.others + few.others / 4);
}

TEST(SteadyRun, OfTheModelThatIsNamed) {
  const char* const path = std::getenv("KILN_STEADY_MODEL");
  if (path == nullptr) GTEST_SKIP() << "KILN_STEADY_MODEL names no model to measure";
  CompileOptions options = Options();
  options.cache.enabled = true;
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(path, options));
  PlanReport report;
  const Allocations count = Steady(model, &report);
  std::printf("%d runs: %ld allocations of oneDNN, %ld of others; %d kernels, %d library calls\n",
              kRuns, count.onednn, count.others, report.kernel_launches, report.library_launches);
}

}  // namespace
}  // namespace kiln
