// SPDX-License-Identifier: Apache-2.0
// kiln run, bench, verify and ops as a user calls them: exit codes, JSON, files.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/str_split.h"
#include "base/file_system.h"
#include "base/npy.h"
#include "nlohmann/json.hpp"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/cli/process.h"
#include "tests/graph/tensors.h"
#include "tests/onnx/model_writer.h"

namespace kiln {
namespace {

using nlohmann::json;

constexpr char kSoftmax[] =
    "graph rows\n"
    "input x : f32 [n, 64]\n"
    "const scale : f32 [] = 0.125\n"
    "y = mul(x, scale)\n"
    "z = softmax(y) {axis = 1}\n"
    "output z\n";

class RunTest : public testing::Test {
 protected:
  void SetUp() override { std::ofstream(model_) << kSoftmax; }

  json RunJson(std::vector<std::string> arguments, int exit = 0) {
    arguments.push_back("--json");
    const ProcessResult result = Kiln(arguments);
    EXPECT_EQ(result.exit, exit) << result.err;
    return json::parse(result.out, nullptr, false);
  }

  TempDir dir_;
  const std::string model_ = dir_.File("rows.graph");
};

TEST_F(RunTest, SavesAnOutputAndFindsItEqualAgain) {
  const std::string file = dir_.File("z.npy");
  const json first =
      RunJson({"run", model_, "--dim", "n=5", "--input", "x=random:7", "--output", "z=@" + file});
  EXPECT_EQ(first["schema"], "kiln.run/1");
  EXPECT_EQ(first["results"]["outputs"][0]["shape"], json({5, 64}));
  const json again = RunJson({"run", model_, "-O0", "--dim", "n=5", "--input", "x=random:7",
                              "--expect", "z=@" + file, "--atol", "1e-6"});
  EXPECT_TRUE(again["results"]["outputs"][0]["expect"]["ok"]);
}

// From an empty cache, at once: one builds and validates a kernel, the other waits for it.
TEST_F(RunTest, TwoProcessesStartColdAtOnce) {
  const std::string file = dir_.File("z.npy");
  RunJson({"run", model_, "--dim", "n=5", "--input", "x=random:7", "--compile-mode", "never",
           "--output", "z=@" + file});
  json compile[2];
  std::thread threads[2];
  for (int k = 0; k < 2; ++k) {
    threads[k] = std::thread([&, k] {
      const json run =
          RunJson({"run", model_, "--dim", "n=5", "--input", "x=random:7", "--cache-dir",
                   dir_.File("cold"), "--expect", "z=@" + file, "--rtol", "0", "--atol", "0"});
      compile[k] = run["results"]["compile"];
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compile[0]["built"].get<int>() + compile[1]["built"].get<int>(),
            compile[0]["kernels"].get<int>());
  for (const json& one : compile) {
    EXPECT_EQ(one["failed"], 0);
    EXPECT_EQ(one["vm"], 0);
  }
}

TEST_F(RunTest, DumpsWhatLaunchesReadAndWrite) {
  const std::string folder = dir_.File("dump"), z = dir_.File("z.npy");
  ASSERT_EQ(Kiln({"run", model_, "-q", "-O0", "--dim", "n=2", "--input", "x=random:7", "--output",
                  "z=@" + z, "--dump-io", folder, "--dump-io-text"})
                .exit,
            0);
  KILN_ASSERT_OK_AND_ASSIGN(const std::string index,
                            RealFileSystem().ReadFile(folder + "/index.txt", 1 << 20));
  const std::vector<std::string> lines = absl::StrSplit(index, '\n', absl::SkipEmpty());
  ASSERT_GE(lines.size(), 4U) << index;  // the product and the softmax, with what each reads
  EXPECT_EQ(lines[0].substr(0, 14), "00000 kernel \"") << index;
  const std::string last = lines.back().substr(lines.back().rfind(' ') + 1);
  KILN_ASSERT_OK_AND_ASSIGN(const Tensor written, ReadNpy(folder + "/" + last));
  KILN_ASSERT_OK_AND_ASSIGN(const Tensor result, ReadNpy(z));
  EXPECT_EQ(NpyBytes(written), NpyBytes(result));
  KILN_ASSERT_OK_AND_ASSIGN(
      const std::string text,
      RealFileSystem().ReadFile(folder + "/" + last.substr(0, last.size() - 4) + ".txt", 1 << 20));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 128);
  EXPECT_EQ(std::stof(text), static_cast<const float*>(result.data())[0]);
}

TEST_F(RunTest, NamesTheLaunchWhereNanBegins) {
  const std::string model = dir_.File("log.graph");
  std::ofstream(model) << "graph g\ninput x : f32 [4]\na = neg(x)\nb = log(a)\nc = "
                          "exp(b)\noutput c\n";
  const json found =
      RunJson({"run", model, "-O0", "--input", "x=ones", "--check-numerics"}, 1)["results"];
  EXPECT_EQ(found["numerics"]["ok"], false);
  EXPECT_EQ(found["numerics"]["launch"], 1);
  EXPECT_EQ(found["numerics"]["nan"], 4);
  EXPECT_EQ(found["numerics"]["elements"], 4);
  const json none = RunJson({"run", model_, "--input", "x=ones", "--check-numerics"})["results"];
  EXPECT_EQ(none["numerics"]["ok"], true);
}

TEST_F(RunTest, CountsKernelsAsCachedBuiltOrOnTheVm) {
  for (const char* mode : {"block", "never"}) {
    const json c = RunJson({"run", model_, "--compile-mode", mode})["results"]["compile"];
    EXPECT_EQ(c["kernels"].get<int>(),
              c["cached"].get<int>() + c["built"].get<int>() + c["vm"].get<int>());
    EXPECT_EQ(c["vm"].get<int>() > 0, std::string(mode) == "never");
    EXPECT_GT(c["kernels"].get<int>(), 0);
  }
}

TEST_F(RunTest, CompiledVmAndFreshCompileGiveTheSameBits) {
  const std::string file = dir_.File("z.npy");
  RunJson(
      {"run", model_, "--dim", "n=9", "--input", "x=random:3:-40:40", "--output", "z=@" + file});
  for (const std::vector<std::string>& setting : std::vector<std::vector<std::string>>{
           {"--compile-mode", "never"}, {"--no-cache"}, {"--threads", "2"}, {"--threads", "1"}}) {
    std::vector<std::string> arguments = {
        "run",      model_,       "--dim",  "n=9", "--input", "x=random:3:-40:40",
        "--expect", "z=@" + file, "--rtol", "0",   "--atol",  "0"};
    arguments.insert(arguments.end(), setting.begin(), setting.end());
    EXPECT_EQ(Kiln(arguments).exit, 0) << setting[0];
  }
}

TEST_F(RunTest, AMissIsExitOneAndOutputsAreWrittenAllTheSame) {
  const std::string right = dir_.File("z.npy");
  const std::string other = dir_.File("other.npy");
  RunJson({"run", model_, "--input", "x=random:1", "--output", "z=@" + right});
  const json miss = RunJson({"run", model_, "--input", "x=random:2", "--expect", "z=@" + right,
                             "--output", "z=@" + other},
                            1);
  EXPECT_FALSE(miss["results"]["outputs"][0]["expect"]["ok"]);
  EXPECT_TRUE(std::ifstream(other).good());
  // A largest difference is that of elements, which other shapes do not have.
  const auto said = [&](const std::string& dim) {
    return Kiln({"run", model_, "--dim", dim, "--input", "x=random:2", "--expect", "z=@" + right})
        .out;
  };
  EXPECT_NE(said("n=1").find("elements differ, max abs "), std::string::npos) << said("n=1");
  EXPECT_NE(said("n=7").find("expected f32 [1, 64]"), std::string::npos) << said("n=7");
  EXPECT_EQ(said("n=7").find("max abs"), std::string::npos) << said("n=7");
}

TEST_F(RunTest, ComparesBitsWithFilesAndDigests) {
  std::ofstream(dir_.File("id.graph")) << "graph g\ninput x : f32 [2]\ny = neg(x)\noutput y\n";
  const std::string id = dir_.File("id.graph"), file = "y=@" + dir_.File("y.npy");
  const auto run = [&](const char* value, std::vector<std::string> more) {
    std::vector<std::string> words = {
        "run", id, "--no-cache", "--compile-mode", "never", "--input", std::string("x=") + value};
    words.insert(words.end(), more.begin(), more.end());
    return Kiln(std::move(words));
  };
  // -0 is equal to 0, and has other bits.
  EXPECT_EQ(run("random:1:-0.0:-0.0", {"--output", file}).exit, 0);
  EXPECT_EQ(run("zeros", {"--expect", file}).exit, 0);
  const ProcessResult bits = run("zeros", {"--expect", file, "--bits"});
  EXPECT_EQ(bits.exit, 1);
  EXPECT_NE(bits.out.find("DIFFERS: element 0"), std::string::npos) << bits.out;
  const ProcessResult printed = run("ones", {"--digest", "--json"});
  const std::string digest = json::parse(printed.out)["results"]["outputs"][0]["sha256"];
  EXPECT_EQ(digest.size(), 64u);
  EXPECT_EQ(run("ones", {"--expect", "y=sha256:" + digest}).exit, 0);
  const ProcessResult miss = run("zeros", {"--expect", "y=sha256:" + digest});
  EXPECT_EQ(miss.exit, 1);
  EXPECT_NE(miss.out.find("expected " + digest), std::string::npos) << miss.out;
  EXPECT_EQ(run("zeros", {"--expect", "y=sha256:12"}).exit, 2);
  EXPECT_EQ(run("zeros", {"--output", "y=sha256:" + digest}).exit, 2);
}

TEST_F(RunTest, ReferenceDeviceAgrees) {
  const std::string file = dir_.File("z.npy");
  RunJson({"run", model_, "--device", "reference", "--dim", "n=3", "--input", "x=random:5",
           "--output", "z=@" + file});
  EXPECT_EQ(Kiln({"run", model_, "--dim", "n=3", "--input", "x=random:5", "--expect", "z=@" + file,
                  "--atol", "1e-6"})
                .exit,
            0);
}

TEST_F(RunTest, ExitCodesAreThoseOfTheContract) {
  std::ofstream(dir_.File("broken.onnx")) << "no model";
  std::ofstream(dir_.File("broken.graph")) << "graph g\ny = nonsense(x)\n";
  EXPECT_EQ(Kiln({"run"}).exit, 2);
  EXPECT_EQ(Kiln({"run", model_, "--input", "nope=zeros"}).exit, 2);
  EXPECT_EQ(Kiln({"run", model_, "--input", "x=some"}).exit, 2);
  EXPECT_EQ(Kiln({"run", model_, "-O7"}).exit, 2);
  EXPECT_EQ(Kiln({"frobnicate"}).exit, 2);
  EXPECT_EQ(Kiln({"run", dir_.File("broken.onnx")}).exit, 3);
  EXPECT_EQ(Kiln({"run", dir_.File("broken.graph")}).exit, 3);
  EXPECT_EQ(Kiln({"run", model_, "--device", "cuda"}).exit, 5);
  EXPECT_EQ(Kiln({"run", dir_.File("absent.onnx")}).exit, 7);
  for (const char* folder : {"folder.onnx", "folder.graph", "folder.kiln"}) {
    std::filesystem::create_directory(dir_.File(folder));
    EXPECT_EQ(Kiln({"run", dir_.File(folder)}).exit, 7) << folder;
  }
  EXPECT_EQ(Kiln({"run", model_, "--input", "x=@" + dir_.File("absent.npy")}).exit, 7);
  EXPECT_EQ(Kiln({"--version"}).exit, 0);
  EXPECT_EQ(Kiln({"run", "--help"}).exit, 0);
}

TEST_F(RunTest, NoticesNameWhatToGive) {
  const ProcessResult result = Kiln({"run", model_});
  EXPECT_NE(result.err.find("--dim n=N"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("--input x=@FILE.npy"), std::string::npos) << result.err;
  EXPECT_EQ(Kiln({"run", model_, "-q"}).err, "");
}

TEST_F(RunTest, WorksWithoutWorkerOrCacheOnTheVm) {
  const ProcessResult result = Kiln({"run", model_, "--no-cache", "--json"},
                                    {{{"KILN_CODEGEN", "/nowhere/kiln-codegen"}}, "", -1});
  ASSERT_EQ(result.exit, 0) << result.err;
  const json c = json::parse(result.out)["results"]["compile"];
  EXPECT_EQ(c["vm"], c["kernels"]);
  EXPECT_EQ(c["failed"], c["vm"]);
  EXPECT_NE(result.err.find("kiln-codegen"), std::string::npos);
}

TEST_F(RunTest, ValuesOfInputsMayDecideTheStructure) {
  const std::string model = dir_.File("sum.onnx");
  std::ofstream(model, std::ios::binary) << OnnxModel(
      18, OnnxGraph({OnnxNode("ReduceSum", {"x", "axes"}, {"y"}, {IntAttribute("keepdims", 0)})},
                    {OnnxValue("x", kFloat, {"n", 2}), OnnxValue("axes", kInt64, {1})},
                    {OnnxValue("y", kFloat, {"m"})}));
  const std::string cache = dir_.File("cache");
  const auto run = [&](int64_t axis, std::vector<double> want, const char* device) {
    KILN_EXPECT_OK(WriteNpy(dir_.File("axes.npy"), I64({1}, {static_cast<double>(axis)})));
    KILN_EXPECT_OK(WriteNpy(dir_.File("x.npy"), F32({3, 2}, {1, 2, 3, 4, 5, 6})));
    KILN_EXPECT_OK(WriteNpy(dir_.File("y.npy"), F32({static_cast<int64_t>(want.size())}, want)));
    return RunJson({"run", model, "--cache-dir", cache, "--device", device, "--input",
                    "x=@" + dir_.File("x.npy"), "--input", "axes=@" + dir_.File("axes.npy"),
                    "--expect", "y=@" + dir_.File("y.npy")})["results"]["compile"];
  };
  run(1, {3, 7, 11}, "reference");
  EXPECT_GT(run(1, {3, 7, 11}, "cpu")["built"], 0);
  EXPECT_GT(run(0, {9, 12}, "cpu")["built"], 0);
  EXPECT_EQ(run(1, {3, 7, 11}, "cpu")["built"], 0);
}

// A value is all that a repeatable flag takes: what follows it may be MODEL.
TEST_F(RunTest, RepeatableFlagsMayStandBeforeTheModel) {
  for (const std::vector<std::string>& flags : std::vector<std::vector<std::string>>{
           {"--disable-pass", "dead_code", "--disable-pass", "fold_shapes"},
           {"--no-fuse", "y"},
           {"--dim", "n=2"},
           {"--shape", "x=2x64"},
           {"--input", "x=ones"}}) {
    for (const char* verb : {"run", "bench", "inspect", "explain", "verify"}) {
      if ((flags[0] == "--input" || flags[0] == "--no-fuse") && verb != std::string("run"))
        continue;
      std::vector<std::string> arguments = {verb, "-q"};
      arguments.insert(arguments.end(), flags.begin(), flags.end());
      arguments.push_back(model_);
      const ProcessResult result = Kiln(arguments);
      EXPECT_EQ(result.exit, 0) << verb << " " << flags[0] << ": " << result.err;
    }
  }
}

TEST_F(RunTest, BenchReportsWhatTheContractNames) {
  const json results = RunJson({"bench", model_, "--iters", "3", "--warmup", "1", "--compare",
                                "-O0,-O3", "--profile"})["results"];
  for (const char* field : {"min", "p50", "mean", "p90", "p99", "max", "n"})
    EXPECT_TRUE(results["latency_ms"].contains(field)) << field;
  for (const char* field : {"kernels", "cached", "built", "failed", "vm", "ms", "unvalidated",
                            "build_ms", "validate_ms"})
    EXPECT_TRUE(results["compile"].contains(field)) << field;
  for (const char* field : {"arena", "lower_bound", "sum", "constants"})
    EXPECT_TRUE(results["memory"].contains(field)) << field;
  for (const char* field : {"kernel", "library", "other"})
    EXPECT_TRUE(results["launches"].contains(field)) << field;
  for (const char* field : {"first_run_ms", "groups", "bytes_moved"})
    EXPECT_TRUE(results.contains(field)) << field;
  EXPECT_EQ(results["latency_ms"]["n"], 3);
  EXPECT_EQ(results["compare"].size(), 2u);
}

TEST_F(RunTest, VerifyAgreesPerGroupAtEveryLevel) {
  for (const char* level : {"-O0", "-O1", "-O2", "-O3"}) {
    EXPECT_EQ(Kiln({"verify", model_, level, "--dim", "n=7", "--per-group"}).exit, 0) << level;
  }
}

TEST(OpsTest, ListsOperatorsByBothNames) {
  const ProcessResult plain = Kiln({"ops"});
  EXPECT_EQ(plain.exit, 0);
  EXPECT_NE(plain.out.find("layer_norm"), std::string::npos);
  EXPECT_NE(Kiln({"ops", "--onnx"}).out.find("LayerNormalization"), std::string::npos);
  EXPECT_TRUE(json::parse(Kiln({"ops", "--json"}).out)["results"]["ops"].size() > 40);
}

// An answer that nobody got is no success.
TEST(OpsTest, AFullDiskBehindStdoutIsAnError) {
  const ProcessResult result = RunProcess({"/bin/sh", "-c", KilnPath() + " ops > /dev/full"});
  EXPECT_EQ(result.exit, 7) << result.err;
  EXPECT_NE(result.err.find("standard output"), std::string::npos) << result.err;
}

TEST(BenchTest, ServesNonsenseWithErrors) {
  const TempDir dir;
  std::ofstream(dir.File("requests"))
      << "{\"cmd\":1}\n[]\n{\n{\"cmd\":\"load\",\"onnx\":[]}\n{\"cmd\":\"time\",\"n\":\"x\"}\n"
      << std::string(2 << 20, 'x') << "\n{\"cmd\":\"version\"}\n{\"cmd\":\"quit\"}\n";
  const ProcessResult result = RunProcess(
      {"/bin/sh", "-c", absl::StrCat(KilnPath(), " bench --serve < ", dir.File("requests"))});
  EXPECT_EQ(result.exit, 0) << result.err;
  std::vector<std::string> lines = absl::StrSplit(result.out, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 7u) << result.out;
  for (int i = 0; i < 6; ++i) EXPECT_EQ(lines[i].find("{\"error\":"), 0u) << lines[i];
  EXPECT_EQ(lines[6].find("{\"version\":"), 0u) << lines[6];
}

// What is opened next has the number of stdout, and must not have its text.
TEST(OpsTest, AClosedStdoutIsAnError) {
  const TempDir dir;
  const ProcessResult result =
      RunProcess({"/bin/sh", "-c",
                  absl::StrCat("echo 'graph g\ninput x : f32 [2]\ny = exp(x)\noutput y' > ",
                               dir.File("g.graph"), "; ", KilnPath(), " explain ",
                               dir.File("g.graph"), " --dot ", dir.File("g.dot"), " >&-")});
  EXPECT_EQ(result.exit, 7) << result.err;
  KILN_ASSERT_OK_AND_ASSIGN(const std::string dot,
                            RealFileSystem().ReadFile(dir.File("g.dot"), 1 << 20));
  EXPECT_EQ(dot.substr(0, 7), "digraph") << dot;
  EXPECT_EQ(dot.back(), '\n');
  EXPECT_EQ(dot[dot.size() - 2], '}') << dot;
}

TEST(OpsTest, AFileThatMayNotGrowIsAnError) {
  const TempDir dir;
  const ProcessResult result = RunProcess(
      {"/bin/sh", "-c", absl::StrCat("ulimit -f 1; ", KilnPath(), " ops > ", dir.File("out"))});
  EXPECT_EQ(result.exit, 7) << result.err;
  EXPECT_NE(result.err.find("File too large"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace kiln
