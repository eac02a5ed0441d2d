// SPDX-License-Identifier: Apache-2.0
// The forms that an operator has had over the operator sets come out as the same graph.
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "graph/onnx/import.h"
#include "graph/op.h"
#include "graph/reference/interpreter.h"
#include "graph/tensors.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"
#include "tests/graph/tensors.h"
#include "tests/onnx/model_writer.h"

namespace kiln {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;

const std::string kX = OnnxValue("x", kFloat, {2, 3, 4});
const std::string kImage = OnnxValue("x", kFloat, {"n", 4, 8, 6});

absl::StatusOr<OnnxImport> Import(int opset, const std::string& node, const std::string& input = kX,
                                  const std::vector<std::string>& initializers = {}) {
  std::vector<std::string> outputs = {OnnxValue("y")};
  return ImportOnnxBytes(OnnxModel(opset, OnnxGraph({node}, {input}, outputs, initializers)));
}

// The ops of a graph and the shape of its output: "relu neg -> [2, 3]".
std::string Summary(const absl::StatusOr<OnnxImport>& import) {
  if (!import.ok()) return import.status().ToString();
  EXPECT_THAT(Verify(import->graph), IsOk());
  std::string text;
  for (const Node& node : import->graph.nodes()) absl::StrAppend(&text, node.op->name, " ");
  return absl::StrCat(text, "-> ",
                      ToString(import->graph.value(import->graph.outputs()[0].value).shape));
}

TEST(Opsets, OldBroadcastsFollowTheAxis) {
  const std::string add =
      OnnxNode("Add", {"x", "b"}, {"y"}, {IntAttribute("broadcast", 1), IntAttribute("axis", 1)});
  EXPECT_EQ(Summary(Import(6, add, kX, {OnnxFloats("b", {1, 2, 3})})),
            "unsqueeze add -> [2, 3, 4]");
  const std::string last = OnnxNode("Add", {"x", "b"}, {"y"}, {IntAttribute("broadcast", 1)});
  EXPECT_EQ(Summary(Import(6, last, kX, {OnnxFloats("b", {1, 2, 3, 4})})), "add -> [2, 3, 4]");
  const std::string wrong =
      OnnxNode("Add", {"x", "b"}, {"y"}, {IntAttribute("broadcast", 1), IntAttribute("axis", 7)});
  EXPECT_THAT(Import(6, wrong, kX, {OnnxFloats("b", {1, 2, 3})}),
              StatusIs(kInvalid, HasSubstr("axis 7")));
  EXPECT_EQ(
      Summary(Import(6, OnnxNode("PRelu", {"x", "b"}, {"y"}), kX, {OnnxFloats("b", {1, 2, 3})})),
      "unsqueeze prelu -> [2, 3, 4]");
}

TEST(Opsets, ReduceTakesAxesAsAttributeOrInput) {
  const std::string by_attribute =
      OnnxNode("ReduceSum", {"x"}, {"y"}, {IntsAttribute("axes", {1, -1})});
  EXPECT_EQ(Summary(Import(11, by_attribute)), "reduce_sum -> [2, 1, 1]");
  const std::string by_input =
      OnnxNode("ReduceSum", {"x", "a"}, {"y"}, {IntAttribute("keepdims", 0)});
  EXPECT_EQ(Summary(Import(13, by_input, kX, {OnnxInts("a", {1, -1})})), "reduce_sum -> [2]");
  EXPECT_EQ(Summary(Import(18, OnnxNode("ReduceMax", {"x", ""}, {"y"}))),
            "reduce_max -> [1, 1, 1]");
  const std::string noop =
      OnnxNode("ReduceMean", {"x"}, {"y"}, {IntAttribute("noop_with_empty_axes", 1)});
  EXPECT_EQ(Summary(Import(18, noop)), "identity -> [2, 3, 4]");
  EXPECT_EQ(Summary(Import(18, noop, kX)), "identity -> [2, 3, 4]");
}

TEST(Opsets, ReduceRefusesAxesThatAreNone) {
  EXPECT_THAT(Import(11, OnnxNode("ReduceSum", {"x"}, {"y"}, {IntsAttribute("axes", {3})})),
              StatusIs(kInvalid, HasSubstr("node \"n_y\" (ReduceSum): axis 3 is outside [-3, 2]")));
  EXPECT_THAT(Import(11, OnnxNode("ReduceSum", {"x"}, {"y"}, {IntsAttribute("axes", {0, -3})})),
              StatusIs(kInvalid, HasSubstr("axis 0 is given twice")));
}

TEST(Opsets, OperandsKnownOnlyAtRunTimeAreNamed) {
  const std::string graph = OnnxGraph({OnnxNode("ReduceSum", {"x", "a"}, {"y"})},
                                      {kX, OnnxValue("a", kInt64, {1})}, {OnnxValue("y")});
  EXPECT_THAT(
      ImportOnnxBytes(OnnxModel(13, graph)),
      StatusIs(
          kUnimplemented,
          HasSubstr("(ReduceSum, opset 13): the value of \"a\" must be known when the model")));
}

TEST(Opsets, OperandsMayBeGivenForOneImport) {
  const std::string graph = OnnxGraph({OnnxNode("ReduceSum", {"x", "a"}, {"y"})},
                                      {kX, OnnxValue("a", kInt64, {1})}, {OnnxValue("y")});
  Tensor axes = Tensor::Allocate(DType::kI64, {1});
  *static_cast<int64_t*>(axes.data()) = 1;
  OnnxImportOptions options;
  options.input_values["a"] = axes;
  const auto import = ImportOnnxBytes(OnnxModel(13, graph), nullptr, options);
  EXPECT_EQ(Summary(import), "reduce_sum -> [2, 1, 4]");
  ASSERT_EQ(import->graph.guards().size(), 1u);
  EXPECT_EQ(import->graph.guards()[0].ToString(), "value a == 0100000000000000");
  EXPECT_EQ(import->graph.inputs().size(), 2u);
  options.input_values["b"] = axes;
  EXPECT_THAT(ImportOnnxBytes(OnnxModel(13, graph), nullptr, options),
              StatusIs(kInvalid, HasSubstr("input \"b\"")));
}

TEST(Opsets, LayerNormalizationGivesMeanAndDeviation) {
  const std::string node =
      OnnxNode("LayerNormalization", {"x", "s"}, {"n", "", "y"}, {IntAttribute("axis", 1)});
  const auto import =
      Import(17, node, kX, {OnnxTensor("s", kFloat, {3, 4}, std::string(48, '\0'))});
  ASSERT_THAT(import, IsOk());
  EXPECT_EQ(ToString(import->graph.value(import->graph.outputs()[0].value).shape), "[2, 1, 1]");
}

TEST(Opsets, ClipTakesBoundsAsAttributesOrInputs) {
  EXPECT_EQ(Summary(Import(7, OnnxNode("Clip", {"x"}, {"y"},
                                       {FloatAttribute("min", 0), FloatAttribute("max", 6)}))),
            "clip -> [2, 3, 4]");
  const std::vector<std::string> bound = {OnnxTensor("b", kFloat, {}, RawBytes<float>({6}))};
  EXPECT_EQ(Summary(Import(13, OnnxNode("Clip", {"x", "", "b"}, {"y"}), kX, bound)),
            "clip -> [2, 3, 4]");
  EXPECT_EQ(Summary(Import(13, OnnxNode("Clip", {"x", "b"}, {"y"}), kX, bound)),
            "clip -> [2, 3, 4]");
  EXPECT_EQ(Summary(Import(13, OnnxNode("Clip", {"x"}, {"y"}))), "clip -> [2, 3, 4]");
}

TEST(Opsets, OldSoftmaxSeesAMatrix) {
  EXPECT_EQ(Summary(Import(12, OnnxNode("Softmax", {"x"}, {"y"}))),
            "flatten softmax reshape -> [2, 3, 4]");
  EXPECT_EQ(Summary(Import(12, OnnxNode("Softmax", {"x"}, {"y"}, {IntAttribute("axis", 2)}))),
            "softmax -> [2, 3, 4]");
  EXPECT_EQ(Summary(Import(13, OnnxNode("Softmax", {"x"}, {"y"}, {IntAttribute("axis", 1)}))),
            "softmax -> [2, 3, 4]");
  EXPECT_EQ(Summary(Import(13, OnnxNode("LogSoftmax", {"x"}, {"y"}))), "log_softmax -> [2, 3, 4]");
}

TEST(Opsets, SqueezeAndUnsqueezeTakeAxesAsAttributeOrInput) {
  const std::string thin = OnnxValue("x", kFloat, {1, 3, 1});
  EXPECT_EQ(
      Summary(Import(11, OnnxNode("Squeeze", {"x"}, {"y"}, {IntsAttribute("axes", {0})}), thin)),
      "squeeze -> [3, 1]");
  EXPECT_EQ(
      Summary(Import(13, OnnxNode("Squeeze", {"x", "a"}, {"y"}), thin, {OnnxInts("a", {-1})})),
      "squeeze -> [1, 3]");
  EXPECT_EQ(Summary(Import(13, OnnxNode("Squeeze", {"x"}, {"y"}), thin)), "squeeze -> [3]");
  EXPECT_EQ(
      Summary(Import(11, OnnxNode("Unsqueeze", {"x"}, {"y"}, {IntsAttribute("axes", {0, 4})}))),
      "unsqueeze -> [1, 2, 3, 4, 1]");
  EXPECT_EQ(
      Summary(Import(13, OnnxNode("Unsqueeze", {"x", "a"}, {"y"}), kX, {OnnxInts("a", {-1})})),
      "unsqueeze -> [2, 3, 4, 1]");
}

TEST(Opsets, SliceTakesBoundsAsAttributesOrInputs) {
  EXPECT_EQ(Summary(Import(9, OnnxNode("Slice", {"x"}, {"y"},
                                       {IntsAttribute("starts", {1}), IntsAttribute("ends", {1000}),
                                        IntsAttribute("axes", {2})}))),
            "slice -> [2, 3, 3]");
  EXPECT_EQ(Summary(Import(
                13, OnnxNode("Slice", {"x", "s", "e", "", "p"}, {"y"}), kX,
                {OnnxInts("s", {0, -1, 0}), OnnxInts("e", {2, -9, 4}), OnnxInts("p", {1, -1, 2})})),
            "slice -> [2, 3, 2]");
}

TEST(Opsets, SliceToAFarEndKeepsTheExtent) {
  const auto import = Import(13, OnnxNode("Slice", {"x", "s", "e", "a"}, {"y"}), kImage,
                             {OnnxInts("s", {0}), OnnxInts("e", {1000000000}), OnnxInts("a", {0})});
  EXPECT_EQ(Summary(import), "slice -> [n, 4, 8, 6]");
  ASSERT_EQ(import->graph.guards().size(), 1u);
}

TEST(Opsets, SplitTakesSizesAsAttributeInputOrCount) {
  const auto split = [](const std::string& node, int opset,
                        const std::vector<std::string>& initializers = {}) {
    const auto import = ImportOnnxBytes(OnnxModel(
        opset, OnnxGraph({node, OnnxNode("Concat", {"b", "a"}, {"y"}, {IntAttribute("axis", 2)})},
                         {kX}, {OnnxValue("y")}, initializers)));
    std::string text = Summary(import);
    if (import.ok()) {
      absl::StrAppend(&text, " b ",
                      ToString(import->graph.value(import->graph.nodes()[0].outputs[1]).shape));
    }
    return text;
  };
  EXPECT_EQ(split(OnnxNode("Split", {"x"}, {"a", "b"},
                           {IntAttribute("axis", 2), IntsAttribute("split", {1, 3})}),
                  11),
            "split concat -> [2, 3, 4] b [2, 3, 3]");
  EXPECT_EQ(split(OnnxNode("Split", {"x", "s"}, {"a", "b"}, {IntAttribute("axis", 2)}), 13,
                  {OnnxInts("s", {3, 1})}),
            "split concat -> [2, 3, 4] b [2, 3, 1]");
  EXPECT_EQ(split(OnnxNode("Split", {"x"}, {"a", "b"},
                           {IntAttribute("axis", 2), IntAttribute("num_outputs", 2)}),
                  18),
            "split concat -> [2, 3, 4] b [2, 3, 2]");
}

TEST(Opsets, SplitTakesManySizes) {
  std::vector<std::string> parts;
  std::vector<int64_t> sizes;
  for (int i = 0; i < 3000; ++i) {
    parts.push_back(absl::StrCat("p", i));
    sizes.push_back(1 + i % 2);
  }
  const auto import =
      ImportOnnxBytes(OnnxModel(18, OnnxGraph({OnnxNode("Split", {"x", "s"}, parts)},
                                              {OnnxValue("x", kFloat, {int64_t{4500}})},
                                              {OnnxValue("p2999")}, {OnnxInts("s", sizes)})));
  EXPECT_EQ(Summary(import), "split -> [2]");
}

TEST(Opsets, PadTakesAmountsAsAttributeOrInput) {
  EXPECT_EQ(Summary(Import(
                10, OnnxNode("Pad", {"x"}, {"y"}, {IntsAttribute("pads", {0, 1, 0, 0, 2, 0})}))),
            "pad -> [2, 6, 4]");
  EXPECT_EQ(Summary(Import(13, OnnxNode("Pad", {"x", "p"}, {"y"}), kX,
                           {OnnxInts("p", {0, 0, 1, 0, 0, 1})})),
            "pad -> [2, 3, 6]");
  // Elements of the input itself are gathered, axis by axis.
  EXPECT_THAT(
      Summary(Import(
          18, OnnxNode("Pad", {"x", "p", "", "a"}, {"y"}, {TextAttribute("mode", "reflect")}), kX,
          {OnnxInts("p", {1, 1}), OnnxInts("a", {-1})})),
      EndsWith("gather identity -> [2, 3, 6]"));
  EXPECT_THAT(
      Summary(Import(18, OnnxNode("Pad", {"x", "p"}, {"y"}, {TextAttribute("mode", "edge")}), kX,
                     {OnnxInts("p", {0, 1, 0, 2, 0, 3})})),
      EndsWith("gather identity -> [4, 4, 7]"));
  EXPECT_THAT(
      Summary(Import(18, OnnxNode("Pad", {"x", "p"}, {"y"}, {TextAttribute("mode", "wrap")}), kX,
                     {OnnxInts("p", {5, 0, 0, 0, 0, 0})})),
      EndsWith("gather identity -> [7, 3, 4]"));
}

TEST(Opsets, DropoutPassesItsInput) {
  EXPECT_EQ(Summary(Import(7, OnnxNode("Dropout", {"x"}, {"y"}, {FloatAttribute("ratio", 0.5f)}))),
            "identity -> [2, 3, 4]");
  EXPECT_EQ(
      Summary(Import(13, OnnxNode("Dropout", {"x", "r"}, {"y"}), kX, {OnnxFloats("r", {0.5f})})),
      "identity -> [2, 3, 4]");
  const std::string training = OnnxTensor("t", kBool, {}, "\x01");
  EXPECT_EQ(Summary(Import(13, OnnxNode("Dropout", {"x", "", "t"}, {"y"}), kX, {training})),
            "dropout -> [2, 3, 4]");
}

// Nodes that do not say a seed have numbers of their own, which are the same in every import.
TEST(Opsets, RandomNumbersAreOfTheirNode) {
  const std::string shape = IntsAttribute("shape", {2, 3});
  EXPECT_EQ(Summary(Import(1, OnnxNode("RandomNormal", {}, {"y"}, {shape}))),
            "random_normal -> [2, 3]");
  EXPECT_EQ(Summary(Import(22, OnnxNode("RandomUniformLike", {"x"}, {"y"}), kImage)),
            "random_uniform -> [n, 4, 8, 6]");
  EXPECT_EQ(
      Summary(Import(15, OnnxNode("Bernoulli", {"x"}, {"y"}, {IntAttribute("dtype", kBool)}))),
      "bernoulli -> [2, 3, 4]");
  EXPECT_EQ(
      Summary(Import(15, OnnxNode("Multinomial", {"x"}, {"y"}, {IntAttribute("sample_size", 5)}),
                     OnnxValue("x", kFloat, {"n", 7}))),
      "multinomial -> [n, 5]");
  EXPECT_THAT(
      Import(1, OnnxNode("RandomUniform", {}, {"y"}, {shape, IntAttribute("dtype", kInt32)})),
      StatusIs(kInvalid, HasSubstr("type is i32")));

  const auto streams = [&](std::vector<Attrs>* all) {
    const std::string model = OnnxModel(
        22, OnnxGraph({OnnxNode("RandomNormal", {}, {"y"}, {shape}),
                       OnnxNode("RandomNormal", {}, {"z"}, {shape, FloatAttribute("seed", 2)})},
                      {}, {OnnxValue("y"), OnnxValue("z")}));
    KILN_ASSERT_OK_AND_ASSIGN(const OnnxImport import, ImportOnnxBytes(model));
    for (const Node& node : import.graph.nodes()) all->push_back(node.attrs);
  };
  std::vector<Attrs> first, again;
  streams(&first);
  streams(&again);
  ASSERT_EQ(first.size(), 2u);
  const auto number = [](const Attrs& attrs, const char* name) {
    return *std::get_if<int64_t>(&attrs.at(name));
  };
  EXPECT_NE(number(first[0], "stream"), number(first[1], "stream"));
  EXPECT_NE(number(first[0], "seed"), number(first[1], "seed"));
  for (size_t k = 0; k < 2; ++k) EXPECT_EQ(number(first[k], "stream"), number(again[k], "stream"));
}

TEST(Opsets, BatchNormalizationUsesGivenStatisticsOrThoseOfTheBatch) {
  const std::vector<std::string> c = {OnnxFloats("c", {1, 2, 3, 4})};
  EXPECT_EQ(Summary(Import(15,
                           OnnxNode("BatchNormalization", {"x", "c", "c", "c", "c"}, {"y"},
                                    {FloatAttribute("momentum", 0.9f)}),
                           kImage, c)),
            "batch_norm -> [n, 4, 8, 6]");
  EXPECT_THAT(Summary(Import(15,
                             OnnxNode("BatchNormalization", {"x", "c", "c", "c", "c"}, {"y"},
                                      {IntAttribute("training_mode", 1)}),
                             kImage, c)),
              EndsWith("squeeze squeeze batch_norm -> [n, 4, 8, 6]"));
  // Before the attribute, naming the running statistics said it, read or not.
  const std::string named =
      OnnxNode("BatchNormalization", {"x", "c", "c", "c", "c"}, {"y", "mean", "variance"});
  EXPECT_THAT(Import(9, named, kImage, c), StatusIs(kUnimplemented, HasSubstr("training mode")));
  // An output that nothing reads need not be supported.
  EXPECT_EQ(Summary(Import(15, named, kImage, c)), "batch_norm -> [n, 4, 8, 6]");
}

TEST(Opsets, ShapeTakesARange) {
  EXPECT_EQ(Summary(Import(13, OnnxNode("Shape", {"x"}, {"y"}))), "shape -> [3]");
  EXPECT_EQ(Summary(Import(15, OnnxNode("Shape", {"x"}, {"y"},
                                        {IntAttribute("start", -2), IntAttribute("end", 7)}))),
            "shape -> [2]");
  EXPECT_EQ(Summary(Import(15, OnnxNode("Shape", {"x"}, {"y"},
                                        {IntAttribute("start", 2), IntAttribute("end", 1)}))),
            "shape -> [0]");
}

TEST(Opsets, ReshapeChainsOfShapeArithmeticVanish) {
  const std::string graph =
      OnnxGraph({OnnxNode("Shape", {"x"}, {"s"}), OnnxNode("Gather", {"s", "zero"}, {"n"}),
                 OnnxNode("Unsqueeze", {"n", "axis"}, {"n1"}),
                 OnnxNode("Concat", {"n1", "rest"}, {"t"}, {IntAttribute("axis", 0)}),
                 OnnxNode("Reshape", {"x", "t"}, {"y"})},
                {kImage}, {OnnxValue("y")},
                {OnnxTensor("zero", kInt64, {}, RawBytes<int64_t>({0})), OnnxInts("axis", {0}),
                 OnnxInts("rest", {-1})});
  EXPECT_EQ(Summary(ImportOnnxBytes(OnnxModel(13, graph))), "reshape -> [n, 192]");
}

TEST(Opsets, ConvReadsPaddingByName) {
  const std::vector<std::string> w = {
      OnnxTensor("w", kFloat, {4, 4, 3, 3}, std::string(4 * 144, '\0'))};
  const auto conv = [&](const std::vector<std::string>& attributes) {
    return Summary(Import(13, OnnxNode("Conv", {"x", "w"}, {"y"}, attributes), kImage, w));
  };
  EXPECT_EQ(conv({}), "conv -> [n, 4, 6, 4]");
  EXPECT_EQ(conv({IntsAttribute("pads", {1, 0, 1, 0})}), "conv -> [n, 4, 8, 4]");
  EXPECT_EQ(conv({TextAttribute("auto_pad", "SAME_UPPER")}), "conv -> [n, 4, 8, 6]");
  EXPECT_EQ(conv({TextAttribute("auto_pad", "SAME_LOWER"), IntsAttribute("strides", {2, 4})}),
            "conv -> [n, 4, 4, 2]");
  EXPECT_EQ(conv({TextAttribute("auto_pad", "VALID"), IntsAttribute("strides", {2, 2})}),
            "conv -> [n, 4, 3, 2]");
  EXPECT_THAT(conv({IntsAttribute("strides", {0, 1})}), HasSubstr("must be at least 1"));
  EXPECT_THAT(
      conv({IntsAttribute("strides", {1})}),
      HasSubstr("node \"n_y\" (Conv): kernel, strides, dilations and pads have 2, 1, 2 and 4"));
  EXPECT_THAT(conv({IntsAttribute("kernel_shape", {5, 5})}), HasSubstr("differs from the weight"));
}

TEST(Opsets, ResizeTakesScalesOfAllKinds) {
  const std::vector<std::string> floor = {
      TextAttribute("coordinate_transformation_mode", "asymmetric"),
      TextAttribute("nearest_mode", "floor")};
  const std::vector<std::string> scales = {OnnxFloats("s", {1, 1, 2, 3})};
  const auto shape = [](const absl::StatusOr<OnnxImport>& import) {
    if (!import.ok()) return import.status().ToString();
    return ToString(import->graph.value(import->graph.outputs()[0].value).shape);
  };
  EXPECT_EQ(shape(Import(13, OnnxNode("Resize", {"x", "", "s"}, {"y"}, floor), kImage, scales)),
            "[n, 4, 16, 18]");
  EXPECT_EQ(shape(Import(10, OnnxNode("Resize", {"x", "s"}, {"y"}), kImage, scales)),
            "[n, 4, 16, 18]");
  EXPECT_EQ(shape(Import(9, OnnxNode("Upsample", {"x", "s"}, {"y"}), kImage, scales)),
            "[n, 4, 16, 18]");
  EXPECT_EQ(
      shape(Import(13, OnnxNode("Resize", {"x", "", "s"}, {"y"}, {TextAttribute("mode", "linear")}),
                   kImage, scales)),
      "[n, 4, 16, 18]");
  EXPECT_EQ(shape(Import(13, OnnxNode("Resize", {"x", "", "s"}, {"y"}, floor), kImage,
                         {OnnxFloats("s", {0.5f, 1, 2.5f, 0.4f})})),
            "[n/2, 4, 20, 2]");
}

TEST(Opsets, BlocksAndTilesAreMovedByReshapes) {
  EXPECT_EQ(
      Summary(Import(13, OnnxNode("DepthToSpace", {"x"}, {"y"}, {IntAttribute("blocksize", 2)}),
                     kImage)),
      "reshape transpose reshape -> [n, 1, 16, 12]");
  EXPECT_EQ(
      Summary(Import(13, OnnxNode("SpaceToDepth", {"x"}, {"y"}, {IntAttribute("blocksize", 2)}),
                     kImage)),
      "reshape transpose reshape -> [n, 16, 4, 3]");
  EXPECT_EQ(
      Summary(Import(13, OnnxNode("Tile", {"x", "r"}, {"y"}), kX, {OnnxInts("r", {1, 2, 1})})),
      "reshape expand reshape -> [2, 6, 4]");
}

// The last window may reach beyond the padded input, but does not begin behind the input.
TEST(Opsets, LpPoolHasTheExtentsOfMaxPoolInCeilMode) {
  const auto pool = [](const char* op, int extent, const std::vector<std::string>& attributes) {
    const std::string text = Summary(
        Import(18, OnnxNode(op, {"x"}, {"y"}, attributes), OnnxValue("x", kFloat, {1, 1, extent})));
    return text.substr(text.find("->"));
  };
  for (int i = 0; i < 5 * 3 * 4 * 2 * 5; ++i) {
    const int64_t kernel = 1 + i % 3, stride = 1 + i / 3 % 4, dilation = 1 + i / 12 % 2;
    const int extent = 5 + i / 24 % 5, pads = i / 120;
    std::vector<std::string> attributes = {
        IntsAttribute("kernel_shape", {kernel}), IntsAttribute("strides", {stride}),
        IntsAttribute("dilations", {dilation}), IntAttribute("ceil_mode", 1)};
    attributes.push_back(pads == 0   ? TextAttribute("auto_pad", "VALID")
                         : pads == 1 ? TextAttribute("auto_pad", "SAME_UPPER")
                                     : IntsAttribute("pads", {pads % 2, pads / 3}));
    EXPECT_EQ(pool("LpPool", extent, attributes), pool("MaxPool", extent, attributes))
        << extent << " kernel " << kernel << " stride " << stride << " dilation " << dilation
        << " padding " << pads;
  }
}

TEST(Opsets, LayerNormalizationGivesStatisticsInTheStashType) {
  const auto types = [](int x, int stash) {
    const std::string node = OnnxNode("LayerNormalization", {"x", "s"}, {"z", "y", "d"},
                                      {IntAttribute("stash_type", stash)});
    const auto import = ImportOnnxBytes(
        OnnxModel(17, OnnxGraph({node}, {OnnxValue("x", x, {2, 3}), OnnxValue("s", x, {3})},
                                {OnnxValue("z"), OnnxValue("y"), OnnxValue("d")})));
    if (!import.ok()) return import.status().ToString();
    std::string text;
    for (const Graph::Output& output : import->graph.outputs())
      absl::StrAppend(&text, Name(import->graph.value(output.value).type), " ");
    return text;
  };
  constexpr int kHalf = 10, kDouble = 11, kBfloat = 16;
  EXPECT_EQ(types(kFloat, kFloat), "f32 f32 f32 ");
  EXPECT_EQ(types(kHalf, kFloat), "f16 f32 f32 ");
  EXPECT_EQ(types(kDouble, kFloat), "f64 f32 f32 ");
  EXPECT_EQ(types(kFloat, kBfloat), "f32 bf16 bf16 ");
  EXPECT_THAT(types(kFloat, kInt64), HasSubstr("stash_type"));
}

// Scale and bias are applied before the one rounding to 16 bits.
TEST(Opsets, GroupNormalizationRoundsOnce) {
  constexpr int kHalf = 10;
  const auto import = ImportOnnxBytes(
      OnnxModel(21, OnnxGraph({OnnxNode("GroupNormalization", {"x", "s", "b"}, {"y"},
                                        {IntAttribute("num_groups", 2)})},
                              {OnnxValue("x", kHalf, {2, 4, 5}), OnnxValue("s", kHalf, {4}),
                               OnnxValue("b", kHalf, {4})},
                              {OnnxValue("y")})));
  ASSERT_THAT(import, IsOk());
  const Graph& graph = import->graph;
  int narrow = 0;
  for (const Node& node : graph.nodes()) narrow += graph.value(node.outputs[0]).type == DType::kF16;
  EXPECT_EQ(narrow, 1);
  EXPECT_EQ(graph.value(graph.outputs()[0].value).type, DType::kF16);
}

// Query i sees the keys up to i and those of the past, however many keys there are.
TEST(Opsets, CausalAttentionCountsFromTheFirstQuery) {
  const auto rows = [](int queries, int keys, int past) {
    std::vector<std::string> names = {"q", "k", "v"};
    std::vector<std::string> ports = {OnnxValue("q", kFloat, {1, queries, 1}),
                                      OnnxValue("k", kFloat, {1, keys, 1}),
                                      OnnxValue("v", kFloat, {1, keys, 1})};
    if (past > 0) {
      for (const char* name : {"", "", "", "pk", "pv"}) names.push_back(name);
      ports.push_back(OnnxValue("pk", kFloat, {1, 1, past, 1}));
      ports.push_back(OnnxValue("pv", kFloat, {1, 1, past, 1}));
    }
    const std::string node = OnnxNode(
        "MultiHeadAttention", names, {"y"},
        {IntAttribute("num_heads", 1), IntAttribute("unidirectional", 1)}, "com.microsoft");
    const std::string domain = BytesField(8, BytesField(1, "com.microsoft") + NumberField(2, 1));
    const auto import =
        ImportOnnxBytes(OnnxModel(17, OnnxGraph({node}, ports, {OnnxValue("y")})) + domain);
    if (!import.ok()) return std::vector<double>{};
    std::vector<Tensor> inputs = {FilledTensor(DType::kF32, {1, queries, 1}, 0),
                                  FilledTensor(DType::kF32, {1, keys, 1}, 0)};
    std::vector<double> values;
    for (int i = 0; i < keys; ++i) values.push_back(i + 1);
    inputs.push_back(Make(DType::kF32, {1, keys, 1}, values));
    if (past > 0) {
      inputs.push_back(FilledTensor(DType::kF32, {1, 1, past, 1}, 0));
      inputs.push_back(FilledTensor(DType::kF32, {1, 1, past, 1}, 0));
    }
    const auto outputs = Interpret(import->graph, inputs);
    return outputs.ok() ? Values((*outputs)[0]) : std::vector<double>{};
  };
  EXPECT_THAT(rows(3, 3, 0), ElementsAre(1, 1.5, 2));
  EXPECT_THAT(rows(3, 2, 0), ElementsAre(1, 1.5, 1.5));
  EXPECT_THAT(rows(2, 4, 0), ElementsAre(1, 1.5));
  EXPECT_THAT(rows(2, 2, 1), ElementsAre(0.5, 1));
  EXPECT_THAT(rows(1, 3, 1), ElementsAre(0.5));
}

// An output padding of the stride or more, below the dilation: first less padding at the end, then
// zeros.
TEST(Opsets, ConvTransposeHasZerosBehindWhatItReaches) {
  const auto values = [](int64_t end, bool bias) {
    std::vector<std::string> names = {"x", "w"};
    std::vector<std::string> ports = {OnnxValue("x", kFloat, {1, 1, 3}),
                                      OnnxValue("w", kFloat, {1, 1, 2})};
    std::vector<Tensor> inputs = {Make(DType::kF32, {1, 1, 3}, {1, 2, 3}),
                                  Make(DType::kF32, {1, 1, 2}, {1, 10})};
    if (bias) {
      names.push_back("b");
      ports.push_back(OnnxValue("b", kFloat, {1}));
      inputs.push_back(Make(DType::kF32, {1}, {0.5}));
    }
    const std::string node =
        OnnxNode("ConvTranspose", names, {"y"},
                 {IntsAttribute("dilations", {3}), IntsAttribute("output_padding", {2}),
                  IntsAttribute("pads", {0, end})});
    const auto import = ImportOnnxBytes(OnnxModel(17, OnnxGraph({node}, ports, {OnnxValue("y")})));
    if (!import.ok()) return std::vector<double>{};
    const auto outputs = Interpret(import->graph, inputs);
    return outputs.ok() ? Values((*outputs)[0]) : std::vector<double>{};
  };
  EXPECT_THAT(values(0, false), ElementsAre(1, 2, 3, 10, 20, 30, 0, 0));
  EXPECT_THAT(values(1, false), ElementsAre(1, 2, 3, 10, 20, 30, 0));
  EXPECT_THAT(values(3, false), ElementsAre(1, 2, 3, 10, 20));
  EXPECT_THAT(values(1, true), ElementsAre(1.5, 2.5, 3.5, 10.5, 20.5, 30.5, 0.5));
}

// With mode edge, reflect and wrap, padding below 0 cuts first; what is left gives the elements.
TEST(Opsets, PadBelowZeroCutsBeforeElementsAreRepeated) {
  // Pads of [n] are 1 in front and -m behind, m being the extent of q.
  const auto values = [](const std::string& mode, int64_t n, int64_t m) {
    std::vector<double> x(static_cast<size_t>(n)), q(static_cast<size_t>(m));
    std::iota(x.begin(), x.end(), 0);
    std::vector<double> all;
    for (const bool symbols : {true, false}) {
      const auto dim = [&](const char* name, int64_t extent) {
        return symbols ? OnnxDim(name) : OnnxDim(static_cast<int>(extent));
      };
      const auto import = ImportOnnxBytes(OnnxModel(
          19,
          OnnxGraph({OnnxNode("Shape", {"q"}, {"s"}), OnnxNode("Neg", {"s"}, {"behind"}),
                     OnnxNode("Concat", {"one", "behind"}, {"p"}, {IntAttribute("axis", 0)}),
                     OnnxNode("Pad", {"x", "p"}, {"y"}, {TextAttribute("mode", mode)})},
                    {OnnxValue("x", kFloat, {dim("n", n)}), OnnxValue("q", kFloat, {dim("m", m)})},
                    {OnnxValue("y")}, {OnnxInts("one", {1})})));
      if (!import.ok()) return std::vector<double>{-1};
      const auto outputs = Interpret(
          import->graph, std::vector<Tensor>{Make(DType::kF32, {n}, x), Make(DType::kF32, {m}, q)});
      if (!outputs.ok()) return std::vector<double>{-2};
      const std::vector<double> got = Values((*outputs)[0]);
      all.insert(all.end(), got.begin(), got.end());
    }
    return all;
  };
  EXPECT_THAT(values("wrap", 4, 1), ElementsAre(2, 0, 1, 2, 2, 0, 1, 2));
  EXPECT_THAT(values("reflect", 4, 2), ElementsAre(1, 0, 1, 1, 0, 1));
  EXPECT_THAT(values("edge", 4, 2), ElementsAre(0, 0, 1, 0, 0, 1));
  EXPECT_THAT(values("wrap", 4, 0), ElementsAre(3, 0, 1, 2, 3, 3, 0, 1, 2, 3));
  const auto pads = [](const std::vector<int64_t>& pads) {
    return Import(19, OnnxNode("Pad", {"x", "p"}, {"y"}, {TextAttribute("mode", "edge")}),
                  OnnxValue("x", kFloat, {2, 3}), {OnnxInts("p", pads)});
  };
  EXPECT_THAT(pads({-2, 0, -2, 0}), StatusIs(kInvalid, HasSubstr("leave -2 elements of axis 0")));
  EXPECT_THAT(pads({-2, 0, 1, 0}), StatusIs(kInvalid, HasSubstr("needs an element, but axis 0")));
}

TEST(Opsets, EinsumSumsOverLabelsOfEqualExtents) {
  const auto values = [](const std::string& equation, const std::vector<int64_t>& a,
                         const std::vector<int64_t>& b) -> absl::StatusOr<std::vector<double>> {
    const auto import = ImportOnnxBytes(OnnxModel(
        12,
        OnnxGraph({OnnxNode("Einsum", {"a", "b"}, {"y"}, {TextAttribute("equation", equation)})},
                  {OnnxValue("a", kFloat, {a.begin(), a.end()}),
                   OnnxValue("b", kFloat, {b.begin(), b.end()})},
                  {OnnxValue("y")})));
    if (!import.ok()) return import.status();
    const auto counted = [](const std::vector<int64_t>& shape) {
      std::vector<double> elements(static_cast<size_t>(shape[0] * shape[1]));
      std::iota(elements.begin(), elements.end(), 1);
      return Make(DType::kF32, shape, elements);
    };
    const auto outputs = Interpret(import->graph, std::vector<Tensor>{counted(a), counted(b)});
    if (!outputs.ok()) return outputs.status();
    return Values((*outputs)[0]);
  };
  EXPECT_THAT(*values("ij,jk->ik", {2, 1}, {3, 1}), ElementsAre(6, 12));  // 1 broadcasts
  EXPECT_THAT(*values("ij,ij->i", {2, 2}, {1, 2}), ElementsAre(5, 11));
  EXPECT_THAT(values("ij,ij->", {2, 3}, {3, 2}),
              StatusIs(kInvalid, HasSubstr("label \"i\" has extents 2 and 3")));
  EXPECT_THAT(values("ii,ij->j", {2, 3}, {2, 2}),
              StatusIs(kInvalid, HasSubstr("label \"i\" has extents 2 and 3")));
}

TEST(Opsets, ArgMaxNeedsAnElement) {
  EXPECT_THAT(Import(13, OnnxNode("ArgMax", {"x"}, {"y"}, {IntAttribute("axis", 1)}),
                     OnnxValue("x", kFloat, {2, 0})),
              StatusIs(kInvalid, HasSubstr("axis 1 has no elements of which one is the largest")));
}

// As the formula of ONNX has it: extents of the stride times the input's, the zeros shared out like
// padding, with the odd one in front for SAME_UPPER.
TEST(Opsets, ConvTransposeOfTheSameExtentsHasZerosAroundWhatItReaches) {
  const auto values = [](const std::string& pad, int kernel, int stride) {
    const auto import = Import(
        17,
        OnnxNode("ConvTranspose", {"x", "w"}, {"y"},
                 {TextAttribute("auto_pad", pad), IntsAttribute("strides", {stride})}),
        OnnxValue("x", kFloat, {1, 1, 2}),
        {OnnxTensor("w", kFloat, {1, 1, kernel},
                    RawBytes(kernel == 1 ? std::vector<float>{1} : std::vector<float>{1, 2}))});
    if (!import.ok()) return std::vector<double>{};
    const auto outputs =
        Interpret(import->graph, std::vector<Tensor>{Make(DType::kF32, {1, 1, 2}, {1, 10})});
    return outputs.ok() ? Values((*outputs)[0]) : std::vector<double>{};
  };
  EXPECT_THAT(values("SAME_UPPER", 1, 3), ElementsAre(0, 1, 0, 0, 10, 0));
  EXPECT_THAT(values("SAME_UPPER", 2, 3), ElementsAre(0, 1, 2, 0, 10, 20));
  EXPECT_THAT(values("SAME_LOWER", 2, 3), ElementsAre(1, 2, 0, 10, 20, 0));
  EXPECT_THAT(values("SAME_UPPER", 2, 5), ElementsAre(0, 0, 1, 2, 0, 0, 0, 10, 20, 0));
  EXPECT_THAT(values("SAME_LOWER", 2, 5), ElementsAre(0, 1, 2, 0, 0, 0, 10, 20, 0, 0));
}

// An axis that keeps its extent is not resampled: weights of 0 would make a NaN of infinity.
TEST(Opsets, ResizeToASizeIsForOtherExtents) {
  const auto guards = [](int extent) {
    std::string text;
    const auto import =
        Import(19, OnnxNode("Resize", {"x", "", "", "s"}, {"y"}, {TextAttribute("mode", "linear")}),
               OnnxValue("x", kFloat, {1, 2, "n"}), {OnnxInts("s", {1, 2, extent})});
    if (!import.ok()) return import.status().ToString();
    for (const Guard& guard : import->graph.guards()) absl::StrAppend(&text, guard.ToString(), ";");
    return text;
  };
  EXPECT_EQ(guards(3), "n != 3;n >= 1;");
}

}  // namespace
}  // namespace kiln
