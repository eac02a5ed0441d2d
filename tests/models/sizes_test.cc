// SPDX-License-Identifier: Apache-2.0
// One compiled Model, and sizes that change from run to run: results stay right, and a new size
// inside a variant builds no kernel.
//
// KILN_MODEL_FOLDERS names further models to try, separated by ':', each a folder with model.onnx
// and case_0, case_1, ... with input_0.npy, ... and expected_0.npy, ...
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/compare.h"
#include "compiler/compile.h"
#include "graph/reference/interpreter.h"
#include "graph/text.h"
#include "tests/base/status_matchers.h"
#include "tests/graph/tensors.h"
#include "tests/models/model_case.h"

namespace kiln {
namespace {

// An image of any size: windows, strides, a pooled branch over all of it, rows of any length.
constexpr char kImages[] =
    "graph images\n"
    "input x : f32 [n, 4, h, w]\n"
    "input k : f32 [6, 4, 3, 3]\n"
    "a = conv(x, k) {pads = [1, 1, 1, 1]}\n"
    "b = relu(a)\n"
    "c = max_pool(b) {kernel = [2, 2], strides = [2, 2]}\n"
    "d = reduce_mean(c) {axes = [2, 3], keepdims = 1}\n"
    "e = mul(c, d)\n"
    "f = softmax(e) {axis = 3}\n"
    "g = reduce_sum(b) {axes = [3], keepdims = 0}\n"
    "output f\n"
    "output g\n";

// A sequence of any length: products whose both sides are dynamic, a mask, positions.
constexpr char kSequences[] =
    "graph sequences\n"
    "input x : f32 [n, s, 16]\n"
    "input mask : f32 [n, 1, s]\n"
    "t = transpose(x) {perm = [0, 2, 1]}\n"
    "p = matmul(x, t)\n"
    "q = add(p, mask)\n"
    "r = softmax(q) {axis = 2}\n"
    "y = matmul(r, x)\n"
    "z = slice(y) {starts = [0], ends = [1], axes = [1]}\n"
    "output y\n"
    "output z\n";

Tensor Waves(std::vector<int64_t> shape, double phase) {
  Tensor tensor = Tensor::Allocate(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < tensor.num_elements(); ++i)
    WriteFloat(tensor, i, std::sin(0.7 * static_cast<double>(i) + phase));
  return tensor;
}

void ExpectNear(const std::vector<Tensor>& got, const std::vector<Tensor>& want,
                const std::string& what, double atol = 1e-9) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t k = 0; k < got.size(); ++k) {
    const Comparison c = Compare(got[k], want[k], 1e-4, 1e-3 * StandardDeviation(want[k]) + atol);
    EXPECT_TRUE(c.ok) << what << " output " << k << ": " << c.what;
  }
}

class SizesTest : public testing::TestWithParam<int> {
 protected:
  // Runs sets of inputs on one Model, twice over; only those before `may_build` may build kernels.
  void ExpectRight(const std::string& text, const std::vector<std::vector<Tensor>>& sets,
                   size_t may_build) {
    KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, ParseGraph(text));
    const CompileOptions options = SharedOptions(GetParam(), CompileMode::kBlock);
    KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(graph, options));
    int kernels = 0;
    for (size_t k = 0; k < 2 * sets.size(); ++k) {
      if (k == may_build) kernels = options.kernels->counts().kernels;
      const std::vector<Tensor>& inputs = sets[k % sets.size()];
      KILN_ASSERT_OK_AND_ASSIGN(const auto want, Interpret(graph, inputs));
      KILN_ASSERT_OK_AND_ASSIGN(const auto got, model.Run(Named(graph, inputs)));
      ExpectNear(got, want, absl::StrCat("set ", k));
    }
    EXPECT_EQ(options.kernels->counts().kernels, kernels);
  }
};

TEST_P(SizesTest, ImagesOfAnySize) {
  const Tensor k = Waves({6, 4, 3, 3}, 1);
  std::vector<std::vector<Tensor>> sets;
  for (const auto& [n, h, w] : std::vector<std::array<int64_t, 3>>{
           {1, 8, 12}, {3, 8, 12}, {3, 9, 31}, {1, 17, 64}, {2, 6, 7}, {5, 32, 33}, {1, 2, 130}})
    sets.push_back({Waves({n, 4, h, w}, 0.1 * static_cast<double>(w)), k});
  ExpectRight(kImages, sets, 0);
}

TEST_P(SizesTest, SequencesOfAnyLength) {
  std::vector<std::vector<Tensor>> sets;
  // Extents of 1 are a variant of their own.
  for (const auto& [n, s] : std::vector<std::array<int64_t, 2>>{
           {1, 4}, {1, 1}, {3, 1}, {3, 4}, {3, 17}, {2, 128}, {1, 9}})
    sets.push_back({Waves({n, s, 16}, 0.3), Waves({n, 1, s}, 2)});
  ExpectRight(kSequences, sets, 4);
}

INSTANTIATE_TEST_SUITE_P(Levels, SizesTest, testing::Values(0, 3));

// All rows of `many` beside each other from a view of `one` that repeats.
std::vector<Tensor> Repeated(const std::vector<Tensor>& inputs, int64_t batch) {
  std::vector<Tensor> repeated;
  for (const Tensor& input : inputs) {
    std::vector<int64_t> shape = input.shape(), strides = input.strides();
    shape[0] = batch;
    strides[0] = 0;
    repeated.push_back(Tensor::View(input.data(), input.dtype(), shape, strides, input.owner()));
  }
  return repeated;
}

// The first half of the last axis where that may be of any extent: a multiple of 32, as networks
// that halve images five times want it.
std::vector<Tensor> Narrower(const Graph& graph, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> narrower;
  for (size_t k = 0; k < inputs.size(); ++k) {
    const Tensor& input = inputs[k];
    std::vector<int64_t> shape = input.shape();
    if (!graph.value(graph.inputs()[k]).shape.back().constant().has_value())
      shape.back() = shape.back() / 64 * 32;
    narrower.push_back(
        Tensor::View(input.data(), input.dtype(), shape, input.strides(), input.owner()).Clone());
  }
  return narrower;
}

constexpr double kReal = 5e-5;  // what orders of summation make of small probabilities

TEST(RealModelsTest, ChangeSizesInsideOneModel) {
  const char* const folders = std::getenv("KILN_MODEL_FOLDERS");
  if (folders == nullptr) GTEST_SKIP() << "KILN_MODEL_FOLDERS is not set";
  for (const std::string& folder : std::vector<std::string>(absl::StrSplit(folders, ':'))) {
    SCOPED_TRACE(folder);
    KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, ReadModel(folder + "/model.onnx"));
    const CompileOptions options = SharedOptions(3, CompileMode::kBlock);
    KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(folder + "/model.onnx", options));
    const int after_compile = options.kernels->counts().kernels;
    for (int round = 0; round < 2; ++round) {
      for (int k = 0;; ++k) {
        const std::string at = absl::StrCat(folder, "/case_", k);
        if (!std::filesystem::exists(at)) break;
        const std::vector<Tensor> inputs = ReadTensors(at, "input");
        KILN_ASSERT_OK_AND_ASSIGN(const auto one, model.Run(Named(graph, inputs)));
        ExpectNear(one, ReadTensors(at, "expected"), absl::StrCat("case ", k), kReal);
        if (inputs[0].shape()[0] != 1) continue;
        for (const int64_t batch : {3, 2}) {
          KILN_ASSERT_OK_AND_ASSIGN(const auto many,
                                    model.Run(Named(graph, Repeated(inputs, batch))));
          ExpectNear(many, Repeated(one, batch), absl::StrCat("case ", k, " batch ", batch), kReal);
        }
        const std::vector<Tensor> narrow = Narrower(graph, inputs);
        KILN_ASSERT_OK_AND_ASSIGN(const auto narrowed, model.Run(Named(graph, narrow)));
        if (round > 0 || narrow[0].shape() == inputs[0].shape()) continue;
        KILN_ASSERT_OK_AND_ASSIGN(const auto want, Interpret(graph, narrow));
        ExpectNear(narrowed, want, absl::StrCat("case ", k, " narrower"), kReal);
      }
    }
    std::cout << folder << ": " << after_compile << " kernels when compiled, "
              << options.kernels->counts().kernels - after_compile << " made by "
              << "new sizes\n";
    EXPECT_EQ(options.kernels->counts().kernels, after_compile);
  }
}

}  // namespace
}  // namespace kiln
