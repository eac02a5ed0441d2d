// SPDX-License-Identifier: Apache-2.0
// What a run says that fails for the extents it is given: one row for each message. It names the
// input or node, which axis or operand it is about, and both values; and which extents the inputs
// have, since those are what the caller can change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/compile.h"
#include "graph/text.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/compiler/on_vm.h"
#include "tests/graph/tensors.h"
#include "tests/onnx/model_writer.h"

namespace kiln {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

using Inputs = std::vector<std::pair<std::string, Tensor>>;

// A tensor of that shape whose elements do not matter.
Tensor Of(std::vector<int64_t> shape) { return FilledTensor(DType::kF32, std::move(shape), 1); }

struct Row {
  std::string model;  // the text of a graph, or an ONNX file
  Inputs inputs;
  std::string message;  // what is wrong and with what
  std::string extents;  // of the inputs, where the shapes of several may be what is wrong
};

// A graph of text: r = node of x and, if `y` is not empty, y.
std::string Text(const std::string& x, const std::string& y, const std::string& node) {
  return absl::StrCat("graph g\ninput x : f32 ", x, "\n",
                      y.empty() ? "" : absl::StrCat("input y : f32 ", y, "\n"), "r = ", node,
                      "\noutput r\n");
}

// An ONNX model of x and y that ends in r.
std::string Onnx(const std::vector<std::string>& nodes, const std::vector<OnnxDim>& x,
                 const std::vector<OnnxDim>& y, const std::vector<std::string>& constants = {}) {
  const std::string r = BytesField(1, "r") + BytesField(2, BytesField(1, NumberField(1, kFloat)));
  return OnnxModel(
      18, OnnxGraph(nodes, {OnnxValue("x", kFloat, x), OnnxValue("y", kFloat, y)}, {r}, constants));
}

std::string Node(const std::string& op, const std::vector<std::string>& inputs,
                 const std::vector<std::string>& attributes = {}) {
  return OnnxNode(op, inputs, {"r"}, attributes);
}

// As exporters count: d = extents of x less `number`.
std::vector<std::string> Less(const std::string& node) {
  return {OnnxNode("Shape", {"x"}, {"s"}), OnnxNode("Sub", {"s", "number"}, {"d"}), node};
}

Inputs X(std::vector<int64_t> x) { return {{"x", Of(std::move(x))}}; }
Inputs Xy(std::vector<int64_t> x, std::vector<int64_t> y) {
  return {{"x", Of(std::move(x))}, {"y", Of(std::move(y))}};
}

// What the caller hands in is not what the model takes.
std::vector<Row> PortRows() {
  const std::string relu = Text("[n, 3]", "", "relu(x)");
  return {
      {relu, X({2, 4}), "input \"x\": dim 1 is 4, expected 3", ""},
      {relu, X({2}), "input \"x\": shape is [2], expected [n, 3]", ""},
      {relu, {{"x", I64({1, 3}, {1, 2, 3})}}, "input \"x\": type is i64, expected f32", ""},
  };
}

std::vector<Row> GraphRows() {
  return {
      {Text("[n, m]", "[n]", "add(x, y)"), Xy({2, 3}, {2}),
       "node \"r\" (add): shapes [2, 3] and [2] do not broadcast: 3 and 2 differ",
       "input \"x\": dim 0 is 2, input \"x\": dim 1 is 3, input \"y\": dim 0 is 2"},
      {Text("[n]", "", "reshape(x) {shape = [2, 3]}"), X({5}),
       "node \"r\" (reshape): elements of [5] and [2, 3]: 5 and 6 differ",
       "input \"x\": dim 0 is 5"},
      {Text("[n]", "", "reshape(x) {shape = [-1, 4]}"), X({6}),
       "node \"r\" (reshape): 6 elements do not divide by 4", "input \"x\": dim 0 is 6"},
      {Text("[n, 2]", "[m, 2]", "concat(x, y) {axis = 1}"), Xy({2, 2}, {3, 2}),
       "node \"r\" (concat): extents of inputs 0 and 1 along axis 0: 2 and 3 differ",
       "input \"x\": dim 0 is 2, input \"y\": dim 0 is 3"},
      {Text("[n]", "", "squeeze(x) {axes = [0]}"), X({2}),
       "node \"r\" (squeeze): extent of the squeezed axis 0: 2 and 1 differ",
       "input \"x\": dim 0 is 2"},
      {Text("[n]", "", "expand(x) {shape = [4]}"), X({3}),
       "node \"r\" (expand): shapes [3] and [4] do not broadcast: 3 and 4 differ",
       "input \"x\": dim 0 is 3"},
      {Text("[2, n]", "[m, 2]", "matmul(x, y)"), Xy({2, 3}, {4, 2}),
       "node \"r\" (matmul): inner extents of [2, 3] and [4, 2]: 3 and 4 differ",
       "input \"x\": dim 1 is 3, input \"y\": dim 0 is 4"},
      {Text("[1, c, 5]", "[4, d, 3]", "conv(x, y)"), Xy({1, 2, 5}, {4, 3, 3}),
       "node \"r\" (conv): channels of the input and of the weight times group: 2 and 3 differ",
       "input \"x\": dim 1 is 2, input \"y\": dim 1 is 3"},
      {Text("[1, 1, n]", "", "max_pool(x) {kernel = [5]}"), X({1, 1, 2}),
       "node \"r\" (max_pool): the result would have the shape [1, 1, -2]",
       "input \"x\": dim 2 is 2"},
      {Text("[n]", "", "pad(x) {pads = [-3, 0]}"), X({2}),
       "node \"r\" (pad): the result would have the shape [-1]", "input \"x\": dim 0 is 2"},
      {Text("[2, n]", "[m]", "layer_norm(x, y) {axis = 1}"), Xy({2, 3}, {4}),
       "node \"r\" (layer_norm): scale [4] does not broadcast to [2, 3]",
       "input \"x\": dim 1 is 3, input \"y\": dim 0 is 4"},
  };
}

std::vector<Row> OnnxShapeRows() {
  const std::vector<std::string> three = {OnnxInts("number", {3})};
  return {
      {Onnx({Node("Reshape", {"x", "t"})}, {"n"}, {1}, {OnnxInts("t", {-1, 4})}), Xy({5}, {1}),
       "node \"n_r\" (Reshape): 5 elements do not divide by 4", "input \"x\": dim 0 is 5"},
      {Onnx({OnnxNode("Shape", {"y"}, {"t"}), Node("Reshape", {"x", "t"})}, {"n"}, {"m"}),
       Xy({5}, {4}), "node \"n_r\" (Reshape): elements of [5] and [4]: 5 and 4 differ",
       "input \"x\": dim 0 is 5, input \"y\": dim 0 is 4"},
      {Onnx({OnnxNode("Shape", {"y"}, {"t"}), Node("Expand", {"x", "t"})}, {"n"}, {"m"}),
       Xy({5}, {4}), "node \"n_r\" (Expand): shapes [5] and [4] do not broadcast: 5 and 4 differ",
       "input \"x\": dim 0 is 5, input \"y\": dim 0 is 4"},
      {Onnx({Node("Concat", {"x", "y"}, {IntAttribute("axis", 0)})}, {2, "n"}, {2, "m"}),
       Xy({2, 3}, {2, 4}),
       "node \"n_r\" (Concat): extents of inputs 0 and 1 along axis 1: 3 and 4 differ",
       "input \"x\": dim 1 is 3, input \"y\": dim 1 is 4"},
      {Onnx({OnnxNode("Split", {"x", "t"}, {"r", "s"})}, {"n"}, {1}, {OnnxInts("t", {1, 3})}),
       Xy({5}, {1}), "node \"n_r\" (Split): sum of the parts and the extent: 4 and 5 differ",
       "input \"x\": dim 0 is 5"},
      {Onnx({Node("Squeeze", {"x", "t"})}, {"n"}, {1}, {OnnxInts("t", {0})}), Xy({5}, {1}),
       "node \"n_r\" (Squeeze): extent of the squeezed axis 0: 5 and 1 differ",
       "input \"x\": dim 0 is 5"},
      {Onnx(Less(Node("Tile", {"x", "d"})), {"n"}, {1}, three), Xy({1}, {1}),
       "node \"n_r\" (Tile): the result would have the shape [-2, 1]", "input \"x\": dim 0 is 1"},
      {Onnx(Less(Node("ConstantOfShape", {"d"})), {"n"}, {1}, three), Xy({1}, {1}),
       "node \"n_r\" (ConstantOfShape): the result would have the shape [-2]",
       "input \"x\": dim 0 is 1"},
      {Onnx(Less(Node("Resize", {"x", "", "", "d"})), {"n"}, {1}, three), Xy({2}, {1}),
       "node \"n_r\" (Resize): the result would have the shape [-1]", "input \"x\": dim 0 is 2"},
      {Onnx({Node("DepthToSpace", {"x"}, {IntAttribute("blocksize", 2)})}, {1, "c", 2, 2}, {1}),
       Xy({1, 6, 2, 2}, {1}),
       "node \"n_r\" (DepthToSpace): 6 channels are not divisible by the square of 2",
       "input \"x\": dim 1 is 6"},
      {Onnx({OnnxNode("TopK", {"x", "k"}, {"r", "i"})}, {"n"}, {1}, {OnnxInts("k", {4})}),
       Xy({3}, {1}), "node \"n_r\" (TopK): k is 4; the axis has 3 elements",
       "input \"x\": dim 0 is 3"},
      {Onnx({Node("GatherElements", {"x", "i"}, {IntAttribute("axis", 0)})}, {2, "n"}, {1},
            {OnnxTensor("i", kInt64, {1, 4}, RawBytes<int64_t>({0, 0, 0, 0}))}),
       Xy({2, 3}, {1}),
       "node \"n_r\" (GatherElements): the indices have the extent 4 along axis 1, the input 3",
       "input \"x\": dim 1 is 3"},
  };
}

std::vector<Row> OnnxRows() {
  const std::string twice =
      OnnxGraph({OnnxNode("Identity", {"on"}, {"o"}), OnnxNode("Add", {"s", "y"}, {"t"})},
                {OnnxValue("i", kInt64, {}), OnnxValue("on", kBool, {}), OnnxValue("s")},
                {OnnxValue("o"), OnnxValue("t")});
  const std::string sum = OnnxGraph({OnnxNode("Add", {"a", "b"}, {"c"})},
                                    {OnnxValue("a"), OnnxValue("b")}, {OnnxValue("c")});
  return {
      {Onnx({Node("Gemm", {"x", "y"})}, {2, "n"}, {"m", 2}), Xy({2, 3}, {4, 2}),
       "node \"n_r\" (Gemm): inner extents of [2, 3] and [4, 2]: 3 and 4 differ",
       "input \"x\": dim 1 is 3, input \"y\": dim 0 is 4"},
      {Onnx({Node("Gemm", {"x", "x", "y"}, {IntAttribute("transB", 1)})}, {"n", 3}, {"m"}),
       Xy({2, 3}, {5}), "node \"n_r\" (Gemm): input 2 [5] does not broadcast to [2, 2]",
       "input \"x\": dim 0 is 2, input \"y\": dim 0 is 5"},
      {Onnx({Node("Einsum", {"x", "y"}, {TextAttribute("equation", "ij,jk->ik")})}, {2, "n"},
            {"m", 2}),
       Xy({2, 3}, {4, 2}), "node \"n_r\" (Einsum): label \"j\" has extents 3 and 4",
       "input \"x\": dim 1 is 3, input \"y\": dim 0 is 4"},
      {Onnx({Node("Conv", {"x", "y"})}, {1, "c", 5}, {4, 3, 3}), Xy({1, 2, 5}, {4, 3, 3}),
       "node \"n_r\" (Conv): channels of the input and of the weight times group: 2 and 3 differ",
       "input \"x\": dim 1 is 2"},
      {Onnx({Node("MaxPool", {"x"}, {IntsAttribute("kernel_shape", {5})})}, {1, 1, "n"}, {1}),
       Xy({1, 1, 2}, {1}), "node \"n_r\" (MaxPool): the result would have the shape [1, 1, -2]",
       "input \"x\": dim 2 is 2"},
      {Onnx({Node("GroupNormalization", {"x", "y", "y"}, {IntAttribute("num_groups", 2)})},
            {1, "c", 2}, {2}),
       Xy({1, 3, 2}, {2}),
       "node \"n_r\" (GroupNormalization): 3 channels do not divide by 2 groups",
       "input \"x\": dim 1 is 3"},
      {Onnx({Node("Scan", {"x", "y"},
                  {IntAttribute("num_scan_inputs", 2), GraphAttribute("body", sum)})},
            {"n"}, {"m"}),
       Xy({3}, {2}),
       "node \"n_r\" (Scan): scanned input 1 has 2 slices along axis 0, scanned input 0 has 3",
       "input \"x\": dim 0 is 3, input \"y\": dim 0 is 2"},
      {Onnx({OnnxNode("Loop", {"two", "", "x"}, {"r"}, {GraphAttribute("body", twice)})}, {"n"},
            {"m"}, {OnnxInts("two", {2})}),
       Xy({3}, {2}),
       "node \"n_r\" (Loop): node \"n_t\" (Add): shapes [3] and [2] do not broadcast: 3 and 2 "
       "differ",
       "input \"x\": dim 0 is 3, input \"y\": dim 0 is 2"},
  };
}

std::vector<Row> Rows() {
  std::vector<Row> rows;
  for (std::vector<Row> (*part)() : {PortRows, GraphRows, OnnxShapeRows, OnnxRows}) {
    for (Row& row : part()) rows.push_back(std::move(row));
  }
  return rows;
}

absl::StatusOr<Model> Compiled(const std::string& model, const TempDir& dir) {
  if (absl::StartsWith(model, "graph ")) {
    absl::StatusOr<Graph> graph = ParseGraph(model);
    if (!graph.ok()) return graph.status();
    return Compile(*std::move(graph), OnVm());
  }
  const std::string path = dir.File("model.onnx");
  std::ofstream(path, std::ios::binary) << model;
  return Compile(path, OnVm());
}

TEST(RunMessages, NameTheSubjectTheAxisAndBothValues) {
  const TempDir dir;
  for (const Row& row : Rows()) {
    SCOPED_TRACE(row.message);
    KILN_ASSERT_OK_AND_ASSIGN(Model model, Compiled(row.model, dir));
    for (int round = 0; round < 2; ++round) {
      const absl::Status status = model.Run(row.inputs).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(row.message));
      EXPECT_THAT(std::string(status.message()), EndsWith(row.extents));
    }
  }
}

}  // namespace
}  // namespace kiln
