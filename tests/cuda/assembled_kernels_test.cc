// SPDX-License-Identifier: Apache-2.0
// The kernels of the benchmark's graphs (of f32 and bf16) and of the tiny networks, as they are
// fused for each level of GPUs, made by the worker and assembled for that level: what their
// functions take of a multiprocessor, and how long it takes to make one. Each n-th of them
// (KILN_DEVICE_KERNELS).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/assembler.h"
#include "compiler/code_figures.h"
#include "compiler/compile_graph.h"
#include "compiler/model_source.h"
#include "graph/text.h"
#include "halide_gen/common/worker.h"
#include "kernel/text.h"
#include "schedule/device.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/cuda/network_paths.h"

namespace kiln {
namespace {

constexpr double kMultiprocessorBlocks = 32;
constexpr double kReservedBytes = 1024;  // of shared memory, for each block

std::vector<Graph> Graphs() {
  std::vector<Graph> graphs;
  for (const std::string& path : NetworkPaths()) {
    const auto source = ModelSource::Read(path, {});
    EXPECT_THAT(source, IsOk()) << path;
    if (source.ok()) graphs.push_back(source->graph());
    if (!absl::EndsWith(path, ".graph")) continue;
    const auto narrow = ParseGraph(GraphTextOf(path, "bf16"));
    EXPECT_THAT(narrow, IsOk()) << path;
    if (narrow.ok()) graphs.push_back(*narrow);
  }
  return graphs;
}

// What a multiprocessor runs at once of a function, and what bounds it.
struct Occupancy {
  double blocks = 0, of_threads = 0;
  std::string bound;
};

Occupancy OccupancyOf(const FunctionFigures& function, const Gpu& gpu) {
  const auto threads = static_cast<double>(*function.threads);
  const double warps = std::ceil(threads / 32);
  const double registers = std::ceil(static_cast<double>(function.registers) / 8) * 8 * 32 * warps;
  const std::pair<double, const char*> bounds[] = {
      {kMultiprocessorBlocks, "blocks"},
      {gpu.threads / threads, "threads"},
      {gpu.registers / registers, "registers"},
      {gpu.shared_bytes / (static_cast<double>(function.shared.value_or(0)) + kReservedBytes),
       "shared memory"}};
  const auto least = *std::min_element(std::begin(bounds), std::end(bounds));
  const double blocks = std::floor(least.first);
  return {blocks, blocks * threads / gpu.threads, least.second};
}

std::string Quantiles(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return absl::StrCat("median ", static_cast<int>(values[values.size() / 2]), ", 90 % ",
                      static_cast<int>(values[values.size() * 9 / 10]), ", most ",
                      static_cast<int>(values.back()));
}

class AssembledKernels : public testing::Test {
 protected:
  void SetUp() override {
    if (HostAssembler().path.empty())
      GTEST_SKIP() << "there is no ptxas: install the CUDA toolkit, or name it in KILN_PTXAS";
  }

  // The kernels of all graphs for the level of `target_`.
  void CheckLevel() {
    std::set<std::pair<std::string, std::string>> seen;
    CompileOptions options;
    options.target = target_;
    for (const Graph& graph : graphs_) {
      KILN_ASSERT_OK_AND_ASSIGN(const Compiled compiled, CompileGraph(graph, options));
      for (const program::KernelDef& def : compiled.variant.program.kernels()) {
        for (const program::KernelChoice& choice : def.choices()) {
          if (choice.schedule().empty()) continue;
          if (!seen.emplace(def.text(), choice.schedule()).second) continue;
          if (seen.size() % each_ == 0) CheckKernel(def.text(), choice.schedule());
        }
      }
    }
    EXPECT_GT(seen.size(), 50u);
  }

  void CheckKernel(const std::string& text, const std::string& schedule) {
    SCOPED_TRACE(absl::StrCat(target_.name(), " ", schedule, "\n", text));
    const CodegenAnswer answer = Serve({.kernel = text,
                                        .schedule = schedule,
                                        .target = std::string(target_.name()),
                                        .sections = {"ptx", "launch", "cubin", "ptxas"},
                                        .assembler = HostAssembler().path});
    ASSERT_EQ(answer.outcome, CodegenAnswer::Outcome::kOk) << answer.error;
    EXPECT_EQ(answer.schedule, schedule) << "made by a plainer one";
    KILN_EXPECT_OK(CheckMadeBy(HostAssembler().name, answer));
    const std::map<std::string, std::string> sections(answer.sections.begin(),
                                                      answer.sections.end());
    const std::vector<FunctionFigures> functions =
        ParseFigures(sections.at("ptxas"), sections.at("launch"));
    ASSERT_FALSE(functions.empty()) << sections.at("ptxas");
    for (const FunctionFigures& function : functions) CheckFunction(function, schedule, text);
    ms_.push_back(answer.wall_ms);
  }

  void CheckFunction(const FunctionFigures& function, const std::string& schedule,
                     const std::string& text) {
    EXPECT_EQ(absl::StrCat("cuda-", absl::StrReplaceAll(function.level, {{"_", ""}})),
              target_.name());
    EXPECT_GT(function.registers, 0);
    if (function.spill_stores + function.spill_loads + function.local > 0) {
      ++spilled_;
      std::cout << target_.name() << " " << schedule << " " << function.name
                << " spills: " << function.registers << " registers, " << function.spill_stores
                << " bytes stored, " << function.spill_loads << " loaded, " << function.local
                << " local, blocks of " << function.threads.value_or(-1) << "\n"
                << text;
    }
    ASSERT_TRUE(function.threads.has_value()) << function.name;
    EXPECT_LE((function.registers + 7) / 8 * 8 * *function.threads, 65536) << function.name;
    most_registers_ = std::max(most_registers_, function.registers);
    ++functions_;
    const Occupancy occupancy = OccupancyOf(function, ShippedMachine(target_).gpu);
    const bool streams = absl::StartsWith(schedule, "streaming");
    if (streams ? occupancy.of_threads >= 0.5 : occupancy.blocks >= 2) return;
    ++few_;
    std::cout << target_.name() << " " << schedule << " " << function.name << ": "
              << occupancy.blocks << " blocks of " << *function.threads << " threads, "
              << static_cast<int>(100 * occupancy.of_threads) << " % of threads, by "
              << occupancy.bound << " (" << function.registers << " registers, "
              << function.shared.value_or(0) << " bytes)\n"
              << text;
  }

  const std::vector<Graph> graphs_ = Graphs();
  const uint64_t each_ = FromEnvironment("KILN_DEVICE_KERNELS", 40);
  Target target_;
  std::vector<double> ms_;  // for PTX and cubin
  int64_t most_registers_ = 0;
  int functions_ = 0, spilled_ = 0, few_ = 0;
};

TEST_F(AssembledKernels, TakeNoMoreThanAMultiprocessorHas) {
  for (const char* level : {"cuda-sm80", "cuda-sm90", "cuda-sm100", "cuda-sm120"}) {
    target_ = *Target::Parse(level);
    ms_.clear();
    most_registers_ = functions_ = spilled_ = few_ = 0;
    CheckLevel();
    ASSERT_FALSE(ms_.empty());
    std::cout << level << ": " << ms_.size() << " kernels, " << functions_ << " functions, "
              << spilled_ << " spill, " << few_ << " with few threads at once, at most "
              << most_registers_ << " registers; ms for PTX and cubin: " << Quantiles(ms_)
              << std::endl;
    EXPECT_EQ(spilled_, 0);
  }
}

}  // namespace
}  // namespace kiln
