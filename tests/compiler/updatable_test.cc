// SPDX-License-Identifier: Apache-2.0
// Constants that Model::Update replaces, in every form a model has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "compiler/compile.h"
#include "compiler/precompile.h"
#include "compiler/warm_model.h"
#include "graph/text.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/compiler/counted_malloc.h"
#include "tests/compiler/on_vm.h"
#include "tests/graph/tensors.h"
#include "tests/onnx/model_writer.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

void Write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

CompileOptions With(std::vector<std::string> names, CompileOptions options = OnVm()) {
  options.updatable = std::move(names);
  return options;
}

std::vector<double> Ran(Model& model, const NamedTensors& inputs) {
  const auto made = model.Run(inputs);
  KILN_EXPECT_OK(made.status());
  return made.ok() ? Values((*made)[0]) : std::vector<double>{};
}

// y = (x + w) * k, where k is an integer that a node casts.
constexpr char kText[] =
    "graph g\ninput x : f32 [n, 2]\nconst w : f32 [2] = [1, 2]\nconst k : i64 [] = 3\n"
    "a = add(x, w)\nf = cast(k) {to = f32}\ny = mul(a, f)\noutput y\n";

class UpdatableTest : public testing::Test {
 protected:
  void SetUp() override { SetLogLevel(LogLevel::kOff); }
  void TearDown() override { SetLogLevel(LogLevel::kWarning); }

  std::string Onnx(const std::string& graph, int opset = 18) {
    const std::string path = dir_.File("m.onnx");
    Write(path, OnnxModel(opset, graph));
    return path;
  }
  // y = (x + w) * c, c by a Constant node.
  std::string Sum() {
    return Onnx(
        OnnxGraph({OnnxNode("Constant", {}, {"c"}, {TensorAttribute("value", OnnxFloats("", {2}))}),
                   OnnxNode("Add", {"x", "w"}, {"a"}), OnnxNode("Mul", {"a", "c"}, {"y"})},
                  {OnnxValue("x", kFloat, {"n", 2})}, {OnnxValue("y", kFloat, {"n", 2})},
                  {OnnxFloats("w", {1, 2})}));
  }
  CompileOptions Cached(std::vector<std::string> names) {
    CompileOptions options = OnVm();
    options.cache.enabled = true;
    options.cache.directory = dir_.File("cache");
    return With(std::move(names), options);
  }

  TempDir dir_;
  const Tensor x_ = F32({1, 2}, {10, 20});
};

TEST_F(UpdatableTest, OfAGraph) {
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(*ParseGraph(kText), With({"k", "w"})));
  ASSERT_EQ(model.inputs().size(), 1u);
  ASSERT_EQ(model.updatable().size(), 2u);
  EXPECT_EQ(model.updatable()[0].name, "k");
  EXPECT_EQ(model.updatable()[1].name, "w");
  EXPECT_THAT(Ran(model, {{"x", x_}}), ElementsAre(33, 66));
  KILN_ASSERT_OK(model.Update("w", F32({2}, {5, 6})));
  EXPECT_THAT(Ran(model, {{"x", x_}}), ElementsAre(45, 78));
  KILN_ASSERT_OK(model.Update("k", I64({}, {-1})));
  EXPECT_THAT(Ran(model, {{"x", x_}}), ElementsAre(-15, -26));
  EXPECT_THAT(Ran(model, {{"x", F32({2, 2}, {0, 0, 1, 1})}}), ElementsAre(-5, -6, -6, -7));
}

TEST_F(UpdatableTest, ThePortsOfCallersAreTheModelsOwn) {
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(*ParseGraph(kText), With({"w", "k"})));
  EXPECT_EQ(model.InputIndex("w").status().message(),
            "input \"w\": the model has no such input; it has \"x\"");
  Context context = model.NewContext();
  EXPECT_EQ(context.Bind(1, F32({2}, {1, 2})).message(),
            "input 1: the model has 1; handles begin with 0");
  EXPECT_EQ(context.Bind("w", F32({2}, {1, 2})).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(model.Prepare({{"w", {2}}, {"x", {1, 2}}}).code(), absl::StatusCode::kNotFound);
  KILN_EXPECT_OK(model.Prepare({{"x", {4, 2}}}));
  KILN_ASSERT_OK_AND_ASSIGN(const auto shapes, model.OutputShapes({{"x", {4, 2}}}));
  EXPECT_THAT(shapes[0], ElementsAre(4, 2));
  CompileOptions options = With({"w"});
  options.states = {{"w", "y"}};
  EXPECT_EQ(Compile(*ParseGraph(kText), options).status().message(),
            "state: the model has no input \"w\"; it has \"x\"");
}

TEST_F(UpdatableTest, Errors) {
  EXPECT_EQ(Compile(*ParseGraph(kText), With({"v"})).status().message(),
            "updatable \"v\": the model has no such constant; it has \"w\", \"k\"");
  EXPECT_EQ(Compile(Sum(), With({"y"})).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Compile(Sum(), With({"y"})).status().message()),
              HasSubstr("updatable \"y\": the model has no such constant; it has \"w\", \"c\""));
  EXPECT_EQ(Compile(Sum(), With({"w", "w"})).status().message(),
            "updatable: names \"w\" twice; name it once");
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(*ParseGraph(kText), With({"w"})));
  EXPECT_EQ(model.Update("k", I64({}, {1})).message(),
            "constant \"k\": is not updatable; it has \"w\"; name it in CompileOptions::updatable");
  EXPECT_EQ(model.Update("k", I64({}, {1})).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(
      model.Update("w", F32({3}, {1, 2, 3})).message(),
      "constant \"w\": the value is f32 [3], expected f32 [2]; give a tensor of that type and "
      "shape");
  EXPECT_EQ(model.Update("w", I64({2}, {1, 2})).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(model.Update("w", Tensor::View(nullptr, DType::kF32, {2})).message(),
            "constant \"w\": no memory; give a tensor with data");
  EXPECT_THAT(Ran(model, {{"x", x_}}), ElementsAre(33, 66));
  KILN_ASSERT_OK_AND_ASSIGN(Model plain, Compile(*ParseGraph(kText), OnVm()));
  EXPECT_EQ(plain.Update("w", F32({2}, {1, 2})).message(),
            "constant \"w\": is not updatable; none is; name it in CompileOptions::updatable");
  EXPECT_EQ(Model().Update("w", x_).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Model().updatable().empty());
}

TEST_F(UpdatableTest, CopiesShareAndOthersDoNot) {
  Sum();
  KILN_ASSERT_OK_AND_ASSIGN(Model one, Compile(Sum(), Cached({"w"})));
  KILN_ASSERT_OK_AND_ASSIGN(Model other, Compile(dir_.File("m.onnx"), Cached({"w"})));
  Model copy = one;
  KILN_ASSERT_OK(copy.Update("w", F32({2}, {7, 8})));
  EXPECT_THAT(Ran(one, {{"x", x_}}), ElementsAre(34, 56));
  EXPECT_THAT(Ran(copy, {{"x", x_}}), ElementsAre(34, 56));
  EXPECT_THAT(Ran(other, {{"x", x_}}), ElementsAre(22, 44));
}

TEST_F(UpdatableTest, OfOnnxWithInitializersConstantNodesAndExternalData) {
  {
    KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(Sum(), With({"c", "w"})));
    EXPECT_THAT(Ran(model, {{"x", x_}}), ElementsAre(22, 44));
    KILN_ASSERT_OK(model.Update("c", F32({1}, {10})));
    KILN_ASSERT_OK(model.Update("w", F32({2}, {0, 1})));
    EXPECT_THAT(Ran(model, {{"x", x_}}), ElementsAre(100, 210));
  }
  Write(dir_.File("w.bin"), std::string(1, '\0') + RawBytes<float>({3, 4}));  // not aligned
  const std::string path =
      Onnx(OnnxGraph({OnnxNode("Add", {"x", "w"}, {"y"})}, {OnnxValue("x", kFloat, {"n", 2})},
                     {OnnxValue("y", kFloat, {"n", 2})},
                     {OnnxExternal("w", kFloat, {2}, {{"location", "w.bin"}, {"offset", "1"}})}));
  for (int start = 0; start < 3; ++start) {  // cold, then warm
    KILN_ASSERT_OK_AND_ASSIGN(
        auto opened,
        WarmModel::Open(path, Cached({"w"}), std::make_shared<KernelService>(Cached({"w"}))));
    EXPECT_EQ(opened->updatable().size(), 1u);
    KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(opened, Cached({"w"})));
    EXPECT_EQ(model.inputs().size(), 1u);
    EXPECT_THAT(Ran(model, {{"x", x_}}), ElementsAre(13, 24));
    KILN_ASSERT_OK(model.Update("w", F32({2}, {0, 1})));
    EXPECT_THAT(Ran(model, {{"x", x_}}), ElementsAre(10, 21));
    EXPECT_THAT(Ran(model, {{"x", F32({2, 2}, {1, 1, 2, 2})}}), ElementsAre(1, 2, 2, 3));
    opened->WaitUntilKept();
  }
}

// The Program of a warm start has the constant as an input, whatever the file's value is now.
TEST_F(UpdatableTest, AWarmStartReadsWhatTheModelSays) {
  const std::string path = Sum();
  for (const bool text : {false, true}) {
    const std::string file = text ? dir_.File("m.graph") : path;
    if (text) Write(file, kText);
    for (int start = 0; start < 2; ++start) {
      CompileOptions options = Cached({"w"});
      auto service = std::make_shared<KernelService>(options);
      KILN_ASSERT_OK_AND_ASSIGN(auto opened, WarmModel::Open(file, options, service));
      options.runtime = *Runtime::Create({});
      KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(opened, options));
      EXPECT_THAT(Ran(model, {{"x", x_}}), text ? ElementsAre(33, 66) : ElementsAre(22, 44));
      KILN_ASSERT_OK(model.Update("w", F32({2}, {0, 0})));
      EXPECT_THAT(Ran(model, {{"x", x_}}), text ? ElementsAre(30, 60) : ElementsAre(20, 40));
      opened->WaitUntilKept();
    }
  }
}

// Variants of a graph that an importer made are imported again, and have the same inputs.
TEST_F(UpdatableTest, OfAGraphThatWasImported) {
  const std::string path =
      Onnx(OnnxGraph({OnnxNode("Add", {"x", "b"}, {"a"}), OnnxNode("Mul", {"a", "w"}, {"y"})},
                     {OnnxValue("x", kFloat, {"n", 2}), OnnxValue("b", kFloat, {"m", 2})},
                     {OnnxValue("y", kFloat, {"k", 2})}, {OnnxFloats("w", {2, 3})}));
  KILN_ASSERT_OK_AND_ASSIGN(Graph graph, ReadModel(path));
  ASSERT_NE(graph.maker, nullptr);
  KILN_ASSERT_OK_AND_ASSIGN(Model of_graph, Compile(std::move(graph), With({"w"})));
  KILN_ASSERT_OK_AND_ASSIGN(Model of_file, Compile(path, With({"w"})));
  for (Model* const model : {&of_graph, &of_file}) {
    for (const double w : {2.0, 5.0}) {
      KILN_ASSERT_OK(model->Update("w", F32({2}, {w, 3})));
      for (const int64_t n : {2, 1}) {
        for (const int64_t m : {2, 1}) {
          const std::vector<double> got =
              Ran(*model, {{"x", FilledTensor(DType::kF32, {n, 2}, 1)},
                           {"b", FilledTensor(DType::kF32, {m, 2}, 1)}});
          std::vector<double> want = {2 * w, 6};
          if (std::max(n, m) == 2) want.insert(want.end(), {2 * w, 6});
          EXPECT_EQ(got, want) << n << " " << m;
        }
      }
    }
  }
}

// A length that only the constant tells: each value of it has a variant.
TEST_F(UpdatableTest, WhoseValueDecidesTheStructure) {
  const std::string path =
      Onnx(OnnxGraph({OnnxNode("ReduceSum", {"x", "axes"}, {"y"}, {IntAttribute("keepdims", 0)})},
                     {OnnxValue("x", kFloat, {"n", 2})}, {OnnxValue("y", kFloat, {"m"})},
                     {OnnxInts("axes", {1})}));
  const Tensor x = F32({3, 2}, {1, 2, 3, 4, 5, 6});
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(path, Cached({"axes"})));
  Context context = model.NewContext();
  KILN_ASSERT_OK(context.Bind("x", x));
  for (int round = 0; round < 2; ++round) {
    KILN_ASSERT_OK(model.Update("axes", I64({1}, {1})));
    EXPECT_THAT(Ran(model, {{"x", x}}), ElementsAre(3, 7, 11));
    KILN_ASSERT_OK_AND_ASSIGN(const auto shapes, model.OutputShapes({{"x", {3, 2}}}));
    EXPECT_THAT(shapes[0], ElementsAre(3));
    KILN_ASSERT_OK(context.Run());
    EXPECT_THAT(Values(*context.Output("y")), ElementsAre(3, 7, 11));
    KILN_ASSERT_OK(model.Update("axes", I64({1}, {0})));
    EXPECT_THAT(Ran(model, {{"x", x}}), ElementsAre(9, 12));
    KILN_ASSERT_OK(context.Run());
    EXPECT_THAT(Values(*context.Output("y")), ElementsAre(9, 12));
  }
}

TEST_F(UpdatableTest, ThatAGraphCannotDoWithoutIsRefused) {
  const std::string text =
      "graph g\ninput x : f32 [4]\nconst s : i64 [2] = [2, 2]\ny = reshape(x, s)\noutput y\n";
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, ParseGraph(text));
  const absl::Status status = Compile(graph, With({"s"})).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("updatable s: the graph needs the value of a constant: "));
}

// Branches and loops read the constants around them.
TEST_F(UpdatableTest, OfAScript) {
  const std::string body =
      OnnxGraph({OnnxNode("Identity", {"on"}, {"o"}), OnnxNode("Add", {"s", "w"}, {"t"})},
                {OnnxValue("i", kInt64, {}), OnnxValue("on", kBool, {}), OnnxValue("s")},
                {OnnxValue("o"), OnnxValue("t")});
  const std::string then = OnnxGraph({OnnxNode("Mul", {"z", "k"}, {"p"})}, {}, {OnnxValue("p")});
  const std::string other = OnnxGraph({OnnxNode("Sub", {"z", "w"}, {"q"})}, {}, {OnnxValue("q")});
  const std::string path = Onnx(OnnxGraph(
      {OnnxNode("Loop", {"trips", "", "x"}, {"z"}, {GraphAttribute("body", body)}),
       OnnxNode("If", {"c"}, {"y"},
                {GraphAttribute("then_branch", then), GraphAttribute("else_branch", other)})},
      {OnnxValue("x", kFloat, {2}), OnnxValue("trips", kInt64, {}), OnnxValue("c", kBool, {})},
      {OnnxValue("y", kFloat, {2})}, {OnnxFloats("w", {1, 2}), OnnxFloats("k", {3, 3})}));
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(path, With({"w", "k"})));
  const auto run = [&](bool c) {
    return Ran(model, {{"x", F32({2}, {10, 20})},
                       {"trips", I64({}, {2})},
                       {"c", Make(DType::kBool, {}, {c ? 1.0 : 0.0})}});
  };
  EXPECT_THAT(run(true), ElementsAre(36, 72));
  EXPECT_THAT(run(false), ElementsAre(11, 22));
  KILN_ASSERT_OK(model.Update("w", F32({2}, {100, 0})));
  EXPECT_THAT(run(true), ElementsAre(630, 60));
  EXPECT_THAT(run(false), ElementsAre(110, 20));
  KILN_ASSERT_OK(model.Update("k", F32({2}, {0, 1})));
  EXPECT_THAT(run(true), ElementsAre(0, 20));
}

TEST_F(UpdatableTest, IsSafeWhereAnOutputIsBound) {
  const Tensor w = F32({1, 2}, {1, 2});
  Graph graph = *ParseGraph(
      "graph g\ninput x : f32 [1, 2]\nconst w : f32 [1, 2] = [1, 2]\n"
      "y = add(x, w)\noutput y\noutput w\n");
  for (size_t v = 0; v < graph.values().size(); ++v) {
    const ValueId id{static_cast<int32_t>(v)};
    if (graph.value(id).constant) graph.mutable_value(id).constant = w;
  }
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(graph, With({"w"})));
  Context context = model.NewContext();
  EXPECT_EQ(context.BindOutput("y", w).message(),
            "output \"y\": the memory overlaps that of constant \"w\", which the model reads at "
            "every run; bind memory of its own");
  KILN_ASSERT_OK(context.Bind("x", x_));
  KILN_ASSERT_OK(context.Run());
  EXPECT_THAT(Values(*context.Output("w")), ElementsAre(1, 2));
  EXPECT_NE(context.Output("w")->data(), w.data());
}

TEST_F(UpdatableTest, ASteadyRunAllocatesNothing) {
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(*ParseGraph(kText), With({"w", "k"})));
  Context context = model.NewContext();
  KILN_ASSERT_OK(context.Bind("x", x_));
  for (const double value : {1.0, 2.0}) {
    KILN_ASSERT_OK(model.Update("w", F32({2}, {value, value})));
    for (int i = 0; i < 2; ++i) KILN_ASSERT_OK(context.Run());
    const Allocations before = CountedAllocations();
    for (int i = 0; i < 20; ++i)
      if (!context.Run().ok()) std::abort();
    EXPECT_EQ((CountedAllocations() - before).others, 0);
  }
  EXPECT_GE(model.memory().constants, 16);
}

// A run sees one set of values: with w and v equal after each update of both, and read at both ends
// of a chain, no run may see two updates of one constant.
TEST_F(UpdatableTest, ARunKeepsWhatItBeganWith) {
  std::string text = "graph g\ninput x : f32 [64, 64]\nconst w : f32 [1] = [0]\na0 = add(x, w)\n";
  for (int i = 0; i < 30; ++i)
    text += "a" + std::to_string(i + 1) + " = softmax(a" + std::to_string(i) + ") {axis = 1}\n";
  text +=
      "z = mul(a30, w)\ny = sub(z, z)\nv = add(y, w)\nu = sub(v, w)\noutput "
      "u\noutput v\n";
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(*ParseGraph(text), With({"w"})));
  std::atomic<bool> stop{false};
  std::thread updates([&] {
    for (int i = 1; !stop; i = i % 1000 + 1)
      if (!model.Update("w", F32({1}, {static_cast<double>(i)})).ok()) std::abort();
  });
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 2; ++t) {
    callers.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        const auto made = model.Run({{"x", FilledTensor(DType::kF32, {64, 64}, 1)}});
        if (!made.ok()) std::abort();
        for (const double value : Values((*made)[0])) wrong += value != 0;
        const std::vector<double> all = Values((*made)[1]);
        for (const double value : all) wrong += value != all[0];
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  stop = true;
  updates.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(UpdatableTest, ManyTypes) {
  for (const char* type : {"f16", "bf16", "f64", "i8", "u8", "i32", "u64"}) {
    SCOPED_TRACE(type);
    const std::string t(type);
    KILN_ASSERT_OK_AND_ASSIGN(const Graph graph,
                              ParseGraph("graph g\ninput x : " + t + " [2]\nconst w : " + t +
                                         " [2] = [1, 2]\ny = add(x, w)\noutput y\n"));
    KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(graph, With({"w"})));
    const Tensor x = Make(*ParseDType(type), {2}, {1, 1});
    EXPECT_THAT(Ran(model, {{"x", x}}), ElementsAre(2, 3));
    KILN_ASSERT_OK(model.Update("w", Make(*ParseDType(type), {2}, {4, 5})));
    EXPECT_THAT(Ran(model, {{"x", x}}), ElementsAre(5, 6));
  }
}

TEST_F(UpdatableTest, NotInPackages) {
  EXPECT_EQ(Compile("m.kiln", With({"w"})).status().message(),
            "updatable \"w\": \"m.kiln\" is a package, whose constants stay as they are; compile "
            "the model it was made of");
  EXPECT_EQ(KernelsOf(*ParseGraph(kText), With({"w"}), {LowestTarget()}, {}).status().message(),
            "updatable \"w\": what is compiled ahead has all its constants; leave it out, or make "
            "it an input of the model");
}

}  // namespace
}  // namespace kiln
