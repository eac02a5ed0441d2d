// SPDX-License-Identifier: Apache-2.0
// A training step as a program: parameters, gradients and moments of all tensors back to back in
// states, written in place, with one launch for the update whatever the tensors are.
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/compile.h"
#include "compiler/kernel_service.h"
#include "gmock/gmock.h"
#include "graph/graph.h"
#include "graph/reference/interpreter.h"
#include "graph/training/flat_tensors.h"
#include "graph/training/losses.h"
#include "graph/training/optimizer.h"
#include "gtest/gtest.h"
#include "kiln/graph.h"
#include "kiln/model.h"
#include "tests/base/status_matchers.h"
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

// Launches of one run, by kind.
struct Launches {
  std::map<std::string, int> kinds;
  std::string text;

  ThunkFn Count() {
    return [this](const ThunkView& view) {
      ++kinds[view.kind];
      absl::StrAppend(&text, view.kind, " ", view.name, "\n");
      return absl::OkStatus();
    };
  }
};

TEST(TrainingStep, OneLaunchUpdatesAllTensors) {
  KILN_ASSERT_OK_AND_ASSIGN(const FlatLayout layout, LayOut(ResNet50(4)));
  ASSERT_EQ(layout.parts.size(), 161u);
  for (const Optimizer& optimizer :
       {Optimizer(Adam()), Optimizer(AdamW()), Optimizer(Sgd{.momentum = 0.9}),
        Optimizer(Adagrad{.lr_decay = 0.1}), Optimizer(RmsProp()), Optimizer(Lion())}) {
    KILN_ASSERT_OK_AND_ASSIGN(const StepProgram program, StepOf(optimizer, layout.elements, Given));
    Launches launches;
    CompileOptions options = OnVm();
    options.states = program.states;
    options.on_thunk = launches.Count();
    KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(program.graph, options));
    Context context = model.NewContext();
    KILN_ASSERT_OK(context.SetState("p", Drawn(layout.elements, 1)));
    KILN_ASSERT_OK(context.Bind("g", Drawn(layout.elements, 2)));
    const Tensor lr = F32({}, {0.1});
    KILN_ASSERT_OK(context.Bind("lr", lr));
    KILN_ASSERT_OK(context.Run());
    std::printf("%s", launches.text.c_str());
  }
}

TEST(TrainingStep, GradientsAreWrittenInPlace) {
  KILN_ASSERT_OK_AND_ASSIGN(const FlatLayout layout, LayOut(ResNet50(4)));
  KILN_ASSERT_OK_AND_ASSIGN(const StepProgram program,
                            StepOf(Adam(), layout.elements, [&](GraphBuilder& b, ValueId p) {
                              std::vector<ValueId> gradients;
                              for (const ValueId part : Parts(b, layout, p)) {
                                // Each depends on all of its tensor, as gradients do.
                                const ValueId sum = b.Op("reduce_sum", {b.Op("mul", {part, part})});
                                gradients.push_back(b.Op("mul", {part, b.Op("rsqrt", {sum})}));
                              }
                              return Flat(b, layout, gradients);
                            }));
  Launches launches;
  CompileOptions options = OnVm();
  options.states = program.states;
  options.on_thunk = launches.Count();
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(program.graph, options));
  Context context = model.NewContext();
  KILN_ASSERT_OK(context.SetState("p", Drawn(layout.elements, 1)));
  const Tensor lr = F32({}, {0.1});
  KILN_ASSERT_OK(context.Bind("lr", lr));
  KILN_ASSERT_OK(context.Run());
  for (const auto& [kind, count] : launches.kinds) std::printf("%s %d\n", kind.c_str(), count);
  std::printf("%s", launches.text.substr(0, 2000).c_str());
}

}  // namespace
}  // namespace kiln::training
