// SPDX-License-Identifier: Apache-2.0
// What has no code for the runtime's device runs on the CPU with a warning, or is an error where
// RuntimeOptions::require_device says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/compile.h"
#include "compiler/compile_graph.h"
#include "compiler/kernel_service.h"
#include "compiler/package_writer.h"
#include "compiler/precompile.h"
#include "exec/device_use.h"
#include "exec/package/package.h"
#include "graph/tensors.h"
#include "graph/text.h"
#include "ptx_emulator/control.h"
#include "tests/base/captured_log.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"

namespace kiln {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> Lines(const CapturedLog& log) {
  std::vector<std::string> lines;
  for (const auto& [level, line] : log.lines)
    if (level == LogLevel::kWarning) lines.push_back(line);
  return lines;
}

class RequiredDevice : public testing::Test {
 protected:
  static std::shared_ptr<Runtime> RuntimeWith(bool required) {
    auto runtime =
        Runtime::Create({.threads = 1, .device = "cuda-emulated", .require_device = required});
    EXPECT_THAT(runtime, IsOk());
    return runtime.ok() ? *std::move(runtime) : nullptr;
  }
  CompileOptions Options(bool required) const {
    CompileOptions options;
    options.threads = 1;
    options.cache.directory = cache_.path();
    options.runtime = RuntimeWith(required);
    return options;
  }
  std::string PackageFor(const std::vector<std::string>& names) {
    CompileOptions options = Options(false);
    options.runtime = nullptr;
    std::vector<Target> targets;
    for (const std::string& name : names) targets.push_back(*Target::Parse(name));
    PackageWriter writer(PortInfosOf(graph_, true), PortInfosOf(graph_, false), MathMode::kStrict);
    const auto add = [&](const CompileOptions& own, const Variant& variant) {
      KILN_EXPECT_OK(writer.Add(*own.target, variant));
    };
    const auto jobs = KernelsOf(graph_, options, targets, {}, add);
    EXPECT_THAT(jobs, IsOk());
    KernelService service(options);
    Precompile(service, *jobs, 1, [](const KernelJob&, const KernelDone&) {});
    auto bytes = writer.Encode(*service.store());
    EXPECT_THAT(bytes, IsOk());
    return *std::move(bytes);
  }
  void ExpectRight(absl::StatusOr<Model> model) const {
    ASSERT_THAT(model, IsOk());
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got, model->Run({{"x", x_}}));
    EXPECT_FLOAT_EQ(*static_cast<const float*>(got[0].data()), 0.5F);
  }

  const Graph graph_ = *ParseGraph("graph g\ninput x : f32 [n]\ny = mul(x, x)\noutput y\n");
  const Tensor x_ = FilledTensor(DType::kF32, {7}, std::sqrt(0.5));
  const TempDir cache_;
};

TEST_F(RequiredDevice, APackageForOtherLevels) {
  const std::string bytes = PackageFor({"cuda-sm90", "x86-64-v3"});
  const ModelBytes model{bytes.data(), bytes.size(), nullptr, "p.kiln", ""};
  CapturedLog log;
  ExpectRight(Compile(model, Options(false)));
  EXPECT_THAT(Lines(log),
              testing::ElementsAre(
                  AllOf(HasSubstr("package \"p.kiln\": has code for "), HasSubstr("cuda-sm90"),
                        HasSubstr("none for cuda-sm80; it runs on the CPU, not on device "
                                  "\"cuda-emulated\""))));
  const absl::Status refused = Compile(model, Options(true)).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("none for cuda-sm80"), HasSubstr("require_device")));
  EXPECT_EQ(Lines(log).size(), 1u);
}

TEST_F(RequiredDevice, APackageForThisOne) {
  const std::string bytes = PackageFor({"cuda-sm80", "x86-64-v3"});
  CapturedLog log;
  const CompileOptions options = Options(true);
  KILN_ASSERT_OK_AND_ASSIGN(
      Model model, Compile(ModelBytes{bytes.data(), bytes.size(), nullptr, "p.kiln", ""}, options));
  ExpectRight(model);
  EXPECT_EQ(options.runtime->metrics().vm_runs, 0);
  EXPECT_THAT(Lines(log), IsEmpty());
}

TEST_F(RequiredDevice, APackageOfAHigherLevelAlone) {
  const std::string bytes = PackageFor({"cuda-sm90"});
  const ModelBytes model{bytes.data(), bytes.size(), nullptr, "p.kiln", ""};
  CapturedLog log;
  ExpectRight(Compile(model, Options(false)));
  EXPECT_THAT(Lines(log), Contains(HasSubstr("has no code that runs there")));
  const absl::Status refused = Compile(model, Options(true)).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
}

TEST_F(RequiredDevice, AModelWhoseCompilerIsNotThere) {
  CompileOptions options = Options(true);
  options.cache.enabled = false;
  options.codegen = "/nonexistent";
  CapturedLog log;
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(graph_, options));
  for (int run = 0; run < 2; ++run) {
    const absl::Status refused = model.Run({{"x", x_}}).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("on the VM of the CPU"));
  }
  KILN_EXPECT_OK(model.Run({{"x", FilledTensor(DType::kF32, {0}, 1)}}));
  options.runtime = RuntimeWith(false);
  ExpectRight(Compile(graph_, options));
  EXPECT_THAT(Lines(log), Contains(HasSubstr("a kernel runs on the VM")));
}

TEST_F(RequiredDevice, AModelForTheCpu) {
  CompileOptions options = Options(true);
  options.target = HostTarget();
  const absl::Status refused = Compile(graph_, options).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr(std::string(HostTarget().name())), HasSubstr("cuda-sm80")));
  options.target = std::nullopt;
  options.compile_mode = CompileMode::kNever;
  EXPECT_TRUE(absl::IsFailedPrecondition(Compile(graph_, options).status()));
  options.runtime = RuntimeWith(false);
  options.target = HostTarget();
  options.compile_mode = CompileMode::kBlock;
  CapturedLog log;
  ExpectRight(Compile(graph_, options));
  EXPECT_THAT(Lines(log), IsEmpty());  // as was asked for
}

// Only what it reads, and what it has written.
TEST_F(RequiredDevice, TheVmCopiesNoOutputBeforeItWrites) {
  CompileOptions options = Options(false);
  options.cache.enabled = false;
  options.codegen = "/nonexistent";
  CapturedLog log;
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(graph_, options));
  KILN_ASSERT_OK(model.Run({{"x", x_}}));
  const uint64_t before = kiln_ptx_calls("cuMemcpyDtoHAsync_v2");
  KILN_ASSERT_OK(model.Run({{"x", x_}}));
  EXPECT_EQ(kiln_ptx_calls("cuMemcpyDtoHAsync_v2") - before, 2u);  // x to the VM, y to the caller
}

TEST_F(RequiredDevice, MemoryOnItIsReported) {
  std::vector<int> numbers(64);
  std::iota(numbers.begin(), numbers.end(), 1);
  const Graph graph = *ParseGraph(absl::StrCat(
      "graph g\ninput x : f32 [n, 64]\nconst c : f32 [64] = [", absl::StrJoin(numbers, ", "),
      "]\na = softmax(x) {axis = 1}\ny = mul(a, c)\noutput y\n"));
  const CompileOptions options = Options(true);
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(graph, options));
  EXPECT_EQ(model.memory().device_arenas, 0);
  KILN_ASSERT_OK(model.Run({{"x", FilledTensor(DType::kF32, {30, 64}, 1)}}));
  EXPECT_GE(model.memory().device_arenas, 2 * 30 * 64 * 4);  // x and y
  EXPECT_EQ(model.memory().device_constants, 64 * 4);
  model.Trim();
  EXPECT_EQ(model.memory().device_arenas, 0);
}

// Two kernels, of which the second has its operands in the host's memory.
program::Program Mixed() {
  program::Program program;
  for (const char* device : {"", "cuda"}) program.add_buffers()->set_device(device);
  program::Region& region = *program.add_regions();
  for (const int buffer : {1, 0}) {
    program.add_kernels()->add_choices();
    program::Thunk& thunk = *region.add_thunks();
    thunk.set_name(buffer == 0 ? "second" : "first");
    thunk.mutable_kernel()->set_kernel(buffer);
    thunk.mutable_kernel()->add_inputs()->set_buffer(buffer);
    thunk.mutable_kernel()->add_outputs()->set_buffer(buffer);
  }
  return program;
}

TEST_F(RequiredDevice, AKernelThatNoTemplateTakesIsToldOnce) {
  std::atomic<bool> told{false};
  CapturedLog log;
  const std::shared_ptr<Runtime> any = RuntimeWith(false), required = RuntimeWith(true);
  for (int run = 0; run < 2; ++run) KILN_EXPECT_OK(DeviceUseOf(any).CheckKernels(Mixed(), told));
  EXPECT_THAT(Lines(log),
              testing::ElementsAre(HasSubstr("model: 1 of 2 kernels, the first \"second\"")));
  for (int run = 0; run < 2; ++run)
    EXPECT_TRUE(absl::IsFailedPrecondition(DeviceUseOf(required).CheckKernels(Mixed(), told)));
  KILN_EXPECT_OK(DeviceUseOf(Runtime::Default()).CheckKernels(Mixed(), told));
}

}  // namespace
}  // namespace kiln
