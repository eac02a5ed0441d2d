// SPDX-License-Identifier: Apache-2.0
// The chunked head against its formula in float64 with all logits, and the memory that it takes.
#include "graph/training/linear_cross_entropy.h"

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "gmock/gmock.h"
#include "graph/graph.h"
#include "graph/reference/interpreter.h"
#include "gtest/gtest.h"
#include "kiln/graph.h"
#include "kiln/model.h"
#include "tests/base/status_matchers.h"
#include "tests/compiler/on_vm.h"
#include "tests/graph/tensors.h"

namespace kiln::training {
namespace {

struct Sizes {
  int64_t places, width, classes;
};

absl::StatusOr<Graph> HeadOf(const Sizes& s, DType type, int64_t chunk,
                             std::optional<int64_t> ignore, const Dim& places) {
  GraphBuilder b("head");
  const ValueId hidden = b.Input("hidden", type, {places, s.width});
  const ValueId weight = b.Input("weight", type, {s.classes, s.width});
  const ValueId target = b.Input("target", DType::kI32, {places});
  const auto step = LinearCrossEntropy(b, hidden, weight, target, chunk, ignore);
  if (!step.ok()) return step.status();
  b.Output(step->loss, "loss");
  b.Output(step->hidden_gradient, "dh");
  b.Output(step->weight_gradient, "dw");
  return std::move(b).Finish();
}

std::vector<Tensor> Drawn(const Sizes& s, DType type) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  const auto numbers = [&](int64_t count) {
    std::vector<double> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(normal(random));
    return values;
  };
  std::vector<double> target;
  for (int64_t i = 0; i < s.places; ++i)
    target.push_back(i == 1 ? -100
                            : static_cast<double>(random() % static_cast<uint64_t>(s.classes)));
  return {Make(type, {s.places, s.width}, numbers(s.places * s.width)),
          Make(type, {s.classes, s.width}, numbers(s.classes * s.width)),
          Make(DType::kI32, {s.places}, target)};
}

// loss, dh, dw with all logits.
std::vector<std::vector<double>> Expected(const Sizes& s, const std::vector<Tensor>& in) {
  const std::vector<double> h = Values(in[0]), w = Values(in[1]);
  std::vector<double> dh(h.size(), 0), dw(w.size(), 0);
  const auto at = [&](int64_t row, int64_t k) { return static_cast<size_t>(row * s.width + k); };
  double loss = 0, count = 0;
  for (int64_t i = 0; i < s.places; ++i) count += ReadInt(in[2], i) >= 0 ? 1 : 0;
  for (int64_t i = 0; i < s.places; ++i) {
    const int64_t target = ReadInt(in[2], i);
    if (target < 0) continue;
    std::vector<double> z(static_cast<size_t>(s.classes), 0);
    double sum = 0;
    for (int64_t c = 0; c < s.classes; ++c) {
      for (int64_t k = 0; k < s.width; ++k) z[static_cast<size_t>(c)] += h[at(i, k)] * w[at(c, k)];
      sum += std::exp(z[static_cast<size_t>(c)]);
    }
    loss += (std::log(sum) - z[static_cast<size_t>(target)]) / count;
    for (int64_t c = 0; c < s.classes; ++c) {
      const double g = (std::exp(z[static_cast<size_t>(c)]) / sum - (c == target ? 1 : 0)) / count;
      for (int64_t k = 0; k < s.width; ++k) {
        dh[at(i, k)] += g * w[at(c, k)];
        dw[at(c, k)] += g * h[at(i, k)];
      }
    }
  }
  return {{loss}, dh, dw};
}

TEST(LinearCrossEntropy, IsThatOfAllLogits) {
  const Sizes s = {6, 4, 11};
  const std::vector<Tensor> inputs = Drawn(s, DType::kF64);
  const auto want = Expected(s, inputs);
  for (const int64_t chunk : {1, 4, 11, 100}) {
    KILN_ASSERT_OK_AND_ASSIGN(const Graph graph,
                              HeadOf(s, DType::kF64, chunk, -100, Dim::Symbol("n")));
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got, Interpret(graph, inputs));
    for (size_t k = 0; k < want.size(); ++k)
      EXPECT_THAT(Values(got[k]), testing::Pointwise(testing::DoubleNear(1e-12), want[k])) << chunk;
  }
}

TEST(LinearCrossEntropy, IsZeroWhereNothingCounts) {
  const Sizes s = {3, 4, 5};
  std::vector<Tensor> inputs = Drawn(s, DType::kF64);
  for (int64_t i = 0; i < s.places; ++i) WriteInt(inputs[2], i, -100);
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, HeadOf(s, DType::kF64, 2, -100, s.places));
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got, Interpret(graph, inputs));
  for (const Tensor& tensor : got) EXPECT_THAT(Values(tensor), testing::Each(0));
}

// Beside its outputs the head takes two chunks of logits, and what products of small ones copy.
TEST(LinearCrossEntropy, LogitsAreNotInMemory) {
  const Sizes s = {64, 16, 12800};
  const std::vector<Tensor> inputs = Drawn(s, DType::kF32);
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, HeadOf(s, DType::kF32, 64, -100, s.places));
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(graph, OnVm()));
  Context context = model.NewContext();
  KILN_ASSERT_OK(context.Bind("hidden", inputs[0]));
  KILN_ASSERT_OK(context.Bind("weight", inputs[1]));
  KILN_ASSERT_OK(context.Bind("target", inputs[2]));
  KILN_ASSERT_OK(context.Run());
  const int64_t logits = 4 * s.places * s.classes, chunk = 4 * s.places * 64;
  EXPECT_LE(context.report().arena, 4 * chunk);
  EXPECT_LE(context.report().arena, logits / 50);
  EXPECT_EQ(context.report().other_launches, 0);  // no copies
  const auto want = Expected(s, inputs);
  const char* const names[] = {"loss", "dh", "dw"};
  for (size_t k = 0; k < want.size(); ++k) {
    KILN_ASSERT_OK_AND_ASSIGN(const Tensor got, context.Output(names[k]));
    EXPECT_THAT(Values(got), testing::Pointwise(testing::DoubleNear(1e-4), want[k])) << names[k];
  }
}

// 360 chunks are no more than the classes, whatever the classes are; a chunk has one at least.
TEST(LinearCrossEntropy, SmallChunksTakeAHundredthOfTheLogits) {
  for (const int64_t classes : {360, 5759, 5760, 32'768, 50'257, 128'256}) {
    const int64_t chunk = SmallChunk(classes);
    EXPECT_LE(360 * chunk, classes);
    EXPECT_GT(360 * (chunk + 16), classes);
  }
  EXPECT_EQ(SmallChunk(128'256), 352);
  EXPECT_EQ(SmallChunk(5), 1);
}

TEST(LinearCrossEntropy, RefusesWhatDoesNotFit) {
  const auto error = [](const Sizes& s, int64_t chunk) {
    return std::string(HeadOf(s, DType::kF32, chunk, {}, s.places).status().message());
  };
  EXPECT_THAT(error({2, 3, 0}, 4), testing::HasSubstr("weight [0, 3]"));
  EXPECT_THAT(error({2, 3, 5}, 0), testing::HasSubstr("chunk 0; expected"));
}

}  // namespace
}  // namespace kiln::training
