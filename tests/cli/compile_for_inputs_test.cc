// SPDX-License-Identifier: Apache-2.0
// kiln compile for models whose structure depends on shapes or values of their inputs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/npy.h"
#include "nlohmann/json.hpp"
#include "tests/base/temp_dir.h"
#include "tests/cli/process.h"
#include "tests/graph/tensors.h"
#include "tests/onnx/model_writer.h"

namespace kiln {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// y[i] = exp(x[i]) * i, with the range over x's rows counted in floats, as exporters write it.
std::string Counted() {
  return OnnxModel(
      18,
      OnnxGraph({OnnxNode("Shape", {"x"}, {"shape"}),
                 OnnxNode("Cast", {"shape"}, {"f"}, {IntAttribute("to", kFloat)}),
                 OnnxNode("Squeeze", {"f"}, {"n"}), OnnxNode("Range", {"zero", "n", "one"}, {"r"}),
                 OnnxNode("Exp", {"x"}, {"e"}), OnnxNode("Mul", {"e", "r"}, {"y"})},
                {OnnxValue("x", kFloat, {"rows"})}, {OnnxValue("y", kFloat, {"rows"})},
                {OnnxTensor("zero", kFloat, {}, RawBytes<float>({0})),
                 OnnxTensor("one", kFloat, {}, RawBytes<float>({1}))}));
}

// y = ReduceSum(exp(x [n, 4]), axes).
std::string SumOverAxes() {
  return OnnxModel(
      18, OnnxGraph({OnnxNode("Exp", {"x"}, {"e"}),
                     OnnxNode("ReduceSum", {"e", "axes"}, {"y"}, {IntAttribute("keepdims", 0)})},
                    {OnnxValue("x", kFloat, {"n", 4}), OnnxValue("axes", kInt64, {1})},
                    {OnnxValue("y", kFloat, {"m"})}));
}

class CompileForInputsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(counted_, std::ios::binary) << Counted();
    std::ofstream(sum_, std::ios::binary) << SumOverAxes();
    for (const int64_t axis : {0, 1})
      ASSERT_TRUE(WriteNpy(Axis(axis), I64({1}, {static_cast<double>(axis)})).ok());
  }
  std::string Axis(int64_t axis) { return dir_.File("axis" + std::to_string(axis) + ".npy"); }

  ProcessResult Compile(const std::string& model, std::vector<std::string> more) {
    more.insert(more.begin(), {"compile", model, "-q", "--json", "--cache-dir", cache_});
    return Kiln(more);
  }

  // Runs with nothing to build by, and gives what --json says.
  json Run(const std::string& verb, const std::string& model, std::vector<std::string> more) {
    more.insert(more.begin(),
                {verb, model, "-q", "--json", "--cache-readonly", "--cache-dir", cache_});
    const ProcessResult run =
        Kiln(more, {{{"KILN_CODEGEN", "/nonexistent"}, {"KILN_VALIDATE", "/nonexistent"}}});
    EXPECT_EQ(run.exit, 0) << run.err;
    return run.exit == 0 ? json::parse(run.out)["results"] : json();
  }
  void ExpectNothingBuilt(const json& compile) {
    EXPECT_EQ(compile["built"], 0);
    EXPECT_EQ(compile["vm"], 0);
    EXPECT_GT(compile["cached"].get<int>(), 0);
  }

  TempDir dir_;
  const std::string counted_ = dir_.File("counted.onnx");
  const std::string sum_ = dir_.File("sum.onnx");
  const std::string cache_ = dir_.File("cache");
  const std::string shapes_ = dir_.File("shapes");
  const std::string package_ = dir_.File("m.kiln");
};

TEST_F(CompileForInputsTest, SaysWhichDimOrValueIsWanted) {
  ProcessResult refused = Compile(counted_, {"--cache-only"});
  EXPECT_EQ(refused.exit, 4);
  EXPECT_THAT(refused.err, HasSubstr("input \"x\": dim 0 is not given"));
  EXPECT_THAT(refused.err, HasSubstr("set --dim rows=N, or"));
  refused = Compile(sum_, {"--cache-only"});
  EXPECT_EQ(refused.exit, 4);
  EXPECT_THAT(refused.err, HasSubstr("input \"axes\""));
  EXPECT_THAT(refused.err, HasSubstr("--input axes="));
  std::ofstream(shapes_) << "rows=3\nother=3\n";
  refused = Compile(counted_, {"--cache-only", "--shapes", shapes_});
  EXPECT_EQ(refused.exit, 4);
  EXPECT_THAT(refused.err, HasSubstr("line 2: input \"x\""));
}

TEST_F(CompileForInputsTest, RunsAndBenchesOfTheseShapesBuildNothing) {
  std::ofstream(shapes_) << "rows=5\nx=300\n";
  const ProcessResult compiled = Compile(counted_, {"--cache-only", "--shapes", shapes_});
  ASSERT_EQ(compiled.exit, 0) << compiled.err;
  EXPECT_GT(json::parse(compiled.out)["results"]["built"].get<int>(), 0);
  for (const int rows : {5, 300}) {
    const std::string dim = "rows=" + std::to_string(rows);
    const json run = Run("run", counted_, {"--dim", dim});
    ExpectNothingBuilt(run["compile"]);
    EXPECT_EQ(run["outputs"][0]["shape"], json({rows}));
    EXPECT_EQ(run["weights"]["copied"], 0) << "the Program is there";
    EXPECT_GT(run["weights"]["mapped"].get<int>(), 0);
    ExpectNothingBuilt(Run("bench", counted_, {"--dim", dim, "--iters", "1"})["compile"]);
  }
}

TEST_F(CompileForInputsTest, OtherShapesTakeNoneOfThesePrograms) {
  ASSERT_EQ(Compile(counted_, {"--cache-only", "--dim", "rows=5"}).exit, 0);
  const std::string right = dir_.File("right.npy");
  for (const std::string rows : {"7", "1", "5"}) {
    const ProcessResult reference =
        Kiln({"run", counted_, "-q", "--device", "reference", "--dim", "rows=" + rows, "--input",
              "x=random:3", "--output", "y=@" + right});
    ASSERT_EQ(reference.exit, 0) << reference.err;
    const ProcessResult run =
        Kiln({"run", counted_, "-q", "--dim", "rows=" + rows, "--input", "x=random:3", "--expect",
              "y=@" + right, "--cache-dir", cache_});
    EXPECT_EQ(run.exit, 0) << run.out << run.err;
  }
}

TEST_F(CompileForInputsTest, APackageHoldsTheShapesOfItsLines) {
  std::ofstream(shapes_) << "rows=5\nrows=9\n";
  const ProcessResult made = Compile(counted_, {"-o", package_, "--shapes", shapes_});
  ASSERT_EQ(made.exit, 0) << made.err;
  for (const int rows : {5, 9}) {
    const json run = Run("run", package_, {"--dim", "rows=" + std::to_string(rows)});
    ExpectNothingBuilt(run["compile"]);
    EXPECT_EQ(run["outputs"][0]["shape"], json({rows}));
  }
  const ProcessResult other = Kiln({"run", package_, "-q", "--dim", "rows=7"});
  EXPECT_EQ(other.exit, 4);
  EXPECT_THAT(other.err, HasSubstr("input \"x\": dim 0 is 7, the package has variants for 5, 9"));
  EXPECT_THAT(other.err, HasSubstr("--shapes"));
}

// With open lengths it is a loop, which takes any.
TEST_F(CompileForInputsTest, APackageHoldsRecurrentNetworksOfGivenLengths) {
  const std::string path = dir_.File("rnn.onnx");
  const std::vector<float> weights(4, 0.25f);
  std::ofstream(path, std::ios::binary) << OnnxModel(
      14, OnnxGraph({OnnxNode("RNN", {"x", "w", "r"}, {"h"}, {IntAttribute("hidden_size", 2)}),
                     OnnxNode("Exp", {"h"}, {"y"})},
                    {OnnxValue("x", kFloat, {"steps", 1, 2})},
                    {OnnxValue("y", kFloat, {"steps", 1, 1, 2})},
                    {OnnxTensor("w", kFloat, {1, 2, 2}, RawBytes(weights)),
                     OnnxTensor("r", kFloat, {1, 2, 2}, RawBytes(weights))}));
  const ProcessResult open = Compile(path, {"-o", package_});
  ASSERT_EQ(open.exit, 0) << open.err;
  for (const int steps : {1, 5, 300}) {
    const json run = Run("run", package_, {"--dim", "steps=" + std::to_string(steps)});
    ExpectNothingBuilt(run["compile"]);
    EXPECT_EQ(run["outputs"][0]["shape"], json({steps, 1, 1, 2}));
  }
  std::ofstream(shapes_) << "steps=5\nsteps=9\n";
  const ProcessResult made = Compile(path, {"-o", package_, "--shapes", shapes_});
  ASSERT_EQ(made.exit, 0) << made.err;
  for (const int steps : {5, 9}) {
    const json run = Run("run", package_, {"--dim", "steps=" + std::to_string(steps)});
    ExpectNothingBuilt(run["compile"]);
    EXPECT_EQ(run["outputs"][0]["shape"], json({steps, 1, 1, 2}));
  }
}

TEST_F(CompileForInputsTest, ValuesOfTheCommandLineAndOfLinesDecide) {
  const ProcessResult one =
      Compile(sum_, {"--cache-only", "--input", "axes=@" + Axis(0), "--dim", "n=3"});
  ASSERT_EQ(one.exit, 0) << one.err;
  const json run = Run("run", sum_, {"--input", "axes=@" + Axis(0), "--dim", "n=3"});
  ExpectNothingBuilt(run["compile"]);
  EXPECT_EQ(run["outputs"][0]["shape"], json({4}));
  for (const char* command : {"why-miss", "ls"}) {
    std::vector<std::string> asked = {"cache", command,   "--json",           "-q",    "--dir",
                                      cache_,  "--input", "axes=@" + Axis(0), "--dim", "n=3"};
    if (command == std::string("ls")) asked.push_back("--model");
    asked.push_back(sum_);
    const ProcessResult told = Kiln(asked);
    EXPECT_EQ(told.exit, 0) << told.err;
  }
  const ProcessResult other = Kiln({"run", sum_, "-q", "--json", "--input", "axes=@" + Axis(1),
                                    "--dim", "n=3", "--cache-dir", cache_});
  ASSERT_EQ(other.exit, 0) << other.err;
  EXPECT_EQ(json::parse(other.out)["results"]["outputs"][0]["shape"], json({3}));

  std::ofstream(shapes_) << "n=3 axes=@" << Axis(0) << "\nn=3 axes=@" << Axis(1) << "\n";
  ASSERT_EQ(Compile(sum_, {"-o", package_, "--shapes", shapes_}).exit, 0);
  for (const int64_t axis : {0, 1}) {
    const json packed = Run("run", package_, {"--input", "axes=@" + Axis(axis), "--dim", "n=8"});
    ExpectNothingBuilt(packed["compile"]);
    EXPECT_EQ(packed["outputs"][0]["shape"], json({axis == 0 ? 4 : 8})) << "n is free";
  }
}

}  // namespace
}  // namespace kiln
