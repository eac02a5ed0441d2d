// SPDX-License-Identifier: Apache-2.0
// A package for several levels of GPUs and of CPUs: each device runs the best code that it can.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/compare.h"
#include "compiler/compile.h"
#include "compiler/compile_graph.h"
#include "compiler/kernel_service.h"
#include "compiler/package_writer.h"
#include "compiler/precompile.h"
#include "exec/package/package.h"
#include "graph/tensors.h"
#include "graph/text.h"
#include "ptx_emulator/control.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"

namespace kiln {
namespace {

// A device whose driver says that it is of this capability.
std::shared_ptr<Runtime> RuntimeOf(int sm) {
  kiln_ptx_config config;
  kiln_ptx_default_config(&config);
  config.sm[0] = sm;
  kiln_ptx_configure(&config);
  auto runtime = Runtime::Create({.threads = 1, .device = "cuda-emulated"});
  EXPECT_THAT(runtime, IsOk());
  return runtime.ok() ? *std::move(runtime) : nullptr;
}

PackageSource Source(const std::string& bytes) {
  return PackageSource::Memory(bytes.data(), bytes.size(), nullptr);
}

class PackageTargets : public testing::Test {
 protected:
  // The bytes of a package for these targets.
  std::string Made(const std::vector<std::string>& names) {
    CompileOptions options;
    options.threads = 1;
    options.cache.directory = cache_.path();
    std::vector<Target> targets;
    for (const std::string& name : names) targets.push_back(*Target::Parse(name));
    PackageWriter writer(PortInfosOf(graph_, true), PortInfosOf(graph_, false), MathMode::kStrict);
    const auto add = [&](const CompileOptions& own, const Variant& variant) {
      KILN_EXPECT_OK(writer.Add(*own.target, variant));
    };
    const auto jobs = KernelsOf(graph_, options, targets, {}, add);
    EXPECT_THAT(jobs, IsOk());
    KernelService service(options);
    Precompile(service, *jobs, 1,
               [](const KernelJob&, const KernelDone& done) { EXPECT_THAT(done.kept, IsOk()); });
    auto bytes = writer.Encode(*service.store());
    EXPECT_THAT(bytes, IsOk());
    return *std::move(bytes);
  }

  const Graph graph_ = *ParseGraph(
      "graph g\ninput x : f32 [n, 300]\ny = softmax(x) {axis = 1}\nz = mul(y, x)\noutput z\n");
  const TempDir cache_;
};

TEST_F(PackageTargets, EachDeviceRunsTheBestCode) {
  const std::vector<std::string> all = {"cuda-sm80", "cuda-sm90", "cuda-sm100", "cuda-sm120",
                                        "x86-64-v3"};
  const std::string whole = Made(all), few = Made({"cuda-sm80", "cuda-sm100", "x86-64-v3"});
  KILN_ASSERT_OK_AND_ASSIGN(const auto looked_at, Package::OpenToLookAt(Source(whole)));
  std::vector<std::string> listed;
  for (const Package::Target& target : looked_at->targets()) {
    listed.push_back(target.name);
    EXPECT_GT(target.kernels, 0) << target.name;
    EXPECT_GT(target.bytes, 0) << target.name;
    EXPECT_EQ(target.unvalidated, 0) << target.name;
  }
  EXPECT_THAT(listed, testing::UnorderedElementsAreArray(all));
  const Tensor x = FilledTensor(DType::kF32, {7, 300}, 0.25);
  KILN_ASSERT_OK_AND_ASSIGN(Model on_cpu, LoadPackage(Source(whole), {}, {}));
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> want, on_cpu.Run({{"x", x}}));
  struct Case {
    int sm;
    const std::string& package;
    const char* target;
  };
  for (const Case& one : {Case{80, whole, "cuda-sm80"},
                          {86, whole, "cuda-sm80"},
                          {90, whole, "cuda-sm90"},
                          {100, whole, "cuda-sm100"},
                          {120, whole, "cuda-sm120"},
                          {90, few, "cuda-sm80"},
                          {120, few, "cuda-sm100"}}) {
    SCOPED_TRACE(absl::StrCat("sm_", one.sm, " ", one.target));
    const std::shared_ptr<Runtime> runtime = RuntimeOf(one.sm);
    ASSERT_NE(runtime, nullptr);
    KILN_ASSERT_OK_AND_ASSIGN(const auto device, OpenComputeDevice("cuda-emulated"));
    KILN_ASSERT_OK_AND_ASSIGN(const auto package,
                              Package::Open(Source(one.package), {}, "", device));
    EXPECT_EQ(package->target(), one.target);
    EXPECT_GT(package->compiled(), 0);
    EXPECT_EQ(package->on_vm(), 0);
    RunOptions options;
    options.runtime = runtime;
    KILN_ASSERT_OK_AND_ASSIGN(Model model, LoadPackage(Source(one.package), options, {}));
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got, model.Run({{"x", x}}));
    const Comparison comparison = CompareBits(got[0], want[0]);
    EXPECT_TRUE(comparison.ok) << comparison.what;
  }
  KILN_ASSERT_OK_AND_ASSIGN(const auto on_host, Package::Open(Source(whole)));
  EXPECT_EQ(on_host->target(), "x86-64-v3");
}

}  // namespace
}  // namespace kiln
