// SPDX-License-Identifier: Apache-2.0
// Models whose structure depends on values that come with each run, through the public API.
#include "kiln/compiler/value_variants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "kiln/compiler/compile.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/compiler/on_vm.h"
#include "tests/graph/tensors.h"
#include "tests/onnx/model_writer.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ValueVariantsTest : public testing::Test {
 protected:
  // y = ReduceSum(x [n, 2], axes), without keeping the axis.
  absl::StatusOr<Model> SumOverAxes() {
    const std::string path = dir_.File("sum.onnx");
    std::ofstream(path, std::ios::binary) << OnnxModel(
        18, OnnxGraph({OnnxNode("ReduceSum", {"x", "axes"}, {"y"}, {IntAttribute("keepdims", 0)})},
                      {OnnxValue("x", kFloat, {"n", 2}), OnnxValue("axes", kInt64, {1})},
                      {OnnxValue("y", kFloat, {"m"})}));
    return Compile(path, OnVm());
  }

  TempDir dir_;
};

TEST_F(ValueVariantsTest, EachValueGetsItsProgramAndOtherExtentsShareIt) {
  KILN_ASSERT_OK_AND_ASSIGN(Model model, SumOverAxes());
  ASSERT_EQ(model.inputs().size(), 2u);
  ASSERT_EQ(model.outputs().size(), 1u);
  for (int round = 0; round < 2; ++round) {
    KILN_ASSERT_OK_AND_ASSIGN(
        const auto rows, model.Run({{"x", F32({2, 2}, {1, 2, 3, 4})}, {"axes", I64({1}, {1})}}));
    EXPECT_THAT(Values(rows[0]), ElementsAre(3, 7));
    KILN_ASSERT_OK_AND_ASSIGN(const auto columns, model.Run({{"x", F32({2, 2}, {1, 2, 3, 4})},
                                                             {"axes", I64({1}, {-2})}}));
    EXPECT_THAT(Values(columns[0]), ElementsAre(4, 6));
    KILN_ASSERT_OK_AND_ASSIGN(const auto longer, model.Run({{"x", F32({3, 2}, {1, 2, 3, 4, 5, 6})},
                                                            {"axes", I64({1}, {1})}}));
    EXPECT_THAT(Values(longer[0]), ElementsAre(3, 7, 11));
  }
}

TEST_F(ValueVariantsTest, WrongValuesAndShapesAreRefusedAndDoNoHarm) {
  KILN_ASSERT_OK_AND_ASSIGN(Model model, SumOverAxes());
  const auto outside = model.Run({{"x", F32({1, 2}, {1, 2})}, {"axes", I64({1}, {2})}});
  EXPECT_EQ(outside.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(outside.status().message(), HasSubstr("axis 2"));
  const auto wide = model.Run({{"x", F32({1, 3}, {1, 2, 3})}, {"axes", I64({1}, {0})}});
  EXPECT_THAT(wide.status().message(), HasSubstr("\"x\": dim 1 is 3, expected 2"));
  KILN_ASSERT_OK_AND_ASSIGN(const auto good,
                            model.Run({{"x", F32({1, 2}, {1, 2})}, {"axes", I64({1}, {1})}}));
  EXPECT_THAT(Values(good[0]), ElementsAre(3));
}

}  // namespace
}  // namespace kiln
