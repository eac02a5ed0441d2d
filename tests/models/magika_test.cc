// SPDX-License-Identifier: Apache-2.0
// magika's trained network: reference outputs, answers for files, and one compiled Model for any
// batch.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/compare.h"
#include "base/file_system.h"
#include "compiler/compile.h"
#include "examples/magika/file_type.h"
#include "graph/reference/interpreter.h"
#include "tests/base/fetched_data.h"
#include "tests/base/status_matchers.h"
#include "tests/models/model_case.h"

namespace kiln {
namespace {

constexpr double kBound = 1e-5;
const std::string kFolder = KILN_TEST_DATA_DIR "/magika";

class MagikaTest : public testing::TestWithParam<std::pair<int, CompileMode>> {
 protected:
  void SetUp() override {
    path_ = FetchedModel("magika");
    if (path_.empty()) KILN_LACKS_DATA("magika's weights", "scripts/fetch_model magika");
    options_ = SharedOptions(GetParam().first, GetParam().second);
    KILN_ASSERT_OK_AND_ASSIGN(model_, Compile(path_, options_));
  }
  std::string path_;
  CompileOptions options_;
  Model model_;
};

TEST_P(MagikaTest, ReferenceCasesOfAnyBatchRunOnOneModelWithoutBuildingAgain) {
  const int before = options_.kernels->counts().kernels;
  for (const char* name : {"case_0", "case_1", "case_2", "case_1", "case_0"}) {
    const std::string folder = absl::StrCat(kFolder, "/", name);
    const std::vector<Tensor> inputs = ReadTensors(folder, "input");
    const std::vector<Tensor> expected = ReadTensors(folder, "expected");
    ASSERT_EQ(expected.size(), 1u);
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got, model_.Run({{"bytes", inputs[0]}}));
    const Comparison c = Compare(got[0], expected[0], 0, kBound);
    EXPECT_TRUE(c.ok) << name << ": " << c.what;
  }
  EXPECT_EQ(options_.kernels->counts().kernels, before);
}

TEST_P(MagikaTest, AnswersForFilesAreThoseOfThePackage) {
  KILN_ASSERT_OK_AND_ASSIGN(const magika::Rules rules, magika::Rules::Read(kFolder));
  KILN_ASSERT_OK_AND_ASSIGN(const std::string table,
                            RealFileSystem().ReadFile(kFolder + "/answers.tsv", 1 << 20));
  const std::vector<std::string> lines = absl::StrSplit(table, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 13u);
  for (size_t k = 1; k < lines.size(); ++k) {
    const std::vector<std::string> fields = absl::StrSplit(lines[k], '\t');
    KILN_ASSERT_OK_AND_ASSIGN(
        const std::string bytes,
        RealFileSystem().ReadFile(absl::StrCat(kFolder, "/files/", fields[0]), 1 << 20));
    magika::Features features = magika::Extract(bytes);
    magika::Answer answer = features.answer;
    if (!features.values.empty()) {
      const Tensor input =
          Tensor::View(features.values.data(), DType::kI32, {1, magika::kFeatures});
      KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> output, model_.Run({{"bytes", input}}));
      answer = rules.Decide(static_cast<const float*>(output[0].data()));
    }
    double score = 0;
    ASSERT_TRUE(absl::SimpleAtod(fields[2], &score));
    EXPECT_EQ(answer.label, fields[1]) << fields[0];
    // The table has four digits, and the package summed one variance in another order than the
    // reference cases did.
    EXPECT_NEAR(answer.score, score, 2e-4) << fields[0];
    EXPECT_EQ(answer.model_label, fields[3]) << fields[0];
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, MagikaTest,
    testing::Values(std::make_pair(0, CompileMode::kBlock), std::make_pair(3, CompileMode::kBlock),
                    std::make_pair(0, CompileMode::kNever), std::make_pair(3, CompileMode::kNever)),
    [](const auto& info) {
      return absl::StrCat("O", info.param.first,
                          info.param.second == CompileMode::kBlock ? "Compiled" : "Vm");
    });

TEST(MagikaReferenceTest, InterpreterGivesTheReferenceOutput) {
  const std::string path = FetchedModel("magika");
  if (path.empty()) KILN_LACKS_DATA("magika's weights", "scripts/fetch_model magika");
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, ReadModel(path));
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got,
                            Interpret(graph, ReadTensors(kFolder + "/case_1", "input")));
  const Comparison c = Compare(got[0], ReadTensors(kFolder + "/case_1", "expected")[0], 0, kBound);
  EXPECT_TRUE(c.ok) << c.what;
}

}  // namespace
}  // namespace kiln
