// SPDX-License-Identifier: Apache-2.0
#include "graph/onnx/import.h"

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "graph/op.h"
#include "gtest/gtest.h"
#include "tests/base/captured_log.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/onnx/model_writer.h"

namespace kiln {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;

absl::StatusOr<OnnxImport> Import(const std::string& graph) {
  return ImportOnnxBytes(OnnxModel(17, graph));
}

const std::string kX = OnnxValue("x", kFloat, {"n", 4});
const std::string kY = OnnxValue("y");

TEST(Import, KeepsNamesOfInputsOutputsValuesAndNodes) {
  KILN_ASSERT_OK_AND_ASSIGN(
      const OnnxImport import,
      Import(
          OnnxGraph({OnnxNode("Relu", {"x:0"}, {"inner:0"}), OnnxNode("Neg", {"inner:0"}, {"y:0"})},
                    {OnnxValue("x:0", kFloat, {"n", 4})}, {OnnxValue("y:0")})));
  const Graph& g = import.graph;
  KILN_EXPECT_OK(Verify(g));
  EXPECT_EQ(g.name, "g");
  ASSERT_EQ(g.inputs().size(), 1u);
  EXPECT_EQ(g.value(g.inputs()[0]).name, "x:0");
  EXPECT_EQ(ToString(g.value(g.inputs()[0]).shape), "[n, 4]");
  ASSERT_EQ(g.nodes().size(), 2u);
  EXPECT_STREQ(g.nodes()[0].op->name, "relu");
  EXPECT_EQ(g.nodes()[0].name, "n_inner:0");
  EXPECT_EQ(g.value(g.nodes()[0].outputs[0]).name, "inner:0");
  ASSERT_EQ(g.outputs().size(), 1u);
  EXPECT_EQ(g.outputs()[0].name, "y:0");
}

TEST(Import, ReadsWhatTheModelSaysOfItself) {
  const std::string file = OnnxModel(15, OnnxGraph({OnnxNode("Relu", {"x"}, {"y"})}, {kX}, {kY})) +
                           BytesField(3, "1.2") +
                           BytesField(8, BytesField(1, "ai.onnx.ml") + NumberField(2, 2)) +
                           BytesField(14, BytesField(1, "character") + BytesField(2, "a\nb"));
  KILN_ASSERT_OK_AND_ASSIGN(const OnnxImport import, ImportOnnxBytes(file));
  EXPECT_EQ(import.ir_version, 8);
  EXPECT_EQ(import.producer, "tests 1.2");
  EXPECT_EQ(import.opsets.at(""), 15);
  EXPECT_EQ(import.opsets.at("ai.onnx.ml"), 2);
  EXPECT_EQ(import.metadata.at("character"), "a\nb");
}

// ---- dims

std::string InputShape(const std::vector<OnnxDim>& dims) {
  const auto import =
      Import(OnnxGraph({OnnxNode("Relu", {"x"}, {"y"})}, {OnnxValue("x", kFloat, dims)}, {kY}));
  return import.ok() ? ToString(import->graph.value(import->graph.inputs()[0]).shape)
                     : import.status().ToString();
}

TEST(ImportDims, SaysNothingMakesAFreshSymbol) {
  EXPECT_EQ(InputShape({-1, "", "?", "?", "None", "unk__7", "unk__7", 3}),
            "[x_dim0, x_dim1, x_dim2, x_dim3, x_dim4, x_dim5, x_dim6, 3]");
}

TEST(ImportDims, SameNameIsSameSymbol) {
  EXPECT_EQ(InputShape({"batch", "seq", "batch"}), "[batch, seq, batch]");
}

TEST(ImportDims, OddNamesBecomeSymbolsAndStayApart) {
  EXPECT_EQ(InputShape({"p2o.Dim.0", "past + 1", "past - 1", "12"}),
            "[p2o_Dim_0, past___1, past___1_2, d12]");
}

TEST(ImportDims, ZeroIsAnExtent) { EXPECT_EQ(InputShape({0, 4}), "[0, 4]"); }

TEST(ImportDims, OptionsOverrideShapes) {
  OnnxImportOptions options;
  options.input_shapes["x"] = {2, 4};
  const std::string model = OnnxModel(17, OnnxGraph({OnnxNode("Relu", {"x"}, {"y"})}, {kX}, {kY}));
  KILN_ASSERT_OK_AND_ASSIGN(const OnnxImport import, ImportOnnxBytes(model, nullptr, options));
  EXPECT_EQ(ToString(import.graph.value(import.graph.inputs()[0]).shape), "[2, 4]");
  options.input_shapes["z"] = {1};
  EXPECT_THAT(ImportOnnxBytes(model, nullptr, options),
              StatusIs(kInvalid, HasSubstr("input \"z\"")));
}

// ---- constants

TEST(ImportConstants, InitializerThatIsAnInputIsAConstant) {
  KILN_ASSERT_OK_AND_ASSIGN(
      const OnnxImport import,
      Import(OnnxGraph({OnnxNode("Mul", {"x", "w"}, {"y"})}, {kX, OnnxValue("w", kFloat, {4})},
                       {kY}, {OnnxFloats("w", {1, 2, 3, 4})})));
  EXPECT_EQ(import.graph.inputs().size(), 1u);
  const ValueId w = import.graph.nodes()[0].inputs[1];
  ASSERT_TRUE(import.graph.value(w).constant.has_value());
  EXPECT_EQ(import.graph.value(w).name, "w");
  EXPECT_EQ(static_cast<const float*>(import.graph.value(w).constant->data())[3], 4.0f);
}

TEST(ImportConstants, ViewsTheFileWhereTheOwnerIsGiven) {
  // Padding in a name moves the raw data over all alignments: some are viewed, the others copied,
  // all are right.
  int viewed = 0;
  for (int pad = 0; pad < 4; ++pad) {
    auto file = std::make_shared<std::string>(
        OnnxModel(17, OnnxGraph({OnnxNode("Add", {"x", "w"}, {"y"})}, {kX}, {kY},
                                {OnnxFloats("w", {1, 2, 3, 4})})));
    *file = BytesField(2, std::string(static_cast<size_t>(pad), 'p')) + *file;
    KILN_ASSERT_OK_AND_ASSIGN(const OnnxImport import, ImportOnnxBytes(*file, file));
    const Tensor& w = *import.graph.value(import.graph.nodes()[0].inputs[1]).constant;
    const char* data = static_cast<const char*>(w.data());
    EXPECT_EQ(static_cast<const float*>(w.data())[2], 3.0f);
    viewed += data >= file->data() && data < file->data() + file->size() ? 1 : 0;
  }
  EXPECT_EQ(viewed, 1);
}

TEST(ImportConstants, TensorsOutliveTheImportOfAFile) {
  const TempDir dir;
  std::ofstream(dir.File("m.onnx"), std::ios::binary)
      << OnnxModel(17, OnnxGraph({OnnxNode("Add", {"x", "w"}, {"y"})}, {kX}, {kY},
                                 {OnnxFloats("w", {1, 2, 3, 4})}));
  Tensor w;
  {
    KILN_ASSERT_OK_AND_ASSIGN(const OnnxImport import, ImportOnnx(dir.File("m.onnx")));
    w = *import.graph.value(import.graph.nodes()[0].inputs[1]).constant;
  }
  EXPECT_EQ(static_cast<const float*>(w.data())[3], 4.0f);
}

TEST(ImportConstants, ReadsEveryFormOfConstantNode) {
  const std::vector<std::pair<std::string, std::string>> forms = {
      {TensorAttribute("value", OnnxFloats("", {5})), "[1]"},
      {FloatAttribute("value_float", 5), "[]"},
      {IntAttribute("value_int", 5), "[]"},
      {FloatsAttribute("value_floats", {5, 6}), "[2]"},
      {IntsAttribute("value_ints", {5, 6, 7}), "[3]"},
  };
  for (const auto& [attribute, shape] : forms) {
    KILN_ASSERT_OK_AND_ASSIGN(const OnnxImport import,
                              Import(OnnxGraph({OnnxNode("Constant", {}, {"c"}, {attribute}),
                                                OnnxNode("Neg", {"c"}, {"y"})},
                                               {}, {kY})));
    const Value& c = import.graph.value(import.graph.nodes()[0].inputs[0]);
    EXPECT_EQ(c.name, "c");
    EXPECT_EQ(ToString(c.shape), shape);
    ASSERT_TRUE(c.constant.has_value());
  }
}

// ---- what is refused

TEST(ImportErrors, ListsEveryUnsupportedNode) {
  const std::string graph =
      OnnxGraph({OnnxNode("NoSuchOp", {"x"}, {"a"}), OnnxNode("Relu", {"a"}, {"b"}),
                 OnnxNode("Unheard", {"b", "x"}, {"c"}, {}, "com.microsoft"),
                 OnnxNode("Cast", {"x"}, {"d"}, {IntAttribute("to", 17)}),
                 OnnxNode("Add", {"c", "d"}, {"y"})},
                {kX}, {kY});
  const auto import = Import(graph);
  EXPECT_EQ(import.status().code(), kUnimplemented);
  EXPECT_EQ(std::string(import.status().message()),
            "3 of 5 nodes not supported: node \"n_a\" (NoSuchOp, opset 17); node \"n_c\" "
            "(com.microsoft.Unheard, opset 0); "
            "node \"n_d\" (Cast, opset 17): element type float8e4m3fn is not supported");
  const TempDir dir;
  std::ofstream(dir.File("m.onnx"), std::ios::binary) << OnnxModel(17, graph);
  KILN_ASSERT_OK_AND_ASSIGN(const auto listed, ListUnsupported(dir.File("m.onnx")));
  ASSERT_EQ(listed.size(), 3u);
  EXPECT_EQ(listed[1].op, "com.microsoft.Unheard");
  EXPECT_EQ(listed[2].node, "n_d");
}

TEST(ImportErrors, NamesUnnamedNodesByTheirOutput) {
  const std::string node = BytesField(1, "x") + BytesField(2, "out") + BytesField(4, "NoSuchOp");
  EXPECT_THAT(Import(OnnxGraph({node}, {kX}, {OnnxValue("out")})),
              StatusIs(kUnimplemented, HasSubstr("node \"out\" (NoSuchOp, opset 17)")));
}

TEST(ImportErrors, IgnoresOperatorSetsThatNoNodeUses) {
  const std::string file = OnnxModel(17, OnnxGraph({OnnxNode("Relu", {"x"}, {"y"})}, {kX}, {kY})) +
                           BytesField(8, BytesField(1, "com.unknown") + NumberField(2, 99));
  KILN_EXPECT_OK(ImportOnnxBytes(file));
}

TEST(ImportErrors, RefusesModelsWithoutAnOperatorSet) {
  EXPECT_THAT(
      ImportOnnxBytes(OnnxModel(0, OnnxGraph({OnnxNode("Relu", {"x"}, {"y"})}, {kX}, {kY}))),
      StatusIs(kUnimplemented, HasSubstr("node \"n_y\" (Relu, opset 0): the model does not say")));
}

TEST(Import, ReadsOldOperatorSets) {
  KILN_EXPECT_OK(
      ImportOnnxBytes(OnnxModel(1, OnnxGraph({OnnxNode("Relu", {"x"}, {"y"})}, {kX}, {kY}))));
}

TEST(ImportErrors, RefusesAttributesItDoesNotKnow) {
  EXPECT_THAT(Import(OnnxGraph({OnnxNode("Relu", {"x"}, {"y"}, {IntAttribute("new_meaning", 1)})},
                               {kX}, {kY})),
              StatusIs(kUnimplemented, HasSubstr("attribute \"new_meaning\" is not known")));
}

TEST(ImportErrors, RefusesAttributesOfAnotherType) {
  EXPECT_THAT(
      Import(OnnxGraph({OnnxNode("Elu", {"x"}, {"y"}, {IntAttribute("alpha", 1)})}, {kX}, {kY})),
      StatusIs(kInvalid, HasSubstr("node \"n_y\" (Elu): attribute \"alpha\" has type 2")));
}

TEST(ImportErrors, RefusesWhatIsNotSorted) {
  EXPECT_THAT(Import(OnnxGraph({OnnxNode("Neg", {"a"}, {"y"}), OnnxNode("Relu", {"x"}, {"a"})},
                               {kX}, {kY})),
              StatusIs(kInvalid, HasSubstr("node \"n_y\" (Neg): input \"a\" is no graph input, no "
                                           "initializer and no output of an "
                                           "earlier node; nodes must be in topological order")));
}

TEST(ImportErrors, RefusesNamesDefinedTwice) {
  EXPECT_THAT(Import(OnnxGraph({OnnxNode("Relu", {"x"}, {"y"}), OnnxNode("Neg", {"x"}, {"y"})},
                               {kX}, {kY})),
              StatusIs(kInvalid, HasSubstr("value \"y\": is defined twice")));
  EXPECT_THAT(Import(OnnxGraph({OnnxNode("Relu", {"x"}, {"x"})}, {kX}, {OnnxValue("x")})),
              StatusIs(kInvalid, HasSubstr("twice")));
  EXPECT_THAT(Import(OnnxGraph({OnnxNode("Relu", {"x"}, {"y"})}, {kX, kX}, {kY})),
              StatusIs(kInvalid, HasSubstr("listed twice")));
  EXPECT_THAT(Import(OnnxGraph({OnnxNode("Relu", {"x"}, {"y"})}, {kX}, {kY},
                               {OnnxFloats("w", {1}), OnnxFloats("w", {1})})),
              StatusIs(kInvalid, HasSubstr("initializer \"w\": is defined twice")));
}

TEST(ImportErrors, RefusesOutputsThatNoNodeMakes) {
  EXPECT_THAT(Import(OnnxGraph({OnnxNode("Relu", {"x"}, {"a"})}, {kX}, {kY})),
              StatusIs(kInvalid, HasSubstr("output \"y\": no node makes it")));
  EXPECT_THAT(Import(OnnxGraph({OnnxNode("Relu", {"x"}, {"a"})}, {kX}, {})),
              StatusIs(kInvalid, HasSubstr("no outputs")));
}

TEST(ImportErrors, RefusesOutputsOfAnotherType) {
  EXPECT_THAT(
      Import(OnnxGraph({OnnxNode("Relu", {"x"}, {"y"})}, {kX}, {OnnxValue("y", kInt64, {})})),
      StatusIs(kInvalid, HasSubstr("output \"y\": is declared as i64, but its node makes f32")));
}

TEST(Import, WarnsOfADeclaredShapeThatIsNotMade) {
  const auto warnings = [](const std::string& x, const std::string& y) {
    const CapturedLog log;
    KILN_EXPECT_OK(Import(OnnxGraph({OnnxNode("Relu", {"x"}, {"y"})}, {x}, {y})).status());
    std::string text;
    for (const auto& [level, line] : log.lines) text += line + "\n";
    return text;
  };
  EXPECT_THAT(warnings(OnnxValue("x", kFloat, {3, 4}), OnnxValue("y", kFloat, {3, 5})),
              HasSubstr("output \"y\": is declared as [3, 5], but its node makes [3, 4]"));
  EXPECT_THAT(warnings(OnnxValue("x", kFloat, {3, 4}), OnnxValue("y", kFloat, {12})),
              HasSubstr("is declared as [12], but its node makes [3, 4]"));
  EXPECT_EQ(warnings(OnnxValue("x", kFloat, {3, "n"}), OnnxValue("y", kFloat, {3, "m"})), "");
  EXPECT_EQ(warnings(OnnxValue("x", kFloat, {3, "n"}), OnnxValue("y", kFloat, {"k", 4})), "");
}

TEST(ImportErrors, NamesInputsThatAreNoTensors) {
  const std::string sequence = BytesField(1, "x") + BytesField(2, BytesField(4, ""));
  EXPECT_THAT(Import(OnnxGraph({OnnxNode("Relu", {"x"}, {"y"})}, {sequence}, {kY})),
              StatusIs(kUnimplemented, HasSubstr("input \"x\": is no tensor")));
  EXPECT_THAT(
      Import(OnnxGraph({OnnxNode("Relu", {"x"}, {"y"})}, {OnnxValue("x", kString, {1})}, {kY})),
      StatusIs(kUnimplemented, HasSubstr("input \"x\": element type string is not supported")));
  const std::string shapeless =
      BytesField(1, "x") + BytesField(2, BytesField(1, NumberField(1, kFloat)));
  EXPECT_THAT(Import(OnnxGraph({OnnxNode("Relu", {"x"}, {"y"})}, {shapeless}, {kY})),
              StatusIs(kUnimplemented, HasSubstr("no shape")));
}

TEST(ImportErrors, StringInitializerMattersOnlyToItsUsers) {
  const std::string text =
      NumberField(1, 1) + NumberField(2, kString) + BytesField(6, "hello") + BytesField(8, "s");
  KILN_EXPECT_OK(Import(OnnxGraph({OnnxNode("Relu", {"x"}, {"y"})}, {kX}, {kY}, {text})));
  EXPECT_THAT(
      Import(OnnxGraph({OnnxNode("Identity", {"s"}, {"y"})}, {kX}, {kY}, {text})),
      StatusIs(
          kUnimplemented,
          HasSubstr("node \"n_y\" (Identity, opset 17): initializer \"s\": element type string")));
}

TEST(ImportErrors, NamesTheNodeOnceWhereTypesDoNotFit) {
  const auto import = Import(
      OnnxGraph({OnnxNode("Add", {"x", "i"}, {"y"})}, {kX, OnnxValue("i", kInt64, {4})}, {kY}));
  EXPECT_THAT(import, StatusIs(kInvalid, HasSubstr("node \"n_y\" (Add): ")));
  EXPECT_THAT(import, StatusIs(kInvalid, Not(HasSubstr("(add)"))));
}

TEST(ImportErrors, EscapesOddNames) {
  EXPECT_THAT(Import(OnnxGraph({OnnxNode("No\nOp", {"x"}, {"y"})}, {kX}, {kY})),
              StatusIs(kUnimplemented, HasSubstr("(No\\nOp, opset 17)")));
}

TEST(ImportErrors, CountsInputs) {
  EXPECT_THAT(Import(OnnxGraph({OnnxNode("Relu", {"x", "x"}, {"y"})}, {kX}, {kY})),
              StatusIs(kInvalid, HasSubstr("has 2 inputs, expected 1")));
  EXPECT_THAT(Import(OnnxGraph({OnnxNode("Add", {"x", ""}, {"y"})}, {kX}, {kY})),
              StatusIs(kInvalid, HasSubstr("input 1 is left out")));
}

}  // namespace
}  // namespace kiln
