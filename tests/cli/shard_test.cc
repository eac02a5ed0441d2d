// SPDX-License-Identifier: Apache-2.0
// Parts of a model's kernels, put together again; and the same package wherever it is made.
#include "tools/shard.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/base/temp_dir.h"
#include "tests/cli/process.h"

namespace kiln {
namespace {

using nlohmann::json;

TEST(Shard, IsWrittenAsIOfN) {
  const auto shard = Shard::Parse("2/4");
  ASSERT_TRUE(shard.ok());
  EXPECT_EQ(shard->index, 2);
  EXPECT_EQ(shard->count, 4);
  for (const char* const bad : {"", "1", "0/4", "5/4", "a/b", "1/2/3", "1/10001", "-1/4", "1/0"})
    EXPECT_FALSE(Shard::Parse(bad).ok()) << bad;
}

TEST(Shard, EveryKernelIsInOnePart) {
  std::vector<KernelJob> jobs(11);
  for (size_t k = 0; k < jobs.size(); ++k) jobs[k].identity.schedule = absl::StrCat("s", k);
  const std::vector<KernelJob> reversed(jobs.rbegin(), jobs.rend());
  EXPECT_EQ(DigestOf(jobs), DigestOf(reversed));
  for (const int count : {1, 2, 4, 11, 20}) {
    std::vector<std::string> all;
    for (int index = 1; index <= count; ++index) {
      const std::vector<KernelJob> part = Shard{index, count}.Of(jobs);
      EXPECT_NEAR(static_cast<double>(part.size()), 11.0 / count, 1);
      EXPECT_EQ(DigestOf(part), DigestOf((Shard{index, count}.Of(reversed))));
      for (const KernelJob& job : part) all.push_back(job.identity.schedule);
    }
    std::sort(all.begin(), all.end());
    EXPECT_TRUE(std::adjacent_find(all.begin(), all.end()) == all.end());
    EXPECT_EQ(all.size(), jobs.size()) << count;
  }
}

class ShardTest : public testing::Test {
 protected:
  void SetUp() override { Write(model_); }
  static void Write(const std::string& path) {
    std::ofstream(path) << "graph g\ninput x : f32 [n, 32]\ne = exp(x)\nt = tanh(x)\n"
                           "l = log(x)\nr = sqrt(x)\noutput e\noutput t\noutput l\noutput r\n";
  }
  json Compile(std::vector<std::string> more, const ProcessOptions& options = {}) {
    std::vector<std::string> arguments = {"compile", model_, "-O0", "-q", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProcessResult result = Kiln(arguments, options);
    EXPECT_EQ(result.exit, 0) << result.err;
    return result.exit == 0 ? json::parse(result.out)["results"] : json();
  }
  TempDir dir_;
  std::string model_ = dir_.File("g.graph");
};

// Into packs, and into caches: merged, both are what one process makes, byte by byte.
TEST_F(ShardTest, FourPartsMergedAreWhatOneProcessMakes) {
  const json whole = Compile({"-o", dir_.File("one.kiln"), "--cache-dir", dir_.File("one")});
  ASSERT_EQ(Kiln({"cache", "pack", dir_.File("one.kilnpack"), "--model", model_, "-O0", "--dir",
                  dir_.File("one")})
                .exit,
            0);
  std::vector<std::string> packs = {"cache", "merge", dir_.File("merged.kilnpack"),
                                    "--trust-unsigned"};
  std::vector<std::string> caches = {"cache", "merge", dir_.File("of_caches.kilnpack")};
  int kernels = 0;
  std::string series;
  for (int k = 1; k <= 4; ++k) {
    packs.push_back(dir_.File(absl::StrCat("part", k, ".kilnpack")));
    caches.push_back(dir_.File(absl::StrCat("cache", k)));
    const json part = Compile(
        {"-o", packs.back(), "--shard", absl::StrCat(k, "/4"), "--cache-dir", caches.back()});
    kernels += part["kernels"].get<int>();
    EXPECT_EQ(part["built"], part["kernels"]) << "of no other part";
    EXPECT_EQ(part["shard"]["kernels"], whole["kernels"]);
    if (k > 1) {
      EXPECT_EQ(part["shard"]["series"], series);
    }
    series = part["shard"]["series"];
  }
  EXPECT_EQ(kernels, whole["kernels"].get<int>());
  EXPECT_GE(kernels, 4);
  ASSERT_EQ(Kiln(packs).exit, 0);
  ASSERT_EQ(Kiln(caches).exit, 0);
  EXPECT_TRUE(Contents(dir_.File("merged.kilnpack")) == Contents(dir_.File("one.kilnpack")));
  EXPECT_TRUE(Contents(dir_.File("of_caches.kilnpack")) == Contents(dir_.File("one.kilnpack")));

  ASSERT_EQ(Kiln({"cache", "unpack", "--trust-unsigned", dir_.File("merged.kilnpack"), "--dir",
                  dir_.File("all")})
                .exit,
            0);
  EXPECT_EQ(Compile({"-o", dir_.File("all.kiln"), "--cache-dir", dir_.File("all")})["built"], 0);
  EXPECT_TRUE(Contents(dir_.File("all.kiln")) == Contents(dir_.File("one.kiln")));
}

TEST_F(ShardTest, PackagesMadeInOtherFoldersAreTheSame) {
  Compile({"-o", dir_.File("one.kiln"), "--cache-dir", dir_.File("one"), "-j", "1"});
  std::filesystem::create_directories(dir_.File("other/deep"));
  model_ = "../model of mine.graph";
  Write(dir_.File("other/model of mine.graph"));
  Compile({"-o", "two.kiln", "--cache-dir", "cache", "--threads", "7"},
          {.environment = {{"TMPDIR", dir_.path()}, {"TZ", "Asia/Tokyo"}},
           .directory = dir_.File("other/deep")});
  const std::string one = Contents(dir_.File("one.kiln"));
  EXPECT_FALSE(one.empty());
  EXPECT_TRUE(one == Contents(dir_.File("other/deep/two.kiln")));
}

TEST_F(ShardTest, RefusesWhatIsNoPart) {
  const auto refused = [&](std::vector<std::string> more, const std::string& part) {
    std::vector<std::string> arguments = {"compile", model_, "--shard"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProcessResult result = Kiln(arguments);
    EXPECT_EQ(result.exit, 2);
    EXPECT_THAT(result.err, testing::HasSubstr(part));
  };
  refused({"5/4", "--cache-only"}, "--shard \"5/4\": expected i/n");
  refused({"1/2", "-o", dir_.File("m.kiln")}, "name it .kilnpack");
  refused({"1/2", "--cache-only", "--tune"}, "compile with --tune first");
}

}  // namespace
}  // namespace kiln
