// SPDX-License-Identifier: Apache-2.0
// What the worker answers for CUDA: PTX, recipes, cubins.
#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/child_process.h"
#include "halide_gen/common/files.h"
#include "halide_gen/common/worker.h"
#include "halide_gen/cuda/assembler.h"
#include "kernel/launch_recipe.h"
#include "kernel/text.h"
#include "schedule/choose.h"
#include "schedule/device.h"
#include "tests/base/status_matchers.h"
#include "tests/kernel/random.h"

namespace kiln {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kLevels[] = {"cuda-sm80", "cuda-sm90", "cuda-sm100", "cuda-sm120"};

constexpr char kRelu[] =
    "kernel v1 math 1\ndims a\nin 0 f32 [a] dense\nout 0 f32 [a] dense = max(in0[a], 0)\n";
constexpr char kSoftmax[] =
    "kernel v1 math 1\ndims a b\nin 0 f32 [a, b] dense\n"
    "s0 : f32 [a] = reduce max over b (in0[a, b])\ns1 : f32 [a, b] = exp(sub(in0[a, b], s0[a]))\n"
    "s2 : f32 [a] = reduce add over b (s1[a, b])\n"
    "out 0 f32 [a, b] dense = div(s1[a, b], s2[a])\n";

std::string Ptxas() { return FindTool("ptxas", "KILN_PTXAS", "/usr/local/cuda/bin"); }

// The answer for the schedule that is chosen where rows have at most `most` elements.
CodegenAnswer AnswerFor(const std::string& text, std::vector<std::string> sections,
                        const char* level = "cuda-sm80", int64_t most = 256) {
  const Kernel kernel = *ParseKernel(text);
  const Machine& machine = ShippedMachine(*Target::Parse(level));
  const SizeClass sizes{std::vector<int64_t>(kernel.dims.size(), most)};
  return Serve({.kernel = text,
                .schedule = ChooseSchedule(kernel, sizes, machine).ToString(),
                .target = level,
                .sections = std::move(sections),
                .assembler = Ptxas()});
}

std::map<std::string, std::string> SectionsOf(const CodegenAnswer& answer) {
  EXPECT_EQ(answer.outcome, CodegenAnswer::Outcome::kOk) << answer.error;
  return {answer.sections.begin(), answer.sections.end()};
}

// That each launch is of a function of the text, and the other way round.
void CheckLaunches(const std::map<std::string, std::string>& sections) {
  KILN_ASSERT_OK_AND_ASSIGN(const LaunchRecipe recipe, LaunchRecipe::Parse(sections.at("launch")));
  const std::string& ptx = sections.at("ptx");
  EXPECT_THAT(ptx, HasSubstr(".target sm_80"));
  ASSERT_FALSE(recipe.launches.empty());
  for (const DeviceLaunch& launch : recipe.launches)
    EXPECT_THAT(ptx, HasSubstr(absl::StrCat(".visible .entry ", launch.entry, "(")));
  const std::vector<absl::string_view> entries = absl::StrSplit(ptx, ".entry ");
  EXPECT_EQ(entries.size(), recipe.launches.size() + 1);
}

TEST(CudaWorker, AnswersTextAndRecipe) {
  for (const char* text : {kRelu, kSoftmax}) {
    SCOPED_TRACE(text);
    const CodegenAnswer answer = AnswerFor(text, {"ptx", "launch"});
    const auto sections = SectionsOf(answer);
    EXPECT_EQ(answer.isa, "sm_80");
    CheckLaunches(sections);
    EXPECT_EQ(AnswerFor(text, {"ptx", "launch"}).sections, answer.sections);
  }
}

TEST(CudaWorker, RandomKernelsHaveCodeBySomeSchedule) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const std::string text = Print(RandomKernel(seed));
    SCOPED_TRACE(testing::Message() << "seed " << seed << "\n" << text);
    CheckLaunches(SectionsOf(AnswerFor(text, {"ptx", "launch"}, kLevels[seed % 4], 4096)));
  }
}

TEST(CudaWorker, TheTextIsTheSameForEachLevel) {
  const std::string schedule = "warp_rows threads=16 rows=8 steps=4 stored=1";
  std::vector<CodegenAnswer> answers;
  for (const char* level : {kLevels[0], kLevels[3]}) {
    answers.push_back(Serve({.kernel = kSoftmax,
                             .schedule = schedule,
                             .target = level,
                             .sections = {"ptx", "launch"}}));
    SectionsOf(answers.back());
    EXPECT_EQ(answers.back().sections, answers.front().sections) << level;
  }
}

TEST(CudaWorker, RefusesWhatIsOfAnotherDevice) {
  const CodegenAnswer elf = AnswerFor(kRelu, {"elf"});
  EXPECT_EQ(elf.outcome, CodegenAnswer::Outcome::kDeterministic);
  EXPECT_EQ(elf.error, "section \"elf\": there is none; ask for ptx, launch, cubin, ptxas, sass");
  const CodegenAnswer pointwise = Serve({.kernel = kRelu,
                                         .schedule = "pointwise step=8",
                                         .target = "cuda-sm80",
                                         .sections = {"ptx"}});
  EXPECT_EQ(pointwise.outcome, CodegenAnswer::Outcome::kDeterministic);
  EXPECT_THAT(pointwise.error, HasSubstr("\"pointwise\" is no template; there are streaming"));
}

TEST(CudaWorker, AssemblesForEachLevel) {
  if (Ptxas().empty()) GTEST_SKIP() << "there is no ptxas";
  std::map<std::string, std::string> cubins;
  for (const char* level : kLevels) {
    SCOPED_TRACE(level);
    const char* const text = level == kLevels[1] ? kSoftmax : kRelu;
    const CodegenAnswer answer = AnswerFor(text, {"ptx", "launch", "cubin", "ptxas"}, level);
    const auto sections = SectionsOf(answer);
    CheckLaunches(sections);
    const std::string& cubin = sections.at("cubin");
    Elf64_Ehdr header;
    ASSERT_GT(cubin.size(), sizeof(header));
    memcpy(&header, cubin.data(), sizeof(header));
    EXPECT_EQ(std::string(cubin, 0, SELFMAG), ELFMAG);
    EXPECT_EQ(header.e_machine, EM_CUDA);
    EXPECT_THAT(sections.at("ptxas"), HasSubstr("Function properties for k0"));
    EXPECT_THAT(sections.at("ptxas"), HasSubstr(" registers"));
    EXPECT_THAT(sections.at("ptxas"), HasSubstr("0 bytes spill stores"));
    EXPECT_THAT(sections.at("ptxas"), Not(HasSubstr("ms")));
    EXPECT_EQ(AnswerFor(text, {"cubin"}, level).sections[0].second, cubin);
    cubins[level] = cubin;
  }
  EXPECT_NE(cubins["cuda-sm80"], cubins["cuda-sm100"]) << "of one kernel";
}

TEST(CudaWorker, ACubinNeedsAnAssembler) {
  CodegenRequest request{.kernel = kRelu,
                         .schedule = AnswerFor(kRelu, {"ptx"}).schedule,
                         .target = "cuda-sm90",
                         .sections = {"cubin"},
                         .assembler = "/nowhere/ptxas"};
  const CodegenAnswer absent = Serve(request);
  EXPECT_EQ(absent.outcome, CodegenAnswer::Outcome::kTransient);
  EXPECT_THAT(absent.error, HasSubstr("\"/nowhere/ptxas\": cannot be run"));
  request.assembler = "";
  const CodegenAnswer unnamed = Serve(request);
  EXPECT_EQ(unnamed.outcome, CodegenAnswer::Outcome::kTransient);
  EXPECT_THAT(unnamed.error, HasSubstr("ptxas: the request does not say where it is"));
}

// One of an older toolkit does not know the level: the driver's may.
TEST(CudaWorker, AnAssemblerThatRefusesCostsTheCubinAlone) {
  KILN_ASSERT_OK_AND_ASSIGN(const ScratchDir dir, ScratchDir::Make());
  const std::string refusing = dir.path() + "/ptxas";
  KILN_ASSERT_OK(WriteBytes(refusing, "#!/bin/sh\necho \"ptxas fatal: no $2\"; exit 1\n"));
  ASSERT_EQ(chmod(refusing.c_str(), 0700), 0);
  CodegenRequest request{.kernel = kRelu,
                         .schedule = AnswerFor(kRelu, {"ptx"}).schedule,
                         .target = "cuda-sm120",
                         .sections = {"ptx", "launch", "cubin", "ptxas"},
                         .assembler = refusing};
  const auto sections = SectionsOf(Serve(request));
  CheckLaunches(sections);
  EXPECT_EQ(sections.count("cubin"), 0u);
  EXPECT_THAT(sections.at("ptxas"), HasSubstr("ptxas fatal: no -arch=sm_120"));
  request.sections = {"cubin"};
  const CodegenAnswer alone = Serve(request);
  EXPECT_EQ(alone.outcome, CodegenAnswer::Outcome::kDeterministic);
  EXPECT_THAT(alone.error, HasSubstr("ptxas fatal: no -arch=sm_120"));
}

// An assembler is told the threads of a block where they bound the registers of each, and of no
// other.
TEST(CudaWorker, LargeBlocksBoundRegisters) {
  constexpr char kColumnSums[] =
      "kernel v1 math 1\ndims a b\nin 0 f32 [a, b] dense\n"
      "s0 : f32 [b] = reduce add over a (in0[a, b])\nout 0 f32 [b] dense = s0[b]\n";
  for (const auto& [schedule, bound] :
       {std::pair{"columns vector=1 columns=32 rows=16 runs=32", true},
        {"columns vector=1 columns=32 rows=8 runs=32", false}}) {
    SCOPED_TRACE(schedule);
    const auto sections = SectionsOf(Serve({.kernel = kColumnSums,
                                            .schedule = schedule,
                                            .target = "cuda-sm80",
                                            .sections = {"ptx", "launch"}}));
    KILN_ASSERT_OK_AND_ASSIGN(const LaunchRecipe recipe,
                              LaunchRecipe::Parse(sections.at("launch")));
    for (const DeviceLaunch& launch : recipe.launches) {
      const std::string& ptx = sections.at("ptx");
      const size_t entry = ptx.find(absl::StrCat(".entry ", launch.entry, "("));
      const std::string head = ptx.substr(entry, ptx.find('{', entry) - entry);
      const auto told = HasSubstr(")\n.maxntid 32, 16, 1\n");
      EXPECT_THAT(head, testing::Conditional(bound, told, Not(HasSubstr("maxntid"))));
    }
  }
}

// A text that is none is the kernel's fault, not that of the moment.
TEST(CudaWorker, TheAssemblerRefusesWhatIsNoPtx) {
  if (Ptxas().empty()) GTEST_SKIP() << "there is no ptxas";
  KILN_ASSERT_OK_AND_ASSIGN(const ScratchDir dir, ScratchDir::Make());
  EXPECT_THAT(Assemble("no ptx\n", *Target::Parse("cuda-sm80"), Ptxas(), dir.path()),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("refuses the kernel")));
}

}  // namespace
}  // namespace kiln
