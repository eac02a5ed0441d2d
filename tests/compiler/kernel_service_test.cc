// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernel_service.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "exec/cpu/elf_loader.h"
#include "exec/support/launch.h"
#include "exec/support/pool.h"
#include "kernel/text.h"
#include "schedule/choose.h"
#include "schedule/device.h"
#include "tests/base/captured_log.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"

namespace kiln {
namespace {

constexpr char kDouble[] =
    "kernel v1 math 1\ndims a\nin   0 f32 [a] dense\nout  0 f32 [a] dense = add(in0[a], in0[a])\n";

// A program with the one kernel `text`, scheduled for any extent.
program::Program ProgramOf(const std::string& text) {
  program::Program program;
  program::KernelDef* const def = program.add_kernels();
  const Kernel kernel = *ParseKernel(text);
  const SizeClass any{std::vector<int64_t>(kernel.dims.size(), kUnbounded)};
  def->set_text(Print(kernel));
  def->add_choices()->set_schedule(
      ChooseSchedule(kernel, any, ShippedMachine(HostTarget())).ToString());
  return program;
}

// Runs `function`, a kernel from one f32 row to another.
std::vector<float> RunRow(const KernelFunction& function, std::vector<float> in) {
  Pool pool(1);
  Launcher launcher(&pool);
  std::vector<float> out(in.size());
  BufferDim dim{0, static_cast<int32_t>(in.size()), 1, 0};
  BufferArg from, to;
  for (BufferArg* arg : {&from, &to}) {
    arg->type_code = 2;
    arg->type_bits = 32;
    arg->dimensions = 1;
    arg->dim = &dim;
  }
  from.host = reinterpret_cast<uint8_t*>(in.data());
  to.host = reinterpret_cast<uint8_t*>(out.data());
  int32_t extent = dim.extent;
  void* argv[] = {nullptr, &from, &extent, &to};
  EXPECT_EQ(launcher.Launch(function.run, function.self, argv), 0);
  return out;
}

class KernelServiceTest : public testing::Test {
 protected:
  void SetUp() override { SetLogLevel(LogLevel::kOff); }
  void TearDown() override { SetLogLevel(LogLevel::kWarning); }

  CompileOptions Options() {
    CompileOptions options;
    options.cache.directory = dir_.File("cache");
    options.codegen = KILN_TEST_BIN_DIR "/kiln-codegen";
    return options;
  }
  void ExpectDoubles(KernelService& service) {
    const program::Program program = ProgramOf(kDouble);
    KILN_ASSERT_OK_AND_ASSIGN(const auto handles, service.GetAll(program));
    EXPECT_EQ(RunRow(*handles[0][0]->Get(), {1, 2, -3}), (std::vector<float>{2, 4, -6}));
  }
  TempDir dir_;
};

TEST_F(KernelServiceTest, BuildsOnceThenFetches) {
  {
    KernelService service(Options());
    ExpectDoubles(service);
    ExpectDoubles(service);
    EXPECT_EQ(service.counts().kernels, 1);
    EXPECT_EQ(service.counts().built, 1);
  }
  KernelService again(Options());
  ExpectDoubles(again);
  EXPECT_EQ(again.counts().cached, 1);
  EXPECT_EQ(again.counts().built, 0);
}

TEST_F(KernelServiceTest, NeverModeStaysOnTheVmWithoutAWorker) {
  CompileOptions options = Options();
  options.compile_mode = CompileMode::kNever;
  options.codegen = "/nowhere";
  KernelService service(options);
  ExpectDoubles(service);
  EXPECT_EQ(service.counts().vm, 1);
  EXPECT_EQ(service.counts().failed, 0);
}

TEST_F(KernelServiceTest, MissingWorkerOrWrongProgramMeansTheVm) {
  for (const char* codegen : {"/nowhere", "/bin/true", "/bin/cat"}) {
    CompileOptions options = Options();
    options.codegen = codegen;
    options.kernel_timeout_ms = 100;
    KernelService service(options);
    ExpectDoubles(service);
    EXPECT_EQ(service.counts().failed, 1) << codegen;
  }
}

// A message of no meaning is no verdict on the kernel: somebody is told, nothing is remembered.
TEST_F(KernelServiceTest, ACompilerThatAnswersNonsenseIsSaidAndMeansTheVm) {
  const std::string nonsense = "printf '\\005\\000\\000\\000hello'; cat > /dev/null";
  const std::string hello = "'" KILN_TEST_BIN_DIR "/kiln-codegen' < /dev/null; ";
  for (const std::string& script : {nonsense, hello + nonsense}) {
    SCOPED_TRACE(script);
    CompileOptions options = Options();
    options.codegen = dir_.File("nonsense");
    std::ofstream(options.codegen) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(options.codegen, std::filesystem::perms::owner_all);
    CapturedLog log;
    SetLogLevel(LogLevel::kWarning);
    KernelService service(options);
    ExpectDoubles(service);
    EXPECT_EQ(service.counts().failed, 1);
    ASSERT_EQ(log.lines.size(), 1);
    EXPECT_TRUE(absl::StrContains(log.lines[0].second, "runs on the VM")) << log.lines[0].second;
    EXPECT_TRUE(service.store()->List()->empty());
  }
}

TEST_F(KernelServiceTest, KernelForAnotherCpuIsAMiss) {
  EXPECT_TRUE(HostRuns(""));
  EXPECT_FALSE(HostRuns("avx amx_tile_of_tomorrow"));
  EXPECT_EQ(HostRuns("avx2 fma"), HostTarget().compiles());
}

TEST_F(KernelServiceTest, ThreadsAskingForOneKernelBuildItOnce) {
  KernelService service(Options());
  const program::Program program = ProgramOf(kDouble);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] { EXPECT_TRUE(service.GetAll(program).ok()); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(service.counts().built, 1);
}

TEST_F(KernelServiceTest, BackgroundAnswersOnTheVmAndSwapsTheCompiledKernelIn) {
  CompileOptions options = Options();
  options.compile_mode = CompileMode::kBackground;
  KernelService service(options);
  KILN_ASSERT_OK_AND_ASSIGN(const auto handles, service.GetAll(ProgramOf(kDouble)));
  const KernelHandle& handle = *handles[0][0];
  const std::vector<float> in = {1, 2, -3}, want = {2, 4, -6};
  EXPECT_EQ(RunRow(*handle.Get(), in), want);
  EXPECT_EQ(service.counts().kernels, 1);
  EXPECT_EQ(service.counts().vm + service.counts().built, 1);
  service.WaitForBuilds();
  EXPECT_EQ(handle.generation(), 1u);
  EXPECT_FALSE(handle.Get()->vm);
  EXPECT_EQ(RunRow(*handle.Get(), in), want);
  EXPECT_EQ(service.counts().built, 1);
  EXPECT_EQ(service.counts().vm, 0);
  service.FinishValidations();
  KernelService again(options);  // what is cached is there at once
  KILN_ASSERT_OK_AND_ASSIGN(const auto cached, again.GetAll(ProgramOf(kDouble)));
  EXPECT_FALSE(cached[0][0]->Get()->vm);
}

// Programs of kernels drawn at random, which the VM runs until they are built.
TEST_F(KernelServiceTest, WhatIsStartedRunsAtOnceAndIsCompiledWhenItIsFinished) {
  std::mt19937 random(1);
  KernelService service(Options());
  service.ExpectBuilds();
  int kernels = 0;
  for (int round = 0; round < 4; ++round) {
    program::Program program;
    const int factor = 2 + round;  // the n-th kernel is in0 * factor + n
    const int count = 1 + static_cast<int>(random() % 3);
    for (int n = 0; n < count; ++n) {
      *program.add_kernels() =
          ProgramOf(absl::StrCat("kernel v1 math 1\ndims a\nin   0 f32 [a] dense\nout  0 f32 [a] "
                                 "dense = add(mul(in0[a], ",
                                 factor, "), ", n, ")\n"))
              .kernels(0);
    }
    kernels += count;
    KILN_ASSERT_OK_AND_ASSIGN(const auto handles, service.StartAll(program));
    const auto check = [&] {
      for (int n = 0; n < count; ++n) {
        const auto in = static_cast<float>(random() % 1000);
        EXPECT_EQ(RunRow(*handles[static_cast<size_t>(n)][0]->Get(), {in}),
                  (std::vector<float>{in * static_cast<float>(factor) + static_cast<float>(n)}));
      }
    };
    check();
    service.Finish(program);
    for (const auto& handle : handles) EXPECT_FALSE(handle[0]->Get()->vm);
    check();
    KILN_ASSERT_OK_AND_ASSIGN(const auto again, service.GetAll(program));
    EXPECT_EQ(again, handles);
  }
  EXPECT_EQ(service.counts().kernels, kernels);
  EXPECT_EQ(service.counts().built, kernels);
  EXPECT_EQ(service.counts().vm, 0);
}

TEST_F(KernelServiceTest, GetAllWaitsForWhatAnotherThreadHasStarted) {
  KernelService service(Options());
  const program::Program program = ProgramOf(kDouble);
  KILN_ASSERT_OK_AND_ASSIGN(const auto started, service.StartAll(program));
  KILN_ASSERT_OK_AND_ASSIGN(const auto handles, service.GetAll(program));
  EXPECT_EQ(handles, started);
  EXPECT_FALSE(handles[0][0]->Get()->vm);
}

TEST_F(KernelServiceTest, WhatIsStartedAndCannotBeBuiltIsFinishedOnTheVm) {
  for (const char* codegen : {"/nowhere", "/bin/true"}) {
    CompileOptions options = Options();
    options.codegen = codegen;
    KernelService service(options);
    service.ExpectBuilds();
    KILN_ASSERT_OK_AND_ASSIGN(const auto handles, service.StartAll(ProgramOf(kDouble)));
    service.Finish(ProgramOf(kDouble));
    EXPECT_TRUE(handles[0][0]->Get()->vm) << codegen;
    EXPECT_EQ(service.counts().failed, 1) << codegen;
    ExpectDoubles(service);
  }
}

TEST_F(KernelServiceTest, WithoutThreadsWhatIsStartedIsFinished) {
  const NoThreads scope(true);
  KernelService service(Options());
  KILN_ASSERT_OK_AND_ASSIGN(const auto handles, service.StartAll(ProgramOf(kDouble)));
  EXPECT_FALSE(handles[0][0]->Get()->vm);
}

TEST_F(KernelServiceTest, BackgroundWithoutAWorkerStaysOnTheVm) {
  CompileOptions options = Options();
  options.compile_mode = CompileMode::kBackground;
  options.codegen = "/nowhere";
  KernelService service(options);
  ExpectDoubles(service);
  service.WaitForBuilds();
  ExpectDoubles(service);
  EXPECT_EQ(service.counts().failed, 1);
  EXPECT_EQ(service.counts().vm, 1);
}

// A compiler that dies the first few times, as for want of memory.
TEST_F(KernelServiceTest, ABuildThatFailedForAWhileIsTriedAgain) {
  const std::string codegen = dir_.File("codegen");
  std::ofstream(codegen) << "#!/bin/sh\necho x >> '" << dir_.File("starts") << "'\n[ $(wc -l < '"
                         << dir_.File("starts")
                         << "') -gt 2 ] || exit 1\nexec '" KILN_TEST_BIN_DIR "/kiln-codegen'\n";
  std::filesystem::permissions(codegen, std::filesystem::perms::owner_all);
  for (const CompileMode mode : {CompileMode::kBackground, CompileMode::kBlock}) {
    std::filesystem::remove(dir_.File("starts"));
    CompileOptions options = Options();
    options.compile_mode = mode;
    options.cache.enabled = false;
    options.codegen = codegen;
    KernelService service(options);
    KILN_ASSERT_OK_AND_ASSIGN(const auto handles, service.GetAll(ProgramOf(kDouble)));
    EXPECT_TRUE(handles[0][0]->Get()->vm) << "it is not waited for";
    const absl::Time end = absl::Now() + absl::Seconds(15);
    while (handles[0][0]->Get()->vm && absl::Now() < end) absl::SleepFor(absl::Milliseconds(20));
    EXPECT_FALSE(handles[0][0]->Get()->vm);
    EXPECT_EQ(service.counts().built, 1);
    EXPECT_EQ(service.counts().vm, 0);
  }
}

TEST_F(KernelServiceTest, ABuildThatTookTooLongIsRememberedForThatTime) {
  CompileOptions options = Options();
  options.kernel_timeout_ms = 1;
  {
    KernelService service(options);
    ExpectDoubles(service);
    EXPECT_EQ(service.counts().failed, 1);
  }
  {
    CompileOptions knows = options;
    knows.codegen = dir_.File("codegen");
    std::ofstream(knows.codegen) << "#!/bin/sh\n: > '" << dir_.File("started") << "'\n";
    std::filesystem::permissions(knows.codegen, std::filesystem::perms::owner_all);
    KernelService service(knows);
    ExpectDoubles(service);
    EXPECT_EQ(service.counts().failed, 1);
    EXPECT_FALSE(std::filesystem::exists(dir_.File("started")));
  }
  options.kernel_timeout_ms = 60'000;
  KernelService service(options);
  ExpectDoubles(service);
  EXPECT_EQ(service.counts().built, 1) << "more time may do";
}

TEST_F(KernelServiceTest, AServiceThatEndsDoesNotWaitForItsBuilds) {
  CompileOptions options = Options();
  options.compile_mode = CompileMode::kBackground;
  options.codegen = "/bin/cat";  // never says hello: a build that would last for ever
  const absl::Time begun = absl::Now();
  {
    KernelService service(options);
    ExpectDoubles(service);
    absl::SleepFor(absl::Milliseconds(50));
  }
  EXPECT_LT(absl::Now() - begun, absl::Seconds(10));
}

TEST_F(KernelServiceTest, AKernelIsSwappedUnderRunningThreads) {
  CompileOptions options = Options();
  options.compile_mode = CompileMode::kBackground;
  KernelService service(options);
  KILN_ASSERT_OK_AND_ASSIGN(const auto handles, service.GetAll(ProgramOf(kDouble)));
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      while (!done) EXPECT_EQ(RunRow(*handles[0][0]->Get(), {1, -3}), (std::vector<float>{2, -6}));
    });
  }
  service.WaitForBuilds();
  done = true;
  for (std::thread& thread : threads) thread.join();
}

TEST_F(KernelServiceTest, WorksWithoutACache) {
  CompileOptions options = Options();
  options.cache.enabled = false;
  KernelService service(options);
  ExpectDoubles(service);
  EXPECT_EQ(service.store(), nullptr);
  options.cache = {true, "/proc/nonsense", false};
  KernelService refused(options);
  ExpectDoubles(refused);
  EXPECT_EQ(refused.store(), nullptr);
}

}  // namespace
}  // namespace kiln
