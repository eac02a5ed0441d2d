// SPDX-License-Identifier: Apache-2.0
// kiln cache, and that a second process builds nothing.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <set>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/base/temp_dir.h"
#include "tests/cli/process.h"

namespace kiln {
namespace {

using nlohmann::json;

class CacheTest : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(model_)
        << "graph g\ninput x : f32 [n, 32]\ny = exp(x)\nz = softmax(y) {axis = 1}\noutput z\n";
  }
  json Compile(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"run", model_, "-q", "--json", "--cache-dir", cache_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProcessResult result = Kiln(arguments);
    EXPECT_EQ(result.exit, 0) << result.err;
    return json::parse(result.out)["results"]["compile"];
  }
  json Cache(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "cache");
    arguments.insert(arguments.end(), {"--dir", cache_, "--json"});
    const ProcessResult result = Kiln(arguments);
    EXPECT_EQ(result.exit, 0) << result.err;
    return json::parse(result.out)["results"];
  }

  TempDir dir_;
  const std::string model_ = dir_.File("g.graph");
  const std::string cache_ = dir_.File("cache");
};

TEST_F(CacheTest, SecondProcessBuildsNothing) {
  const json first = Compile();
  EXPECT_GT(first["built"].get<int>(), 0);
  EXPECT_EQ(first["cached"], 0);
  const json second = Compile();
  EXPECT_EQ(second["built"], 0);
  EXPECT_EQ(second["cached"], first["built"]);
  const json elsewhere = Compile({"--dim", "n=77"});
  EXPECT_EQ(elsewhere["built"], 0);
}

TEST_F(CacheTest, ListsShowsAndClears) {
  const int built = Compile()["built"].get<int>();
  const int all = Cache({"stats"})["entries"];  // the Program too
  EXPECT_GT(all, built);
  EXPECT_EQ(Cache({"ls", "--all"})["entries"].size(), static_cast<size_t>(all));
  const json entries = Cache({"ls"})["entries"];
  ASSERT_EQ(entries.size(), static_cast<size_t>(built));
  for (const char* field : {"key", "device", "features", "bytes", "sections", "kernel"})
    EXPECT_TRUE(entries[0].contains(field)) << field;
  const std::string key = entries[0]["key"];
  const json shown = Cache({"show", key.substr(0, 10)});
  EXPECT_EQ(shown["key"], key);
  EXPECT_EQ(shown["hits"], 0);
  Compile();
  EXPECT_EQ(Cache({"show", key})["hits"], 1);
  EXPECT_FALSE(shown["symbols"].empty());
  EXPECT_FALSE(shown["meta"]["validation"].get<std::string>().empty());
  EXPECT_EQ(shown["meta"]["proof"], shown["meta"]["validation"]) << "its older name";
  EXPECT_EQ(shown["meta"]["proved_on"], shown["meta"]["validated_on"]);
  EXPECT_NE(shown["preimage"]["kernel"].get<std::string>().find("kernel v1"), std::string::npos);
  EXPECT_EQ(Kiln({"cache", "show", key, "--dir", cache_, "--emit", "elf"}).out.substr(1, 3), "ELF");
  EXPECT_EQ(Kiln({"cache", "show", "ffffffffffffffff", "--dir", cache_}).exit, 6);
  const int now = Cache({"stats"})["entries"];  // the second start noted which files it has checked
  EXPECT_GE(now, all);
  EXPECT_EQ(Cache({"clear", "--dry-run"})["removed"], now);
  EXPECT_EQ(Cache({"clear"})["removed"], now);
  EXPECT_EQ(Cache({"stats"})["entries"], 0);
}

TEST_F(CacheTest, ReadOnlyCacheIsNotWritten) {
  EXPECT_GT(Compile({"--cache-readonly"})["built"].get<int>(), 0);
  EXPECT_EQ(Cache({"stats"})["entries"], 0);
}

TEST_F(CacheTest, UnsafeDirectoryIsRefusedAndTheModelStillRuns) {
  std::filesystem::create_directory(cache_);
  chmod(cache_.c_str(), 0777);
  const ProcessResult result = Kiln({"run", model_, "--json", "--cache-dir", cache_});
  EXPECT_EQ(result.exit, 0);
  EXPECT_NE(result.err.find("0777"), std::string::npos) << result.err;
  EXPECT_EQ(Kiln({"cache", "stats", "--dir", cache_}).exit, 6);
}

TEST_F(CacheTest, CountsOverProcessesUntilZeroed) {
  const int built = Compile()["built"].get<int>();
  Compile();
  const json stats = Cache({"stats"});
  EXPECT_EQ(stats["builds"], built);
  EXPECT_EQ(stats["misses"], built);
  EXPECT_EQ(stats["hits"], built);
  EXPECT_GT(stats["saved_ms"].get<int>(), 0);
  EXPECT_EQ(stats["targets"].size(), 1u);
  Cache({"stats", "--zero"});
  EXPECT_EQ(Cache({"stats"})["hits"], 0);
}

TEST_F(CacheTest, FiltersAndSortsTheList) {
  const size_t built = Compile({"-O0"})["built"].get<size_t>();
  ASSERT_GT(built, 1u);
  EXPECT_EQ(Cache({"ls", "--older", "1h"})["entries"].size(), 0u);
  EXPECT_EQ(Cache({"ls", "--newer", "1h"})["entries"].size(), built);
  EXPECT_EQ(Cache({"ls", "--larger", "1G"})["entries"].size(), 0u);
  EXPECT_EQ(Cache({"ls", "--target", "no-such"})["entries"].size(), 0u);
  EXPECT_EQ(Cache({"ls", "--model", model_, "-O0"})["entries"].size(), built);
  EXPECT_EQ(Cache({"ls", "--model", model_, "-O3"})["entries"].size(), 0u);
  const json entries = Cache({"ls", "--sort", "size"})["entries"];
  for (size_t k = 1; k < entries.size(); ++k)
    EXPECT_GE(entries[k - 1]["bytes"].get<int>(), entries[k]["bytes"].get<int>());
  const std::string table = Kiln({"cache", "ls", "--dir", cache_}).out;
  for (size_t at = 0, end = 0; (end = table.find('\n', at)) != std::string::npos; at = end + 1)
    EXPECT_LE(end - at, 80u) << table;
}

TEST_F(CacheTest, DiffNamesTheFirstFieldThatDiffers) {
  ASSERT_GT(Compile({"-O0"})["built"].get<int>(), 1);
  const json entries = Cache({"ls"})["entries"];
  const std::string a = entries[0]["key"];
  const std::string b = entries[1]["key"];
  EXPECT_EQ(Cache({"diff", a, b})["first"], "kernel");
  EXPECT_TRUE(Cache({"diff", a, a})["fields"].empty());
}

TEST_F(CacheTest, WhyMissNamesTheNearestEntryAndField) {
  json result = Cache({"why-miss", model_});
  EXPECT_TRUE(result["kernels"][0]["nearest"].is_null());
  Compile();
  result = Cache({"why-miss", model_});
  EXPECT_EQ(result["misses"], 0);
  std::ofstream(dir_.File("h.graph"))
      << "graph g\ninput x : f32 [n, 32]\ny = tanh(x)\nz = softmax(y) {axis = 1}\noutput z\n";
  result = Cache({"why-miss", dir_.File("h.graph")});
  EXPECT_EQ(result["hits"], 0);
  EXPECT_EQ(result["kernels"][0]["field"], "kernel");
  EXPECT_NE(result["kernels"][0]["wanted"].get<std::string>().find("tanh"), std::string::npos);
}

TEST_F(CacheTest, VerifyLoadsAllAndBuildsTheSameAgain) {
  const int built = Compile()["built"].get<int>();
  const int all = Cache({"stats"})["entries"];
  const json good = Cache({"verify", "--recompile", "2"});
  EXPECT_EQ(good["loaded"], built);
  EXPECT_TRUE(good["bad"].empty());
  EXPECT_GT(good["recompiled"].get<int>(), 0);
  for (const auto& file : std::filesystem::recursive_directory_iterator(cache_)) {
    if (file.path().extension() == ".entry") std::ofstream(file.path(), std::ios::app) << "x";
  }
  const ProcessResult bad = Kiln({"cache", "verify", "--dir", cache_, "--json"});
  EXPECT_EQ(bad.exit, 1);
  EXPECT_EQ(json::parse(bad.out)["results"]["bad"].size(), static_cast<size_t>(all));
}

TEST_F(CacheTest, PackMovesKernelsToACacheWithoutCompiler) {
  const int built = Compile()["built"].get<int>();
  const std::string pack = dir_.File("m.kilnpack");
  EXPECT_EQ(Cache({"pack", pack, "--model", model_, "--dry-run"})["entries"], built);
  EXPECT_FALSE(std::filesystem::exists(pack));
  const ProcessResult elsewhere =
      Kiln({"cache", "pack", pack, "--all", "--dry-run", "--json", "--cache-dir", cache_},
           {{{"KILN_CACHE_DIR", dir_.File("another")}}});
  EXPECT_GE(json::parse(elsewhere.out)["results"]["entries"], built) << elsewhere.err;
  EXPECT_EQ(Cache({"pack", pack, "--model", model_})["entries"], built);
  const std::string there = dir_.File("there");
  EXPECT_EQ(Kiln({"cache", "unpack", pack, "--dir", there}).exit, 6);
  EXPECT_EQ(Kiln({"cache", "unpack", pack, "--dir", there, "--trust-unsigned"}).exit, 0);
  const std::vector<std::string> run = {"run",         model_, "-q", "--json", "--cache-readonly",
                                        "--cache-dir", there};
  ProcessResult result = Kiln(run, {{{"KILN_CODEGEN", "/nonexistent"}}});
  EXPECT_EQ(json::parse(result.out)["results"]["compile"]["cached"], built) << result.err;
  // And straight from the pack, with nothing unpacked.
  std::vector<std::string> packed = run;
  packed.back() = dir_.File("empty");
  result = Kiln(packed, {{{"KILN_CODEGEN", "/nonexistent"},
                          {"KILN_CACHE_PACKS", pack},
                          {"KILN_TRUST_UNSIGNED", "1"}}});
  EXPECT_EQ(json::parse(result.out)["results"]["compile"]["cached"], built) << result.err;
  result = Kiln(packed, {{{"KILN_CODEGEN", "/nonexistent"}, {"KILN_CACHE_PACKS", pack}}});
  EXPECT_EQ(json::parse(result.out)["results"]["compile"]["cached"], 0);
  EXPECT_NE(result.err.find("is not signed"), std::string::npos) << result.err;
}

TEST_F(CacheTest, PruneKeepsTheYoungAndTellsUnderDryRun) {
  Compile();
  const int all = Cache({"stats"})["entries"];
  EXPECT_EQ(Cache({"prune", "--max-size", "1"})["removed"], 0);
  for (const auto& file : std::filesystem::recursive_directory_iterator(cache_)) {
    if (file.path().extension() == ".entry")
      std::filesystem::last_write_time(
          file.path(), std::filesystem::file_time_type::clock::now() - std::chrono::hours(5));
  }
  EXPECT_EQ(Cache({"prune", "--max-size", "1", "--dry-run"})["removed"], all);
  EXPECT_EQ(Cache({"stats"})["entries"], all);
  EXPECT_EQ(Cache({"prune", "--max-size", "1"})["removed"], all);
  EXPECT_EQ(Kiln({"cache", "prune", "--max-size", "lots", "--dir", cache_}).exit, 2);
}

TEST_F(CacheTest, DoctorTellsWhatItChecked) {
  const json result = Cache({"doctor"});
  EXPECT_TRUE(result["ok"].get<bool>()) << result;
  std::set<std::string> names;
  for (const json& check : result["checks"]) names.insert(check["name"]);
  for (const char* name :
       {"directory", "disk", "file system", "writing", "locks", "cpu", "compiler", "gpu driver"})
    EXPECT_EQ(names.count(name), 1u) << name;
}

TEST_F(CacheTest, ProcessesAtOnceBuildEachKernelOnce) {
  std::vector<std::future<json>> runs;
  for (int k = 0; k < 4; ++k)
    runs.push_back(std::async(std::launch::async, [this] { return Compile({"-O0"}); }));
  int built = 0;
  int kernels = 0;
  for (auto& run : runs) {
    const json compile = run.get();
    built += compile["built"].get<int>();
    kernels = compile["kernels"].get<int>();
  }
  EXPECT_EQ(built, kernels);
}

}  // namespace
}  // namespace kiln
