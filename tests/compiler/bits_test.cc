// SPDX-License-Identifier: Apache-2.0
// Compiled code and the VM give the same bits: every kernel of the networks at -O0 and -O3, 300
// random kernels (KILN_RANDOM_KERNELS: another number, or seeds FIRST-LAST), 1, 2, 3 and 8 threads,
// AVX2 and, where this machine has it, AVX-512.
#include "tests/compiler/bits.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/compile.h"
#include "kernel/text.h"
#include "tests/base/status_matchers.h"

namespace kiln {
namespace {

BitComparer& Comparer() {
  static auto* const comparer = new BitComparer;
  return *comparer;
}

// The first seed, and the one behind the last.
std::pair<int, int> RandomSeeds() {
  const char* asked = std::getenv("KILN_RANDOM_KERNELS");
  if (asked == nullptr) return {0, 200};
  const char* const dash = std::strchr(asked, '-');
  if (dash == nullptr) return {0, std::atoi(asked)};
  return {std::atoi(asked), std::atoi(dash + 1) + 1};
}

// Seeds in ten slices, so that a failure names a small range and slices may run in parallel.
class RandomKernelsTest : public testing::TestWithParam<int> {};

TEST_P(RandomKernelsTest, CompiledAndVmAgree) {
  const auto [first, end] = RandomSeeds();
  for (int k = first + GetParam(); k < end; k += 10) {
    const auto seed = static_cast<uint64_t>(k);
    const Kernel kernel = seed % 7 == 6 ? RandomSums(seed) : RandomKernel(seed);
    EXPECT_EQ(Comparer().Difference(kernel, MakeRandomRun(kernel, seed, 50'000)), "")
        << "seed " << seed << "\n"
        << Print(kernel);
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomKernelsTest, testing::Range(0, 10));

std::vector<std::string> Networks() {
  std::vector<std::string> paths;
  for (const auto& file :
       std::filesystem::recursive_directory_iterator(KILN_TEST_DATA_DIR "/models")) {
    if (file.path().extension() == ".onnx") paths.push_back(file.path());
  }
  const std::string magika = KILN_SOURCE_DIR "/.deps/models/magika/model.onnx";
  if (std::filesystem::exists(magika)) paths.push_back(magika);
  return paths;
}

// Every distinct kernel of the compiled graph, with the extents of its first launch when all
// symbols are 2.
void CompareKernelsOf(const Graph& graph, int level, std::set<std::string>& seen) {
  CompileOptions options;
  options.graph_opt_level = level;
  KILN_ASSERT_OK_AND_ASSIGN(const Compiled compiled, CompileGraph(graph, options));
  SymbolValues symbols;
  std::set<std::string> names;
  for (const ValueId id : compiled.graph.inputs()) {
    for (const Dim& extent : compiled.graph.value(id).shape) extent.CollectSymbols(names);
  }
  for (const std::string& name : names) symbols[name] = 2;
  for (const program::Thunk& thunk : compiled.variant.program.regions(0).thunks()) {
    if (!thunk.has_kernel()) continue;
    const std::string& text = compiled.variant.program.kernels(thunk.kernel().kernel()).text();
    if (!seen.insert(text).second) continue;
    KILN_ASSERT_OK_AND_ASSIGN(const Kernel kernel, ParseKernel(text));
    std::vector<int64_t> extents;
    for (const std::string& dim : thunk.kernel().dims()) {
      KILN_ASSERT_OK_AND_ASSIGN(const Dim expression, Dim::Parse(dim));
      KILN_ASSERT_OK_AND_ASSIGN(const int64_t extent, expression.Evaluate(symbols));
      extents.push_back(extent);
    }
    EXPECT_EQ(Comparer().Difference(kernel, RunFor(kernel, extents, seen.size())), "") << text;
  }
}

TEST(NetworkKernelsTest, CompiledAndVmAgree) {
  std::set<std::string> seen;
  for (const std::string& path : Networks()) {
    SCOPED_TRACE(path);
    KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, ReadModel(path));
    for (const int level : {0, 3}) CompareKernelsOf(graph, level, seen);
  }
  EXPECT_GT(seen.size(), 70u);  // activations and residuals of level 3 are in library calls
}

// The gradient of batch norm, whose few columns threads share row by row.
TEST(BatchNormGradientTest, CompiledAndVmAgree) {
  KILN_ASSERT_OK_AND_ASSIGN(const Kernel kernel, ParseKernel(R"(kernel v1 math 1
dims a b
in   0 f32 [a, b] dense
in   1 f32 [a, b] dense
s0 : f32 [b] = reduce add over a (mul(in0[a, b], in1[a, b]))
s1 : f32 [b] = reduce add over a (in0[a, b])
s2 : f32 [b] = div(s0[b], s1[b])
out  0 f32 [a, b] dense = sub(in0[a, b], mul(in1[a, b], s2[b]))
out  1 f32 [b] dense = s0[b]
)"));
  EXPECT_EQ(Comparer().Difference(kernel, RunFor(kernel, {4000, 64}, 1)), "");
}

// The gradient of an embedding, whose rows tasks share: each looks through all places for its own.
TEST(SumsAtPlacesTest, CompiledAndVmAgree) {
  KILN_ASSERT_OK_AND_ASSIGN(const Kernel kernel, ParseKernel(R"(kernel v1 math 1
dims a b
sizes n0
in   0 i64 [a] dense
in   1 f32 [a, b] dense
in   2 f32 [a, b] dense
out  0 f32 [n0, b] dense = add_at[[in0[a]], b](mul(in1[a, b], in2[a, b]))
)"));
  for (const int64_t rows : {1, 40})  // places are from -20 to 20, mostly
    EXPECT_EQ(Comparer().Difference(kernel, RunFor(kernel, {700, 200, rows}, 1)), "") << rows;
}

// The gradient of a row that is always the same: one task has it all.
TEST(SumsAtPlacesTest, OfOnePlaceAreCompiled) {
  for (const char* const place : {"i64:0", "i64:3", "i64:-1", "in1[]"}) {
    KILN_ASSERT_OK_AND_ASSIGN(const Kernel kernel,
                              ParseKernel(absl::StrCat(R"(kernel v1 math 1
dims a b
sizes n0
in   0 f32 [a, b] dense
in   1 i64 [] dense
out  0 f32 [n0, b] dense = add_at[[)",
                                                       place, R"(], b](in0[a, b])
)")));
    EXPECT_EQ(Comparer().Difference(kernel, RunFor(kernel, {5, 70, 6}, 1)), "") << place;
  }
}

TEST(InstructionSetsTest, BothLevelsAreCompared) {
  if (Comparer().levels().size() < 2)
    GTEST_SKIP() << "this machine, or KILN_MAX_ISA, has no AVX-512: only AVX2 was compared";
}

}  // namespace
}  // namespace kiln
