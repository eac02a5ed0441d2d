// SPDX-License-Identifier: Apache-2.0
// The worker as a process: what it answers, how it fails, what it leaves behind.
#include "halide_gen/common/worker.h"
#include "base/frames.h"

#include <elf.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/cpu_features.h"
#include "halide_gen/common/check_indices.h"
#include "halide_gen/common/files.h"
#include "kernel/text.h"

namespace kiln {
namespace {

constexpr char kRelu[] =
    "kernel v1 math 1\ndims a\nin 0 f32 [a] dense\nout 0 f32 [a] dense = max(in0[a], 0)\n";
constexpr char kSum[] =
    "kernel v1 math 1\ndims a b\nin 0 f16 [a, b] dense\ns0 : f32 [a] = reduce add over b (in0[a, "
    "b])\n"
    "out 0 f32 [a, b] dense = fma(in0[a, b], s0[a], 1)\n";

CodegenRequest Request(const std::string& kernel, const std::string& schedule) {
  return {.kernel = kernel,
          .schedule = schedule,
          .target = "x86-64-v3",
          .sections = {"elf", "stmt", "asm"}};
}

// kiln-codegen with pipes to its ends; TMPDIR is `dir`.
class WorkerProcess {
 public:
  explicit WorkerProcess(const std::string& dir) {
    int in[2], out[2];
    EXPECT_EQ(pipe(in), 0);
    EXPECT_EQ(pipe(out), 0);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(in[0], 0);
      dup2(out[1], 1);
      for (const int fd : {in[0], in[1], out[0], out[1]}) close(fd);
      setenv("TMPDIR", dir.c_str(), 1);
      setenv("HL_DEBUG_CODEGEN", "9", 1);  // must have no effect
      const std::string program = std::string(KILN_TEST_BIN_DIR) + "/kiln-codegen";
      execl(program.c_str(), program.c_str(), nullptr);
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    to_ = in[1];
    from_ = out[0];
  }
  ~WorkerProcess() {
    Finish();
    close(from_);
  }

  absl::StatusOr<std::string> Read() { return ReadFrame(from_, 60000); }
  CodegenAnswer Ask(const CodegenRequest& request) {
    const std::string number = "12345678";
    EXPECT_TRUE(WriteFrame(to_, number + Encode(request)).ok());
    const auto payload = Read();
    EXPECT_TRUE(payload.ok()) << payload.status();
    if (!payload.ok()) return {};
    EXPECT_EQ(payload->substr(0, 8), number);
    const auto answer = DecodeAnswer(payload->substr(8));
    return answer.ok() ? *answer : CodegenAnswer();
  }
  // Ends its input; returns the exit status.
  int Finish() {
    if (pid_ < 0) return 0;
    close(to_);
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
};

class WorkerTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = testing::TempDir() + "/worker.XXXXXX";
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    dir_ = path;
  }
  void TearDown() override {
    EXPECT_TRUE(std::filesystem::is_empty(dir_)) << "files are left in " << dir_;
    std::filesystem::remove_all(dir_);
  }
  std::string dir_;
};

TEST_F(WorkerTest, SaysHelloAnswersAndEndsWithItsInput) {
  WorkerProcess worker(dir_);
  const auto payload = worker.Read();
  ASSERT_TRUE(payload.ok()) << payload.status();
  const auto hello = DecodeHello(*payload);
  ASSERT_TRUE(hello.ok());
  EXPECT_EQ(hello->build_id, Hello().build_id);
  EXPECT_TRUE(absl::StartsWith(hello->compiler, "halide 21.0.0 ")) << hello->compiler;

  const CodegenAnswer first = worker.Ask(Request(kRelu, "pointwise step=8"));
  ASSERT_EQ(first.outcome, CodegenAnswer::Outcome::kOk) << first.error;
  ASSERT_EQ(first.sections.size(), 3u);
  EXPECT_EQ(first.sections[0].first, "elf");
  EXPECT_TRUE(absl::StrContains(first.sections[1].second, "halide_do_par_for"));
  EXPECT_TRUE(absl::StrContains(first.sections[2].second, "k_argv"));
  const CodegenAnswer other = worker.Ask(Request(kSum, "row_reduction"));
  EXPECT_EQ(other.outcome, CodegenAnswer::Outcome::kOk) << other.error;
  const CodegenAnswer again = worker.Ask(Request(kRelu, "pointwise step=8"));
  EXPECT_EQ(again.sections, first.sections) << "equal requests give equal bytes";
  EXPECT_EQ(worker.Finish(), 0);
}

TEST_F(WorkerTest, OneProcessServesEachDevice) {
  WorkerProcess worker(dir_);
  ASSERT_TRUE(worker.Read().ok());
  const CodegenAnswer cpu = worker.Ask(Request(kRelu, "pointwise step=8"));
  EXPECT_EQ(cpu.outcome, CodegenAnswer::Outcome::kOk) << cpu.error;
  CodegenRequest request = Request(kRelu, "streaming");
  request.target = "cuda-sm80";
  request.sections = {"launch", "ptx"};
  const CodegenAnswer cuda = worker.Ask(request);
  ASSERT_EQ(cuda.outcome, CodegenAnswer::Outcome::kOk) << cuda.error;
  EXPECT_EQ(cuda.sections[0].first, "launch");
  EXPECT_TRUE(absl::StrContains(cuda.sections[1].second, ".entry k0("));
  EXPECT_EQ(worker.Ask(request).sections, cuda.sections);
  EXPECT_EQ(worker.Finish(), 0);
}

TEST_F(WorkerTest, LoopsAskForWhatTheyWillReadAndNotForWhatStaysInTheCache) {
  const CodegenAnswer answer =
      Serve(Request("kernel v1 math 1\ndims a b\nin 0 f32 [a, b] dense\nin 1 f32 [b] dense\n"
                    "out 0 f32 [a, b] dense = pow(tanh(add(in0[a, b], in1[b])), in0[a, b])\n",
                    "pointwise step=32"));
  ASSERT_EQ(answer.outcome, CodegenAnswer::Outcome::kOk) << answer.error;
  EXPECT_TRUE(absl::StrContains(answer.sections[1].second, "prefetch(in0"));
  EXPECT_FALSE(absl::StrContains(answer.sections[1].second, "prefetch(in1"));
  EXPECT_TRUE(absl::StrContains(answer.sections[2].second, "prefetcht0"));
  EXPECT_FALSE(absl::StrContains(answer.sections[2].second, "prefetchnta"));
}

TEST_F(WorkerTest, ALoopThatComputesMuchAsksForTheNextRow) {
  const CodegenAnswer answer =
      Serve(Request("kernel v1 math 1\ndims a b\nin 0 f32 [a, b] dense\n"
                    "s0 : f32 [a] = reduce max over b (in0[a, b])\n"
                    "s1 : f32 [a, b] = exp(sub(in0[a, b], s0[a]))\n"
                    "s2 : f32 [a] = reduce add over b (s1[a, b])\n"
                    "out 0 f32 [a, b] dense = div(s1[a, b], s2[a])\n",
                    "row_reduction step=64 stored=1"));
  ASSERT_EQ(answer.outcome, CodegenAnswer::Outcome::kOk) << answer.error;
  const std::string& code = answer.sections[1].second;
  const size_t first = code.find("prefetch(in0"), exps = code.find("for (s1");
  EXPECT_NE(first, std::string::npos);
  EXPECT_GT(first, exps) << "not before the loop of the exponentials";
  EXPECT_TRUE(
      absl::StrContains(code.substr(first, code.find('\n', first) - first), "+ 1)*extent1"));
}

TEST_F(WorkerTest, LoopsThatComputeLittleLeaveItToTheProcessor) {
  const CodegenAnswer answer =
      Serve(Request("kernel v1 math 1\ndims a b\nin 0 f32 [a, b] dense\nin 1 f32 [a, b] dense\n"
                    "out 0 f32 [a, b] dense = add(in0[a, b], in1[a, b])\n",
                    "pointwise step=32"));
  ASSERT_EQ(answer.outcome, CodegenAnswer::Outcome::kOk) << answer.error;
  EXPECT_FALSE(absl::StrContains(answer.sections[1].second, "prefetch("));
}

TEST_F(WorkerTest, WhereToReadIsNotKnownBeforeTheStepInAGather) {
  const CodegenAnswer answer =
      Serve(Request("kernel v1 math 1\ndims a b\nsizes n0\nin 0 f32 [n0, b] dense\n"
                    "in 1 i64 [a] dense\nout 0 f32 [a, b] dense = in0[[in1[a]], b]\n",
                    "pointwise step=32"));
  EXPECT_EQ(answer.outcome, CodegenAnswer::Outcome::kOk) << answer.error;
}

TEST_F(WorkerTest, AnotherProcessGivesTheSameBytes) {
  std::vector<CodegenAnswer> answers;
  for (int i = 0; i < 2; ++i) {
    WorkerProcess worker(dir_);
    ASSERT_TRUE(worker.Read().ok());
    answers.push_back(worker.Ask(Request(kSum, "row_reduction")));
    ASSERT_EQ(answers[0].outcome, CodegenAnswer::Outcome::kOk) << answers[0].error;
  }
  EXPECT_EQ(answers[0].sections, answers[1].sections);
}

TEST_F(WorkerTest, ReportsOnlyFeaturesOfTheLevel) {
  const std::vector<std::string> v3 = {"avx",   "avx2",  "bmi1",   "bmi2",  "f16c", "fma",
                                       "lzcnt", "movbe", "popcnt", "sse41", "sse42"};
  const CodegenAnswer answer = Serve(Request(kSum, "row_reduction"));
  ASSERT_EQ(answer.outcome, CodegenAnswer::Outcome::kOk) << answer.error;
  const std::vector<std::string> used = absl::StrSplit(answer.isa, ' ');
  for (const std::string& name : used)
    EXPECT_NE(std::find(v3.begin(), v3.end(), name), v3.end()) << name;
  for (const char* name : {"avx", "f16c", "fma"})
    EXPECT_NE(std::find(used.begin(), used.end(), name), used.end()) << name;
}

TEST_F(WorkerTest, RefusalsAreDeterministicAndSayWhy) {
  const auto error = [](const CodegenRequest& request) {
    const CodegenAnswer answer = Serve(request);
    EXPECT_EQ(answer.outcome, CodegenAnswer::Outcome::kDeterministic) << answer.error;
    return answer.error;
  };
  EXPECT_EQ(
      error(Request(kSum, "pointwise")),
      "schedule \"pointwise\": does not accept the kernel, it has a reduction; choose another");
  EXPECT_TRUE(absl::StrContains(error(Request(kRelu, "best")), "\"best\" is no template"));
  EXPECT_EQ(error(Request(kRelu, "pointwise step=0")),
            "schedule: \"step\" is \"0\"; it must be from 1 to 256");
  EXPECT_EQ(error(Request(kSum, "outer_vectorized row=65")),
            "schedule: \"row\" is \"65\"; it must be from 0 to 64");
  EXPECT_EQ(error(Request(kRelu, "transpose tile=32")),
            "schedule: \"tile\" is \"32\"; it must be from 8 to 16");
  EXPECT_EQ(error(Request(kRelu, "pointwise collapsed=2")),
            "schedule: \"collapsed\" is 2; for this kernel it must be from 1 to 1");
  EXPECT_TRUE(absl::StrContains(error(Request("kernel v2\n", "pointwise")), "line 1"));
  CodegenRequest old = Request(kRelu, "pointwise");
  old.target = "x86-64";
  EXPECT_TRUE(absl::StrContains(error(old), "x86-64-v3"));
  CodegenRequest section = Request(kRelu, "pointwise");
  section.sections = {"ptx"};
  EXPECT_EQ(error(section), "section \"ptx\": there is none; ask for elf, stmt, asm, ir");
}

// Halide's simplifier fails on a slice that lies inside one vector of a concatenation.
TEST_F(WorkerTest, AKernelThatHalideRefusesIsCompiledWithAPlainerSchedule) {
  const std::string text =
      "kernel v1 math 1\ndims a b c d\nin   0 f32 [b, d, a, c] dense\n"
      "out  0 f32 [a, b, c, d] dense = in0[b, d, a, c]\n";
  const CodegenRequest request = Request(text, "packed_blocks blocks=2 dims=3 known=-1,3,4,3");
  const CodegenAnswer answer = Serve(request);
  ASSERT_EQ(answer.outcome, CodegenAnswer::Outcome::kOk) << answer.error;
  EXPECT_NE(answer.schedule, request.schedule);
  // What was promised is kept, or there is no code.
  CodegenRequest in_place = request;
  in_place.schedule += " in_place=0:0";
  EXPECT_EQ(Serve(in_place).outcome, CodegenAnswer::Outcome::kDeterministic);
}

TEST_F(WorkerTest, RunningOutOfTimeIsSaid) {
  CodegenRequest request = Request(kSum, "row_reduction levels=3");
  request.timeout_ms = 1;
  const CodegenAnswer answer = Serve(request);
  EXPECT_EQ(answer.outcome, CodegenAnswer::Outcome::kTimedOut);
  EXPECT_EQ(answer.error, "codegen: not done within 1 ms; try again with a longer time limit");
}

TEST_F(WorkerTest, RunningOutOfProcessorTimeIsSaid) {
  CodegenRequest request = Request(kSum, "row_reduction levels=3");
  request.cpu_ms = 10;
  const CodegenAnswer answer = Serve(request);
  EXPECT_EQ(answer.outcome, CodegenAnswer::Outcome::kTimedOut);
  EXPECT_EQ(answer.error, "codegen: needs more than 10 ms of processor time; allow more of it");
  request.cpu_ms = 60'000;
  EXPECT_EQ(Serve(request).outcome, CodegenAnswer::Outcome::kOk);
}

TEST_F(WorkerTest, NoPlaceForFilesIsTransient) {
  WorkerProcess worker(dir_ + "/missing");
  ASSERT_TRUE(worker.Read().ok());
  const CodegenAnswer answer = worker.Ask(Request(kRelu, "pointwise"));
  EXPECT_EQ(answer.outcome, CodegenAnswer::Outcome::kTransient);
  EXPECT_TRUE(absl::StrContains(answer.error, "TMPDIR")) << answer.error;
}

TEST_F(WorkerTest, WhatAKilledProcessLeftIsRemovedLater) {
  setenv("TMPDIR", dir_.c_str(), 1);
  const auto make_old = [](const std::string& path) {
    const timespec old[2] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), old, 0), 0);
  };
  const std::string left = dir_ + "/kiln-codegen.left00", other = dir_ + "/other.left00";
  for (const std::string& path : {left, other}) {
    std::filesystem::create_directory(path);
    std::ofstream(path + "/kernel.o") << "x";
    make_old(path);
  }
  {
    const auto used = ScratchDir::Make();
    const auto fresh = ScratchDir::Make();
    ASSERT_TRUE(used.ok() && fresh.ok());
    make_old(used->path());
    ScratchDir::RemoveThoseLeftBehind();
    EXPECT_TRUE(std::filesystem::exists(used->path())) << "it is locked";
    EXPECT_TRUE(std::filesystem::exists(fresh->path()));
  }
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(std::filesystem::exists(other));
  std::filesystem::remove_all(other);
  unsetenv("TMPDIR");
}

// Walks the dynamic section: what the object would ask of the dynamic linker.
TEST_F(WorkerTest, ObjectsNeedNothing) {
  const CodegenAnswer answer = Serve(Request(kSum, "row_reduction levels=2"));
  ASSERT_EQ(answer.outcome, CodegenAnswer::Outcome::kOk) << answer.error;
  const std::string& elf = answer.sections[0].second;
  Elf64_Ehdr header;
  ASSERT_GE(elf.size(), sizeof(header));
  std::memcpy(&header, elf.data(), sizeof(header));
  ASSERT_EQ(std::memcmp(header.e_ident, ELFMAG, SELFMAG), 0);
  EXPECT_EQ(header.e_type, ET_DYN);
  size_t exported = 0;
  for (int i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, elf.data() + header.e_shoff + static_cast<size_t>(i) * sizeof(section),
                sizeof(section));
    EXPECT_NE(section.sh_type, static_cast<Elf64_Word>(SHT_REL));
    EXPECT_NE(section.sh_type, static_cast<Elf64_Word>(SHT_RELA));
    for (size_t at = 0; section.sh_type == SHT_DYNAMIC && at < section.sh_size;
         at += sizeof(Elf64_Dyn)) {
      Elf64_Dyn entry;
      std::memcpy(&entry, elf.data() + section.sh_offset + at, sizeof(entry));
      EXPECT_NE(entry.d_tag, DT_NEEDED);
      EXPECT_NE(entry.d_tag, DT_TEXTREL);
    }
    for (size_t at = sizeof(Elf64_Sym); section.sh_type == SHT_DYNSYM && at < section.sh_size;
         at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      std::memcpy(&symbol, elf.data() + section.sh_offset + at, sizeof(symbol));
      EXPECT_NE(symbol.st_shndx, SHN_UNDEF);
      ++exported;
    }
  }
  EXPECT_EQ(exported, 3u);
}

// What Halide could not fold as a 32-bit constant is said before it is asked.
TEST(CheckIndices, RefusesCoefficientsOfMoreThan30Bits) {
  for (const auto& [step, fits] : {std::pair(int64_t{1} << 28, true),
                                   {int64_t{1} << 29, false},
                                   {-(int64_t{1} << 30), false}}) {
    const absl::StatusOr<Kernel> kernel =
        ParseKernel(absl::StrCat("kernel v1 math 1\ndims a\nsizes n0\nin   0 f32 [n0] dense\n"
                                 "out  0 f32 [a] dense = in0[",
                                 step, "*a+7]\n"));
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    EXPECT_EQ(CheckIndices(*kernel).ok(), fits) << step;
  }
}

}  // namespace
}  // namespace kiln
