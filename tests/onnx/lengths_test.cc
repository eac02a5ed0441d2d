// SPDX-License-Identifier: Apache-2.0
// Operands whose extents do not go together, of operators that are written with other ops: each
// node is imported with the right extents, and refused with others, by a message that has both.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "graph/onnx/import.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"
#include "tests/onnx/model_writer.h"

namespace kiln {
namespace {

using testing::HasSubstr;
using Names = std::vector<std::string>;
using Extents = std::vector<OnnxDim>;

const std::string kContrib = "com.microsoft";
constexpr int kUint8 = 2;

struct Port {
  Extents shape;
  int type = kFloat;
};

constexpr int kAbsent = 0;
const Port kNone = {{}, kAbsent};

// Another shape of one operand, and what is said of it.
struct Wrong {
  size_t operand;
  Extents shape;
  const char* message;
};

// A node of the inputs x0, x1, ...
struct Row {
  const char* op;
  std::string domain;
  Names attributes;
  std::vector<Port> operands;
  std::vector<Wrong> wrong;
};

absl::StatusOr<OnnxImport> Import(const Row& row, const std::vector<Port>& operands) {
  Names inputs;
  std::vector<std::string> ports;
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool absent = operands[i].type == kAbsent;
    inputs.push_back(absent ? "" : absl::StrCat("x", i));
    if (!absent) ports.push_back(OnnxValue(inputs.back(), operands[i].type, operands[i].shape));
  }
  const std::string node = OnnxNode(row.op, inputs, {"y"}, row.attributes, row.domain);
  const std::string opsets = BytesField(8, BytesField(1, kContrib) + NumberField(2, 1));
  return ImportOnnxBytes(
      absl::StrCat(OnnxModel(23, OnnxGraph({node}, ports, {OnnxValue("y")})), opsets));
}

std::vector<Row> QuantizedRows() {
  const Port bytes = {{3, 4}, kUint8};
  const Names by_two = {IntAttribute("block_size", 2)};
  return {
      {"QuantizeLinear",
       "",
       {},
       {{{3, 4}}, {{4}}, {{4}, kUint8}},
       {{1, {3}, "scale has 3 elements along axis 0, expected 4"},
        {1, {3, 4}, "scale has the shape [3, 4], expected [4]"},
        {2, {1}, "zero point has 1 elements along axis 0, expected 4"},
        {2, {}, "scale has 4 elements along axis 0, expected 1"}}},
      {"QuantizeLinear",
       "",
       {},
       {{{3, 4}}, {{}}, {{1}, kUint8}},
       {{2, {4}, "zero point has 4 elements along axis 0, expected 1"}}},
      {"QuantizeLinear", "", {}, {{{3, 1}}, {{1}}, {{}, kUint8}}, {{1, {4}, "4 elements"}}},
      {"DequantizeLinear",
       "",
       by_two,
       {bytes, {{3, 2}}, {{3, 2}, kUint8}},
       {{1, {3, 3}, "scale has 3 elements along axis 1, expected 2"},
        {1, {1, 2}, "scale has 1 elements along axis 0, expected 3"},
        {2, {3, 1}, "zero point has 1 elements along axis 1, expected 2"}}},
      {"DequantizeLinear", "", by_two, {{{3, 5}, kUint8}, {{3, 3}}}, {{1, {3, 2}, "expected 3"}}},
      {"MatMulInteger",
       "",
       {},
       {{{1, 4}, kUint8}, {{4, 1}, kUint8}, {{1}, kUint8}, {{1}, kUint8}},
       {{2, {3}, "zero point [3, 1] does not broadcast to [1, 4]"},
        {3, {3}, "zero point [3] does not broadcast to [4, 1]"}}},
      {"MatMulInteger",
       "",
       {},
       {bytes, {{4, 5}, kUint8}, {{3}, kUint8}, {{5}, kUint8}},
       {{3, {1, 4, 5}, "zero point [1, 4, 5] does not broadcast to [4, 5]"}}},
      {"QLinearMatMul",
       "",
       {},
       {{{1, 4}, kUint8},
        {{}},
        {{}, kUint8},
        {{4, 1}, kUint8},
        {{1}},
        {{1}, kUint8},
        {{1}},
        {{}, kUint8}},
       {{1, {3}, "scale of the first factor [3, 1] does not broadcast to [1, 1]"},
        {4, {3}, "scale of the second factor [3] does not broadcast to [1, 1]"},
        {6, {3}, "scale of the result [3, 1] does not broadcast to [1, 1]"},
        {7, {3}, "zero point of the result [3, 1] does not broadcast to [1, 1]"}}},
      {"QLinearConv",
       "",
       {},
       {{{1, 2, 5}, kUint8},
        {{}},
        {{}, kUint8},
        {{3, 2, 2}, kUint8},
        {{3}},
        {{3}, kUint8},
        {{}},
        {{}, kUint8},
        {{3}, kInt32}},
       {{4, {2}, "input 4 [2] does not broadcast to [3]"},
        {5, {2}, "zero point of the weight has 2 elements along axis 0, expected 3"},
        {8, {1}, "bias has 1 elements along axis 0, expected 3"}}},
  };
}

std::vector<Row> AttentionRows() {
  const Names heads = {IntAttribute("num_heads", 2)};
  const Names apart = {IntAttribute("q_num_heads", 2), IntAttribute("kv_num_heads", 2)};
  const Port q = {{1, 2, 1, 4}}, k = {{1, 2, 5, 4}}, i64 = {{2}, kInt64};
  return {
      {"Attention",
       "",
       {},
       {q, k, k, {{1, 5}}},
       {{1, {3, 2, 5, 4}, "key has 3 elements along axis 0, expected 1"},
        {1, {1, 3, 5, 4}, "value has 2 elements along axis 1, expected 3"},
        {2, {3, 2, 5, 4}, "value has 3 elements along axis 0, expected 1"},
        {2, {1, 2, 1, 4}, "value has 1 elements along axis 2, expected 5"},
        {0, {1, 3, 1, 4}, "query has 3 heads, expected a multiple of the 2 of the key"},
        {3, {3, 5}, "mask [3, 5] does not broadcast to [1, 2, 1, 5]"},
        {3, {2, 1, 1, 5}, "mask [2, 1, 1, 5] does not broadcast to [1, 2, 1, 5]"},
        {3, {1, 6}, "mask has 6 columns for 5 keys"}}},
      {"Attention", "", {}, {{{1, 4, 3, 4}}, k, k, {{3, 4}}}, {{2, {1, 1, 5, 4}, "expected 2"}}},
      {"Attention",
       "",
       apart,
       {{{1, 3, 8}}, {{1, 5, 8}}, {{1, 5, 8}}},
       {{1, {2, 5, 8}, "key has 2 elements along axis 0, expected 1"}}},
      {"Attention",
       "",
       {},
       {{{2, 2, 1, 4}}, {{2, 2, 5, 4}}, {{2, 2, 5, 4}}, kNone, kNone, kNone, i64},
       {{6, {3}, "nonpad_kv_seqlen has 3 elements along axis 0, expected 2"}}},
      {"MultiHeadAttention",
       kContrib,
       heads,
       {{{1, 1, 8}}, {{1, 5, 8}}, {{1, 5, 8}}, {{24}}, {{1, 5}, kInt32}, {{1, 1, 1, 5}}},
       {{1, {3, 5, 8}, "key has 3 elements along axis 0, expected 1"},
        {2, {3, 5, 8}, "value has 3 elements along axis 0, expected 1"},
        {2, {1, 1, 8}, "value has 1 elements along axis 2, expected 5"},
        {3, {25}, "bias has 25 elements along axis 0, expected 24"},
        {4, {3, 5}, "mask [3, 1, 1, 5] does not broadcast to [1, 2, 1, 5]"},
        {5, {1, 3, 1, 5}, "[1, 3, 1, 5]"}}},
      {"Attention",
       kContrib,
       heads,
       {{{1, 3, 4}}, {{4, 12}}, {{12}}},
       {{2, {1}, "bias has 1 elements along axis 0, expected 12"}}},
      {"GroupQueryAttention",
       kContrib,
       {IntAttribute("num_heads", 2), IntAttribute("kv_num_heads", 1)},
       {{{1, 3, 8}}, {{1, 3, 4}}, {{1, 3, 4}}, kNone, kNone, {{1}, kInt32}},
       {{1, {2, 3, 4}, "key has 2 elements along axis 0, expected 1"},
        {2, {1, 1, 4}, "value has 1 elements along axis 2, expected 3"}}},
      {"RotaryEmbedding",
       "",
       {},
       {{{1, 2, 3, 4}}, {{6, 2}}, {{6, 2}}, {{1, 3}, kInt64}},
       {{2, {4, 2}, "sine has 4 elements along axis 0, expected 6"},
        {3, {2, 3}, "position_ids has 2 elements along axis 0, expected 1"}}},
      {"RotaryEmbedding",
       "",
       {},
       {{{1, 2, 3, 2}}, {{1, 3, 1}}, {{1, 3, 1}}},
       {{2, {1, 1, 1}, "sine has 1 elements along axis 1, expected 3"}}},
      {"RotaryEmbedding",
       kContrib,
       {},
       {{{1, 2, 3, 4}}, {{1, 3}, kInt64}, {{6, 2}}, {{6, 2}}},
       {{3, {4, 2}, "the table of sines has 4 elements along axis 0, expected 6"},
        {1, {2, 3}, "position_ids [2, 3] does not broadcast to [1, 3]"}}},
  };
}

std::vector<Row> RecurrentRows() {
  const Names hidden = {IntAttribute("hidden_size", 3)};
  const Port state = {{1, 2, 3}};
  return {
      {"LSTM",
       "",
       hidden,
       {{{3, 2, 2}}, {{1, 12, 2}}, {{1, 12, 3}}, {{1, 24}}, {{2}, kInt32}, state, state, {{1, 9}}},
       {{1, {2, 12, 2}, "W has 2 elements along axis 0, expected 1"},
        {1, {1, 1, 2}, "W has 1 elements along axis 1, expected 12"},
        {2, {1, 13, 3}, "R has 13 elements along axis 1, expected 12"},
        {3, {1, 25}, "B has 25 elements along axis 1, expected 24"},
        {4, {1}, "sequence_lens has 1 elements along axis 0, expected 2"},
        {5, {1, 1, 3}, "initial_h has 1 elements along axis 1, expected 2"},
        {6, {2, 2, 3}, "initial_c has 2 elements along axis 0, expected 1"},
        {7, {1, 12}, "P has 12 elements along axis 1, expected 9"}}},
      {"GRU",
       "",
       {TextAttribute("direction", "bidirectional")},
       {{{3, 2, 2}}, {{2, 9, 2}}, {{2, 9, 3}}, {{2, 18}}},
       {{3, {1, 18}, "B has 1 elements along axis 0, expected 2"}}},
      {"RNN",
       "",
       {IntAttribute("layout", 1)},
       {{{2, 3, 2}}, {{1, 3, 2}}, {{1, 3, 3}}},
       {{1, {1, 3, 4}, "W has 4 elements along axis 2, expected 2"}}},
  };
}

std::vector<Row> OtherRows() {
  const Names pairs = {IntsAttribute("kernel_shape", {2}), IntsAttribute("strides", {2})};
  return {
      {"ConvTranspose",
       "",
       {IntAttribute("group", 2)},
       {{{1, 2, 5}}, {{2, 1, 2}}, {{2}}},
       {{2, {1}, "bias has 1 elements along axis 0, expected 2"}}},
      {"ConvTranspose",
       "",
       {},
       {{{1, 2, 5}}, {{2, 1, 2}}, {{1}}},
       {{2, {3}, "bias has 3 elements along axis 0, expected 1"}}},
      {"Conv", "", {}, {{{1, 2, 5}}, {{1, 2, 2}}, {{1}}}, {{2, {3}, "3"}}},
      {"GridSample",
       "",
       {},
       {{{2, 2, 3, 3}}, {{2, 2, 2, 2}}},
       {{1, {2, 2, 2, 3}, "grid has 3 elements along axis 3, expected 2"},
        {1, {1, 2, 2, 2}, "grid has 1 elements along axis 0, expected 2"}}},
      {"MaxUnpool",
       "",
       pairs,
       {{{1, 2, 2}}, {{1, 2, 2}, kInt64}},
       {{1, {1, 1, 4}, "indices has 1 elements along axis 1, expected 2"}}},
      {"NegativeLogLikelihoodLoss",
       "",
       {},
       {{{3, 4}}, {{3}, kInt64}, {{4}}},
       {{1, {2}, "target has 2 elements along axis 0, expected 3"},
        {2, {3}, "weight has 3 elements along axis 0, expected 4"}}},
      {"SoftmaxCrossEntropyLoss",
       "",
       {},
       {{{3, 4, 2}}, {{3, 2}, kInt64}, {{4}}},
       {{1, {3, 1}, "target has 1 elements along axis 1, expected 2"},
        {2, {5}, "weight has 5 elements along axis 0, expected 4"}}},
      {"BiasGelu",
       kContrib,
       {},
       {{{2, 1}}, {{1}}},
       {{1, {4}, "bias has 4 elements along axis 0, expected 1"}}},
      {"FastGelu",
       kContrib,
       {},
       {{{2, 4}}, {{4}}},
       {{1, {2, 4}, "bias has the shape [2, 4], expected [4]"}}},
      {"SkipLayerNormalization",
       kContrib,
       {},
       {{{2, 3, 4}}, {{1, 3, 4}}, {{4}}, {{4}}, {{4}}},
       {{1, {3, 3, 4}, "skip [3, 3, 4] does not broadcast to [2, 3, 4]"},
        {2, {1}, "gamma has 1 elements along axis 0, expected 4"},
        {3, {1}, "beta has 1 elements along axis 0, expected 4"},
        {4, {1}, "bias has 1 elements along axis 0, expected 4"}}},
      {"SimplifiedLayerNormalization",
       "",
       {},
       {{{2, 1}}, {{1}}},
       {{1, {4}, "scale [4] does not broadcast to [2, 1]"}}},
  };
}

std::vector<Row> Rows() {
  std::vector<Row> rows;
  for (std::vector<Row> (*part)() : {QuantizedRows, AttentionRows, RecurrentRows, OtherRows}) {
    for (Row& row : part()) rows.push_back(std::move(row));
  }
  return rows;
}

TEST(Lengths, OfOperandsThatGoTogetherAreTaken) {
  for (const Row& row : Rows()) {
    SCOPED_TRACE(row.op);
    KILN_EXPECT_OK(Import(row, row.operands).status());
  }
}

TEST(Lengths, OfOperandsThatDoNotGoTogetherAreNamed) {
  for (const Row& row : Rows()) {
    for (const Wrong& wrong : row.wrong) {
      SCOPED_TRACE(absl::StrCat(row.op, ": ", wrong.message));
      std::vector<Port> operands = row.operands;
      operands[wrong.operand].shape = wrong.shape;
      EXPECT_THAT(Import(row, operands),
                  StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(wrong.message)));
    }
  }
}

// Whatever rank an operand has, the node is taken or refused.
TEST(Lengths, OfOperandsOfAnyRankEndNothing) {
  int refused = 0;
  for (const Row& row : Rows()) {
    for (size_t k = 0; k < row.operands.size(); ++k) {
      for (size_t rank = 0; rank <= 5; ++rank) {
        for (const int extent : {0, 1, 3}) {
          std::vector<Port> operands = row.operands;
          operands[k].shape = Extents(rank, OnnxDim(extent));
          refused += Import(row, operands).ok() ? 0 : 1;
        }
      }
    }
  }
  EXPECT_GT(refused, 500);
}

// The guards of a node one of whose operands has extents that are not known.
std::string GuardsOf(const Row& row, size_t operand, const Extents& shape) {
  std::vector<Port> operands = row.operands;
  operands[operand].shape = shape;
  const auto import = Import(row, operands);
  if (!import.ok()) return std::string(import.status().message());
  std::string text;
  for (const Guard& guard : import->graph.guards()) absl::StrAppend(&text, guard.ToString(), ";");
  return text;
}

TEST(Lengths, ThatAreNotKnownAreAssumed) {
  const Row loss = {"NegativeLogLikelihoodLoss", "", {}, {{{3, 4}}, {{3}, kInt64}, {{4}}}, {}};
  EXPECT_THAT(GuardsOf(loss, 2, {"c"}), HasSubstr("c == 4;"));
  const Row bias = {"BiasGelu", kContrib, {}, {{{2, 1}}, {{1}}}, {}};
  EXPECT_THAT(GuardsOf(bias, 1, {"c"}), HasSubstr("c == 1;"));
  EXPECT_THAT(GuardsOf(bias, 0, {2, "c"}), HasSubstr("c == 1;"));
  const Row grid = {"GridSample", "", {}, {{{2, 2, 3, 3}}, {{2, 2, 2, 2}}}, {}};
  EXPECT_THAT(GuardsOf(grid, 1, {"b", 2, 2, "d"}),
              testing::AllOf(HasSubstr("b == 2;"), HasSubstr("d == 2;")));
  const Row blocks = {
      "DequantizeLinear", "", {IntAttribute("block_size", 2)}, {{{3, 4}, kUint8}, {{3, 2}}}, {}};
  EXPECT_THAT(GuardsOf(blocks, 1, {3, "s"}), HasSubstr("s == 2;"));
}

TEST(Lengths, OfWhatMaxUnpoolMakesAreAtLeastItsOwn) {
  const auto import = [](const std::vector<int64_t>& shape) {
    const std::string node =
        OnnxNode("MaxUnpool", {"x", "i", "o"}, {"y"},
                 {IntsAttribute("kernel_shape", {2}), IntsAttribute("strides", {2})});
    return ImportOnnxBytes(OnnxModel(
        22,
        OnnxGraph({node}, {OnnxValue("x", kFloat, {1, 1, 2}), OnnxValue("i", kInt64, {1, 1, 2})},
                  {OnnxValue("y")}, {OnnxInts("o", shape)})));
  };
  KILN_EXPECT_OK(import({1, 1, 4}).status());
  KILN_EXPECT_OK(import({1, 1, 9}).status());
  EXPECT_THAT(import({1, 1, 3}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("output_shape [1, 1, 3] is smaller than [1, 1, 4]")));
  EXPECT_THAT(import({1, 2, 4}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("output_shape [1, 2, 4] has other batches or channels than")));
}

TEST(Lengths, OfAWindowThatDoesNotFitLeaveNoPlaces) {
  const std::string node =
      OnnxNode("MaxPool", {"x"}, {"y", "i"},
               {IntsAttribute("kernel_shape", {4}), IntsAttribute("strides", {2})});
  KILN_ASSERT_OK_AND_ASSIGN(
      const OnnxImport import,
      ImportOnnxBytes(OnnxModel(22, OnnxGraph({node}, {OnnxValue("x", kFloat, {1, 1, 3})},
                                              {OnnxValue("y"), OnnxValue("i")}))));
  for (const Graph::Output& output : import.graph.outputs())
    EXPECT_EQ(ToString(import.graph.value(output.value).shape), "[1, 1, 0]");
}

}  // namespace
}  // namespace kiln
