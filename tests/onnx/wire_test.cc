// SPDX-License-Identifier: Apache-2.0
#include "graph/onnx/wire.h"

#include <string>

#include "gmock/gmock.h"
#include "graph/onnx/onnx.pb.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"
#include "tests/onnx/model_writer.h"

namespace kiln::onnx {
namespace {

using ::testing::HasSubstr;

constexpr auto kDataLoss = absl::StatusCode::kDataLoss;

TEST(Wire, LeavesRawDataInTheFile) {
  const std::string file = OnnxModel(
      17, OnnxGraph({}, {}, {}, {OnnxTensor("w", kInt8, {1000}, std::string(1000, 'Q'))}));
  KILN_ASSERT_OK_AND_ASSIGN(const std::string skeleton, Skeleton(file, Root::kModel));
  EXPECT_LT(skeleton.size(), 100u);
  ModelProto model;
  KILN_ASSERT_OK(Parse(skeleton, model));
  const TensorProto& tensor = model.graph().initializer(0);
  EXPECT_EQ(tensor.name(), "w");
  EXPECT_EQ(tensor.raw_size(), 1000u);
  EXPECT_EQ(file.substr(tensor.raw_offset(), tensor.raw_size()), std::string(1000, 'Q'));
}

TEST(Wire, LeavesRawDataOfAttributesAndSubGraphsInTheFile) {
  const std::string inner =
      OnnxGraph({}, {}, {}, {OnnxTensor("a", kInt8, {50}, std::string(50, 'A'))});
  const std::string node =
      OnnxNode("Constant", {}, {"y"},
               {TensorAttribute("value", OnnxTensor("", kInt8, {60}, std::string(60, 'B'))),
                GraphAttribute("body", inner)});
  const std::string file = OnnxModel(17, OnnxGraph({node}, {}, {}));
  KILN_ASSERT_OK_AND_ASSIGN(const std::string skeleton, Skeleton(file, Root::kModel));
  ModelProto model;
  KILN_ASSERT_OK(Parse(skeleton, model));
  const NodeProto& parsed = model.graph().node(0);
  const TensorProto& value = parsed.attribute(0).t();
  EXPECT_EQ(file.substr(value.raw_offset(), value.raw_size()), std::string(60, 'B'));
  const TensorProto& weight = parsed.attribute(1).g().initializer(0);
  EXPECT_EQ(file.substr(weight.raw_offset(), weight.raw_size()), std::string(50, 'A'));
}

TEST(Wire, DropsPlacesThatTheFileItselfClaims) {
  const std::string tensor =
      NumberField(2, kInt8) + NumberField(100001, 0) + NumberField(100002, 1 << 20);
  KILN_ASSERT_OK_AND_ASSIGN(const std::string skeleton, Skeleton(tensor, Root::kTensor));
  TensorProto parsed;
  KILN_ASSERT_OK(Parse(skeleton, parsed));
  EXPECT_FALSE(parsed.has_raw_offset());
  EXPECT_FALSE(parsed.has_raw_size());
}

TEST(Wire, DropsWhatNobodyReads) {
  const std::string with = NumberField(1, 8) + BytesField(6, std::string(5000, 'd')) +
                           BytesField(20, "training") + NumberField(999, 1);
  KILN_ASSERT_OK_AND_ASSIGN(const std::string skeleton, Skeleton(with, Root::kModel));
  EXPECT_EQ(skeleton, NumberField(1, 8));
}

TEST(Wire, NamesTheBrokenByte) {
  EXPECT_THAT(Skeleton(BytesField(2, "name").substr(0, 4), Root::kModel),
              StatusIs(kDataLoss,
                       HasSubstr("byte 0: field 2 has 4 bytes, but its message has only 2 left")));
  EXPECT_THAT(Skeleton("\x0b", Root::kModel), StatusIs(kDataLoss, HasSubstr("wire type 3")));
  EXPECT_THAT(Skeleton(std::string("\x00", 1), Root::kModel),
              StatusIs(kDataLoss, HasSubstr("no valid number")));
  EXPECT_THAT(Skeleton("\x08" + std::string(11, '\xff'), Root::kModel),
              StatusIs(kDataLoss, HasSubstr("ten bytes")));
  EXPECT_THAT(Skeleton("\x08\xff", Root::kModel), StatusIs(kDataLoss, HasSubstr("past the end")));
  EXPECT_THAT(Skeleton(NumberField(7, 1), Root::kModel),
              StatusIs(kDataLoss, HasSubstr("expected bytes")));
}

TEST(Wire, RefusesLengthsThatWrapAround) {
  const std::string file = Varint(7 << 3 | 2) + Varint(~uint64_t{0});
  EXPECT_THAT(Skeleton(file, Root::kModel), StatusIs(kDataLoss));
}

TEST(Wire, TakesEveryPrefixWithoutHarm) {
  const std::string file =
      OnnxModel(17, OnnxGraph({OnnxNode("Relu", {"x"}, {"y"})}, {OnnxValue("x", kFloat, {"n", 4})},
                              {OnnxValue("y", kFloat, {})}, {OnnxFloats("w", {1, 2, 3})}));
  int taken = 0;
  for (size_t size = 0; size < file.size(); ++size) {
    const auto skeleton = Skeleton(absl::string_view(file).substr(0, size), Root::kModel);
    taken += skeleton.ok() ? 1 : 0;
  }
  EXPECT_LT(taken, 6);  // only cuts between the fields of the model are whole files
}

}  // namespace
}  // namespace kiln::onnx
