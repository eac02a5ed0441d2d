// SPDX-License-Identifier: Apache-2.0
// Validations of right and wrong code, and what the service makes of them.
#include "exec/validate/validation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/cpu_model.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/thread.h"
#include "compiler/kernel_entry.h"
#include "compiler/kernel_service.h"
#include "exec/validate/probe.h"
#include "exec/validate/validator.h"
#include "kernel/text.h"
#include "schedule/choose.h"
#include "schedule/device.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/kernel/random.h"

namespace kiln {
namespace {

using ::testing::HasSubstr;

constexpr char kDouble[] =
    "kernel v1 math 1\ndims a\nin   0 f32 [a] dense\nout  0 f32 [a] dense = add(in0[a], in0[a])\n";

std::string Planted(int which) {
  std::ifstream file(absl::StrCat(PLANTED_DIR "/planted_", which, ".so"), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Schedule ScheduleOf(const Kernel& kernel) {
  const SizeClass any{std::vector<int64_t>(kernel.dims.size(), kUnbounded)};
  return ChooseSchedule(kernel, any, ShippedMachine(LowestTarget()));
}

LaunchInfo InfoOf(const Kernel& kernel) { return ScheduleOf(kernel).Info(); }

ValidationRequest RequestFor(int planted) {
  const Kernel kernel = *ParseKernel(kDouble);
  return {Planted(planted), Print(kernel), InfoOf(kernel).ToString(), {-1}, {}};
}

TEST(Probes, FitEveryKernel) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const Kernel kernel = RandomKernel(seed);
    const std::vector<Probe> probes = ProbesFor(kernel, InfoOf(kernel), {});
    EXPECT_GE(probes.size(), 5u) << seed << "\n" << Print(kernel);
  }
}

TEST(Probes, CoverTailsBlocksTasksAndSpecials) {
  const Kernel kernel = *ParseKernel(kDouble);
  std::vector<int64_t> extents;
  bool specials = false;
  bool in_place = false;
  for (const Probe& probe : ProbesFor(kernel, InfoOf(kernel), {-1})) {
    extents.push_back(probe.extents[0]);
    specials = specials || probe.specials;
    in_place = in_place || probe.in_place;
  }
  const int64_t step = InfoOf(kernel).step;
  for (const int64_t wanted :
       {int64_t{1}, step - 1, step, step + 1, int64_t{63}, int64_t{65}, int64_t{4097}})
    EXPECT_THAT(extents, testing::Contains(wanted));
  EXPECT_TRUE(specials && in_place);
}

TEST(Probes, StayInTheSizeClass) {
  const Kernel kernel = *ParseKernel(kDouble);
  for (const Probe& probe : ProbesFor(kernel, InfoOf(kernel), {50}))
    EXPECT_LE(probe.extents[0], 50);
}

// Reads two elements past the coordinate: the operand must be longer than the iteration space.
TEST(Probes, KeepUnguardedReadsInside) {
  const Kernel kernel = *ParseKernel(
      "kernel v1 math 1\ndims a n0\nin   0 f32 [n0] dense\n"
      "out  0 f32 [a] dense = add(in0[a+2], in0[2*a])\n");
  const std::vector<Probe> probes = ProbesFor(kernel, InfoOf(kernel), {});
  ASSERT_FALSE(probes.empty());
  for (const Probe& probe : probes)
    EXPECT_GE(probe.extents[1], std::max(probe.extents[0] + 2, 2 * probe.extents[0] - 1));
}

// Three pieces one after the other: no graph makes a row that is longer than they are together.
constexpr char kConcat[] =
    "kernel v1 math 1\ndims a b n0 n1 n2\nin   0 f32 [a, n0] dense\nin   1 f32 [a, n1] dense\n"
    "in   2 f32 [a, n2] dense\n"
    "out  0 f32 [a, b] dense = guard(lt(index(b), extent(n0)), in0[a, b], "
    "guard(and(le(extent(n0), index(b)), lt(index(b), add(extent(n0), extent(n1)))), "
    "in1[a, b-|n0|], guard(le(add(extent(n0), extent(n1)), index(b)), in2[a, b-|n0|-|n1|], "
    "f32:0.0)))\n";

TEST(Probes, KeepReadsUnderTrueGuardsInside) {
  const Kernel kernel = *ParseKernel(kConcat);
  const std::vector<Probe> probes = ProbesFor(kernel, InfoOf(kernel), {});
  EXPECT_GE(probes.size(), 8u);
  for (const Probe& probe : probes) {
    EXPECT_LE(probe.extents[1], probe.extents[2] + probe.extents[3] + probe.extents[4])
        << Describe(kernel, probe);
  }
}

TEST(Probes, FollowGuardsOnlyAsFarAsTheyAreKnown) {
  // Whether in1 is read depends on data: it must be as long as the row.
  const Kernel kernel = *ParseKernel(
      "kernel v1 math 1\ndims a n0\nin   0 f32 [a] dense\nin   1 f32 [n0] dense\n"
      "out  0 f32 [a] dense = guard(and(lt(in0[a], f32:0.5), le(i64:2, index(a))), in1[a-2], "
      "f32:0.0)\n");
  const std::vector<Probe> probes = ProbesFor(kernel, InfoOf(kernel), {});
  ASSERT_FALSE(probes.empty());
  for (const Probe& probe : probes) EXPECT_GE(probe.extents[1], probe.extents[0] - 2);
}

// The operand is longer than those of other probes may be.
TEST(Probes, AreOfTheExampleWhereNoOthersFit) {
  const Kernel kernel = *ParseKernel(
      "kernel v1 math 1\ndims a n0\nin   0 f32 [n0] dense\n"
      "out  0 f32 [a] dense = in0[100000*a+100000]\n");
  const LaunchInfo launch = InfoOf(kernel);
  EXPECT_TRUE(ProbesFor(kernel, launch, {}).empty());
  EXPECT_TRUE(NeedsExample(kernel, launch, {}));
  EXPECT_EQ(ProbesOf(kernel, launch, {}, {1, 100'001}, true).size(), 4u);
  EXPECT_TRUE(ProbesOf(kernel, launch, {-1, 4}, {1, 100'001}, true).empty()) << "beyond the class";
  EXPECT_TRUE(ProbesOf(kernel, launch, {}, {0, 100'001}, true).empty()) << "nothing to do";
  EXPECT_TRUE(ProbesOf(kernel, launch, {}, {1}, true).empty());
}

// A change of probes is a change of what a validation says: kValidationVersion must count it. Then
// this digest is the new one's.
TEST(Probes, AreThoseOfTheVersion) {
  std::string all;
  for (const char* const text : {kDouble, kConcat,
                                 "kernel v1 math 1\ndims a b c\nin   0 f32 [a, b, c] dense\n"
                                 "s0 : f32 [a, c] = reduce add over b (in0[a, b, c])\n"
                                 "out  0 f32 [a, c] dense = s0[a, c]\n",
                                 "kernel v1 math 1\ndims a b\nin   0 f16 [a, b] dense\n"
                                 "s0 : f32 [a] = reduce max over b (in0[a, b])\n"
                                 "out  0 f16 [a, b] dense = sub(in0[a, b], s0[a])\n"}) {
    const Kernel kernel = *ParseKernel(text);
    const LaunchInfo launch =
        *LaunchInfo::Parse("step=16 columns=32 task=4096 row_step=16 in_place=0:0");
    for (const std::vector<int64_t>& at_most : {std::vector<int64_t>(), {50, 50}}) {
      for (const Probe& probe : ProbesFor(kernel, launch, at_most)) {
        absl::StrAppend(&all, Describe(kernel, probe), " ", probe.seed, "\n");
      }
    }
  }
  EXPECT_EQ(kValidationVersion, 5);
  EXPECT_EQ(ToHex(Sha256(all)).substr(0, 16), "105a0e8b70db9143") << all;
}

// Code may have stores of its own for them, which no other probe reaches.
TEST(Probes, CoverRowsOfWholeLines) {
  for (const char* const layout : {"dense", "rows", "strided"}) {
    const Kernel kernel = *ParseKernel(
        absl::StrCat("kernel v1 math 1\ndims a b\nin   0 f32 [a, b] dense\nout  0 f32 [a, b] ",
                     layout, " = neg(in0[a, b])\n"));
    int found = 0;
    for (const Probe& probe : ProbesFor(kernel, InfoOf(kernel), {})) {
      if (!probe.whole_lines) continue;
      EXPECT_EQ(probe.extents[1] * 4 % 64, 0);
      EXPECT_FALSE(probe.in_place);
      ++found;
    }
    EXPECT_GE(found, 6) << layout;  // tails, steps and tasks
  }
}

// Of an index that an extent drives down something has to shrink.
TEST(Probes, ShrinkWhatDrivesAnIndexBelowItsAxis) {
  const Kernel kernel = *ParseKernel(
      "kernel v1 math 1\ndims a n0 n1\nin   0 f32 [n0] dense\nin   1 f32 [n1] dense\n"
      "out  0 f32 [a] dense = add(in0[1000*a-1000*|n1|+1000], in1[a+|n1|-1])\n");
  const std::vector<Probe> probes = ProbesFor(kernel, InfoOf(kernel), {});
  ASSERT_FALSE(probes.empty());
  for (const Probe& probe : probes) EXPECT_EQ(probe.extents[2], 1);
}

TEST(Probes, ScaleDownAnExampleThatIsLarge) {
  const Kernel kernel = *ParseKernel(kConcat);
  const std::vector<Probe> probes =
      ProbesOf(kernel, InfoOf(kernel), {}, {4096, 3000, 1000, 1500, 500}, false);
  ASSERT_FALSE(probes.empty());
  for (const Probe& probe : probes) {
    EXPECT_GT(probe.extents[1], 1);
    EXPECT_LE(probe.extents[1], probe.extents[2] + probe.extents[3] + probe.extents[4]);
  }
}

class ValidatorTest : public testing::Test {
 protected:
  Validator validator_{KILN_TEST_BIN_DIR "/kiln-validate", 1};
};

TEST_F(ValidatorTest, RightCodeHasOneTranscript) {
  KILN_ASSERT_OK_AND_ASSIGN(const Validation first, validator_.Validate(RequestFor(0)));
  KILN_ASSERT_OK_AND_ASSIGN(const Validation second, validator_.Validate(RequestFor(0)));
  EXPECT_EQ(first.transcript, second.transcript);
  EXPECT_EQ(first.transcript.substr(0, 2), absl::StrCat(kValidationVersion, ":"));
  EXPECT_GE(first.probes, 12);
  EXPECT_FALSE(first.of_example);
}

TEST_F(ValidatorTest, RefusesEachPlantedFault) {
  const char* const kWhy[] = {"",      "out 0", "out 0",   "out 0", "out 0",   "SIGSEGV", "SIGSEGV",
                              "input", "-7",    "outside", "",      "not end", "SIGILL",  "exit 0"};
  for (const int planted : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13}) {
    const auto validation = validator_.Validate(RequestFor(planted));
    EXPECT_TRUE(absl::IsDataLoss(validation.status())) << planted << ": " << validation.status();
    EXPECT_THAT(std::string(validation.status().message()), HasSubstr(kWhy[planted])) << planted;
  }
  EXPECT_TRUE(validator_.Validate(RequestFor(0)).ok()) << "it lives on";
}

TEST_F(ValidatorTest, CodeThatIsNoKernelIsRefused) {
  ValidationRequest request = RequestFor(0);
  request.code = "no code";
  EXPECT_TRUE(absl::IsDataLoss(validator_.Validate(request).status()));
}

// The second half of the row is left out where it is longer than the usual probes.
TEST_F(ValidatorTest, RunsTheExampleBesideTheUsualProbes) {
  ValidationRequest request = RequestFor(10);
  EXPECT_TRUE(validator_.Validate(request).ok());
  request.example = {100'000};
  const auto validation = validator_.Validate(request);
  EXPECT_TRUE(absl::IsDataLoss(validation.status())) << validation.status();
  EXPECT_THAT(std::string(validation.status().message()), HasSubstr("a=100000"));
}

TEST(Validator, MissingProgramIsSaid) {
  Validator validator("/nowhere", 1);
  EXPECT_TRUE(absl::IsNotFound(validator.Validate(RequestFor(0)).status()));
}

// Writes a program that counts its starts in `starts` and goes on with `then`.
std::string CountingScript(const TempDir& dir, const std::string& then) {
  const std::string path = dir.File("counting");
  std::ofstream(path) << "#!/bin/sh\necho x >> '" << dir.File("starts") << "'\n" << then << "\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}
int Starts(const TempDir& dir) {
  std::ifstream file(dir.File("starts"));
  return static_cast<int>(std::count(std::istreambuf_iterator<char>(file), {}, '\n'));
}

// One that hangs, ends, or is another program is tried for one kernel, not for each.
TEST(Validator, AGreetingThatFailsDecidesForAllKernels) {
  for (const char* const then : {"exec sleep 1000", "exit 1", "echo hello there", "exec cat"}) {
    for (const int prepared : {0, 2}) {
      SCOPED_TRACE(absl::StrCat(then, " prepared ", prepared));
      const TempDir dir;
      Validator validator(CountingScript(dir, then), 2, 1000);
      for (int k = 1; k <= prepared; ++k) validator.Prepare(k);
      std::atomic<int> absent{0};
      ForEachInParallel(
          8,
          [&](size_t) {
            absent += absl::IsNotFound(validator.Validate(RequestFor(0)).status()) ? 1 : 0;
          },
          8);
      EXPECT_EQ(absent, 8);
      EXPECT_LE(Starts(dir), 2 + prepared);
      validator.Prepare(5);
      EXPECT_TRUE(absl::IsNotFound(validator.Validate(RequestFor(0)).status()));
      EXPECT_LE(Starts(dir), 2 + prepared) << "none is started any more";
    }
  }
}

class ValidationServiceTest : public testing::Test {
 protected:
  void SetUp() override { SetLogLevel(LogLevel::kOff); }
  void TearDown() override { SetLogLevel(LogLevel::kWarning); }

  CompileOptions Options(const std::string& codegen) {
    CompileOptions options;
    options.cache.directory = dir_.File("cache");
    options.codegen = codegen;
    return options;
  }
  // A compiler whose every answer is planted_<which>.so.
  std::string PlantingCodegen(int which) {
    const std::string path = dir_.File(absl::StrCat("planting_", which));
    std::filesystem::remove(path);
    std::filesystem::create_symlink(KILN_TEST_BIN_DIR "/planting_codegen", path);
    return path;
  }
  // A kiln-validate that says hello and dies, the first time it is started.
  std::string DyingValidator() {
    const std::string path = dir_.File("validator");
    std::ofstream(path) << "#!/bin/sh\nif mkdir '" << dir_.File("started")
                        << "' 2>/dev/null; then exec '" KILN_TEST_BIN_DIR
                           "/kiln-validate' </dev/null; fi\nexec '" KILN_TEST_BIN_DIR
                           "/kiln-validate'\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }
  static program::Program Double() {
    program::Program program;
    const ValidationRequest request = RequestFor(0);
    program.add_kernels()->set_text(request.kernel);
    program.mutable_kernels(0)->add_choices()->set_schedule(
        ScheduleOf(*ParseKernel(request.kernel)).ToString());
    program.mutable_kernels(0)->mutable_choices(0)->add_at_most(-1);
    return program;
  }
  TempDir dir_;
};

// Code that gives other bits, crashes, writes elsewhere, never ends.
TEST_F(ValidationServiceTest, WrongCodeIsNeverUsedInAnyMode) {
  for (const int planted : {1, 3, 5, 6, 8, 9, 11, 12}) {
    for (const CompileMode mode : {CompileMode::kBlock, CompileMode::kBackground}) {
      SCOPED_TRACE(absl::StrCat("planted ", planted, " mode ", static_cast<int>(mode)));
      CompileOptions options = Options(PlantingCodegen(planted));
      options.cache.directory = dir_.File(absl::StrCat("cache", planted, static_cast<int>(mode)));
      options.compile_mode = mode;
      KernelService service(options);
      KILN_ASSERT_OK_AND_ASSIGN(const auto handles, service.GetAll(Double()));
      EXPECT_TRUE(handles[0][0]->Get()->vm);
      service.FinishValidations();
      EXPECT_TRUE(handles[0][0]->Get()->vm);
      EXPECT_EQ(handles[0][0]->generation(), 0u) << "it was used for a while";
      EXPECT_EQ(service.counts().built, 0);
      EXPECT_EQ(service.counts().failed, 1);
      EXPECT_EQ(service.counts().unvalidated, 0);
      EXPECT_EQ(service.counts().vm, 1);
      if (planted == 11) break;  // takes its time
    }
  }
}

TEST_F(ValidationServiceTest, WrongCodeIsNeverUsedWithoutACacheEither) {
  CompileOptions options = Options(PlantingCodegen(1));
  options.cache.enabled = false;
  KernelService service(options);
  KILN_ASSERT_OK_AND_ASSIGN(const auto handles, service.GetAll(Double()));
  EXPECT_TRUE(handles[0][0]->Get()->vm);
}

TEST_F(ValidationServiceTest, WrongCodeIsNeverPublished) {
  {
    KernelService service(Options(KILN_TEST_BIN_DIR "/planting_codegen"));
    KILN_ASSERT_OK(service.GetAll(Double()).status());
  }
  // Not tried again, by the right compiler either, until the failure expires.
  KernelService again(Options(KILN_TEST_BIN_DIR "/kiln-codegen"));
  KILN_ASSERT_OK_AND_ASSIGN(const auto handles, again.GetAll(Double()));
  EXPECT_TRUE(handles[0][0]->Get()->vm);
  KILN_ASSERT_OK_AND_ASSIGN(const auto entries, again.store()->List());
  ASSERT_EQ(entries.size(), 1u);
  KILN_ASSERT_OK_AND_ASSIGN(const Entry entry, again.store()->Read(entries[0].key));
  EXPECT_THAT(*entry.Find("failure"), HasSubstr("was refused"));
}

TEST_F(ValidationServiceTest, WhatIsBuiltInTheBackgroundIsValidatedAndPublished) {
  CompileOptions options = Options(KILN_TEST_BIN_DIR "/kiln-codegen");
  options.compile_mode = CompileMode::kBackground;
  KernelService service(options);
  KILN_ASSERT_OK_AND_ASSIGN(const auto handles, service.GetAll(Double()));
  service.FinishValidations();
  EXPECT_FALSE(handles[0][0]->Get()->vm);
  KILN_ASSERT_OK_AND_ASSIGN(const auto entries, service.store()->List());
  ASSERT_EQ(entries.size(), 1u);
  KILN_ASSERT_OK_AND_ASSIGN(const Entry entry, service.store()->Read(entries[0].key));
  EXPECT_EQ(MetaOf(entry)["validated_on"], CpuModelId());
}

TEST_F(ValidationServiceTest, EntriesSayWhereTheyWereValidated) {
  KernelService service(Options(KILN_TEST_BIN_DIR "/kiln-codegen"));
  KILN_ASSERT_OK(service.GetAll(Double()).status());
  service.FinishValidations();
  KILN_ASSERT_OK_AND_ASSIGN(const auto entries, service.store()->List());
  ASSERT_EQ(entries.size(), 1u);
  KILN_ASSERT_OK_AND_ASSIGN(const Entry entry, service.store()->Read(entries[0].key));
  EXPECT_EQ(MetaOf(entry)["validated_on"], CpuModelId());
  EXPECT_THAT(MetaOf(entry)["validation"],
              testing::StartsWith(absl::StrCat(kValidationVersion, ":")));
}

// Puts `entry` into the cache as a CPU of another model would have, or one that cannot run it.
void Publish(Store& store, Entry entry, const std::string& elf, bool validated) {
  for (Section& section : entry.sections) {
    if (section.tag == "elf" && !elf.empty()) section.bytes = elf;
    if (section.tag != "meta") continue;
    auto meta = ParseMeta(section.bytes);
    meta["validated_on"] = "another-1-2-3";
    if (!validated) {
      meta.erase("validated_on");
      meta.erase("validation");
    }
    section.bytes = FormatMeta(meta);
  }
  KILN_ASSERT_OK(store.Publish(entry));
}
void PublishAsAnother(Store& store, Entry entry, const std::string& elf) {
  Publish(store, std::move(entry), elf, true);
}
void PublishAsNobody(Store& store, Entry entry, const std::string& elf) {
  Publish(store, std::move(entry), elf, false);
}

TEST_F(ValidationServiceTest, AnEntryIsValidatedOnceMoreOnAnotherCpu) {
  const std::string codegen = KILN_TEST_BIN_DIR "/kiln-codegen";
  {
    KernelService service(Options(codegen));
    KILN_ASSERT_OK(service.GetAll(Double()).status());
    service.FinishValidations();
    KILN_ASSERT_OK_AND_ASSIGN(const auto entries, service.store()->List());
    KILN_ASSERT_OK_AND_ASSIGN(const Entry entry, service.store()->Read(entries[0].key));
    PublishAsAnother(*service.store(), entry, "");
  }
  {
    KernelService meets(Options(codegen));
    KILN_ASSERT_OK(meets.GetAll(Double()).status());
    meets.FinishValidations();
    EXPECT_EQ(meets.counts().cached, 1);
    EXPECT_EQ(meets.store()->List()->size(), 2u) << "the record";
  }
  CompileOptions options = Options(codegen);
  options.validator = "/nowhere";  // not needed any more
  KernelService knows(options);
  KILN_ASSERT_OK_AND_ASSIGN(const auto handles, knows.GetAll(Double()));
  EXPECT_FALSE(handles[0][0]->Get()->vm);
}

TEST_F(ValidationServiceTest, AServiceThatEndsDoesNotWaitForItsValidations) {
  CompileOptions options = Options(KILN_TEST_BIN_DIR "/kiln-codegen");
  {
    KernelService service(options);
    KILN_ASSERT_OK(service.GetAll(Double()).status());
    service.FinishValidations();
    KILN_ASSERT_OK_AND_ASSIGN(const auto entries, service.store()->List());
    KILN_ASSERT_OK_AND_ASSIGN(const Entry entry, service.store()->Read(entries[0].key));
    PublishAsAnother(*service.store(), entry, "");
  }
  options.validator = "/bin/cat";  // never says hello
  const absl::Time begun = absl::Now();
  {
    KernelService meets(options);
    KILN_ASSERT_OK(meets.GetAll(Double()).status());
    EXPECT_EQ(meets.counts().cached, 1);
    absl::SleepFor(absl::Milliseconds(50));
  }
  EXPECT_LT(absl::Now() - begun, absl::Seconds(5));
}

TEST_F(ValidationServiceTest, WrongCodeInAnEntryIsRefusedOnAnotherCpu) {
  const std::string codegen = KILN_TEST_BIN_DIR "/kiln-codegen";
  for (int run = 0; run < 2; ++run) {
    KernelService service(Options(codegen));
    KILN_ASSERT_OK_AND_ASSIGN(const auto handles, service.GetAll(Double()));
    service.FinishValidations();
    EXPECT_EQ(handles[0][0]->Get()->vm, run > 0);
    if (run > 0) continue;
    KILN_ASSERT_OK_AND_ASSIGN(const auto entries, service.store()->List());
    KILN_ASSERT_OK_AND_ASSIGN(const Entry entry, service.store()->Read(entries[0].key));
    PublishAsAnother(*service.store(), entry, Planted(1));
  }
}

// What nobody has validated, such as code that was built for another CPU, is as if just built.
TEST_F(ValidationServiceTest, AnEntryThatNobodyValidatedIsValidatedBeforeItsFirstUse) {
  const std::string codegen = KILN_TEST_BIN_DIR "/kiln-codegen";
  for (const std::string& elf : {std::string(), Planted(1)}) {
    const bool wrong = !elf.empty();
    CompileOptions options = Options(codegen);
    options.cache.directory = dir_.File(wrong ? "wrong" : "right");
    {
      KernelService service(options);
      KILN_ASSERT_OK(service.GetAll(Double()).status());
      service.FinishValidations();
      KILN_ASSERT_OK_AND_ASSIGN(const auto entries, service.store()->List());
      KILN_ASSERT_OK_AND_ASSIGN(Entry entry, service.store()->Read(entries[0].key));
      PublishAsNobody(*service.store(), std::move(entry), elf);
    }
    for (int run = 0; run < 2; ++run) {
      options.validator = run == 0 ? "" : "/nowhere";  // what was found out is remembered
      KernelService service(options);
      KILN_ASSERT_OK_AND_ASSIGN(const auto handles, service.GetAll(Double()));
      EXPECT_EQ(handles[0][0]->Get()->vm, wrong);
      EXPECT_EQ(service.counts().cached, wrong ? 0 : 1);
      service.FinishValidations();
      EXPECT_EQ(handles[0][0]->generation(), 0u);
    }
  }
}

TEST_F(ValidationServiceTest, WithoutAValidatorTheVmRunsAndNothingIsPublished) {
  CompileOptions options = Options(KILN_TEST_BIN_DIR "/kiln-codegen");
  options.validator = "/nowhere";
  KernelService service(options);
  KILN_ASSERT_OK_AND_ASSIGN(const auto handles, service.GetAll(Double()));
  service.FinishValidations();
  EXPECT_TRUE(handles[0][0]->Get()->vm);
  EXPECT_EQ(service.counts().unvalidated, 1);
  EXPECT_EQ(service.counts().failed, 1);
  EXPECT_EQ(service.counts().vm, 1);
  EXPECT_TRUE(service.store()->List()->empty());
}

TEST_F(ValidationServiceTest, AValidatorThatDiesIsStartedAgain) {
  CompileOptions options = Options(KILN_TEST_BIN_DIR "/kiln-codegen");
  options.validator = DyingValidator();
  KernelService service(options);
  KILN_ASSERT_OK_AND_ASSIGN(const auto handles, service.GetAll(Double()));
  EXPECT_FALSE(handles[0][0]->Get()->vm);
  EXPECT_EQ(service.counts().built, 1);
}

TEST_F(ValidationServiceTest, AValidatorThatIsKilledEachTimeRefusesNothing) {
  CompileOptions options = Options(KILN_TEST_BIN_DIR "/kiln-codegen");
  options.validator = dir_.File("dies");
  std::ofstream(options.validator)
      << "#!/bin/sh\nexec '" KILN_TEST_BIN_DIR "/kiln-validate' </dev/null\n";
  std::filesystem::permissions(options.validator, std::filesystem::perms::owner_all);
  {
    KernelService service(options);
    KILN_ASSERT_OK_AND_ASSIGN(const auto handles, service.GetAll(Double()));
    EXPECT_TRUE(handles[0][0]->Get()->vm);
    EXPECT_EQ(service.counts().unvalidated, 1);
    EXPECT_TRUE(service.store()->List()->empty()) << "it may go better another time";
  }
  KernelService again(Options(options.codegen));
  KILN_ASSERT_OK_AND_ASSIGN(const auto handles, again.GetAll(Double()));
  EXPECT_FALSE(handles[0][0]->Get()->vm);
}

// Reads behind its operand whatever the extents are: no launch of it can be compared.
TEST_F(ValidationServiceTest, AKernelWithoutProbesStaysOnTheVmAndIsBuiltOnce) {
  const Kernel kernel = *ParseKernel(
      "kernel v1 math 1\ndims a\nin   0 f32 [a] dense\nout  0 f32 [a] dense = in0[a+|a|]\n");
  program::Program program;
  program.add_kernels()->set_text(Print(kernel));
  program.mutable_kernels(0)->add_choices()->set_schedule(ScheduleOf(kernel).ToString());
  for (int run = 0; run < 2; ++run) {
    KernelService service(Options(run == 0 ? KILN_TEST_BIN_DIR "/kiln-codegen" : "/nowhere"));
    KILN_ASSERT_OK_AND_ASSIGN(const auto handles, service.GetAll(program));
    EXPECT_TRUE(handles[0][0]->Get()->vm);
    const KernelCounts counts = service.counts();
    EXPECT_EQ(counts.kernels, counts.cached + counts.built + counts.vm);
    EXPECT_EQ(counts.vm, 1);
    EXPECT_EQ(counts.failed, 1);
    EXPECT_EQ(counts.unvalidated, 1) << "run " << run;
  }
}

// Of a class whose launches have nothing to do, or an input without elements, nothing is built, and
// nothing is said of other classes of the same kernel.
TEST_F(ValidationServiceTest, AKernelThatIsNeverLaunchedIsNotBuilt) {
  program::Program empty = Double();
  empty.mutable_kernels(0)->mutable_choices(0)->set_at_most(0, 0);
  empty.mutable_kernels(0)->add_example(0);
  {
    CompileOptions options = Options("/nowhere");
    options.validator = "/nowhere";
    KernelService service(options);
    KILN_ASSERT_OK_AND_ASSIGN(const auto handles, service.GetAll(empty));
    EXPECT_TRUE(handles[0][0]->Get()->vm);
    EXPECT_EQ(service.counts().failed, 0);
    EXPECT_EQ(service.counts().vm, 1);
  }
  for (const bool alone : {true, false}) {
    KernelService service(Options(KILN_TEST_BIN_DIR "/kiln-codegen"));
    if (!alone) {
      KILN_ASSERT_OK(service.GetAll(empty).status());
    }
    KILN_ASSERT_OK_AND_ASSIGN(const auto handles, service.GetAll(Double()));
    EXPECT_FALSE(handles[0][0]->Get()->vm);
    EXPECT_EQ(service.counts().failed, 0);
    EXPECT_EQ(service.counts().vm, alone ? 0 : 1);
    EXPECT_EQ(service.counts().kernels, alone ? 1 : 2);
  }
}

TEST(NeverLaunched, AreClassesWithoutElements) {
  const std::string text = Print(*ParseKernel(
      "kernel v1 math 1\ndims a b\nsizes n0\nin   0 f32 [a, n0] dense\n"
      "in   1 f32 [a, b] dense\nout  0 f32 [a, b] dense = guard(lt(index(b), i64:0), in0[a, b], "
      "in1[a, b])\nout  1 f32 [b] dense = in1[0, b]\n"));
  EXPECT_TRUE(IsNeverLaunched(text, {2, 8, 0})) << "an input is empty";
  EXPECT_TRUE(IsNeverLaunched(text, {-1, 0, -1})) << "all outputs are";
  EXPECT_FALSE(IsNeverLaunched(text, {2, 8, 3}));
  EXPECT_FALSE(IsNeverLaunched(text, {-1, -1, -1}));
  EXPECT_FALSE(IsNeverLaunched(text, {}));
  const std::string sums = Print(
      *ParseKernel("kernel v1 math 1\ndims a b\nsizes n0\nin   0 f32 [a, n0] dense\n"
                   "s0 : f32 [a] = reduce add over b (in0[a, b])\nout  0 f32 [a] dense = s0[a]\n"));
  EXPECT_TRUE(IsNeverLaunched(sums, {-1, 0, -1})) << "what is reduced is empty";
  EXPECT_FALSE(IsNeverLaunched(sums, {-1, 1, -1}));
}

// An entry tells what its code is right for, not what the first model that asked for it has.
TEST_F(ValidationServiceTest, EntriesAreOfTheWidestClass) {
  program::Program program = Double();
  const Kernel kernel = *ParseKernel(kDouble);
  program::KernelChoice& choice = *program.mutable_kernels(0)->mutable_choices(0);
  choice.set_at_most(0, 24);
  choice.set_schedule(
      ChooseSchedule(kernel, {{kUnbounded}}, ShippedMachine(HostTarget())).ToString());
  KernelService service(Options(KILN_TEST_BIN_DIR "/kiln-codegen"));
  KILN_ASSERT_OK(service.GetAll(program).status());
  service.FinishValidations();
  KILN_ASSERT_OK_AND_ASSIGN(const auto entries, service.store()->List());
  ASSERT_EQ(entries.size(), 1u);
  KILN_ASSERT_OK_AND_ASSIGN(const Entry entry, service.store()->Read(entries[0].key));
  EXPECT_EQ(MetaOf(entry)["at_most"], "-1");
}

// What older probes, or other extents, were not found for is tried again.
TEST_F(ValidationServiceTest, AnUnvalidatedKernelIsTriedAgainByOtherProbes) {
  const std::string text =
      Print(*ParseKernel("kernel v1 math 1\ndims a n0\nin   0 f32 [n0] dense\n"
                         "out  0 f32 [a] dense = in0[100000*a+100000]\n"));
  program::Program program;
  program.add_kernels()->set_text(text);
  program.mutable_kernels(0)->add_choices()->set_schedule(
      ScheduleOf(*ParseKernel(text)).ToString());
  // One without anything to do says nothing of the code.
  for (const auto& [a, built] : {std::pair{0, false}, {0, false}, {1, true}, {0, true}}) {
    SCOPED_TRACE(absl::StrCat(a, built));
    program.mutable_kernels(0)->clear_example();
    program.mutable_kernels(0)->add_example(a);
    program.mutable_kernels(0)->add_example(100'001);
    KernelService service(Options(KILN_TEST_BIN_DIR "/kiln-codegen"));
    KILN_ASSERT_OK_AND_ASSIGN(const auto handles, service.GetAll(program));
    EXPECT_EQ(handles[0][0]->Get()->vm, !built);
    EXPECT_EQ(service.counts().unvalidated, built ? 0 : 1);
  }
}

TEST_F(ValidationServiceTest, TheOlderNameOfTheOptionIsRead) {
  CompileOptions options = Options(KILN_TEST_BIN_DIR "/kiln-codegen");
  options.prover = "/nowhere";
  {
    KernelService service(options);
    KILN_ASSERT_OK(service.GetAll(Double()).status());
    EXPECT_EQ(service.counts().unvalidated, 1);
  }
  options.validator = KILN_TEST_BIN_DIR "/kiln-validate";
  KernelService service(options);
  KILN_ASSERT_OK(service.GetAll(Double()).status());
  EXPECT_EQ(service.counts().built, 1);
}

TEST_F(ValidationServiceTest, TimesAreTold) {
  KernelService service(Options(KILN_TEST_BIN_DIR "/kiln-codegen"));
  KILN_ASSERT_OK(service.GetAll(Double()).status());
  EXPECT_GT(service.counts().build_ms, 0);
  EXPECT_GT(service.counts().validate_ms, 0);
  EXPECT_LT(service.counts().validate_ms, service.counts().ms);
}

}  // namespace
}  // namespace kiln
