// SPDX-License-Identifier: Apache-2.0
// Whose runtime a first run has, what require_device means to it, and for which target is dumped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "exec/package/package.h"
#include "kiln/trace.h"
#include "kiln/trace_ops.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Floats = std::vector<float>;

class TraceRuntimeTest : public testing::Test {
 protected:
  void TearDown() override { KILN_ASSERT_OK(SetLazyOptions(BackgroundCompile())); }

  CompileOptions On(RuntimeOptions runtime, CompileMode mode = CompileMode::kBlock) const {
    CompileOptions options;
    options.threads = 1;
    options.compile_mode = mode;
    options.cache.directory = cache_.path();
    absl::StatusOr<std::shared_ptr<Runtime>> made = Runtime::Create(std::move(runtime));
    EXPECT_THAT(made, IsOk());
    if (made.ok()) options.runtime = *std::move(made);
    return options;
  }
  CompileOptions OnGpuAlone(CompileMode mode = CompileMode::kBlock) const {
    return On({.threads = 1, .device = "cuda-emulated", .require_device = true}, mode);
  }
  static TraceOptions Traced(const CompileOptions& compile) {
    TraceOptions options;
    options.name = "step";
    options.compile = compile;
    return options;
  }
  static Floats ValuesOf(const Array& array) {
    absl::StatusOr<Floats> values = array.to_vector<float>();
    EXPECT_THAT(values, IsOk());
    return values.ok() ? *std::move(values) : Floats();
  }
  static std::vector<std::string> TargetsOf(const std::string& path) {
    const auto package = Package::OpenToLookAt(PackageSource::File(path));
    EXPECT_THAT(package, IsOk());
    std::vector<std::string> names;
    if (!package.ok()) return names;
    for (const Package::Target& target : (*package)->targets()) names.push_back(target.name);
    return names;
  }

  const TempDir cache_;
  const Array x_ = Array::from(Floats{1, 2, 3});
};

TEST_F(TraceRuntimeTest, ARuntimeIsThatOfItsTraceAlone) {
  const CompileOptions narrow = On({.threads = 1, .memory_budget = 4096}, CompileMode::kNever);
  auto step = trace([](const Array& a) { return exp(a) * 2.0f; }, Traced(narrow));
  KILN_ASSERT_OK(step(x_).eval());
  const auto large = [] { return Array::full({100000}, 1); };
  KILN_EXPECT_OK((large() * 3.0f).eval());
  auto plain = trace([](const Array& a) { return a * 5.0f; });
  KILN_EXPECT_OK(plain(large()).eval());
  // And the narrow one stays narrow.
  auto narrowed = trace([](const Array& a) { return a * 7.0f; }, Traced(narrow));
  EXPECT_EQ(narrowed(large()).eval().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(TraceRuntimeTest, ARequiredDeviceRunsAllFromTheFirstCallOn) {
  const CompileOptions compile = OnGpuAlone();
  auto step = trace([](const Array& a) { return a * 2.0f + 1.0f; }, Traced(compile));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ValuesOf(step(x_)), (Floats{3, 5, 7}));
  EXPECT_EQ(compile.runtime->metrics().runs, 3);
  EXPECT_EQ(compile.runtime->metrics().vm_runs, 0);

  KILN_ASSERT_OK(SetLazyOptions(compile));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ValuesOf(x_ * 2.0f + 1.0f), (Floats{3, 5, 7}));
  EXPECT_EQ(compile.runtime->metrics().vm_runs, 0);
}

TEST_F(TraceRuntimeTest, ARequiredDeviceWantsBlock) {
  for (const CompileMode mode : {CompileMode::kBackground, CompileMode::kNever}) {
    auto step = trace([](const Array& a) { return a * 2.0f + 1.0f; }, Traced(OnGpuAlone(mode)));
    for (int i = 0; i < 2; ++i) {
      const absl::Status status = step(x_).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(std::string(status.message()), HasSubstr("set compile_mode = kBlock"));
    }
  }
}

TEST_F(TraceRuntimeTest, APackageIsForTheDeviceOfTheRuntime) {
  const std::string file = cache_.File("step.kiln");
  DumpOptions dump;
  dump.input_data = {"#rand(0, 1)"};
  for (const bool required : {false, true}) {
    TraceOptions options =
        Traced(On({.threads = 1, .device = "cuda-emulated", .require_device = required}));
    options.capture_as_const = true;
    auto step = trace([](const Array& a) { return a * 2.0f + 1.0f; }, options);
    KILN_ASSERT_OK(step(x_).status());
    KILN_ASSERT_OK_AND_ASSIGN(const DumpInfo info, step.dump(file, dump));
    EXPECT_EQ(info.on_vm, 0);
    EXPECT_THAT(TargetsOf(file), ElementsAre(HasSubstr("cuda-sm")));
  }
  // For another machine: nothing runs here, and the target says for which.
  CompileOptions other = On({.threads = 1});
  other.target = *Target::Parse("cuda-sm90");
  TraceOptions options = Traced(other);
  options.record_only = true;
  auto step = trace([](const Array& a) { return a * 2.0f + 1.0f; }, options);
  KILN_ASSERT_OK(step(x_).status());
  KILN_ASSERT_OK(step.dump(file, dump).status());
  EXPECT_THAT(TargetsOf(file), ElementsAre("cuda-sm90"));
}

}  // namespace
}  // namespace kiln
