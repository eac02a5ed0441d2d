// SPDX-License-Identifier: Apache-2.0
// A decoder as exporters write it: its cache of keys and values is an input [t, d] of open extent,
// and what it gives back is one row longer. As a state of the context it grows from run to run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "graph/graph.h"
#include "kiln/graph.h"
#include "kiln/runtime.h"
#include "tests/base/status_matchers.h"

namespace kiln {
namespace {

constexpr int64_t kHeads = 4, kDepth = 16, kSteps = 1000;

// Attention of one token over all so far, for each head: present = concat(past, new) along axis 1,
// which is not the outermost.
Graph DecoderStep() {
  GraphBuilder b("step");
  const ValueId x = b.Input("x", DType::kF32, {kHeads, 1, kDepth});
  const ValueId keys = b.Input("past_keys", DType::kF32, {kHeads, Dim::Symbol("t"), kDepth});
  const ValueId values = b.Input("past_values", DType::kF32, {kHeads, Dim::Symbol("t"), kDepth});
  const auto grow = [&](ValueId past, float scale) {
    const ValueId row = b.Op("mul", {x, b.Scalar(DType::kF32, scale)});
    return b.Op("concat", {past, row}, {{"axis", int64_t{1}}});
  };
  const ValueId next_keys = grow(keys, 1), next_values = grow(values, 2);
  const ValueId flipped = b.Op("transpose", {next_keys}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
  const ValueId scores = b.Op("matmul", {x, flipped});  // [heads, 1, t + 1]
  const ValueId weights = b.Op("softmax", {scores}, {{"axis", int64_t{-1}}});
  b.Output(b.Op("matmul", {weights, next_values}), "y");
  b.Output(next_keys, "keys");
  b.Output(next_values, "values");
  return *std::move(b).Finish();
}

// A head's y in double precision; tokens: its x of all steps so far.
std::vector<double> Attend(const std::vector<std::vector<float>>& tokens) {
  const std::vector<float>& x = tokens.back();
  std::vector<double> weights, y(x.size());
  double most = -1e30, sum = 0;
  for (const std::vector<float>& token : tokens) {
    double score = 0;
    for (size_t d = 0; d < x.size(); ++d) score += static_cast<double>(token[d]) * x[d];
    weights.push_back(score);
    most = std::max(most, score);
  }
  for (double& weight : weights) sum += weight = std::exp(weight - most);
  for (size_t t = 0; t < tokens.size(); ++t)
    for (size_t d = 0; d < y.size(); ++d) y[d] += weights[t] / sum * 2 * tokens[t][d];
  return y;
}

float Token(int64_t step, int64_t head, int64_t d) {
  return static_cast<float>((step * 7 + head * 5 + d * 3) % 11 - 5) / 8;
}

CompileOptions Options(const std::string& device = "") {
  CompileOptions options;
  options.cache.enabled = false;
  options.threads = 1;
  options.runtime = *Runtime::Create({.threads = 1, .device = device});
  options.states = {{"past_keys", "keys"}, {"past_values", "values"}};
  return options;
}

// `steps` steps from an empty cache; each result is looked at.
void Decode(Context& context, int64_t steps) {
  for (const char* state : {"past_keys", "past_values"}) {
    KILN_ASSERT_OK(context.SetState(state, Tensor::Allocate(DType::kF32, {kHeads, 0, kDepth})));
  }
  Tensor x = Tensor::Allocate(DType::kF32, {kHeads, 1, kDepth});
  KILN_ASSERT_OK(context.Bind("x", x));
  std::vector<std::vector<std::vector<float>>> tokens(kHeads);
  for (int64_t step = 0; step < steps; ++step) {
    for (int64_t h = 0; h < kHeads; ++h) {
      std::vector<float>& token = tokens[static_cast<size_t>(h)].emplace_back();
      for (int64_t d = 0; d < kDepth; ++d) token.push_back(Token(step, h, d));
      std::memcpy(static_cast<float*>(x.data()) + h * kDepth, token.data(), sizeof(float) * kDepth);
    }
    KILN_ASSERT_OK(context.Run());
    if (step % 53 != 0 && step > 5) continue;
    KILN_ASSERT_OK_AND_ASSIGN(const Tensor y, context.Output("y"));
    for (size_t h = 0; h < kHeads; ++h) {
      const std::vector<double> want = Attend(tokens[h]);
      for (size_t d = 0; d < want.size(); ++d)
        ASSERT_NEAR(static_cast<const float*>(y.data())[h * kDepth + d], want[d], 1e-5) << step;
    }
  }
  KILN_ASSERT_OK_AND_ASSIGN(const Tensor keys, context.State("past_keys"));
  EXPECT_EQ(keys.shape(), (std::vector<int64_t>{kHeads, steps, kDepth}));
}

TEST(GrowingState, PlansItsMemoryByPowersOfTwo) {
  const CompileOptions options = Options();
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(DecoderStep(), options));
  Context context = model.NewContext();
  Decode(context, 3);
  const RuntimeMetrics before = options.runtime->metrics();
  Decode(context, kSteps);
  const RuntimeMetrics after = options.runtime->metrics();
  EXPECT_EQ(after.kernels_built, before.kernels_built);
  EXPECT_EQ(after.variants, before.variants);
  EXPECT_LE(after.plans, 11);
  EXPECT_LE(context.report().arena, 2 * std::max<int64_t>(context.report().lower_bound, 1 << 15));
  const MemoryReport memory = model.memory();
  EXPECT_LE(memory.plans, 16);
  // Two buffers that take turns, of the next power of two, for each of two states.
  EXPECT_LE(memory.states, 2 * 2 * kHeads * 1024 * kDepth * 4);
  Decode(context, kSteps);  // a second sequence finds them all
  EXPECT_EQ(options.runtime->metrics().plans, after.plans);
}

TEST(GrowingState, SequencesOfManyCallersShareTheirPlans) {
  const CompileOptions options = Options();
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(DecoderStep(), options));
  std::vector<Context> contexts;
  for (int i = 0; i < 3; ++i) contexts.push_back(model.NewContext());
  for (Context& context : contexts) Decode(context, 200);
  EXPECT_LE(options.runtime->metrics().plans, 10);
}

// There the state stays on the device, and its memory moves as it grows.
TEST(GrowingState, GrowsOnADevice) {
  CompileOptions options = Options("cuda-emulated");
  options.compile_mode = CompileMode::kNever;
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(DecoderStep(), options));
  Context context = model.NewContext();
  Decode(context, 70);
  EXPECT_EQ(model.memory().states, 0);
  EXPECT_GE(model.memory().device_arenas, 2 * kHeads * 70 * kDepth * 4);
  Decode(context, 9);
}

}  // namespace
}  // namespace kiln
