// SPDX-License-Identifier: Apache-2.0
// Cold runs killed at random moments, and entries changed at random: the next run is right and
// nothing dies.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/base/temp_dir.h"
#include "tests/cli/process.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kModel[] =
    "graph g\n"
    "input x : f32 [n, 100]\n"
    "a = exp(x)\n"
    "b = reduce_sum(a) {axes = [1], keepdims = 1}\n"
    "c = softmax(x) {axis = 1}\n"
    "d = mul(c, b)\n"
    "output d\n"
    "output a\n";

class ColdRunTest : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(model_) << kModel;
    ASSERT_EQ(Kiln({"run", model_, "-q", "--dim", "n=3", "--input", "x=random:1", "--compile-mode",
                    "never", "--output", "d=@" + expected_})
                  .exit,
              0);
  }

  // -O0: several small kernels, so that kills fall between publications too.
  std::vector<std::string> Command(const std::string& cache) {
    return {"run",    model_,    "-q",          "-O0",      "--dim",
            "n=3",    "--input", "x=random:1",  "--expect", "d=@" + expected_,
            "--rtol", "1e-5",    "--cache-dir", cache,      "--json"};
  }

  // A run to the end: right, and nothing on the VM.
  void ExpectRight(const std::string& cache, const std::string& when) {
    const ProcessResult result = Kiln(Command(cache));
    ASSERT_EQ(result.exit, 0) << when << ": " << result.err;
    EXPECT_EQ(json::parse(result.out)["results"]["compile"]["vm"], 0) << when;
  }

  TempDir dir_;
  const std::string model_ = dir_.File("g.graph");
  const std::string expected_ = dir_.File("d.npy");
};

TEST_F(ColdRunTest, KillsAtRandomMomentsLeaveACacheThatWorks) {
  std::mt19937 random(11);
  int killed = 0;
  for (int i = 0; i < 100; ++i) {
    const std::string cache =
        dir_.File("cache" + std::to_string(i / 10));  // each cache sees ten kills
    std::vector<std::string> command = Command(cache);
    command.insert(command.begin(), KilnPath());
    const ProcessResult result =
        RunProcess(command, {{}, "", static_cast<int>(random() % 200'000)});
    killed += result.exit == -9 ? 1 : 0;
    if (result.exit != -9) {
      EXPECT_EQ(result.exit, 0) << result.err;
    }
    if (i % 5 == 4) ExpectRight(cache, "after kill " + std::to_string(i));
  }
  EXPECT_GT(killed, 20);
}

TEST_F(ColdRunTest, ChangedEntriesAreNeverRun) {
  const std::string cache = dir_.File("cache");
  ExpectRight(cache, "cold");
  std::vector<fs::path> entries;
  for (const auto& file : fs::recursive_directory_iterator(cache)) {
    if (file.path().extension() == ".entry") entries.push_back(file.path());
  }
  ASSERT_GE(entries.size(), 4u);
  std::vector<std::string> originals;
  for (const fs::path& path : entries) {
    std::ifstream in(path, std::ios::binary);
    originals.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  std::mt19937 random(5);
  int changed = 0;
  for (int round = 0; changed < 200; ++round) {
    for (size_t k = 0; k < entries.size(); ++k, ++changed) {
      std::string bytes = originals[k];
      switch (random() % 5) {
        case 0:
          bytes[random() % bytes.size()] ^= static_cast<char>(1u << (random() % 8));
          break;
        case 1:
          bytes.resize(random() % bytes.size());
          break;
        case 2:
          bytes.replace(random() % bytes.size(), 512, std::string(512, '\0'));
          break;
        case 3:
          bytes = originals[(k + 1) % originals.size()];
          break;
        default:
          bytes.clear();
          break;
      }
      fs::create_directories(entries[k].parent_path());
      std::ofstream(entries[k], std::ios::binary | std::ios::trunc) << bytes;
    }
    ExpectRight(cache, "round " + std::to_string(round));
  }
}

}  // namespace
}  // namespace kiln
