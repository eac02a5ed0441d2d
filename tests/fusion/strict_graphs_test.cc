// SPDX-License-Identifier: Apache-2.0
// Random graphs over all types give the bits of -O0 at every level, on the VM and, a share of them,
// compiled.
//
//   KILN_STRICT_GRAPHS    how many, 300 unless given
//   KILN_SEED             the first seed
//   KILN_STRICT_COMPILED  every which one is compiled too; 0, unless given: none
//   KILN_STRICT_DUMP      a directory for the graph and inputs of a case that fails
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "graph/text.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/fusion/strict_judge.h"
#include "tests/graph/tensors.h"

namespace kiln {
namespace {

constexpr int kSlices = 10;

// In slices, so that a failure names a small range and slices may run in parallel.
class StrictGraphs : public testing::TestWithParam<int> {};

TEST_P(StrictGraphs, GiveTheBitsOfLevelZero) {
  const TempDir cache;
  StrictJudge judge(cache.path());
  const uint64_t count = FromEnvironment("KILN_STRICT_GRAPHS", 300);
  const uint64_t first = FromEnvironment("KILN_SEED", 0);
  const uint64_t compiled = FromEnvironment("KILN_STRICT_COMPILED", 0);
  int failures = 0;
  for (auto i = static_cast<uint64_t>(GetParam()); i < count; i += kSlices) {
    KILN_ASSERT_OK_AND_ASSIGN(TypedGraph net, MakeTypedGraph(first + i));
    std::vector<StrictSetting> settings = SettingsOnVm();
    if (compiled != 0 && i / kSlices % compiled == 0) {
      settings.push_back({0, 2, true});
      settings.push_back({3, 2, true});
    }
    const std::string wrong = judge.Check(net, settings);
    if (wrong.empty()) continue;
    const char* dump = std::getenv("KILN_STRICT_DUMP");
    ADD_FAILURE() << "seed " << first + i << ": " << wrong << "\n"
                  << Print(net.graph) << (dump != nullptr ? WriteCase(net, dump) : "");
    if (++failures == 3) return;
  }
}

// -1 is the last element of the part, not of what it is a part of.
TEST(StrictCases, IndicesCountFromTheEndOfAPart) {
  TypedGraph net;
  KILN_ASSERT_OK_AND_ASSIGN(net.graph, ParseGraph(R"(graph parts
input x : f32 [7]
input i : i64 [4]
a, b = split(x) {axis = 0, split = [4, 3]}
y = gather(a, i) {axis = 0}
p = pad(x) {pads = [0, -2]}
z = gather(p, i) {axis = 0}
output y
output z
)"));
  net.inputs = {F32({7}, {0, 1, 2, 3, 4, 5, 6}), Make(DType::kI64, {4}, {2, -1, -4, 3})};
  const TempDir cache;
  EXPECT_EQ(StrictJudge(cache.path()).Check(net, SettingsOnVm()), "");
}

// The middle of a row of pads takes one element for all lanes. Where a row has no middle, that
// element may lie outside: validation finds code that loads it.
TEST(StrictCases, PiecesWithoutElementsLoadNothing) {
  TypedGraph net;
  KILN_ASSERT_OK_AND_ASSIGN(net.graph, ParseGraph(R"(graph pads
input x : u64 [5, 1]
const fill : u64 [1] = [10]
p = pad(x, _, fill) {pads = [0, 1, 0, 1]}
s = sign(p)
y = slice(s) {starts = [0], ends = [3], axes = [0], steps = [1]}
output y
)"));
  net.inputs = {Make(DType::kU64, {5, 1}, {0, 1, 2, 3, 4})};
  const TempDir cache;
  EXPECT_EQ(StrictJudge(cache.path()).Check(net, {{3, 2, true}}), "");
}

INSTANTIATE_TEST_SUITE_P(Seeds, StrictGraphs, testing::Range(0, kSlices));

}  // namespace
}  // namespace kiln
