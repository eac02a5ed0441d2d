// SPDX-License-Identifier: Apache-2.0
// kiln run --self-test: packages that traced functions were dumped to.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "kiln/trace.h"
#include "kiln/trace_ops.h"
#include "nlohmann/json.hpp"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/cli/process.h"
#include "tests/fuzz/package_parts.h"

namespace kiln {
namespace {

using nlohmann::json;

class SelfTestTest : public testing::Test {
 protected:
  // exp(x) + 1, with these options.
  void Dump(const DumpOptions& options) {
    TraceOptions traced;
    traced.capture_as_const = true;
    traced.compile.compile_mode = CompileMode::kNever;
    traced.compile.cache.enabled = false;
    auto step = trace([](const Array& a) { return exp(a) + 1.0f; }, traced);
    step(Array::full({2, 3}, 0));
    KILN_ASSERT_OK(step.dump(package_, options).status());
  }
  static DumpOptions TwoCases() {
    DumpOptions options;
    options.output_names = {"y"};
    options.input_data = {"#rand(0, 1)", "#rand(2, 3)"};
    return options;
  }
  // Makes the last output that is stored another.
  void Damage() {
    PackageParts parts = TakeApart(Contents(package_));
    parts.area[parts.area.size() - 1] ^= 0x40;
    std::ofstream(package_, std::ios::binary | std::ios::trunc) << PutTogether(std::move(parts));
  }
  ProcessResult Run(std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {"run", "--self-test", package_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Kiln(arguments);
  }

  TempDir dir_;
  const std::string package_ = dir_.File("m.kiln");
};

TEST_F(SelfTestTest, SaysThatAllCasesAreRight) {
  Dump(TwoCases());
  const ProcessResult run = Run();
  EXPECT_EQ(run.exit, 0) << run.err;
  EXPECT_EQ(run.out,
            "case 0: y: f32 [2, 3]  as expected, max abs 0\n"
            "case 1: y: f32 [2, 3]  as expected, max abs 0\n"
            "2 test cases, all right\n");
  const json object = json::parse(Run({"--json"}).out);
  EXPECT_EQ(object["schema"], "kiln.run/1");
  const json& test = object["results"]["self_test"];
  EXPECT_EQ(test["ok"], true);
  ASSERT_EQ(test["cases"].size(), 2u);
  EXPECT_EQ(test["cases"][1]["outputs"][0]["expect"]["ok"], true);
}

TEST_F(SelfTestTest, SilentCasesAreToldWhereTheyDiffer) {
  DumpOptions options = TwoCases();
  options.silent = true;
  Dump(options);
  EXPECT_EQ(Run().out, "2 test cases, all right\n");
  Damage();
  const ProcessResult run = Run();
  EXPECT_EQ(run.exit, 1) << run.err;
  EXPECT_TRUE(absl::StrContains(run.out, "case 1: y: f32 [2, 3]  DIFFERS: element 5")) << run.out;
  EXPECT_TRUE(absl::StrContains(run.out, "2 test cases, some DIFFER\n")) << run.out;
  const ProcessResult as_json = Run({"--json"});
  EXPECT_EQ(as_json.exit, 1);
  EXPECT_EQ(json::parse(as_json.out)["results"]["self_test"]["ok"], false);
}

TEST_F(SelfTestTest, NoAssertRunsWithoutComparing) {
  DumpOptions options = TwoCases();
  options.no_assert = true;
  Dump(options);
  EXPECT_EQ(Run().out, "case 0: y: f32 [2, 3]\ncase 1: y: f32 [2, 3]\n2 test cases, all right\n");
}

TEST_F(SelfTestTest, WithoutCasesItIsAnError) {
  Dump({});
  const ProcessResult run = Run();
  EXPECT_EQ(run.exit, 2);
  EXPECT_TRUE(absl::StrContains(run.err, "has no test cases; dump it with DumpOptions::input_data"))
      << run.err;
  const std::string model = dir_.File("m.graph");
  std::ofstream(model) << "graph g\ninput x : f32 [2]\ny = exp(x)\noutput y\n";
  const ProcessResult other = Kiln({"run", "--self-test", model});
  EXPECT_EQ(other.exit, 2);
  EXPECT_TRUE(absl::StrContains(other.err, "is a model; packages have test cases")) << other.err;
  EXPECT_EQ(Run({"--input", "arg_0=zeros"}).exit, 2);
}

TEST_F(SelfTestTest, InspectShowsNotes) {
  DumpOptions options = TwoCases();
  options.user_info = "made here";
  options.metadata = {{"commit", "abc"}};
  options.model_version = 7;
  Dump(options);
  const json package = json::parse(Kiln({"inspect", package_, "--json"}).out)["results"]["package"];
  EXPECT_EQ(package["test_cases"], 2);
  EXPECT_EQ(package["notes"]["user_info"], "made here");
  EXPECT_EQ(package["notes"]["metadata"][0], json({{"name", "commit"}, {"value", "abc"}}));
  EXPECT_EQ(package["notes"]["model_version"], 7);
  const std::string text = Kiln({"inspect", package_}).out;
  for (const char* part : {"tests   2\n", "version 7\n", "info    \"made here\"\n", "commit"})
    EXPECT_TRUE(absl::StrContains(text, part)) << part << "\n" << text;
}

}  // namespace
}  // namespace kiln
