// SPDX-License-Identifier: Apache-2.0
// A training step as a program: parameters, gradients and moments of all tensors back to back in
// states, written in place, with one launch for the update whatever the tensors are.
#include <bit>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/compare.h"
#include "base/file_system.h"
#include "base/safetensors.h"
#include "compiler/compile.h"
#include "compiler/kernel_service.h"
#include "exec/checkpoint.h"
#include "gmock/gmock.h"
#include "graph/graph.h"
#include "graph/reference/interpreter.h"
#include "graph/training/flat_tensors.h"
#include "graph/training/optimizer.h"
#include "gtest/gtest.h"
#include "kiln/graph.h"
#include "kiln/model.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/compiler/on_vm.h"
#include "tests/graph/tensors.h"

namespace kiln::training {
namespace {

// The 161 parameters of ResNet-50, with 1 / `thinner` of its channels.
std::vector<NamedShape> ResNet50(int64_t thinner) {
  std::vector<NamedShape> shapes;
  const auto conv = [&](int64_t out, int64_t in, int64_t kernel) {
    const std::string name = absl::StrCat("conv", shapes.size());
    shapes.push_back({name + ".weight", {out, in, kernel, kernel}});
    shapes.push_back({name + ".scale", {out}});
    shapes.push_back({name + ".bias", {out}});
  };
  const int64_t first = 64 / thinner;
  conv(first, 3, 7);
  int64_t in = first;
  for (const auto& [width, blocks] :
       {std::pair(first, 3), {2 * first, 4}, {4 * first, 6}, {8 * first, 3}}) {
    for (int block = 0; block < blocks; ++block) {
      conv(width, in, 1);
      conv(width, width, 3);
      conv(4 * width, width, 1);
      if (block == 0) conv(4 * width, in, 1);
      in = 4 * width;
    }
  }
  shapes.push_back({"fc.weight", {1000 / thinner, in}});
  shapes.push_back({"fc.bias", {1000 / thinner}});
  return shapes;
}

// A step whose gradients are an input, "g", or made of the parameters by `gradient`.
struct StepProgram {
  Graph graph;
  std::vector<StateBuffer> states;
};

using Gradient = std::function<ValueId(GraphBuilder& b, ValueId parameters)>;

absl::StatusOr<StepProgram> StepOf(const Optimizer& optimizer, int64_t elements,
                                   const Gradient& gradient) {
  StepProgram program;
  GraphBuilder b("step");
  const auto state = [&](const std::string& name, DType type, Shape shape) {
    program.states.push_back({name, name + "_next"});
    return b.Input(name, type, std::move(shape));
  };
  const ValueId lr = b.Input("lr", DType::kF32, {});
  const ValueId step = state("step", DType::kI64, {}), p = state("p", DType::kF32, {elements});
  std::vector<ValueId> moments;
  for (const std::string& name : MomentNames(optimizer))
    moments.push_back(state(name, DType::kF32, {elements}));
  const ValueId t = b.Op("add", {step, b.Scalar(DType::kI64, 1)});
  const absl::StatusOr<Updated> next = Update(b, optimizer, p, gradient(b, p), moments, lr, t);
  if (!next.ok()) return next.status();
  b.Output(t, "step_next");
  b.Output(next->parameter, "p_next");
  for (size_t k = 0; k < moments.size(); ++k)
    b.Output(next->moments[k], program.states[k + 2].output);
  absl::StatusOr<Graph> graph = std::move(b).Finish();
  if (!graph.ok()) return graph.status();
  program.graph = *std::move(graph);
  return program;
}

ValueId Given(GraphBuilder& b, ValueId p) { return b.Input("g", DType::kF32, b.shape(p)); }

Tensor Drawn(int64_t elements, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Tensor tensor = Tensor::Allocate(DType::kF32, {elements});
  for (int64_t i = 0; i < elements; ++i) WriteFloat(tensor, i, normal(random));
  return tensor;
}

// Runs `steps` steps and gives the states after them.
std::vector<Tensor> Trained(Context& context, const StepProgram& program, int steps) {
  for (int step = 1; step <= steps; ++step) {
    const Tensor lr = F32({}, {0.1 / step});  // another one each time: no new plan
    KILN_EXPECT_OK(context.Bind("lr", lr));
    KILN_EXPECT_OK(context.Run());
  }
  std::vector<Tensor> states;
  for (const StateBuffer& state : program.states) {
    absl::StatusOr<Tensor> value = context.State(state.input);
    KILN_EXPECT_OK(value.status());
    if (value.ok()) states.push_back(value->Clone());
  }
  return states;
}

// The same in float64, by the interpreter. `inputs` stand behind lr, the step and the states.
std::vector<Tensor> Expected(const StepProgram& program, std::vector<Tensor> states,
                             const std::vector<Tensor>& inputs, int steps) {
  for (int step = 1; step <= steps; ++step) {
    std::vector<Tensor> all = {F32({}, {0.1 / step})};
    all.insert(all.end(), states.begin(), states.end());
    all.insert(all.end(), inputs.begin(), inputs.end());
    absl::StatusOr<std::vector<Tensor>> next = Interpret(program.graph, all);
    KILN_EXPECT_OK(next.status());
    if (!next.ok()) return {};
    states = *std::move(next);
  }
  return states;
}

void ExpectNear(const std::vector<Tensor>& got, const std::vector<Tensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t k = 0; k < got.size(); ++k) {
    const Comparison comparison = Compare(got[k], want[k], 1e-4, 1e-4);
    EXPECT_TRUE(comparison.ok) << "state " << k << ": " << comparison.what;
  }
}

std::vector<Tensor> Zeros(const StepProgram& program, Tensor parameters) {
  std::vector<Tensor> states;
  for (size_t k = 0; k < program.states.size(); ++k)
    states.push_back(k == 0 ? I64({}, {0}) : FilledTensor(DType::kF32, parameters.shape(), 0));
  states[1] = std::move(parameters);
  return states;
}

// One launch for the numbers that all elements share, one for all elements of all tensors.
TEST(TrainingStep, OneLaunchUpdatesAllTensors) {
  KILN_ASSERT_OK_AND_ASSIGN(const FlatLayout layout, LayOut(ResNet50(16)));
  ASSERT_EQ(layout.parts.size(), 161u);
  for (const Optimizer& optimizer :
       {Optimizer(Adam()), Optimizer(AdamW()), Optimizer(Sgd{.momentum = 0.9}),
        Optimizer(Adagrad{.lr_decay = 0.1}), Optimizer(RmsProp()), Optimizer(Lion())}) {
    SCOPED_TRACE(optimizer.index());
    KILN_ASSERT_OK_AND_ASSIGN(const StepProgram program, StepOf(optimizer, layout.elements, Given));
    CompileOptions options = OnVm();
    options.states = program.states;
    KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(program.graph, options));
    Context context = model.NewContext();
    const Tensor parameters = Drawn(layout.elements, 1), g = Drawn(layout.elements, 2);
    KILN_ASSERT_OK(context.SetState("p", parameters));
    KILN_ASSERT_OK(context.Bind("g", g));
    const std::vector<Tensor> states = Trained(context, program, 3);
    EXPECT_EQ(context.report().kernel_launches, 2);
    EXPECT_EQ(context.report().library_launches + context.report().other_launches, 0);
    EXPECT_EQ(model.memory().plans, 1);
    // Each state is written in place, into the one buffer that it has.
    const auto flat =
        static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(layout.elements) * sizeof(float)));
    const auto count = static_cast<int64_t>(states.size()) - 1;
    EXPECT_GE(model.memory().states, count * flat);
    EXPECT_LE(model.memory().states, count * flat + 128);
    ExpectNear(states, Expected(program, Zeros(program, parameters), {g}, 3));
  }
}

// Where the number of the update is given, what all elements share is part of that launch.
TEST(TrainingStep, OfAGivenNumberIsOneLaunch) {
  for (const Optimizer& optimizer : {Optimizer(Adam()), Optimizer(AdamW{.weight_decay = 0.1}),
                                     Optimizer(Adagrad{.lr_decay = 0.1})}) {
    SCOPED_TRACE(optimizer.index());
    GraphBuilder b("step");
    const ValueId p = b.Input("p", DType::kF32, {1000}), g = b.Input("g", DType::kF32, {1000});
    std::vector<ValueId> moments;
    for (const std::string& name : MomentNames(optimizer))
      moments.push_back(b.Input(name, DType::kF32, {1000}));
    const ValueId lr = b.Input("lr", DType::kF32, {}), t = b.Input("t", DType::kI64, {});
    KILN_ASSERT_OK_AND_ASSIGN(const Updated next, Update(b, optimizer, p, g, moments, lr, t));
    b.Output(next.parameter, "p_next");
    for (size_t k = 0; k < next.moments.size(); ++k)
      b.Output(next.moments[k], MomentNames(optimizer)[k] + "_next");
    KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).Finish());
    std::vector<Tensor> inputs = {Drawn(1000, 1), Drawn(1000, 2)};
    for (size_t k = 0; k < moments.size(); ++k)
      inputs.push_back(FilledTensor(DType::kF32, {1000}, 0.5));
    inputs.push_back(F32({}, {0.1}));
    inputs.push_back(I64({}, {3}));
    KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(graph, OnVm()));
    Context context = model.NewContext();
    for (size_t k = 0; k < inputs.size(); ++k)
      KILN_ASSERT_OK(context.Bind(graph.value(graph.inputs()[k]).name, inputs[k]));
    KILN_ASSERT_OK(context.Run());
    EXPECT_EQ(context.report().kernel_launches, 1);
    EXPECT_EQ(context.report().other_launches, 0);
  }
}

CompileOptions Compiled() {
  CompileOptions options;
  options.threads = 1;
  options.cache.enabled = false;
  options.codegen = KILN_TEST_BIN_DIR "/kiln-codegen";
  options.kernels = std::make_shared<KernelService>(options);
  return options;
}

// Kernels know no extents: what was built for one model serves every other.
TEST(TrainingStep, AllModelsShareOneKernel) {
  CompileOptions options = Compiled();
  for (const int64_t thinner : {16, 8}) {
    KILN_ASSERT_OK_AND_ASSIGN(const FlatLayout layout, LayOut(ResNet50(thinner)));
    KILN_ASSERT_OK_AND_ASSIGN(const StepProgram program, StepOf(Adam(), layout.elements, Given));
    options.states = program.states;
    KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(program.graph, options));
    EXPECT_EQ(options.kernels->counts().kernels, 2);
    EXPECT_EQ(options.kernels->counts().built, 2);
    Context context = model.NewContext();
    const Tensor parameters = Drawn(layout.elements, 1), g = Drawn(layout.elements, 2);
    KILN_ASSERT_OK(context.SetState("p", parameters));
    KILN_ASSERT_OK(context.Bind("g", g));
    const std::vector<Tensor> states = Trained(context, program, 2);
    ExpectNear(states, Expected(program, Zeros(program, parameters), {g}, 2));
  }
}

// Gradients with noise that a state counts: other numbers in each run, the same ones on the VM and
// in compiled code, for any number of threads.
TEST(TrainingStep, NoiseAndUpdatesHaveTheSameBitsOnAllPaths) {
  constexpr int64_t kElements = 70'000;
  const auto noisy = [](GraphBuilder& b, ValueId p) {
    const ValueId count = b.Input("count", DType::kI64, {});
    b.Output(b.Op("add", {count, b.Scalar(DType::kI64, 1)}), "count_next");
    const ValueId noise = b.Op("random_normal", {{}, count},
                               {{"shape", std::vector<int64_t>{kElements}}, {"seed", int64_t{3}}});
    return b.Ops("dropout", {b.Op("add", {p, noise}), count}, {{"ratio", 0.25}}).at(0);
  };
  KILN_ASSERT_OK_AND_ASSIGN(StepProgram program, StepOf(AdamW(), kElements, noisy));
  program.states.push_back({"count", "count_next"});
  std::vector<std::vector<Tensor>> all;
  std::vector<CompileOptions> ways = {OnVm(), Compiled()};
  for (const int threads : {2, 3}) {
    ways.push_back(ways[1]);
    ways.back().threads = threads;
  }
  for (CompileOptions& options : ways) {
    options.states = program.states;
    KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(program.graph, options));
    Context context = model.NewContext();
    KILN_ASSERT_OK(context.SetState("p", Drawn(kElements, 1)));
    const std::vector<Tensor> first = Trained(context, program, 1);
    all.push_back(Trained(context, program, 2));
    EXPECT_EQ(ReadInt(all.back().back(), 0), 3);
    for (size_t k = 0; k < all[0].size(); ++k) {
      const Comparison same = Compare(all.back()[k], all[0][k], 0, 0);
      EXPECT_TRUE(same.ok) << "threads " << options.threads << ", state " << k << ": " << same.what;
    }
  }
}

// A perceptron of two layers with gradients written by hand: products read their weights where the
// flat tensor has them, and write their gradients to where the flat gradient has them.
TEST(TrainingStep, PartsAreNotCopied) {
  constexpr int64_t kBatch = 8, kIn = 32, kHidden = 48, kOut = 16;
  KILN_ASSERT_OK_AND_ASSIGN(
      const FlatLayout layout,
      LayOut({{"w1", {kIn, kHidden}}, {"b1", {kHidden}}, {"w2", {kHidden, kOut}}}));
  const auto gradient = [&](GraphBuilder& b, ValueId p) {
    const std::vector<ValueId> w = Parts(b, layout, p);
    const ValueId x = b.Input("x", DType::kF32, {kBatch, kIn});
    const ValueId wanted = b.Input("wanted", DType::kF32, {kBatch, kOut});
    const auto product = [&](ValueId left, ValueId right, bool trans_a, bool trans_b) {
      return b.Op("matmul", {left, right},
                  {{"trans_a", int64_t{trans_a}}, {"trans_b", int64_t{trans_b}}});
    };
    const ValueId before = b.Op("add", {product(x, w[0], false, false), w[1]});
    const ValueId hidden = b.Op("relu", {before});
    const ValueId dy = b.Op("sub", {product(hidden, w[2], false, false), wanted});
    const ValueId active = b.Op("greater", {before, b.Scalar(DType::kF32, 0)});
    const ValueId back = product(dy, w[2], false, true);
    const ValueId dh = b.Op("where", {active, back, b.Scalar(DType::kF32, 0)});
    const Attrs over_batch = {{"axes", std::vector<int64_t>{0}}, {"keepdims", int64_t{0}}};
    return Flat(b, layout,
                {product(x, dh, true, false), b.Op("reduce_sum", {dh}, over_batch),
                 product(hidden, dy, true, false)});
  };
  KILN_ASSERT_OK_AND_ASSIGN(const StepProgram program, StepOf(Adam(), layout.elements, gradient));
  CompileOptions options = OnVm();
  options.states = program.states;
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(program.graph, options));
  Context context = model.NewContext();
  const Tensor parameters = Drawn(layout.elements, 1);
  const Tensor x = Drawn(kBatch * kIn, 2), wanted = Drawn(kBatch * kOut, 3);
  const auto shaped = [](const Tensor& flat, std::vector<int64_t> shape) {
    return Tensor::View(flat.data(), DType::kF32, std::move(shape), {}, flat.owner());
  };
  const std::vector<Tensor> inputs = {shaped(x, {kBatch, kIn}), shaped(wanted, {kBatch, kOut})};
  KILN_ASSERT_OK(context.SetState("p", parameters));
  KILN_ASSERT_OK(context.Bind("x", inputs[0]));
  KILN_ASSERT_OK(context.Bind("wanted", inputs[1]));
  const std::vector<Tensor> states = Trained(context, program, 3);
  EXPECT_EQ(context.report().other_launches, 0);    // no copies
  EXPECT_EQ(context.report().library_launches, 5);  // the products
  ExpectNear(states, Expected(program, Zeros(program, parameters), inputs, 3));
}

// A run that goes on from a checkpoint in another context ends with the bits of one that was not
// interrupted; a file that does not fit changes nothing.
TEST(Checkpoint, GoesOnWithTheSameBits) {
  constexpr int64_t kElements = 1000;
  KILN_ASSERT_OK_AND_ASSIGN(const StepProgram program, StepOf(Adam(), kElements, Given));
  CompileOptions options = OnVm();
  options.states = program.states;
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(program.graph, options));
  const Tensor g = Drawn(kElements, 2);
  const auto start = [&] {
    Context context = model.NewContext();
    KILN_EXPECT_OK(context.SetState("p", Drawn(kElements, 1)));
    KILN_EXPECT_OK(context.Bind("g", g));
    return context;
  };
  const std::vector<std::string> names = {"p", "exp_avg", "exp_avg_sq", "step"};
  TempDir dir;
  const std::string path = dir.File("run.safetensors");

  Context whole = start(), first = start(), second = start();
  Trained(whole, program, 2);
  const std::vector<Tensor> want = Trained(whole, program, 3);
  Trained(first, program, 2);
  KILN_ASSERT_OK(SaveCheckpoint(RealFileSystem(), path, first, names, {{"epoch", "4"}}));
  Trained(first, program, 1);  // after it was saved
  KILN_ASSERT_OK_AND_ASSIGN(const auto metadata,
                            LoadCheckpoint(RealFileSystem(), path, second, names));
  EXPECT_EQ(metadata.at("epoch"), "4");
  const std::vector<Tensor> got = Trained(second, program, 3);
  ASSERT_EQ(got.size(), want.size());
  for (size_t k = 0; k < got.size(); ++k) EXPECT_TRUE(Compare(got[k], want[k], 0, 0).ok) << k;

  const auto error = [&](const std::map<std::string, Tensor>& tensors) {
    const std::string other = dir.File("other.safetensors");
    KILN_EXPECT_OK(WriteSafetensors(RealFileSystem(), other, tensors));
    const absl::Status status = LoadCheckpoint(RealFileSystem(), other, second, {"p"}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(error({}), testing::HasSubstr("has no state \"p\""));
  EXPECT_THAT(error({{"p", g}, {"q", g}}), testing::HasSubstr("has a tensor \"q\", which is no"));
  EXPECT_THAT(error({{"p", F32({2}, {1, 2})}}),
              testing::HasSubstr("state \"p\" is f32 [1000], in the file f32 [2]"));
  EXPECT_TRUE(Compare(*second.State("p"), got[1], 0, 0).ok);
}

TEST(FlatTensors, LieBackToBack) {
  KILN_ASSERT_OK_AND_ASSIGN(const FlatLayout layout,
                            LayOut({{"odd", {3}}, {"w", {4, 8}}, {"none", {0, 2}}, {"one", {}}}));
  std::vector<int64_t> offsets;
  for (const FlatLayout::Part& part : layout.parts) offsets.push_back(part.offset);
  EXPECT_THAT(offsets, testing::ElementsAre(32, 0, 32, 35));
  EXPECT_EQ(layout.elements, 36);
  GraphBuilder b("g");
  const ValueId flat = b.Input("flat", DType::kF32, {layout.elements});
  std::vector<ValueId> parts = Parts(b, layout, flat);
  EXPECT_EQ(ToString(b.shape(parts[1])), "[4, 8]");
  EXPECT_EQ(ToString(b.shape(parts[3])), "[]");
  b.Output(Flat(b, layout, parts), "again");
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).Finish());
  const Tensor numbers = Drawn(layout.elements, 5);
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> out,
                            Interpret(graph, std::vector<Tensor>{numbers}));
  EXPECT_TRUE(Compare(out[0], numbers, 0, 0).ok);

  EXPECT_THAT(LayOut({{"x", {1}}, {"x", {2}}}),
              StatusIs(absl::StatusCode::kInvalidArgument, testing::HasSubstr("stands twice")));
  EXPECT_THAT(LayOut({{"x", {-1}}}), StatusIs(absl::StatusCode::kInvalidArgument, testing::_));
  EXPECT_THAT(LayOut({{"x", {1LL << 40, 1LL << 40}}}),
              StatusIs(absl::StatusCode::kInvalidArgument, testing::_));
  EXPECT_THAT(LayOut({{"x", {1LL << 62}}, {"y", {1LL << 62}}}),
              StatusIs(absl::StatusCode::kInvalidArgument, testing::HasSubstr("2^62")));
}

}  // namespace
}  // namespace kiln::training
