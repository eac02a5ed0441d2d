// SPDX-License-Identifier: Apache-2.0
// Kernels for GPUs where there is an assembler of PTX, one of the test's own: what entries say, and
// what runs where the machine code does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/base/temp_dir.h"
#include "tests/cli/process.h"

namespace kiln {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// Its "cubin" is no code.
constexpr char kPtxas[] = R"(#!/bin/sh
if [ "$1" = --version ]; then echo "Tools, release 99.0, V99.0.1"; exit; fi
while [ $# -gt 1 ]; do
  case $1 in -arch=*) level=${1#-arch=} ;; -o) out=$2; shift ;; esac
  shift
done
printf '\177ELF Tools, release 99.0, V99.0.1\n' > "$out"
for name in $(sed -n 's/.*\.entry \(k[0-9]*\)(.*/\1/p' "$1"); do
  echo "ptxas info    : Compiling entry function '$name' for '$level'"
  echo "ptxas info    : Function properties for $name"
  echo "    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads"
  echo "ptxas info    : Used 40 registers, used 1 barriers, 24 bytes smem, 360 bytes cmem[0]"
  echo "ptxas info    : Compile time = 5.2 ms"
done
)";
constexpr char kNvdisasm[] = "#!/bin/sh\necho instructions of; head -c 4 \"$2\" | tail -c 3\n";

class AssemblerTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(dir_.File(name)) << text;
    return dir_.File(name);
  }
  std::string Tool(const std::string& name, const std::string& text) {
    const std::string path = Write(name, text);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }
  ProcessResult With(const std::string& ptxas, std::vector<std::string> words) {
    return Kiln(std::move(words), {.environment = {{"KILN_PTXAS", ptxas},
                                                   {"KILN_NVDISASM", nvdisasm_},
                                                   {"KILN_CACHE_DIR", dir_.File("cache")},
                                                   {"KILN_LOG", "debug"}}});
  }
  json Results(const std::string& ptxas, std::vector<std::string> words) {
    words.emplace_back("--json");
    const ProcessResult result = With(ptxas, std::move(words));
    EXPECT_EQ(result.exit, 0) << result.err;
    const json parsed = json::parse(result.out, nullptr, false);
    return parsed.is_object() ? parsed["results"] : json();
  }

  TempDir dir_;
  const std::string ptxas_ = Tool("ptxas", kPtxas);
  const std::string nvdisasm_ = Tool("nvdisasm", kNvdisasm);
  const std::string model_ =
      Write("m.graph", "graph m\ninput x : f32 [n, 4]\ny = exp(x)\noutput y\n");
};

TEST_F(AssemblerTest, EntriesHaveCodeForTheirLevelAndWhatItTakes) {
  for (const char* const level : {"sm80", "sm90"}) {
    const std::string target = std::string("cuda-") + level;
    EXPECT_GT(Results(ptxas_, {"compile", model_, "--cache-only", "--target", target})["built"], 0);
    const json listed = Results(ptxas_, {"cache", "ls", "--target", target})["entries"];
    ASSERT_FALSE(listed.empty());
    const std::string key = listed[0]["key"];
    const json entry = Results(ptxas_, {"cache", "show", key});
    EXPECT_EQ(entry["preimage"]["assembler"], "ptxas 99.0.1");
    EXPECT_GT(entry["sections"]["ptx"], 0);
    EXPECT_GT(entry["sections"]["cubin"], 0);
    ASSERT_FALSE(entry["functions"].empty());
    const json& function = entry["functions"][0];
    EXPECT_EQ(function["name"], "k0");
    EXPECT_EQ(function["level"], std::string("sm_") + (level + 2));
    EXPECT_EQ(function["registers"], 40);
    EXPECT_EQ(function["spill_stores"], 8);
    EXPECT_EQ(function["spill_loads"], 12);
    EXPECT_EQ(function["local"], 16);
    EXPECT_EQ(function["shared"], 24);
    EXPECT_EQ(function["barriers"], 1);
    EXPECT_GE(function["threads"], 32);
    EXPECT_THAT(With(ptxas_, {"cache", "show", key}).out, HasSubstr("registers"));
  }
}

// Without an assembler, or with another, keys are others; each kind of entry runs.
TEST_F(AssemblerTest, KeysNameTheAssembler) {
  const std::vector<std::string> run = {"run", model_, "--device", "cuda-emulated", "--dim", "n=3"};
  EXPECT_GT(Results(ptxas_, run)["compile"]["built"], 0);
  const json why =
      Results("none", {"cache", "why-miss", model_, "--target", "cuda-sm80"})["kernels"];
  ASSERT_FALSE(why.empty());
  EXPECT_EQ(why[0]["state"], "miss");
  EXPECT_EQ(why[0]["field"], "assembler");
  EXPECT_EQ(Results(ptxas_, {"cache", "why-miss", model_, "--target", "cuda-sm80"})["misses"], 0);
  for (const std::string& ptxas : {ptxas_, std::string("none")}) {
    const json first = Results(ptxas, run)["compile"];
    EXPECT_EQ(first[ptxas == ptxas_ ? "cached" : "built"], first["kernels"]) << ptxas;
    const json again = Results(ptxas, run)["compile"];
    EXPECT_EQ(again["cached"], again["kernels"]) << ptxas;
  }
}

TEST_F(AssemblerTest, WhatTheDriverRefusesIsAssembledAsItIsLoaded) {
  const ProcessResult run =
      With(ptxas_, {"run", model_, "--device", "cuda-emulated", "--dim", "n=3"});
  EXPECT_EQ(run.exit, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("kernels are assembled as they are loaded"));
  EXPECT_THAT(run.err, testing::Not(HasSubstr("VM")));
}

TEST_F(AssemblerTest, OneThatIsNoneIsToldOnce) {
  const std::string wrong = dir_.File("nowhere/ptxas");
  const ProcessResult made =
      With(wrong, {"compile", model_, "--cache-only", "--target", "cuda-sm80,cuda-sm90"});
  EXPECT_EQ(made.exit, 0) << made.err;
  const std::string told = "ptxas: KILN_PTXAS is \"" + wrong + "\", which is no program";
  const size_t at = made.err.find(told);
  EXPECT_NE(at, std::string::npos) << made.err;
  EXPECT_EQ(made.err.find(told, at + 1), std::string::npos) << made.err;
  EXPECT_THAT(With("none", {"compile", model_, "--cache-only", "--target", "cuda-sm80"}).err,
              testing::Not(HasSubstr("KILN_PTXAS")));
}

TEST_F(AssemblerTest, OnePackageIsForSeveralLevelsOfGpusAndOfCpus) {
  const std::string package = dir_.File("m.kiln"), y = dir_.File("y.npy");
  const std::string targets = "cuda-sm80,cuda-sm90,cuda-sm100,cuda-sm120,x86-64-v3";
  EXPECT_EQ(With(ptxas_, {"compile", model_, "-o", package, "--target", targets}).exit, 0);
  const json results = Results("none", {"inspect", package});
  std::string names;
  for (const json& target : results["targets"]) {
    names += (names.empty() ? "" : ",") + target["name"].get<std::string>();
    EXPECT_EQ(target["kernels"], 1);
    EXPECT_GT(target["bytes"], 0);
  }
  EXPECT_EQ(names, targets);
  const std::vector<std::string> run = {"run", package, "--dim", "n=3", "--input", "x=random:5"};
  std::vector<std::string> cpu = run, gpu = run;
  cpu.insert(cpu.end(), {"--output", "y=@" + y});
  gpu.insert(gpu.end(),
             {"--device", "cuda-emulated", "--expect", "y=@" + y, "--rtol", "0", "--atol", "0"});
  for (const std::vector<std::string>& words : {cpu, gpu}) {
    const json compile = Results("none", words)["compile"];
    EXPECT_EQ(compile["cached"], 1);
    EXPECT_EQ(compile["vm"], 0);
  }
}

TEST_F(AssemblerTest, InspectShowsWhatIsMadeOfAKernel) {
  const auto emitted = [&](const std::string& ptxas, const char* section) {
    return With(ptxas,
                {"inspect", model_, "--group", "0", "--target", "cuda-sm100", "--emit", section});
  };
  EXPECT_THAT(emitted("none", "ptx").out, HasSubstr(".visible .entry k0("));
  EXPECT_THAT(emitted(ptxas_, "ptxas").out,
              HasSubstr("Compiling entry function 'k0' for 'sm_100'"));
  EXPECT_EQ(emitted(ptxas_, "sass").out, "instructions of\nELF");
  for (const char* const section : {"ptxas", "sass"}) {
    const ProcessResult without = emitted("none", section);
    EXPECT_EQ(without.exit, 5) << section;
    EXPECT_THAT(without.err, HasSubstr("ptxas: neither KILN_PTXAS names it")) << section;
    EXPECT_THAT(without.err, HasSubstr("install the CUDA toolkit")) << section;
  }
  std::filesystem::remove(nvdisasm_);
  EXPECT_EQ(emitted(ptxas_, "sass").exit, 5);
  EXPECT_THAT(emitted(ptxas_, "sass").err, HasSubstr("nvdisasm: neither KILN_NVDISASM names it"));
}

TEST_F(AssemblerTest, APackageWithoutMachineCodeNeedsTheToolkitToShowIt) {
  const std::string package = dir_.File("m.kiln");
  Results("none", {"compile", model_, "-o", package, "--target", "cuda-sm90"});
  const json listed = Results("none", {"inspect", package})["package"]["kernels"];
  ASSERT_EQ(listed.size(), 1u);
  const auto emitted = [&](const std::string& ptxas, const char* section) {
    return With(ptxas, {"inspect", package, "--kernel", listed[0]["key"], "--emit", section});
  };
  EXPECT_THAT(emitted(ptxas_, "ptxas").out, HasSubstr("Compiling entry function 'k0'"));
  EXPECT_EQ(emitted(ptxas_, "sass").out, "instructions of\nELF");
  EXPECT_EQ(emitted("none", "ptxas").exit, 5);
  EXPECT_EQ(emitted(ptxas_, "asm").exit, 2);
  std::filesystem::remove(nvdisasm_);
  EXPECT_EQ(emitted(ptxas_, "sass").exit, 5);
  EXPECT_THAT(emitted(ptxas_, "sass").err, HasSubstr("nvdisasm: neither KILN_NVDISASM names it"));
}

}  // namespace
}  // namespace kiln
