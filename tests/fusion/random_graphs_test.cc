// SPDX-License-Identifier: Apache-2.0
// Random graphs: -O0 and -O3 agree; at -O3 those without library operators give the same bits for
// 1, 2, 3 and 8 threads, with kernels fresh, from the cache and on the VM. 20 graphs, or as many as
// KILN_RANDOM_GRAPHS says.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/compare.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "compiler/kernel_service.h"
#include "graph/text.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/fusion/random_graph.h"

namespace kiln {
namespace {

int NumGraphs() { return static_cast<int>(FromEnvironment("KILN_RANDOM_GRAPHS", 20)); }

absl::StatusOr<std::vector<Tensor>> RunNet(const RandomNet& net, const CompileOptions& options) {
  KILN_ASSIGN_OR_RETURN(Model model, Compile(net.graph, options));
  std::vector<std::pair<std::string, Tensor>> inputs;
  for (size_t k = 0; k < net.inputs.size(); ++k)
    inputs.emplace_back(net.graph.value(net.graph.inputs()[k]).name, net.inputs[k]);
  return model.Run(inputs);
}

// The same values, but for the order of sums.
void ExpectNear(const std::vector<Tensor>& got, const std::vector<Tensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const Comparison comparison =
        Compare(got[i], want[i], 1e-4, 1e-4 * (1 + StandardDeviation(want[i])));
    EXPECT_TRUE(comparison.ok) << "output " << i << ": " << comparison.what;
  }
}

void ExpectSameBits(const std::vector<Tensor>& got, const std::vector<Tensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const Comparison comparison = CompareBits(got[i], want[i]);
    EXPECT_TRUE(comparison.ok) << "output " << i << ": " << comparison.what;
  }
}

void Check(uint64_t seed, const std::string& cache) {
  KILN_ASSERT_OK_AND_ASSIGN(const RandomNet net, MakeRandomNet(seed, 60'000));
  SCOPED_TRACE(absl::StrCat("seed ", seed, "\n", Print(net.graph)));
  CompileOptions plain;
  plain.graph_opt_level = 0;
  plain.threads = 1;
  plain.compile_mode = CompileMode::kNever;
  plain.cache.enabled = false;
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> unfused, RunNet(net, plain));
  CompileOptions options;
  options.cache.directory = cache;
  options.threads = 1;
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> fused, RunNet(net, options));
  ExpectNear(fused, unfused);
  if (net.library) return;
  for (const int threads : {1, 2, 3, 8}) {  // all from the cache now
    options.threads = threads;
    options.kernels = std::make_shared<KernelService>(options);
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> again, RunNet(net, options));
    SCOPED_TRACE(absl::StrCat("threads ", threads));
    ExpectSameBits(again, fused);
    const KernelCounts counts = options.kernels->counts();
    EXPECT_EQ(counts.failed, 0) << "kernels are refused by their validations";
    EXPECT_EQ(counts.unvalidated, 0) << "kernels cannot be validated";
    EXPECT_EQ(counts.built, 0) << "kernels are built again";
  }
  options.kernels = nullptr;
  options.compile_mode = CompileMode::kNever;
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> on_vm, RunNet(net, options));
  SCOPED_TRACE("on the VM");
  ExpectSameBits(on_vm, fused);
}

// In slices, so that a failure names a small range and slices may run in parallel.
class RandomGraphs : public testing::TestWithParam<int> {};
TEST_P(RandomGraphs, GiveTheSameHoweverTheyRun) {
  const TempDir cache;
  for (int seed = GetParam(); seed < NumGraphs(); seed += 10) {
    Check(static_cast<uint64_t>(seed), cache.path());
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomGraphs, testing::Range(0, 10));

}  // namespace
}  // namespace kiln
