// SPDX-License-Identifier: Apache-2.0
// kiln compile --tune: what it measures is remembered, shown, packed and taken elsewhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/base/temp_dir.h"
#include "tests/cli/process.h"

namespace kiln {
namespace {

using nlohmann::json;

class TuneTest : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(model_) << "graph g\ninput x : f32 [n, 768]\ninput w : f32 [768, 64]\n"
                             "y = softmax(x) {axis = 1}\nz = matmul(y, w)\noutput z\n";
  }
  json Results(std::vector<std::string> arguments, const ProcessOptions& options = {}) {
    arguments.insert(arguments.end(), {"--json", "-q"});
    const ProcessResult result = Kiln(arguments, options);
    EXPECT_EQ(result.exit, 0) << arguments[0] << ": " << result.err;
    return result.exit == 0 ? json::parse(result.out)["results"] : json();
  }
  json Compile(const std::string& cache, std::vector<std::string> more) {
    std::vector<std::string> arguments = {
        "compile", model_, "--cache-only", "--cache-dir", cache, "--dim", "n=64", "--threads", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Results(arguments);
  }
  json Records(const std::string& cache) {
    return Results({"cache", "ls", "--kind", "tune", "--dir", cache})["entries"];
  }
  // The library's record and the kernel's, measured again in a cache of its own, are not there.
  int MeasuredIn(const std::string& cache, const ProcessOptions& options = {}) {
    const json groups =
        Results({"explain", "--schedule", model_, "--threads", "1", "--cache-dir", cache},
                options)["schedules"];
    int won = 0;
    for (const json& group : groups)
      for (const json& sizes : group["classes"])
        for (const json& candidate : sizes["candidates"]) won += candidate.value("won", false);
    return won;
  }

  TempDir dir_;
  const std::string model_ = dir_.File("g.graph");
  const std::string cache_ = dir_.File("cache"), other_ = dir_.File("other");
  const std::string pack_ = dir_.File("a.kilnpack");
};

TEST_F(TuneTest, TheSecondProcessMeasuresNothing) {
  EXPECT_EQ(Compile(cache_, {})["measured"], 0);
  EXPECT_EQ(Records(cache_).size(), 0u);
  EXPECT_EQ(MeasuredIn(cache_), 0);
  EXPECT_GE(Compile(cache_, {"--tune"})["measured"].get<int>(), 2) << "kernel and matmul";
  const json records = Records(cache_);
  EXPECT_GE(records.size(), 3u) << "and the marker";
  EXPECT_EQ(Compile(cache_, {"--choose", "profile"})["measured"], 0);
  EXPECT_EQ(Compile(cache_, {})["measured"], 0);
  EXPECT_EQ(Records(cache_).size(), records.size());
  EXPECT_GT(MeasuredIn(cache_), 0);
  EXPECT_EQ(MeasuredIn(cache_, {{{"KILN_CHOOSE", "reproducible"}}}), 0);
  EXPECT_EQ(Results({"cache", "verify", "--dir", cache_})["bad"].size(), 0u);
  const std::string shown = Results({"cache", "show", records[0]["key"], "--dir", cache_})["tune"];
  EXPECT_EQ(shown.rfind("kiln tune 1\n", 0), 0u) << shown;
}

TEST_F(TuneTest, ResultsAreTheSameInAllModes) {
  std::vector<std::string> outputs;
  for (const std::string mode : {"reproducible", "profile", "heuristic"}) {
    const std::string y = dir_.File(mode + ".npy");
    Results({"run", model_, "--dim", "n=64", "--threads", "1", "--cache-dir", cache_, "--choose",
             mode, "--output", "z=@" + y});
    outputs.push_back(y);
  }
  for (const std::string& y : outputs)
    Results({"run", model_, "--dim", "n=64", "--threads", "1", "--cache-dir", cache_, "--expect",
             "z=@" + y, "--rtol", "1e-5", "--atol", "1e-6"});
}

TEST_F(TuneTest, APackTakesRecordsOfKernelsAndLibraryAlong) {
  Compile(cache_, {"--tune"});
  const size_t records = Records(cache_).size();
  Results({"cache", "pack", pack_, "--model", model_, "--dim", "n=64", "--threads", "1", "--dir",
           cache_});
  Results({"cache", "unpack", pack_, "--trust-unsigned", "--dir", other_});
  EXPECT_EQ(Records(other_).size(), records);
  EXPECT_EQ(Compile(other_, {"--tune"})["measured"], 0);
  // Used in place as well.
  const ProcessOptions packed{{{"KILN_CACHE_PACKS", pack_}, {"KILN_TRUST_UNSIGNED", "1"}}};
  EXPECT_GT(MeasuredIn(dir_.File("empty"), packed), 0);
  const json merged =
      Results({"cache", "merge", dir_.File("b.kilnpack"), pack_, pack_, "--trust-unsigned"});
  EXPECT_EQ(merged["entries"],
            Results({"cache", "unpack", pack_, "--trust-unsigned", "--dir", other_})["added"]);
}

TEST_F(TuneTest, WrongFlagsAreNamed) {
  EXPECT_EQ(Kiln({"run", model_, "--choose", "best"}).exit, 2);
  EXPECT_EQ(Kiln({"run", model_, "--workspace-limit", "much"}).exit, 2);
}

}  // namespace
}  // namespace kiln
