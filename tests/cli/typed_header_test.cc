// SPDX-License-Identifier: Apache-2.0
#include "tools/typed_header.h"

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/temp_dir.h"
#include "tests/cli/process.h"

namespace kiln {
namespace {

using testing::HasSubstr;

TEST(TypedHeader, NamesBecomeIdentifiers) {
  EXPECT_EQ(Identifier("x"), "x");
  EXPECT_EQ(Identifier("input.1:0"), "input_1_0");
  EXPECT_EQ(Identifier("class"), "class_");
  EXPECT_EQ(Identifier("0"), "n0");
  EXPECT_EQ(Identifier("__x__y"), "x_y");
  EXPECT_EQ(Identifier(""), "n");
  EXPECT_EQ(Identifier("\xc3\xa4"), "n");
}

class TypedHeaderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<PortInfo> inputs(4), outputs(2);
    inputs[0].name = "x */ \n#error \?\?/";
    inputs[0].type = DType::kF32;
    inputs[0].shape = {Dim::Symbol("n"), 64};
    inputs[1].name = "class";
    inputs[1].type = DType::kBF16;
    inputs[1].optional = true;
    inputs[2].name = "class_";
    inputs[2].type = DType::kI64;
    inputs[2].shape = {3};
    inputs[3].name = "flag";
    inputs[3].type = DType::kBool;
    outputs[0].name = "y";
    outputs[0].type = DType::kU8;
    outputs[0].shape = {1, 2, 3};
    outputs[1].name = "any";
    outputs[1].any_rank = true;
    std::ofstream(dir_.File("net.h")) << TypedHeader("net", inputs, outputs);
  }
  // Of a program that uses the header so.
  ProcessResult Compile(const std::string& body) {
    std::ofstream(dir_.File("use.cc"))
        << "#include \"net.h\"\nvoid Use(const net::Model& model) {\n"
        << "  (void)model;\n  net::Inputs in;\n  (void)in;\n"
        << body << "\n}\n";
    return RunProcess({"/usr/bin/c++", "-std=c++17", "-fsyntax-only", "-Wall", "-Wextra",
                       "-Wpedantic", "-Werror", "-I" KILN_SOURCE_DIR "/include",
                       dir_.File("use.cc")});
  }
  TempDir dir_;
};

TEST_F(TypedHeaderTest, RightTypesCompileAndWrongOnesDoNot) {
  const ProcessResult right = Compile(
      "float x[128] = {}; int64_t i[3] = {}; int64_t n = 2; bool b = true;\n"
      "in.x_error_ = {x, {n, 64}}; in.class_ = kiln::cpp::View<kiln::cpp::BFloat16, 0>();\n"
      "in.class_2 = {i, {3}}; in.flag = kiln::cpp::View<bool, 0>(&b);\n"
      "net::Outputs out = model.Run(in);\n"
      "const uint8_t* y = out.y.data(); const std::array<int64_t, 3>& shape = out.y.shape();\n"
      "kiln::cpp::Tensor any = std::move(out.any); (void)y; (void)shape; (void)any;");
  EXPECT_EQ(right.exit, 0) << right.err;
  const char* const wrong[] = {
      "double x[128] = {}; in.x_error_ = {x, {2, 64}};",   // type
      "float x[128] = {}; in.x_error_ = {x, {128}};",      // fewer extents
      "float x[128] = {}; in.x_error_ = {x, {2, 8, 8}};",  // more
      "int32_t i[3] = {}; in.class_2 = {i, {3}};",         // of the same class
      "net::Outputs out = model.Run(in); const float* y = out.y.data(); (void)y;",
      "in.z = {};",  // no such input
  };
  for (const char* const body : wrong) EXPECT_NE(Compile(body).exit, 0) << body;
}

}  // namespace
}  // namespace kiln
