// SPDX-License-Identifier: Apache-2.0
#include "graph/onnx/tensor_proto.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"
#include "tests/onnx/model_writer.h"

namespace kiln::onnx {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
std::vector<T> Elements(const Tensor& tensor) {
  const auto* in = static_cast<const T*>(tensor.data());
  return std::vector<T>(in, in + tensor.num_elements());
}

std::string Dims(const std::vector<int64_t>& dims, int type) {
  std::string out;
  for (const int64_t dim : dims) out += NumberField(1, dim);
  return out + NumberField(2, type);
}

TEST(ReadTensorProto, ReadsRawData) {
  KILN_ASSERT_OK_AND_ASSIGN(
      const Tensor t,
      ReadTensorProto(OnnxTensor("t", kFloat, {2, 1}, RawBytes<float>({1.5f, -0.0f}))));
  EXPECT_EQ(t.dtype(), DType::kF32);
  EXPECT_THAT(t.shape(), ElementsAre(2, 1));
  EXPECT_EQ(Elements<float>(t)[0], 1.5f);
  EXPECT_TRUE(std::signbit(Elements<float>(t)[1]));
}

TEST(ReadTensorProto, ReadsTypedFields) {
  KILN_ASSERT_OK_AND_ASSIGN(
      const Tensor floats,
      ReadTensorProto(Dims({2}, 1) + FloatField(4, 1.5f) + FloatField(4, 2.5f)));
  EXPECT_THAT(Elements<float>(floats), ElementsAre(1.5f, 2.5f));
  KILN_ASSERT_OK_AND_ASSIGN(const Tensor packed,
                            ReadTensorProto(Dims({2}, 1) + BytesField(4, RawBytes<float>({3, 4}))));
  EXPECT_THAT(Elements<float>(packed), ElementsAre(3, 4));
  KILN_ASSERT_OK_AND_ASSIGN(const Tensor ints,
                            ReadTensorProto(Dims({2}, 7) + NumberField(7, -5) + NumberField(7, 6)));
  EXPECT_THAT(Elements<int64_t>(ints), ElementsAre(-5, 6));
  KILN_ASSERT_OK_AND_ASSIGN(
      const Tensor bytes, ReadTensorProto(Dims({2}, 3) + NumberField(5, -1) + NumberField(5, 127)));
  EXPECT_THAT(Elements<int8_t>(bytes), ElementsAre(-1, 127));
  KILN_ASSERT_OK_AND_ASSIGN(
      const Tensor doubles,
      ReadTensorProto(Dims({1}, 11) + BytesField(10, RawBytes<double>({0.1}))));
  EXPECT_THAT(Elements<double>(doubles), ElementsAre(0.1));
  KILN_ASSERT_OK_AND_ASSIGN(const Tensor big, ReadTensorProto(Dims({1}, 13) + NumberField(11, -1)));
  EXPECT_THAT(Elements<uint64_t>(big), ElementsAre(std::numeric_limits<uint64_t>::max()));
}

TEST(ReadTensorProto, ReadsHalvesAsBitsOfInt32Data) {
  KILN_ASSERT_OK_AND_ASSIGN(const Tensor half,
                            ReadTensorProto(Dims({1}, 10) + NumberField(5, 0x3C00)));
  EXPECT_EQ(half.dtype(), DType::kF16);
  EXPECT_EQ(HalfToFloat(Elements<uint16_t>(half)[0]), 1.0f);
  KILN_ASSERT_OK_AND_ASSIGN(const Tensor brain,
                            ReadTensorProto(Dims({1}, 16) + NumberField(5, 0xBF80)));
  EXPECT_EQ(brain.dtype(), DType::kBF16);
  EXPECT_EQ(BFloatToFloat(Elements<uint16_t>(brain)[0]), -1.0f);
}

TEST(ReadTensorProto, MakesEveryBoolZeroOrOne) {
  KILN_ASSERT_OK_AND_ASSIGN(
      const Tensor raw,
      ReadTensorProto(OnnxTensor("t", kBool, {3}, std::string("\x00\x01\xff", 3))));
  EXPECT_THAT(Elements<uint8_t>(raw), ElementsAre(0, 1, 1));
  KILN_ASSERT_OK_AND_ASSIGN(
      const Tensor typed,
      ReadTensorProto(Dims({2}, kBool) + NumberField(5, 7) + NumberField(5, 0)));
  EXPECT_THAT(Elements<uint8_t>(typed), ElementsAre(1, 0));
}

TEST(ReadTensorProto, ReadsScalarsAndEmptyTensors) {
  KILN_ASSERT_OK_AND_ASSIGN(const Tensor scalar,
                            ReadTensorProto(OnnxTensor("t", kInt64, {}, RawBytes<int64_t>({9}))));
  EXPECT_EQ(scalar.rank(), 0);
  EXPECT_THAT(Elements<int64_t>(scalar), ElementsAre(9));
  KILN_ASSERT_OK_AND_ASSIGN(const Tensor empty, ReadTensorProto(Dims({3, 0}, kFloat)));
  EXPECT_THAT(empty.shape(), ElementsAre(3, 0));
}

TEST(ReadTensorProto, RefusesOtherSizes) {
  EXPECT_THAT(ReadTensorProto(OnnxTensor("t", kFloat, {3}, std::string(11, 'x'))),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("has 11 bytes, but f32 [3] needs 12")));
  EXPECT_THAT(ReadTensorProto(Dims({2}, 1) + FloatField(4, 1)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("has 1 elements, but f32 [2] needs 2")));
  // The elements are there, but in the field of another type.
  EXPECT_THAT(ReadTensorProto(Dims({1}, 7) + FloatField(4, 1)),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(ReadTensorProto, RefusesShapesThatCannotBe) {
  const int64_t big = int64_t{1} << 32;
  EXPECT_THAT(ReadTensorProto(Dims({big, big}, 1)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("too large")));
  EXPECT_THAT(ReadTensorProto(Dims({-1, 4}, 1)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("negative")));
  EXPECT_THAT(ReadTensorProto(Dims({big}, 1)),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("max_weight_bytes")));
}

TEST(ReadTensorProto, NamesTypesThatAreNotSupported) {
  EXPECT_THAT(ReadTensorProto(Dims({1}, kString)),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("string")));
  EXPECT_THAT(ReadTensorProto(Dims({1}, 17)),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("float8e4m3fn")));
  EXPECT_THAT(ReadTensorProto(Dims({1}, 99)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("element type 99")));
}

TEST(ReadTensorProto, RefusesExternalData) {
  EXPECT_THAT(ReadTensorProto(OnnxExternal("t", kFloat, {1}, {{"location", "w.bin"}})),
              StatusIs(absl::StatusCode::kPermissionDenied));
}

}  // namespace
}  // namespace kiln::onnx
