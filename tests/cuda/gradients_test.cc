// SPDX-License-Identifier: Apache-2.0
// Training on the emulated GPU: gradients of records, dropout and the updates of optimizers give
// the bits that the VM gives on the CPU. Every KILN_EVERY-th record with one of its calls, or, with
// 1, all calls of all records.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/compare.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "compiler/kernel_service.h"
#include "graph/op.h"
#include "graph/tensors.h"
#include "graph/text.h"
#include "graph/training/losses.h"
#include "graph/training/optimizer.h"
#include "kiln/graph.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/gradient/gradient_calls.h"

namespace kiln {
namespace {

size_t Every() { return static_cast<size_t>(FromEnvironment("KILN_EVERY", 16)); }

// Floats above 0, as moments are; integers from 1 to 9.
Tensor Drawn(DType type, std::vector<int64_t> shape) {
  Tensor tensor = Tensor::Allocate(type, std::move(shape));
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    if (IsFloat(type)) WriteFloat(tensor, i, 0.01 + static_cast<double>(i * 37 % 89) * 0.01);
    if (!IsFloat(type)) WriteInt(tensor, i, 1 + i * 37 % 9);
  }
  return tensor;
}

class EmulatedTraining : public testing::Test {
 protected:
  CompileOptions Options(bool on_device) const {
    CompileOptions options;
    options.threads = 1;
    options.cache.directory = cache_.path();
    if (on_device) {
      options.runtime = runtime_;
      options.target = Target::Parse("cuda-sm80");
    }
    return options;
  }

  // On the CPU the library computes these, whose sums have another order.
  static bool CallsLibrary(const Graph& graph) {
    return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                       [](const Node& node) { return node.op->kind == OpKind::kLibrary; });
  }

  static absl::StatusOr<std::vector<Tensor>> RunGraph(const Graph& graph,
                                                      const std::vector<Tensor>& tensors,
                                                      const CompileOptions& options) {
    KILN_ASSIGN_OR_RETURN(Model model, Compile(graph, options));
    std::vector<std::pair<std::string, Tensor>> inputs;
    for (size_t k = 0; k < tensors.size(); ++k)
      inputs.emplace_back(graph.value(graph.inputs()[k]).name, tensors[k]);
    return model.Run(inputs);
  }

  void ExpectTheBitsOfTheVm(const Graph& graph, const std::vector<Tensor>& inputs) {
    SCOPED_TRACE(Print(graph));
    CompileOptions vm = Options(CallsLibrary(graph)), device = Options(true);
    vm.compile_mode = CompileMode::kNever;
    device.kernels = kernels_;
    const KernelCounts before = kernels_->counts();
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> want, RunGraph(graph, inputs, vm));
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got, RunGraph(graph, inputs, device));
    ASSERT_EQ(got.size(), want.size());
    for (size_t k = 0; k < got.size(); ++k) {
      const Comparison c = CompareBits(got[k], want[k]);
      EXPECT_TRUE(c.ok) << "output " << k << ": " << c.what;
    }
    const KernelCounts counts = kernels_->counts();
    EXPECT_EQ(counts.failed, before.failed) << "a kernel could not be built, or is wrong";
    EXPECT_EQ(counts.unvalidated, before.unvalidated);
  }

  const TempDir cache_;
  const std::shared_ptr<Runtime> runtime_ = [] {
    auto runtime = Runtime::Create({.threads = 1, .device = "cuda-emulated"});
    EXPECT_THAT(runtime, IsOk());
    return runtime.ok() ? *std::move(runtime) : nullptr;
  }();
  const std::shared_ptr<KernelService> kernels_ = std::make_shared<KernelService>(Options(true));
};

// Of f32 and of narrower and wider floats by turns.
DType TypeOf(const OpDef& op, const std::string& call, size_t turn) {
  constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF64, DType::kF16};
  if (absl::StrContains(call, "f64}")) return DType::kF64;
  // A sum at places is of 32 or 64 bits.
  return kTypes[op.name == absl::string_view("scatter_sum") ? turn % 2 * 2 : turn % 4];
}

TEST_F(EmulatedTraining, GradientsOfRecordsHaveTheBitsOfTheCpu) {
  size_t record = 0, tried = 0;
  for (const OpDef* op : AllOps()) {
    const std::vector<std::string> calls = CallsOf(*op);
    if (op->gradient.none != nullptr || calls.empty() || record++ % Every() != 0) continue;
    const size_t first = Every() == 1 ? 0 : tried % calls.size();
    const size_t end = Every() == 1 ? calls.size() : first + 1;
    for (size_t k = first; k < end; ++k, ++tried) {
      const std::string& text = calls[k];
      const DType type = TypeOf(*op, text, tried);
      SCOPED_TRACE(absl::StrCat(text, " of ", Name(type)));
      KILN_ASSERT_OK_AND_ASSIGN(GradientCall call, MakeCall(text, type, 1));
      KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, Differentiated(call.graph, call.inputs));
      ExpectTheBitsOfTheVm(graph, call.inputs);
    }
  }
  EXPECT_GE(tried, 5u);
  EXPECT_GT(kernels_->counts().built, 5);
}

// What is drawn on the device is what is drawn on the CPU, forward and backward.
TEST_F(EmulatedTraining, DropoutDrawsTheSame) {
  KILN_ASSERT_OK_AND_ASSIGN(
      const Graph graph,
      ParseGraph("graph g\ninput x : f32 [n, 37]\ninput w : f32 [37]\na = mul(x, w)\n"
                 "d, kept = dropout(a) {ratio = 0.25, seed = 3}\nt = tanh(d)\noutput t\n"));
  std::vector<Tensor> inputs = {Drawn(DType::kF32, {29, 37}), Drawn(DType::kF32, {37})};
  KILN_ASSERT_OK_AND_ASSIGN(const Graph gradients, Differentiated(graph, inputs));
  ExpectTheBitsOfTheVm(gradients, inputs);
}

// A parameter of `type`, its gradient, and moments of f32 or of a wider parameter's type.
absl::StatusOr<Graph> UpdateOf(const training::Optimizer& optimizer, DType type, bool clipped) {
  const DType moment_type = type == DType::kF64 ? type : DType::kF32;
  GraphBuilder b("update");
  const ValueId p = b.Input("p", type, {1000}), g = b.Input("g", type, {1000});
  std::vector<ValueId> moments;
  for (const std::string& name : training::MomentNames(optimizer))
    moments.push_back(b.Input(name, moment_type, {1000}));
  const ValueId lr = b.Input("lr", DType::kF32, {}), t = b.Input("t", DType::kI64, {});
  const ValueId gradient = clipped ? training::ClipByGlobalNorm(b, {g}, 0.5).gradients[0] : g;
  const auto next = training::Update(b, optimizer, p, gradient, moments, lr, t);
  KILN_RETURN_IF_ERROR(next.status());
  b.Output(next->parameter, "p_next");
  for (size_t k = 0; k < moments.size(); ++k) b.Output(next->moments[k], absl::StrCat("m", k));
  return std::move(b).Finish();
}

TEST_F(EmulatedTraining, OptimizersUpdateToTheSameBits) {
  using namespace training;
  const Optimizer optimizers[] = {
      AdamW{.weight_decay = 0.1},
      Sgd{.momentum = 0.9, .weight_decay = 0.01, .nesterov = true},
      Sgd{},
      Adam{.epsilon = 0.1, .epsilon_hat = true},
      Lion{.weight_decay = 0.1},
      RmsProp{.alpha = 0.9, .weight_decay = 0.1, .momentum = 0.5, .centered = true},
      Adam{.weight_decay = 0.2},
      Sgd{.momentum = 0.8, .dampening = 0.5},
      Adagrad{.lr_decay = 0.3, .weight_decay = 0.1},
      RmsProp{},
  };
  constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF16, DType::kF64};
  const size_t every = std::max<size_t>(Every() / 5, 1);
  for (size_t k = 0; k < std::size(optimizers); k += every) {
    for (size_t of = every == 1 ? 0 : k; of < (every == 1 ? 4 : k + 1); ++of) {
      const DType type = kTypes[of % 4];
      SCOPED_TRACE(absl::StrCat("optimizer ", k, " of ", Name(type)));
      KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, UpdateOf(optimizers[k], type, k % 2 == 0));
      std::vector<Tensor> inputs;
      for (const ValueId id : graph.inputs()) {
        const Value& value = graph.value(id);
        KILN_ASSERT_OK_AND_ASSIGN(const std::vector<int64_t> shape, Evaluate(value.shape, {}));
        inputs.push_back(Drawn(value.type, shape));
      }
      ExpectTheBitsOfTheVm(graph, inputs);
    }
  }
}

// A product, a loss of its rows, and what both give back.
TEST_F(EmulatedTraining, AClassifiersGradientsHaveTheBitsOfTheCpu) {
  GraphBuilder b("step");
  const ValueId x = b.Input("x", DType::kF32, {9, 20}), w = b.Input("w", DType::kF32, {20, 12});
  const ValueId labels = b.Input("labels", DType::kI64, {9});
  b.Output(training::CrossEntropy(b, b.Op("matmul", {x, w}), labels), "loss");
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).Finish());
  std::vector<Tensor> inputs = {Drawn(DType::kF32, {9, 20}), Drawn(DType::kF32, {20, 12}),
                                Drawn(DType::kI64, {9})};
  KILN_ASSERT_OK_AND_ASSIGN(const Graph gradients, Differentiated(graph, inputs));
  ExpectTheBitsOfTheVm(gradients, inputs);
}

}  // namespace
}  // namespace kiln
