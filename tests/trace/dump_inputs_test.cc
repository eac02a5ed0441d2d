// SPDX-License-Identifier: Apache-2.0
// Test cases of dumped packages: where their data come from, what becomes of these, what is stored.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "exec/package/package.pb.h"
#include "tests/base/status_matchers.h"
#include "tests/fuzz/package_parts.h"
#include "tests/trace/dump_fixture.h"

namespace kiln {
namespace {

TEST_F(DumpTest, InputDataBecomesTestCases) {
  const std::string file = Npy("x.npy", {1, -2, 3}, {3}), list = dir_.File("list");
  std::ofstream(list) << "arg_0:" << file << "\n\n#rand(0, 1, 3)\n";
  DumpOptions options;
  options.input_data = {file, "arg_0:#rand(-1, 1)", "@" + list};
  options.maxerr = 0.25;
  const std::vector<TestCase> cases = CasesOf(options);
  ASSERT_EQ(cases.size(), 4u);
  for (const TestCase& test : cases) {
    EXPECT_EQ(test.max_error, 0.25);
    EXPECT_FALSE(test.silent);
    auto step = Step();
    EXPECT_EQ(ValuesOf(test.outputs[0]), *step(Array::of(test.inputs[0])).to_vector<float>());
  }
  EXPECT_EQ(ValuesOf(cases[0].inputs[0]), (Floats{1, -2, 3}));
  EXPECT_EQ(ValuesOf(cases[2].inputs[0]), (Floats{1, -2, 3}));
  const Floats drawn = ValuesOf(cases[3].inputs[0]);
  for (const float value : drawn) EXPECT_TRUE(value >= 0 && value < 1) << value;
  EXPECT_EQ(std::set<float>(drawn.begin(), drawn.end()).size(), 3u);
  EXPECT_EQ(CasesOf(options)[3].inputs[0].size_bytes(), 12);
}

TEST_F(DumpTest, InputDataThatDoesNotFitIsRefused) {
  const auto refused = [&](const std::string& text) {
    DumpOptions options;
    options.input_data = {text};
    auto step = Step();
    step(x);
    const absl::Status status = step.dump(kiln_, options).status();
    EXPECT_FALSE(status.ok());
    EXPECT_HAS(status.message(), "input_data \"");
    return std::string(status.message());
  };
  EXPECT_HAS(refused("#rand(1, 0)"), "with LO <= HI");
  EXPECT_HAS(refused("#rand(0, 1, 4)"), "another shape than the argument, f32 [3]");
  EXPECT_HAS(refused("#rand(0, nan)"), "expected #rand(LO, HI)");
  EXPECT_HAS(refused(""), "argument \"arg_0\" is not given");
  EXPECT_HAS(refused("arg_0:#rand(0,1);arg_0:#rand(0,1)"), "given twice");
  EXPECT_HAS(refused(dir_.File("none.npy")), "No such file");
  EXPECT_HAS(refused(Npy("long.npy", {1, 2, 3, 4}, {4})),
             "the file has f32 [4], which gives [4]; the argument is f32 [3]; resize_input");
  DumpOptions options;
  options.input_data = {"#rand(0, 1)"};
  EXPECT_HAS(Refused(onnx_, options, kUnimplemented), "test cases are stored in packages alone");
}

TEST_F(DumpTest, MaxerrSilentAndNoAssertAreStored) {
  DumpOptions options;
  options.input_data = {"#rand(0, 1)"};
  options.maxerr = 0;
  options.silent = true;
  options.no_assert = true;
  const std::vector<TestCase> cases = CasesOf(options);
  ASSERT_EQ(cases.size(), 1u);
  EXPECT_EQ(cases[0].max_error, 0);
  EXPECT_TRUE(cases[0].silent);
  EXPECT_TRUE(cases[0].outputs.empty());
  options.maxerr = -1;
  EXPECT_HAS(Refused(dir_.File("other.kiln"), options), "maxerr -1: expected a number from 0 on");
}

TEST_F(DumpTest, OptionsOfTestCasesWithoutOnesAreRefused) {
  DumpOptions options[6];
  options[0].repeat = 2;
  options[1].resize_input = true;
  options[2].input_transform = "data";
  options[3].silent = true;
  options[4].no_assert = true;
  options[5].maxerr = 0.5;
  for (const DumpOptions& one : options)
    EXPECT_HAS(Refused(kiln_, one), "it is about input_data, and there is none");
}

// A function of [4, 2, 2] that gives its input.
class DumpInputsTest : public DumpTest {
 protected:
  absl::StatusOr<Floats> InputOf(DumpOptions options, const std::string& data) const {
    auto same = trace([](const Array& a) { return a + 0.0f; }, Exact("same"));
    same(Array::full({4, 2, 2}, 0));
    options.input_data = {data};
    const absl::StatusOr<DumpInfo> info = same.dump(kiln_, options);
    if (!info.ok()) return info.status();
    const auto package = Package::Open(PackageSource::File(kiln_));
    if (!package.ok()) return package.status();
    const absl::StatusOr<std::vector<TestCase>> cases = (*package)->TestCases();
    if (!cases.ok()) return cases.status();
    return ValuesOf((*cases)[0].inputs[0]);
  }
};

TEST_F(DumpInputsTest, RepeatPutsRowsBehindEachOther) {
  DumpOptions options;
  options.repeat = 4;
  KILN_ASSERT_OK_AND_ASSIGN(const Floats got,
                            InputOf(options, Npy("one.npy", {1, 2, 3, 4}, {1, 2, 2})));
  EXPECT_EQ(got, (Floats{1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4}));
  options.repeat = 3;
  EXPECT_HAS(InputOf(options, Npy("one.npy", {1, 2, 3, 4}, {1, 2, 2})).status().message(),
             "repeat: 1 rows of the file 3 times are not the 4 of the argument");
  options.repeat = 0;
  EXPECT_HAS(InputOf(options, "#rand(0, 1)").status().message(), "repeat 0: expected a count");
}

TEST_F(DumpInputsTest, ResizeInputInterpolates) {
  DumpOptions options;
  options.repeat = 4;
  options.resize_input = true;
  KILN_ASSERT_OK_AND_ASSIGN(
      const Floats got, InputOf(options, Npy("large.npy", {0, 2, 4, 6, 8, 10, 12, 14}, {1, 2, 4})));
  EXPECT_EQ(Floats(got.begin(), got.begin() + 4), (Floats{1, 5, 9, 13}));
  KILN_ASSERT_OK_AND_ASSIGN(const Floats grown, InputOf(options, Npy("small.npy", {7}, {1, 1, 1})));
  EXPECT_EQ(grown, Floats(16, 7));
  options.resize_input = false;
  EXPECT_HAS(InputOf(options, Npy("small.npy", {7}, {1, 1, 1})).status().message(),
             "resize_input makes other extents fit");
}

TEST_F(DumpInputsTest, InputTransformIsAnExpression) {
  const std::string file =
      Npy("all.npy", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {4, 2, 2});
  DumpOptions options;
  options.input_transform = "(data - reduce_mean(data)) * 2 ** -1 + exp(0) % 3";
  KILN_ASSERT_OK_AND_ASSIGN(const Floats got, InputOf(options, file));
  for (size_t k = 0; k < 16; ++k) EXPECT_EQ(got[k], (static_cast<float>(k) - 7.5f) * 0.5f + 1) << k;
  const std::pair<const char*, const char*> wrong[] = {
      {"data +", "expected a number, data, an operator's name or \"(\", and it ends"},
      {"(data", "expected \")\""},
      {"data data", "expected an operator or its end at \"data\""},
      {"dat * 2", "there is data, and no \"dat\""},
      {"frobnicate(data)", "there is none of this name"},
      {"1.2.3 * data", "expected a number"},
      {"reduce_sum(data)", "; the argument is"}};
  for (const auto& [text, message] : wrong) {
    options.input_transform = text;
    EXPECT_HAS(InputOf(options, file).status().message(), message);
  }
  options.input_transform = "frobnicate(data)";  // of what no file is read for
  EXPECT_HAS(InputOf(options, "#rand(0, 1)").status().message(),
             "input_transform: it is about arguments that are read from files, and there are none");
  options.input_transform = std::string(1000, '(') + "data";
  EXPECT_HAS(InputOf(options, file).status().message(), "nested too deeply");
}

// Whoever forges a package has the error of the self-test, and its other runs are as they were.
TEST_F(DumpTest, ForgedTestCasesAreFound) {
  DumpOptions options;
  options.input_data = {"#rand(0, 1)"};
  ASSERT_EQ(CasesOf(options).size(), 1u);
  const PackageParts honest = TakeApart(Contents(kiln_));
  const auto forged = [&](auto change) {
    PackageParts parts = honest;
    packaged::Package package;
    EXPECT_TRUE(package.ParseFromString(parts.section("package")));
    change(*package.mutable_test_cases(0));
    parts.section("package") = package.SerializeAsString();
    std::ofstream(kiln_, std::ios::binary | std::ios::trunc) << PutTogether(std::move(parts));
    KILN_EXPECT_OK(Run(kiln_, {*x.tensor()}).status());
    const auto opened = Package::Open(PackageSource::File(kiln_));
    EXPECT_TRUE(opened.ok()) << opened.status();
    const absl::Status status = (*opened)->TestCases().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    return std::string(status.message());
  };
  using Case = packaged::TestCase;
  EXPECT_HAS(forged([](Case& test) { test.clear_inputs(); }),
             "test case 0: has 0 inputs, expected 1");
  EXPECT_HAS(forged([](Case& test) { *test.add_outputs() = test.outputs(0); }),
             "has 2 outputs, expected 1");
  EXPECT_HAS(forged([](Case& test) { test.mutable_inputs(0)->set_blob(99); }),
             "there is no number 99");
  EXPECT_HAS(forged([](Case& test) { test.mutable_inputs(0)->set_shape(0, 4); }), "another size");
  EXPECT_HAS(forged([](Case& test) { test.mutable_inputs(0)->set_dtype(6); }),
             "\"arg_0\" is i32 [3], expected f32 [3]");
  EXPECT_HAS(forged([](Case& test) { test.set_max_error(std::nan("")); }), "has the bound nan");
  EXPECT_HAS(forged([](Case& test) { test.set_max_error(-1); }), "expected a number from 0 on");
}

}  // namespace
}  // namespace kiln
