// SPDX-License-Identifier: Apache-2.0
// Random graphs over all types (tests/fusion/typed_graph.h) on the emulated GPU, whole and with
// each value on its own, have the bits that the VM gives on the CPU.
//
//   KILN_STRICT_GRAPHS   how many
//   KILN_SEED            the first seed
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/compare.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "compiler/kernel_service.h"
#include "graph/op.h"
#include "graph/text.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/fusion/typed_graph.h"

namespace kiln {
namespace {

class TypedGraphs : public testing::TestWithParam<int> {
 protected:
  CompileOptions Options(bool on_device) const {
    CompileOptions options;
    options.threads = 1;
    if (!on_device) {
      options.compile_mode = CompileMode::kNever;
      options.graph_opt_level = 0;
      return options;
    }
    options.runtime = runtime_;
    options.target = Target::Parse("cuda-sm80");
    return options;
  }
  static absl::StatusOr<std::vector<Tensor>> RunNet(const TypedGraph& net,
                                                    const CompileOptions& options) {
    KILN_ASSIGN_OR_RETURN(Model model, Compile(net.graph, options));
    std::vector<std::pair<std::string, Tensor>> inputs;
    for (size_t k = 0; k < net.inputs.size(); ++k)
      inputs.emplace_back(net.graph.value(net.graph.inputs()[k]).name, net.inputs[k]);
    return model.Run(inputs);
  }

  const std::shared_ptr<Runtime> runtime_ = [] {
    auto runtime = Runtime::Create({.threads = 1, .device = "cuda-emulated"});
    EXPECT_THAT(runtime, IsOk());
    return runtime.ok() ? *std::move(runtime) : nullptr;
  }();
  const std::shared_ptr<KernelService> kernels_ = std::make_shared<KernelService>(Options(true));
};

TEST_P(TypedGraphs, OnADeviceHaveTheBitsOfTheCpu) {
  const uint64_t count = FromEnvironment("KILN_STRICT_GRAPHS", 6);
  const uint64_t first = FromEnvironment("KILN_SEED", 5000);
  int failures = 0;
  for (uint64_t seed = first + GetParam(); seed < first + count && failures < 5; seed += 2) {
    const int64_t most[] = {300, 300, 5000, 60};
    KILN_ASSERT_OK_AND_ASSIGN(const TypedGraph net,
                              MakeTypedGraph(seed, {.most_elements = most[seed / 2 % 4]}));
    const absl::StatusOr<std::vector<Tensor>> want = RunNet(net, Options(false));
    if (!want.ok()) continue;
    const KernelCounts before = kernels_->counts();
    CompileOptions options = Options(true);
    options.kernels = kernels_;
    options.graph_opt_level = seed % 5 == 0 ? 0 : 3;
    const absl::StatusOr<std::vector<Tensor>> got = RunNet(net, options);
    std::string wrong = got.ok() ? "" : got.status().ToString();
    for (size_t i = 0; got.ok() && i < want->size(); ++i) {
      const Comparison comparison = CompareBits((*got)[i], (*want)[i]);
      if (!comparison.ok) absl::StrAppend(&wrong, "output ", i, ": ", comparison.what, "; ");
    }
    const KernelCounts counts = kernels_->counts();
    if (counts.failed != before.failed) absl::StrAppend(&wrong, "a kernel is wrong; ");
    if (counts.unvalidated != before.unvalidated) absl::StrAppend(&wrong, "not validated; ");
    if (wrong.empty()) continue;
    ++failures;
    ADD_FAILURE() << "KILN_SEED=" << seed << ": " << wrong << "\n" << Print(net.graph);
  }
  RecordProperty("built", std::to_string(kernels_->counts().built));
}

INSTANTIATE_TEST_SUITE_P(Seeds, TypedGraphs, testing::Range(0, 2));

}  // namespace
}  // namespace kiln
