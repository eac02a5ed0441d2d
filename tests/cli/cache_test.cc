// SPDX-License-Identifier: Apache-2.0
// kiln cache, and that a second process builds nothing.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

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
  EXPECT_EQ(Cache({"stats"})["entries"], built);
  const json entries = Cache({"ls"})["entries"];
  ASSERT_EQ(entries.size(), static_cast<size_t>(built));
  for (const char* field : {"key", "device", "features", "bytes", "sections", "kernel"})
    EXPECT_TRUE(entries[0].contains(field)) << field;
  const std::string key = entries[0]["key"];
  const json shown = Cache({"show", key.substr(0, 10)});
  EXPECT_EQ(shown["key"], key);
  EXPECT_NE(shown["preimage"]["kernel"].get<std::string>().find("kernel v1"), std::string::npos);
  EXPECT_EQ(Kiln({"cache", "show", key, "--dir", cache_, "--emit", "elf"}).out.substr(1, 3), "ELF");
  EXPECT_EQ(Kiln({"cache", "show", "ffffffffffffffff", "--dir", cache_}).exit, 6);
  EXPECT_EQ(Cache({"clear", "--dry-run"})["removed"], built);
  EXPECT_EQ(Cache({"clear"})["removed"], built);
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

}  // namespace
}  // namespace kiln
