// SPDX-License-Identifier: Apache-2.0
// Gradients compiled: of every record and of control flow the interpreter's values, of random
// graphs the same bits on the VM and in compiled code, for 1, 2, 3 and 8 threads, at both ends of
// optimisation. 6 graphs, or as many as KILN_RANDOM_GRAPHS says, from the seed KILN_SEED on.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/compare.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "compiler/kernel_service.h"
#include "graph/gradient/gradients.h"
#include "graph/op.h"
#include "graph/rebuild.h"
#include "graph/reference/gradient_check.h"
#include "graph/reference/interpreter.h"
#include "graph/text.h"
#include "gtest/gtest.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/compiler/on_vm.h"
#include "tests/fusion/random_graph.h"
#include "tests/gradient/control_texts.h"
#include "tests/gradient/gradient_calls.h"
#include "tests/graph/tensors.h"

namespace kiln {
namespace {

CompileOptions Compiled() {
  CompileOptions options;
  options.compile_mode = CompileMode::kBlock;
  options.threads = 1;
  options.codegen = KILN_TEST_BIN_DIR "/kiln-codegen";
  return options;
}

std::vector<std::pair<std::string, Tensor>> Named(const Graph& graph,
                                                  const std::vector<Tensor>& inputs) {
  std::vector<std::pair<std::string, Tensor>> named;
  for (size_t k = 0; k < inputs.size(); ++k)
    named.emplace_back(graph.value(graph.inputs()[k]).name, inputs[k]);
  return named;
}

absl::StatusOr<std::vector<Tensor>> RunGraph(const Graph& graph, const std::vector<Tensor>& inputs,
                                             const CompileOptions& options) {
  KILN_ASSIGN_OR_RETURN(Model model, Compile(graph, options));
  return model.Run(Named(graph, inputs));
}

void ExpectNear(const std::vector<Tensor>& got, const std::vector<Tensor>& want, double bound) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t k = 0; k < got.size(); ++k) {
    const Comparison c = Compare(got[k], want[k], bound, bound * (1 + StandardDeviation(want[k])));
    EXPECT_TRUE(c.ok) << "output " << k << ": " << c.what;
  }
}

// What a graph of these numbers alone gives.
absl::StatusOr<std::vector<Tensor>> Wanted(const Graph& graph, std::vector<Tensor>& inputs) {
  std::vector<Shape> shapes;
  for (const Tensor& input : inputs) shapes.push_back(ToShape(input.shape()));
  KILN_ASSIGN_OR_RETURN(const Graph exact, WithInputShapes(graph, shapes));
  KILN_ASSIGN_OR_RETURN(const Graph gradients, Differentiated(exact, inputs));
  return Interpret(gradients, inputs);
}

// Graphs with symbols are compiled as such, and run for two sets of extents.
TEST(CompiledGradients, OfEveryRecordAreTheInterpreters) {
  int others = 0;
  for (const OpDef* op : AllOps()) {
    if (op->gradient.none != nullptr) continue;
    for (const std::string& text : CallsOf(*op)) {
      SCOPED_TRACE(text);
      KILN_ASSERT_OK_AND_ASSIGN(GradientCall call, MakeCall(text, DType::kF32, 1));
      KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, Differentiated(call.graph, call.inputs));
      KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> want, Interpret(graph, call.inputs));
      KILN_ASSERT_OK_AND_ASSIGN(GradientCall other, MakeCall(text, DType::kF32, 2, OtherSymbols()));
      const absl::StatusOr<std::vector<Tensor>> want_other = Wanted(other.graph, other.inputs);
      others += want_other.ok() ? 1 : 0;
      for (const int level : {0, 3}) {
        CompileOptions options = OnVm();
        options.graph_opt_level = level;
        KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(graph, options));
        KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got,
                                  model.Run(Named(graph, call.inputs)));
        ExpectNear(got, want, 1e-4);
        if (!want_other.ok()) continue;
        KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got_other,
                                  model.Run(Named(graph, other.inputs)));
        ExpectNear(got_other, *want_other, 1e-4);
      }
    }
  }
  EXPECT_GT(others, 500);
}

// Branches and loops are segments of their own.
TEST(CompiledGradients, OfBranchesAndLoopsAreTheInterpreters) {
  const Tensor x = F32({3, 2}, {0.1, -0.4, 0.7, 0.3, -0.2, 0.9});
  const Tensor s = F32({4}, {0.5, -0.3, 0.8, 0.2}), w = F32({4}, {1.2, 0.7, -0.9, 0.4});
  struct Program {
    std::string text;
    std::vector<std::vector<Tensor>> runs;
  };
  const auto truth = [](bool value) { return Make(DType::kBool, {}, {value ? 1.0 : 0.0}); };
  const Program programs[] = {
      {BranchesText("f32"), {{truth(true), x, F32({}, {2})}, {truth(false), x, F32({}, {2})}}},
      {LoopText("f32", "const m : i64 [] = 3", "output c"), {{s, w}}},
      {LoopText("f32", "input m : i64 []", "output c"),
       {{I64({}, {4}), s, w}, {I64({}, {1}), s, w}}},
      {LoopText("f32", "input m : i64 []", kUntilTwo), {{I64({}, {9}), s, w}}},
  };
  for (const Program& program : programs) {
    SCOPED_TRACE(program.text);
    KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, ParseGraph(program.text));
    for (const int level : {0, 3}) {
      for (std::vector<Tensor> inputs : program.runs) {
        KILN_ASSERT_OK_AND_ASSIGN(const Graph gradients, Differentiated(graph, inputs));
        KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> want, Interpret(gradients, inputs));
        CompileOptions options = OnVm();
        options.graph_opt_level = level;
        KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got,
                                  RunGraph(gradients, inputs, options));
        ExpectNear(got, want, 1e-5);
      }
    }
  }
}

TEST(CompiledGradients, OfRandomGraphsHaveTheSameBits) {
  const auto count = static_cast<uint64_t>(FromEnvironment("KILN_RANDOM_GRAPHS", 6));
  uint64_t seed = static_cast<uint64_t>(FromEnvironment("KILN_SEED", 1));
  const auto service = std::make_shared<KernelService>(Compiled());
  for (uint64_t done = 0; done < count; ++seed) {
    KILN_ASSERT_OK_AND_ASSIGN(RandomNet net, MakeRandomNet(seed, 3000));
    if (net.library) continue;
    ++done;
    KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, Differentiated(net.graph, net.inputs));
    SCOPED_TRACE(absl::StrCat("KILN_SEED=", seed, "\n", Print(graph)));
    std::vector<std::vector<Tensor>> by_level;
    for (const int level : {0, 3}) {
      CompileOptions vm = OnVm(), compiled = Compiled();
      compiled.kernels = service;
      vm.graph_opt_level = compiled.graph_opt_level = level;
      KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> want, RunGraph(graph, net.inputs, vm));
      for (const int threads : {1, 2, 3, 8}) {
        compiled.threads = threads;
        KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got,
                                  RunGraph(graph, net.inputs, compiled));
        for (size_t k = 0; k < got.size(); ++k) {
          const Comparison c = CompareBits(got[k], want[k]);
          EXPECT_TRUE(c.ok) << "-O" << level << ", " << threads << " threads, output " << k << ": "
                            << c.what;
        }
      }
      by_level.push_back(want);
    }
    ExpectNear(by_level[1], by_level[0], 1e-4);
  }
}

}  // namespace
}  // namespace kiln
