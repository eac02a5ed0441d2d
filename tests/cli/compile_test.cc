// SPDX-License-Identifier: Apache-2.0
// kiln compile --cache-only, packs of what it made, and validations of what is in a cache.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/cpu_features.h"
#include "nlohmann/json.hpp"
#include "tests/base/temp_dir.h"
#include "tests/cli/process.h"
#include "tools/progress.h"

namespace kiln {
namespace {

using nlohmann::json;

class CompileVerbTest : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(model_) << "graph g\ninput x : f32 [n, 32]\ny = exp(x)\n"
                             "z = softmax(y) {axis = 1}\noutput z\n";
  }
  json Compile(const std::string& cache, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"compile", model_,        "--cache-only", "-q",
                                          "--json",  "--cache-dir", cache};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProcessResult result = Kiln(arguments);
    EXPECT_EQ(result.exit, 0) << result.err;
    return result.exit == 0 ? json::parse(result.out)["results"] : json();
  }

  TempDir dir_;
  const std::string model_ = dir_.File("g.graph");
  const std::string cache_ = dir_.File("cache");
};

TEST_F(CompileVerbTest, ARunAfterwardsBuildsNothingWithoutCompilerOrValidator) {
  const json first = Compile(cache_);
  EXPECT_GT(first["built"].get<int>(), 0);
  EXPECT_EQ(Compile(cache_)["cached"], first["kernels"]);
  const ProcessResult run =
      Kiln({"run", model_, "-q", "--json", "--cache-readonly", "--cache-dir", cache_},
           {{{"KILN_CODEGEN", "/nonexistent"}, {"KILN_VALIDATE", "/nonexistent"}}});
  const json compile = json::parse(run.out)["results"]["compile"];
  EXPECT_EQ(compile["built"], 0) << run.err;
  EXPECT_EQ(compile["vm"], 0);
  EXPECT_GT(compile["cached"].get<int>(), 0);
  const ProcessResult all = Kiln({"cache", "ls", "--all", "--json", "--dir", cache_});
  const json entries = json::parse(all.out)["results"]["entries"];
  EXPECT_GT(std::count_if(entries.begin(), entries.end(),
                          [](const json& entry) { return entry["kernel"].is_null(); }),
            0)
      << "the Program";
}

// Whatever is wrong with kiln-validate, what could not be compared is counted, and nothing is kept.
TEST_F(CompileVerbTest, WithoutAValidatorKernelsCountAsUnvalidated) {
  for (const char* const validator : {"/nonexistent", "/bin/true", "/bin/echo"}) {
    const ProcessOptions without = {{{"KILN_VALIDATE", validator}}};
    const ProcessResult kept =
        Kiln({"compile", model_, "--cache-only", "-q", "--json", "--cache-dir", cache_}, without);
    EXPECT_NE(kept.exit, 0);
    EXPECT_NE(kept.err.find(validator), std::string::npos) << kept.err;
    const json made = json::parse(kept.out)["results"];
    EXPECT_GT(made["kernels"].get<int>(), 0);
    EXPECT_EQ(made["failed"], made["kernels"]);
    EXPECT_EQ(made["unvalidated"], made["kernels"]) << validator;
    EXPECT_EQ(made["targets"][0]["unvalidated"], made["kernels"]);
    const ProcessResult text =
        Kiln({"compile", model_, "--cache-only", "-q", "--cache-dir", cache_}, without);
    EXPECT_NE(text.out.find("of them unvalidated"), std::string::npos) << text.out;
    for (const char* const mode : {"block", "background"}) {
      const ProcessResult run = Kiln(
          {"run", model_, "-q", "--json", "--compile-mode", mode, "--cache-dir", cache_}, without);
      const json compile = json::parse(run.out)["results"]["compile"];
      EXPECT_EQ(compile["vm"], compile["kernels"]) << mode;
      if (mode == std::string("block")) {
        EXPECT_EQ(compile["unvalidated"], compile["kernels"]) << validator;
      }
    }
  }
  EXPECT_EQ(Compile(cache_)["unvalidated"], 0);
}

TEST_F(CompileVerbTest, BuildsForOtherLevelsThanThisMachine) {
  std::ofstream(dir_.File("shapes")) << "# two sets\nn=1\nx=77x32   # by the input\n";
  const ProcessResult result =
      Kiln({"compile", model_, "--cache-only", "--json", "-j", "2", "--target", "x86-64-v3",
            "--target", "x86-64-v4", "--shapes", dir_.File("shapes"), "--cache-dir", cache_},
           {{{"KILN_MAX_ISA", "x86-64-v3"}}});
  ASSERT_EQ(result.exit, 0) << result.err;
  const json results = json::parse(result.out)["results"];
  ASSERT_EQ(results["targets"].size(), 2u);
  EXPECT_EQ(results["targets"][0]["kernels"], results["targets"][1]["kernels"]);
  // A line per kernel, since stderr is no terminal.
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), results["kernels"].get<int>())
      << result.err;
  EXPECT_NE(result.err.find("built x86-64-v4"), std::string::npos) << result.err;
  // A machine of the other level validates what it meets, and builds nothing.
  if (HostTarget() != *Target::Parse("x86-64-v4")) return;
  const ProcessResult run =
      Kiln({"run", model_, "-q", "--json", "--cache-dir", cache_, "--dim", "n=77"},
           {{{"KILN_CODEGEN", "/nonexistent"}}});
  EXPECT_EQ(json::parse(run.out)["results"]["compile"]["built"], 0) << run.err;
  EXPECT_EQ(json::parse(run.out)["results"]["compile"]["vm"], 0) << run.err;
}

TEST_F(CompileVerbTest, SameInputsGiveTheSamePack) {
  std::string packs[2];
  for (int k = 0; k < 2; ++k) {
    const std::string cache = dir_.File("cache" + std::to_string(k));
    const std::string pack = dir_.File("pack" + std::to_string(k));
    const json compiled = Compile(cache);
    const ProcessResult result =
        Kiln({"cache", "pack", pack, "--model", model_, "--dir", cache, "--json"});
    ASSERT_EQ(result.exit, 0) << result.err;
    EXPECT_EQ(json::parse(result.out)["results"]["entries"], compiled["kernels"]);
    packs[k] = Contents(pack);
  }
  EXPECT_FALSE(packs[0].empty());
  EXPECT_EQ(packs[0], packs[1]);
}

TEST_F(CompileVerbTest, VerifyValidatesACacheAndAPack) {
  const int kernels = Compile(cache_)["kernels"].get<int>();
  ProcessResult result = Kiln({"cache", "verify", "--validate", "--dir", cache_, "--json"});
  ASSERT_EQ(result.exit, 0) << result.out << result.err;
  EXPECT_EQ(json::parse(result.out)["results"]["validated"], kernels);
  result = Kiln({"cache", "verify", "--prove", "--dir", cache_, "--json"});
  EXPECT_EQ(json::parse(result.out)["results"]["proved"], kernels) << "the older names";
  const std::string pack = dir_.File("pack");
  ASSERT_EQ(Kiln({"cache", "pack", pack, "--all", "--dir", cache_}).exit, 0);
  EXPECT_EQ(Kiln({"cache", "verify", pack, "--validate"}).exit, 6) << "nobody signed it";
  result = Kiln({"cache", "verify", pack, "--validate", "--trust-unsigned", "--json"});
  ASSERT_EQ(result.exit, 0) << result.out << result.err;
  EXPECT_EQ(json::parse(result.out)["results"]["validated"], kernels);
}

TEST_F(CompileVerbTest, KilledOrInterruptedAtAnyTimeLeavesAValidCache) {
  std::mt19937 random(1);
  for (const int signal : {SIGKILL, SIGINT}) {
    const std::string cache = cache_ + std::to_string(signal);
    for (const int at_most_us : {5'000, 100'000, 300'000, 900'000}) {
      const int us = std::uniform_int_distribution<int>(at_most_us / 4, at_most_us)(random);
      const ProcessResult stopped =
          Kiln({"compile", model_, "-O0", "--cache-only", "-q", "--cache-dir", cache},
               {.kill_after_us = us, .signal = signal});
      EXPECT_TRUE(stopped.exit == -signal || stopped.exit == 0) << stopped.exit;
      if (!std::filesystem::exists(cache)) continue;
      EXPECT_EQ(Kiln({"cache", "verify", "--dir", cache}).exit, 0);
    }
    Compile(cache, {"-O0"});
    EXPECT_EQ(Compile(cache, {"-O0"})["built"], 0);
  }
}

TEST_F(CompileVerbTest, RefusesWhatCannotBe) {
  EXPECT_EQ(Kiln({"compile", model_}).exit, 2);
  EXPECT_EQ(Kiln({"compile", model_, "--cache-only", "--no-cache"}).exit, 6);
  EXPECT_EQ(Kiln({"compile", model_, "--cache-only", "--target", "z80"}).exit, 2);
  EXPECT_EQ(Kiln({"compile", dir_.File("none.onnx"), "--cache-only"}).exit, 7);
  const ProcessResult missing =
      Kiln({"compile", model_, "--cache-only", "-q", "--cache-dir", cache_},
           {{{"KILN_CODEGEN", "/nonexistent"}}});
  EXPECT_EQ(missing.exit, 5) << missing.err;
}

TEST(Progress, BarShowsCountTimeLeftAndKernel) {
  EXPECT_EQ(Progress::Bar(5, 20, 10, "softmax", 79),
            "[#####---------------]  5/20  ETA 30 s  softmax");
  EXPECT_EQ(Progress::Bar(20, 20, 10, "x", 24), "[####################]  ");
}

}  // namespace
}  // namespace kiln
