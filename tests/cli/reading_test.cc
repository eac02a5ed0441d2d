// SPDX-License-Identifier: Apache-2.0
// What a model file may be: --max-weights and --external-data-links of every verb that reads one,
// their variables, and a Program that the cache has of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/cli/process.h"
#include "tests/onnx/model_writer.h"

namespace kiln {
namespace {

using testing::HasSubstr;
using Words = std::vector<std::string>;

constexpr int kBytes = 32768;  // of the weight: so many that a Program does not hold it itself

class ReadingTest : public testing::Test {
 protected:
  // y = exp(x + w), laid out as the cache of a hub: names of a snapshot are links to blobs.
  void SetUp() override {
    std::filesystem::create_directories(dir_.File("blobs"));
    std::filesystem::create_directories(dir_.File("snapshot"));
    const std::string graph =
        OnnxGraph({OnnxNode("Add", {"x", "w"}, {"a"}), OnnxNode("Exp", {"a"}, {"y"})},
                  {OnnxValue("x", kFloat, {kBytes / 4})}, {OnnxValue("y", kFloat, {kBytes / 4})},
                  {OnnxExternal("w", kFloat, {kBytes / 4}, {{"location", "model.onnx_data"}})});
    std::ofstream(dir_.File("blobs/1"), std::ios::binary) << OnnxModel(17, graph);
    std::vector<float> weights(kBytes / 4);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = 0.001f * static_cast<float>(i % 89);
    std::ofstream(dir_.File("blobs/2"), std::ios::binary) << RawBytes(weights);
    std::filesystem::create_symlink("../blobs/1", model_);
    std::filesystem::create_symlink("../blobs/2", dir_.File("snapshot/model.onnx_data"));
  }

  // Of `kiln VERB MODEL`, for each verb that reads one.
  std::vector<Words> Commands() const {
    return {
        {"run", model_},     {"bench", model_, "--iters", "1"},   {"inspect", model_},
        {"explain", model_}, {"explain", model_, "--library"},    {"verify", model_},
        {"opt", model_},     {"compile", model_, "--cache-only"}, {"cache", "why-miss", model_}};
  }
  ProcessResult Run(Words words, const Words& more,
                    std::vector<std::pair<std::string, std::string>> environment = {}) const {
    words.insert(words.end(), more.begin(), more.end());
    words.insert(words.end(), {"-q"});
    environment.emplace_back("KILN_CACHE_DIR", dir_.File("cache"));
    return Kiln(words, {.environment = std::move(environment)});
  }

  TempDir dir_;
  const std::string model_ = dir_.File("snapshot/model.onnx");
  const Words kFollow = {"--external-data-links", "follow"};
};

TEST_F(ReadingTest, LinksAreFollowedWhereAsked) {
  for (const Words& command : Commands()) {
    SCOPED_TRACE(testing::PrintToString(command));
    const ProcessResult refused = Run(command, {});
    EXPECT_EQ(refused.exit, 3) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr("\"model.onnx_data\": is reached through a link; if you "
                                       "trust who made the model's folder, follow links with "
                                       "--external-data-links follow"));
    const ProcessResult followed = Run(command, kFollow);
    EXPECT_EQ(followed.exit, command[0] == "cache" ? 0 : followed.exit) << followed.err;
    EXPECT_THAT(followed.exit, testing::AnyOf(0, 1)) << followed.err;
    EXPECT_THAT(followed.err, testing::Not(HasSubstr("link")));
  }
  const Words run = {"run", model_};
  EXPECT_EQ(Run(run, {}, {{"KILN_EXTERNAL_DATA_LINKS", "follow"}}).exit, 0);
  EXPECT_EQ(
      Run(run, {"--external-data-links", "refuse"}, {{"KILN_EXTERNAL_DATA_LINKS", "follow"}}).exit,
      3);
  EXPECT_EQ(Run(run, {"--external-data-links", "sometimes"}).exit, 2);
}

TEST_F(ReadingTest, WeightsHaveALimit) {
  for (const Words& command : Commands()) {
    SCOPED_TRACE(testing::PrintToString(command));
    Words words = command;
    words.insert(words.end(), kFollow.begin(), kFollow.end());
    const ProcessResult refused = Run(words, {"--max-weights", "32767"});
    EXPECT_EQ(refused.exit, 3) << refused.err;
    EXPECT_THAT(
        refused.err,
        HasSubstr("initializer \"w\": has 32768 bytes and the tensors before it 0, together "
                  "more than 32767, the most that all may have; --max-weights or "
                  "CompileOptions::max_weight_bytes raises it"));
    EXPECT_THAT(Run(words, {"--max-weights", "32KiB"}).exit, testing::AnyOf(0, 1));
  }
}

TEST_F(ReadingTest, TheVariableIsTheDefaultOfTheFlag) {
  Words run = {"run", model_};
  run.insert(run.end(), kFollow.begin(), kFollow.end());
  EXPECT_EQ(Run(run, {}, {{"KILN_MAX_WEIGHTS", "31K"}}).exit, 3);
  EXPECT_EQ(Run(run, {"--max-weights", "8GiB"}, {{"KILN_MAX_WEIGHTS", "31K"}}).exit, 0);
  const ProcessResult wrong = Run(run, {"--max-weights", "much"});
  EXPECT_EQ(wrong.exit, 2);
  EXPECT_THAT(wrong.err, HasSubstr("--max-weights: size \"much\": expected bytes, such as 500M or "
                                   "2GiB"));
}

// The options are in no key, and what the cache has of a model obeys them.
TEST_F(ReadingTest, ACachedProgramObeysBoth) {
  CompileOptions options;
  options.cache.directory = dir_.File("cache");
  options.external_data_links = ExternalDataLinks::kFollow;
  options.max_weight_bytes = kBytes;
  KILN_EXPECT_OK(Compile(model_, options).status());
  const auto run = [&](const std::string& limit) {
    return Kiln({"run", model_, "-v", "--external-data-links", "follow", "--max-weights", limit},
                {.environment = {{"KILN_CACHE_DIR", dir_.File("cache")}}});
  };
  EXPECT_EQ(run("32K").exit, 0);  // keeps the Program
  for (const char* limit : {"32768", "1GiB"}) {
    const ProcessResult warm = run(limit);
    EXPECT_THAT(warm.err, HasSubstr("1 kernels: 1 cached")) << limit;
    EXPECT_THAT(warm.err, HasSubstr("weights: 32.0 KiB mapped, 0 B copied")) << limit;
  }
  options.max_weight_bytes = kBytes - 1;
  EXPECT_THAT(Compile(model_, options), StatusIs(absl::StatusCode::kResourceExhausted,
                                                 HasSubstr("initializer \"w\": has 32768 bytes")));
  options.max_weight_bytes = kBytes;
  options.external_data_links = ExternalDataLinks::kRefuse;
  EXPECT_THAT(Compile(model_, options), StatusIs(absl::StatusCode::kPermissionDenied));
  options.max_weight_bytes = -1;
  EXPECT_THAT(Compile(model_, options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("max_weight_bytes: is -1, expected 0 or more")));
}

// A file of weights may be longer than the limit used to be, and sparse.
TEST_F(ReadingTest, AFileOfDataMayBeLong) {
  std::filesystem::remove(dir_.File("blobs/2"));
  std::ofstream(dir_.File("blobs/2"), std::ios::binary) << std::string(kBytes, '\0');
  std::filesystem::resize_file(dir_.File("blobs/2"), uintmax_t{5} << 30);
  EXPECT_EQ(Run({"opt", model_}, kFollow).exit, 0);
}

}  // namespace
}  // namespace kiln
