// SPDX-License-Identifier: Apache-2.0
// The kernels of the tiny networks and of the benchmark's graphs, as they are fused for the CPU, on
// the emulated device.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "compiler/compile_graph.h"
#include "compiler/model_source.h"
#include "kernel/text.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/cuda/device_kernel_check.h"
#include "tests/cuda/emulated_gpu.h"
#include "tests/cuda/network_paths.h"

namespace kiln {
namespace {

// The kernel's own extents, but of outer dims three at most, and of a long row what takes the same
// code: the emulator takes a second for some hundred million instructions.
std::vector<int64_t> Shrunk(const Kernel& kernel, std::vector<int64_t> extents) {
  constexpr int64_t kOuter = 3, kRow = 1500;
  for (size_t d = 0; d < extents.size(); ++d) {
    const bool row = static_cast<int>(d) == kernel.innermost();
    const bool size = static_cast<int>(d) >= kernel.num_iterated();
    if (!size) extents[d] = std::min(extents[d], row ? kRow : kOuter);
  }
  return extents;
}

class NetworkKernels : public testing::Test {
 protected:
  void CheckModel(const std::string& path) {
    SCOPED_TRACE(path);
    KILN_ASSERT_OK_AND_ASSIGN(const ModelSource source, ModelSource::Read(path, {}));
    KILN_ASSERT_OK_AND_ASSIGN(const Compiled compiled, CompileGraph(source.graph(), {}));
    SymbolValues symbols;
    std::set<std::string> names;
    for (const ValueId id : compiled.graph.inputs())
      for (const Dim& extent : compiled.graph.value(id).shape) extent.CollectSymbols(names);
    for (const std::string& name : names) symbols[name] = 2;
    for (const program::Thunk& thunk : compiled.variant.program.regions(0).thunks()) {
      if (!thunk.has_kernel()) continue;
      const std::string& text = compiled.variant.program.kernels(thunk.kernel().kernel()).text();
      if (!seen_.insert(text).second || seen_.size() % each_ != 0) continue;
      std::vector<int64_t> extents;
      for (const std::string& dim : thunk.kernel().dims())
        extents.push_back(Dim::Parse(dim)->Evaluate(symbols).value_or(1));
      CheckKernel(text, extents);
    }
  }

  void CheckKernel(const std::string& text, const std::vector<int64_t>& extents) {
    SCOPED_TRACE(text);
    const Kernel kernel = *ParseKernel(text);
    std::string last;
    for (const Schedule& schedule : DeviceCandidates(kernel, extents)) {
      if (schedule.name() == last) continue;  // the first of each template
      last = schedule.name();
      SCOPED_TRACE(schedule.ToString());
      DeviceKernelCheck check(gpu_, kernel, schedule);
      ASSERT_EQ(check.error(), "");
      EXPECT_EQ(check.Run(MakeRandomRunAt(kernel, 3, Shrunk(kernel, extents))), "");
      ++checked_;
    }
  }

  const std::shared_ptr<cuda::Gpu> gpu_ = EmulatedGpu();
  const uint64_t each_ = FromEnvironment("KILN_DEVICE_KERNELS", 9);  // of the kernels each n-th
  std::set<std::string> seen_;
  int checked_ = 0;
};

TEST_F(NetworkKernels, HaveTheBitsOfTheText) {
  for (const std::string& path : NetworkPaths()) CheckModel(path);
  EXPECT_GT(seen_.size(), 50u);
  EXPECT_GE(checked_, static_cast<int>(seen_.size() / each_));
}

}  // namespace
}  // namespace kiln
