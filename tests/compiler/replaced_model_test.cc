// SPDX-License-Identifier: Apache-2.0
// A model is what its files were when it was compiled: files that come in their place, as a program
// that deploys a newer model puts them there, are not read for shapes or values that come later.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/log.h"
#include "compiler/compile.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/onnx/model_writer.h"

namespace kiln {
namespace {

constexpr int kWidth = 8192;  // large enough to be kept outside of the Program's entry

std::vector<float> Weights(float value) { return std::vector<float>(kWidth, value); }

enum class Kept { kNowhere, kInFirstStart, kInSecondStart };
// Whether values decide the structure, or extents; whether weights lie in a file of their own.
using Case = std::tuple<bool, bool, Kept>;

class ReplacedModel : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { SetLogLevel(LogLevel::kOff); }
  void TearDown() override { SetLogLevel(LogLevel::kWarning); }

  static bool by_values() { return std::get<0>(GetParam()); }
  static bool external() { return std::get<1>(GetParam()); }
  static Kept kept() { return std::get<2>(GetParam()); }

  // y = reduce_sum(x [n, width], axes) * w, or (x [n, width] + v [m, width]) * w.
  std::string Bytes(float weight) const {
    const std::string w = external() ? OnnxExternal("w", kFloat, {kWidth}, {{"location", "w.bin"}})
                                     : OnnxFloats("w", Weights(weight));
    const OnnxDim n = "n", m = "m";
    if (by_values()) {
      return OnnxModel(
          17, OnnxGraph({OnnxNode("ReduceSum", {"x", "axes"}, {"s"}, {IntAttribute("keepdims", 1)}),
                         OnnxNode("Mul", {"s", "w"}, {"y"})},
                        {OnnxValue("x", kFloat, {n, kWidth}), OnnxValue("axes", kInt64, {1})},
                        {OnnxValue("y", kFloat, {"a", "b"})}, {w}));
    }
    return OnnxModel(
        17, OnnxGraph({OnnxNode("Add", {"x", "v"}, {"s"}), OnnxNode("Mul", {"s", "w"}, {"y"})},
                      {OnnxValue("x", kFloat, {n, kWidth}), OnnxValue("v", kFloat, {m, kWidth})},
                      {OnnxValue("y", kFloat, {})}, {w}));
  }

  // Puts the files where the model lies, or in the place of those that are there.
  void Put(float weight) {
    const auto put = [&](const std::string& name, const std::string& bytes) {
      std::ofstream(dir_.File("new"), std::ios::binary | std::ios::trunc) << bytes;
      std::filesystem::rename(dir_.File("new"), dir_.File(name));
    };
    if (external()) put("w.bin", RawBytes(Weights(weight)));
    put("m.onnx", Bytes(weight));
  }

  absl::StatusOr<Model> Open() {
    CompileOptions options;
    options.compile_mode = CompileMode::kNever;
    options.cache.enabled = kept() != Kept::kNowhere;
    options.cache.directory = dir_.File("cache");
    options.threads = 1;
    return Compile(dir_.File("m.onnx"), options);
  }

  // The first element of the result, of ones; `later`: by what did not run at first.
  static float First(Model& model, bool later) {
    Tensor x = Tensor::Allocate(DType::kF32, {3, kWidth});
    std::fill_n(static_cast<float*>(x.data()), 3 * kWidth, 1.0f);
    NamedTensors inputs = {{"x", x}};
    int64_t axis = later ? 1 : 0;
    if (by_values()) {
      inputs.emplace_back("axes", Tensor::View(&axis, DType::kI64, {1}));
    } else {
      inputs.emplace_back("v", Tensor::View(x.data(), DType::kF32, {later ? 1 : 3, kWidth}));
    }
    const auto y = model.Run(inputs);
    EXPECT_TRUE(y.ok()) << y.status();
    return y.ok() ? static_cast<const float*>((*y)[0].data())[0] : 0;
  }
  static float Want(bool later, float weight) {
    return weight * static_cast<float>(!by_values() ? 2 : later ? kWidth : 3);
  }

  TempDir dir_;
};

TEST_P(ReplacedModel, IsWhatItWasWhenItWasCompiled) {
  Put(1);
  if (kept() == Kept::kInSecondStart) {
    KILN_ASSERT_OK_AND_ASSIGN(Model before, Open());
    EXPECT_EQ(First(before, false), Want(false, 1));
  }
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Open());
  EXPECT_EQ(First(model, false), Want(false, 1));
  Put(2);
  EXPECT_EQ(First(model, true), Want(true, 1));
  EXPECT_EQ(First(model, false), Want(false, 1));
  KILN_ASSERT_OK_AND_ASSIGN(Model newer, Open());
  EXPECT_EQ(First(newer, true), Want(true, 2));
  EXPECT_EQ(First(newer, false), Want(false, 2));
  EXPECT_EQ(First(model, true), Want(true, 1));
}

// What the first run of a model looks at is read by Compile.
TEST_P(ReplacedModel, MayGoBeforeItsFirstRun) {
  Put(1);
  if (kept() == Kept::kInSecondStart) {
    KILN_ASSERT_OK_AND_ASSIGN(Model before, Open());
    First(before, false);
  }
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Open());
  std::filesystem::remove(dir_.File("m.onnx"));
  std::filesystem::remove(dir_.File("w.bin"));
  EXPECT_EQ(First(model, true), Want(true, 1));
  EXPECT_EQ(First(model, false), Want(false, 1));
}

// Shapes alone do not tell the structure of a model that depends on values, run or not.
TEST_P(ReplacedModel, ShapesMayBeAskedForWithoutValues) {
  Put(1);
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Open());
  const NamedShapes shapes = {{"x", {3, kWidth}},
                              by_values() ? NamedShapes::value_type{"axes", {1}}
                                          : NamedShapes::value_type{"v", {3, kWidth}}};
  for (const bool has_run : {false, true}) {
    KILN_EXPECT_OK(model.Prepare(shapes));
    const auto made = model.OutputShapes(shapes);
    if (by_values()) {
      EXPECT_EQ(made.status().code(), absl::StatusCode::kFailedPrecondition) << made.status();
    } else {
      KILN_EXPECT_OK(made.status());
    }
    if (has_run) continue;
    EXPECT_EQ(First(model, false), Want(false, 1));
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, ReplacedModel,
                         testing::Combine(testing::Bool(), testing::Bool(),
                                          testing::Values(Kept::kNowhere, Kept::kInFirstStart,
                                                          Kept::kInSecondStart)));

}  // namespace
}  // namespace kiln
