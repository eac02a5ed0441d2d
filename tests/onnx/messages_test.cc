// SPDX-License-Identifier: Apache-2.0
// What converters say of a node that is wrong or that they do not take: one row for each message,
// and rows for every file of converters.
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "graph/onnx/import.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"
#include "tests/onnx/model_writer.h"

namespace kiln {
namespace {

using Names = std::vector<std::string>;

const std::string kContrib = "com.microsoft", kTraining = "ai.onnx.preview.training";

// The node has the inputs x0, x1, ... of these shapes, f32 unless `types` says otherwise; an empty
// name in `inputs` is an input left out, and names in `constants` are initializers.
struct Row {
  const char* file;  // of converters
  int opset;
  std::string node;
  std::vector<std::string> ports, constants;
  bool unsupported;     // the message of what Kiln does not do; else of what is wrong
  const char* message;  // behind the node's name
};

std::string X(const std::vector<OnnxDim>& dims, int type = kFloat) {
  return OnnxValue("x", type, dims);
}
std::string Y(const std::vector<OnnxDim>& dims, int type = kFloat) {
  return OnnxValue("w", type, dims);
}
std::string Node(const std::string& op, const Names& inputs, const Names& attributes = {},
                 const std::string& domain = "") {
  return OnnxNode(op, inputs, {"y"}, attributes, domain);
}

std::vector<Row> NeuralRows() {
  return {
      {"neural",
       17,
       Node("LayerNormalization", {"x", "w"}),
       {X({2, 1}), Y({5})},
       {},
       false,
       "scale [5] does not broadcast to [2, 1]"},
      {"neural",
       17,
       Node("LayerNormalization", {"x", "w"}),
       {X({3}), Y({2, 3})},
       {},
       false,
       "scale [2, 3] does not broadcast to [3]"},
      {"neural",
       17,
       Node("LayerNormalization", {"x", "w", "b"}),
       {X({2, 1}), Y({1})},
       {OnnxFloats("b", {1, 2})},
       false,
       "bias [2] does not broadcast to [2, 1]"},
      {"neural",
       23,
       Node("RMSNormalization", {"x", "w"}),
       {X({2, 1}), Y({5})},
       {},
       false,
       "scale [5] does not broadcast to the input [2, 1]"},
      {"neural",
       17,
       Node("Conv", {"x", "w"}),
       {X({1, 2, 8}), Y({2, 2})},
       {},
       false,
       "weight has rank 2 and input 3, expected the same, from 3"},
      {"neural",
       17,
       Node("MaxPool", {"x"}, {IntsAttribute("kernel_shape", {0, 2})}),
       {X({1, 1, 4, 4})},
       {},
       false,
       "kernel, strides and dilations must be at least 1 and at most 2^31"},
      {"neural",
       17,
       Node("MaxPool", {"x"},
            {IntsAttribute("kernel_shape", {2, 2}), TextAttribute("auto_pad", "?")}),
       {X({1, 1, 4, 4})},
       {},
       false,
       "auto_pad is \"?\", expected NOTSET, SAME_UPPER, SAME_LOWER or VALID"},
      {"neural",
       18,
       Node("GroupNormalization", {"x", "w", "w"}, {IntAttribute("num_groups", 3)}),
       {X({1, 4, 2}), Y({3})},
       {},
       false,
       "4 channels do not divide by 3 groups"},
  };
}

std::vector<Row> ShapeRows() {
  return {
      {"shape",
       18,
       Node("Pad", {"x", "p"}, {TextAttribute("mode", "?")}),
       {X({4})},
       {OnnxInts("p", {1, 1})},
       true,
       "mode ? is not supported"},
      {"shape",
       13,
       Node("Pad", {"x", "p"}),
       {X({4})},
       {OnnxInts("p", {1})},
       false,
       "pads has 1 elements, expected two for each of 1 dims"},
      {"shape",
       13,
       Node("Tile", {"x", "p"}),
       {X({4})},
       {OnnxInts("p", {1, 2})},
       false,
       "repeats has 2 elements, but the input has rank 1"},
      {"shape",
       13,
       Node("DepthToSpace", {"x"}, {IntAttribute("blocksize", 2)}),
       {X({1, 6, 1, 1})},
       {},
       false,
       "6 channels are not divisible by the square of 2"},
      {"shape",
       13,
       Node("SpaceToDepth", {"x"}, {IntAttribute("blocksize", 2)}),
       {X({1, 1, 3, 4})},
       {},
       false,
       "extents 3 and 4 are not multiples of 2"},
      {"shape",
       18,
       Node("Split", {"x"}, {IntAttribute("num_outputs", 3)}),
       {X({4})},
       {},
       false,
       "num_outputs is 3, but the node has 1"},
  };
}

std::vector<Row> SelectRows() {
  return {
      {"select",
       11,
       Node("TopK", {"x", "p"}),
       {X({4})},
       {OnnxInts("p", {1, 2})},
       false,
       "K must have one element"},
      {"select", 14, Node("Trilu", {"x"}), {X({4})}, {}, false, "the input must be a matrix"},
      {"select",
       16,
       Node("ScatterND", {"x", "i", "x"}, {TextAttribute("reduction", "?")}),
       {X({4})},
       {OnnxTensor("i", kInt64, {4, 1}, std::string(32, '\0'))},
       false,
       "reduction \"?\" is not known"},
      {"select",
       10,
       Node("ReverseSequence", {"x", "p"},
            {IntAttribute("batch_axis", 1), IntAttribute("time_axis", 1)}),
       {X({2, 2})},
       {OnnxInts("p", {1, 1})},
       false,
       "batch_axis and time_axis must be 0 and 1"},
      {"select",
       18,
       Node("CenterCropPad", {"x", "p"}),
       {X({2, 2})},
       {OnnxInts("p", {1})},
       false,
       "shape has 1 elements for 2 axes"},
  };
}

std::vector<Row> SampleRows() {
  return {
      {"sample",
       13,
       Node("Resize", {"x", "", "s"}, {TextAttribute("mode", "?")}),
       {X({4})},
       {OnnxFloats("s", {2})},
       false,
       "mode \"?\" is not known"},
      {"sample",
       13,
       Node("Resize", {"x", "", "s"}),
       {X({4})},
       {OnnxFloats("s", {2, 2})},
       false,
       "has 2 scales for 1 axes"},
      {"sample",
       13,
       Node("Resize", {"x", "", "s"}),
       {X({4})},
       {OnnxFloats("s", {-2})},
       false,
       "scale -2 is not above 0"},
      {"sample",
       13,
       Node("Resize", {"x", "", "s"}),
       {X({"n"})},
       {OnnxFloats("s", {0.7F})},
       true,
       "scale 0.7 of an extent that is not known, n"},
      {"sample",
       16,
       Node("GridSample", {"x", "w"}, {TextAttribute("padding_mode", "?")}),
       {X({1, 1, 2, 2}), Y({1, 2, 2, 2})},
       {},
       false,
       "padding_mode \"?\" is not known"},
  };
}

std::vector<Row> RemainingRows() {
  return {
      {"elementwise",
       11,
       Node("BitShift", {"x", "x"}),
       {X({2}, kInt32)},
       {},
       false,
       "direction is \"\", expected LEFT or RIGHT"},
      {"elementwise",
       6,
       Node("Add", {"x", "w"}, {IntAttribute("broadcast", 1), IntAttribute("axis", 7)}),
       {X({2, 3}), Y({2})},
       {},
       false,
       "axis 7 does not fit the operands"},
      {"reduce",
       13,
       Node("ReduceSum", {"x", "p"}),
       {X({2, 3})},
       {OnnxInts("p", {2})},
       false,
       "axis 2 is outside [-2, 1]"},
      {"reduce",
       11,
       Node("ReduceMax", {"x"}, {IntsAttribute("axes", {0, -2})}),
       {X({2, 3})},
       {},
       false,
       "axis 0 is given twice"},
      {"tensor",
       12,
       Node("Einsum", {"x"}, {TextAttribute("equation", "ij->i")}),
       {X({2})},
       {},
       false,
       "term \"ij\" does not fit rank 1"},
      {"tensor",
       12,
       Node("Einsum", {"x"}, {TextAttribute("equation", "i->ij")}),
       {X({2})},
       {},
       false,
       "equation has a label on its right side only"},
      {"tensor",
       13,
       Node("LpNormalization", {"x"}, {IntAttribute("p", 3)}),
       {X({2})},
       {},
       false,
       "p is 3"},
      {"quantized",
       13,
       Node("QuantizeLinear", {"x", "s", "z"}),
       {X({2})},
       {OnnxTensor("s", kFloat, {}, RawBytes<float>({1})), OnnxTensor("z", kInt32, {}, "1234")},
       true,
       "quantisation to i32 is not supported"},
      {"quantized",
       21,
       Node("DequantizeLinear", {"x", "s"}, {IntAttribute("block_size", 2)}),
       {X({2, 2}, kInt8)},
       {OnnxFloats("s", {1, 2})},
       false,
       "scales of blocks must have the rank of the input"},
      {"recurrent",
       14,
       Node("RNN", {"x", "w", "w"}, {TextAttribute("direction", "?")}),
       {X({1, 1, 2}), Y({1, 2, 2})},
       {},
       false,
       "direction \"?\" is not known"},
      {"recurrent",
       14,
       Node("RNN", {"x", "w", "w"},
            {BytesField(1, "activations") + BytesField(9, "Cube") + NumberField(20, 8)}),
       {X({1, 1, 2}), Y({1, 2, 2})},
       {},
       true,
       "activation Cube is not supported"},
      {"signal", 17, Node("DFT", {"x"}), {X({4})}, {}, false, "the signal has no axis of parts"},
      {"signal",
       11,
       Node("Det", {"x"}),
       {X({2, 3})},
       {},
       false,
       "the last two axes must be equal and known"},
      {"signal",
       20,
       Node("AffineGrid", {"x", "p"}),
       {X({1, 2, 3})},
       {OnnxInts("p", {1, 1})},
       false,
       "size must have 4 or 5 numbers, and theta 3 axes"},
      {"dynamic",
       11,
       Node("SequenceAt", {"x", "p"}),
       {X({4})},
       {OnnxInts("p", {0})},
       true,
       "the sequence is not known at import"},
      {"attention",
       23,
       Node("Attention", {"x", "x", "x"}),
       {X({1, 2, 4})},
       {},
       false,
       "needs four axes, or three and the number of heads"},
      {"attention",
       13,
       Node("NegativeLogLikelihoodLoss", {"x", "w"}, {TextAttribute("reduction", "?")}),
       {X({2, 3}), Y({2}, kInt64)},
       {},
       false,
       "reduction \"?\" is not known"},
      {"contrib",
       17,
       Node("Attention", {"x", "w"}, {}, kContrib),
       {X({1, 2, 4}), Y({4, 12})},
       {},
       false,
       "num_heads is missing"},
      {"contrib",
       17,
       Node("GroupQueryAttention", {"x", "", "", "", "", ""},
            {IntAttribute("num_heads", 3), IntAttribute("kv_num_heads", 2)}, kContrib),
       {X({1, 2, 4})},
       {},
       false,
       "num_heads and kv_num_heads do not go together"},
      {"contrib",
       17,
       Node("MatMulNBits", {"x", "w", "w"}, {IntAttribute("K", 0), IntAttribute("N", 1)}, kContrib),
       {X({1, 2}), Y({2})},
       {},
       false,
       "K is 0, N 1, bits 4, block_size 0"},
  };
}

std::vector<Row> TrainingRows() {
  const std::vector<std::string> ports = {X({}), Y({}, kInt64)};
  const Names mode = {TextAttribute("mode", "standard"), FloatAttribute("alpha", 0.5F)};
  return {
      {"random",
       6,
       Node("RandomUniform", {}, {IntsAttribute("shape", {-1})}),
       {},
       {},
       false,
       "an extent is -1"},
      {"random",
       15,
       Node("Multinomial", {"x"}, {IntAttribute("dtype", kFloat)}),
       {X({2, 3})},
       {},
       false,
       "to is f32; it must be i32 or i64"},
      {"training",
       13,
       Node("Adam", {"x", "w", "x", "x", "x", "x", "x"}, {}, kTraining),
       ports,
       {},
       false,
       "has 7 inputs, expected R, T and 4 for each parameter"},
      {"training",
       13,
       Node("Adagrad", {"x", "w", "x", "x", "x"}, {FloatAttribute("epsilon", -1)}, kTraining),
       ports,
       {},
       false,
       "optimizer: epsilon is -1, expected 0 to below infinity"},
      {"training",
       13,
       Node("Momentum", {"x", "w", "x", "x", "x"}, {TextAttribute("mode", "?")}, kTraining),
       ports,
       {},
       false,
       "mode is \"?\", expected standard or nesterov"},
      {"training",
       13,
       Node("Momentum", {"x", "w", "x", "x", "x"}, {mode[0]}, kTraining),
       ports,
       {},
       true,
       "alpha is 0: there is no momentum to keep"},
      {"training",
       13,
       Node("Momentum", {"x", "w", "x", "w", "x"}, mode, kTraining),
       ports,
       {},
       false,
       "an operand is i64, its parameter f32"},
  };
}

std::vector<Row> Rows() {
  std::vector<Row> rows;
  for (std::vector<Row> (*part)() :
       {NeuralRows, ShapeRows, SelectRows, SampleRows, RemainingRows, TrainingRows}) {
    for (Row& row : part()) rows.push_back(std::move(row));
  }
  return rows;
}

TEST(Messages, OfConvertersNameTheNodeAndBothValues) {
  for (const Row& row : Rows()) {
    SCOPED_TRACE(row.message);
    const std::string graph = OnnxGraph({row.node}, row.ports, {OnnxValue("y")}, row.constants);
    std::string opsets;
    for (const std::string& domain : {kContrib, kTraining})
      absl::StrAppend(&opsets, BytesField(8, BytesField(1, domain) + NumberField(2, 1)));
    const absl::Status status =
        ImportOnnxBytes(absl::StrCat(OnnxModel(row.opset, graph), opsets)).status();
    EXPECT_EQ(status.code(), row.unsupported ? absl::StatusCode::kUnimplemented
                                             : absl::StatusCode::kInvalidArgument)
        << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("node \"n_y\" ("));
    EXPECT_THAT(std::string(status.message()), testing::EndsWith(absl::StrCat("): ", row.message)));
  }
}

TEST(Messages, AreThoseOfEveryFileOfConverters) {
  std::set<std::string> files, covered;
  for (const auto& entry : std::filesystem::directory_iterator(KILN_SOURCE_DIR "/graph/onnx")) {
    const std::string name = entry.path().stem();
    if (entry.path().extension() == ".cc" && name.rfind("convert_", 0) == 0)
      files.insert(name.substr(8));
  }
  for (const Row& row : Rows()) covered.insert(row.file);
  EXPECT_GE(files.size(), 13u);
  EXPECT_EQ(covered, files);
}

TEST(Messages, OfAModelThatIsNewerThanTheConverters) {
  const std::string graph = OnnxGraph({Node("Relu", {"x"})}, {X({4})}, {OnnxValue("y")});
  KILN_EXPECT_OK(ImportOnnxBytes(OnnxModel(27, graph)).status());
  EXPECT_THAT(ImportOnnxBytes(OnnxModel(28, graph)),
              StatusIs(absl::StatusCode::kUnimplemented,
                       testing::StartsWith("opset_import: the model is of operator set 28, the "
                                           "newest known is 27; ")));
}

}  // namespace
}  // namespace kiln
