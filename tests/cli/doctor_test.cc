// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <map>
#include <string>

#include "base/cpu_features.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/base/temp_dir.h"
#include "tests/cli/process.h"

namespace kiln {
namespace {

using nlohmann::json;

class DoctorTest : public testing::Test {
 protected:
  void SetUp() override {
    if (LevelOf(HostCpu()) == IsaLevel::kBaseline) GTEST_SKIP() << "no CPU for compiled kernels";
  }
  // The checks by their names.
  std::map<std::string, json> Doctor(int exit, std::pair<std::string, std::string> variable = {},
                                     const std::string& directory = "") {
    ProcessOptions options{.environment = {{"KILN_MAX_ISA", ""}, {"KILN_CACHE_PACKS", ""}}};
    if (!variable.first.empty()) options.environment.push_back(variable);
    const ProcessResult result = Kiln(
        {"doctor", "--json", "--dir", directory.empty() ? dir_.File("cache") : directory}, options);
    EXPECT_EQ(result.exit, exit) << result.out << result.err;
    const json results = json::parse(result.out)["results"];
    EXPECT_EQ(results["ok"], exit == 0);
    std::map<std::string, json> checks;
    for (const json& check : results["checks"]) checks[check["name"]] = check;
    return checks;
  }

  TempDir dir_;
};

TEST_F(DoctorTest, ChecksAllThatKilnDependsOn) {
  const auto checks = Doctor(0);
  for (const char* name :
       {"version", "cpu", "processors", "memory", "huge pages", "as", "ld", "scratch", "compiler",
        "validator", "directory", "disk", "file system", "writing", "locks"})
    EXPECT_EQ(checks.count(name), 1u) << name;
  for (const auto& [name, check] : checks) EXPECT_NE(check["status"], "problem") << check;
  EXPECT_THAT(checks.at("compiler")["detail"], testing::HasSubstr("kiln-codegen builds a kernel"));
  EXPECT_THAT(checks.at("validator")["detail"], testing::HasSubstr("the VM's bits"));
}

TEST_F(DoctorTest, AMissingHelperIsAProblemOfExit5) {
  const auto compiler = Doctor(5, {"KILN_CODEGEN", dir_.File("none")});
  EXPECT_EQ(compiler.at("compiler")["status"], "problem");
  EXPECT_THAT(compiler.at("compiler")["advice"], testing::HasSubstr("install kiln-codegen"));
  EXPECT_THAT(compiler.at("validator")["detail"], testing::HasSubstr("kiln-validate answers"));
  const auto validator = Doctor(5, {"KILN_VALIDATE", dir_.File("none")});
  EXPECT_EQ(validator.at("validator")["status"], "problem");
  EXPECT_EQ(validator.at("compiler")["status"], "ok");
}

TEST_F(DoctorTest, AnAssemblerThatIsNoneIsAProblem) {
  const auto gone = Doctor(5, {"KILN_PTXAS", dir_.File("none")});
  EXPECT_EQ(gone.at("ptxas")["status"], "problem");
  EXPECT_THAT(gone.at("ptxas")["detail"], testing::HasSubstr(dir_.File("none")));
  const auto other = Doctor(5, {"KILN_PTXAS", "/bin/true"});
  EXPECT_THAT(other.at("ptxas")["detail"], testing::HasSubstr("\"/bin/true\" says no version"));
  EXPECT_EQ(Doctor(0, {"KILN_PTXAS", "none"}).at("ptxas")["status"], "note");
}

TEST_F(DoctorTest, SaysWhyThereIsNoGpu) {
  const auto checks = Doctor(0, {"KILN_CUDA_MODULE", dir_.File("none")});
  EXPECT_EQ(checks.at("cuda")["status"], "note");
  EXPECT_THAT(checks.at("cuda")["detail"], testing::HasSubstr("KILN_CUDA_MODULE"));
}

TEST_F(DoctorTest, AProgramThatIsNoHelperIsAProblem) {
  EXPECT_EQ(Doctor(5, {"KILN_VALIDATE", "/bin/false"}).at("validator")["status"], "problem");
}

TEST_F(DoctorTest, ScratchThatCannotBeWrittenIsAProblem) {
  const auto checks = Doctor(5, {"TMPDIR", dir_.File("none")});
  EXPECT_EQ(checks.at("scratch")["status"], "problem");
}

TEST_F(DoctorTest, ACacheThatCannotBeUsedIsAProblemOfExit6) {
  std::ofstream(dir_.File("file")) << "no directory";
  const auto checks = Doctor(6, {}, dir_.File("file"));
  EXPECT_EQ(checks.at("directory")["status"], "problem");
  EXPECT_THAT(checks.at("directory")["advice"], testing::HasSubstr("KILN_CACHE_DIR"));
}

TEST_F(DoctorTest, WithoutCompiledKernelsNothingOfTheCompilerIsAProblem) {
  ProcessOptions options{
      .environment = {{"KILN_MAX_ISA", "x86-64"}, {"KILN_CODEGEN", dir_.File("none")}}};
  const ProcessResult result = Kiln({"doctor", "--json", "--dir", dir_.File("cache")}, options);
  EXPECT_EQ(result.exit, 0) << result.out << result.err;
  EXPECT_THAT(json::parse(result.out)["results"]["checks"].dump(),
              testing::HasSubstr("kernels run on the VM alone"));
}

}  // namespace
}  // namespace kiln
