// SPDX-License-Identifier: Apache-2.0
// Random programs with outputs bound over inputs, and with outputs fed back, against runs on memory
// of their own.
//
//   KILN_BOUND_PROGRAMS   how many, 1000 unless given
//   KILN_SEED             the first seed
//   KILN_BOUND_COMPILED   every which one is compiled too; 0: none
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "graph/text.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/compiler/bound_judge.h"
#include "tests/compiler/on_vm.h"

namespace kiln {
namespace {

constexpr int kSlices = 10;
constexpr int kLayouts = 12, kFeeds = 3, kRuns = 4;

// Levels and threads by seed: with few of both there are more steps, and more that meets.
CompileOptions OptionsFor(uint64_t seed) {
  CompileOptions options = OnVm();
  options.graph_opt_level = static_cast<int>(seed % 4);
  options.jit_level = static_cast<int>(seed / 4 % 3);
  options.threads = seed % 5 == 0 ? 2 : 1;
  return options;
}

std::string WhatIsWrong(BoundJudge& judge, uint64_t seed, uint64_t layouts, uint64_t feeds) {
  if (std::string wrong = judge.Pairs(); !wrong.empty()) return wrong;
  for (uint64_t k = 0; k < layouts; ++k) {
    if (std::string wrong = judge.Layout(seed * layouts + k); !wrong.empty()) return wrong;
  }
  for (uint64_t k = 0; k < feeds; ++k) {
    if (std::string wrong = judge.FedBack(seed * feeds + k, kRuns); !wrong.empty()) return wrong;
  }
  return "";
}

// In slices, so that slices may run in parallel.
class BoundOutputs : public testing::TestWithParam<int> {
 protected:
  void Check(uint64_t seed, const CompileOptions& options) {
    KILN_ASSERT_OK_AND_ASSIGN(const BoundProgram program, MakeBoundProgram(seed));
    const std::string subject =
        absl::StrCat("seed ", seed, ", ", program.kind, ", -O", options.graph_opt_level, " --jit ",
                     options.jit_level, ", threads ", options.threads);
    auto judge = BoundJudge::Create(program, options);
    ASSERT_TRUE(judge.ok()) << subject << ": " << judge.status() << "\n" << Print(program.graph);
    // Of moves, drawn extents may break a guard that shapes of further inputs rest on.
    if (program.kind == "moves" && !judge->Runs()) return;
    const std::string wrong = WhatIsWrong(*judge, seed, kLayouts, kFeeds);
    EXPECT_EQ(wrong, "") << subject << "\n" << Print(program.graph);
    over_ += judge->over();
    refused_ += judge->refused();
  }

  int64_t over_ = 0, refused_ = 0;
};

TEST_P(BoundOutputs, GiveTheBitsOfOutputsInMemoryOfTheirOwn) {
  const TempDir cache;
  const uint64_t count = FromEnvironment("KILN_BOUND_PROGRAMS", 1000);
  const uint64_t first = FromEnvironment("KILN_SEED", 0);
  const uint64_t compiled = FromEnvironment("KILN_BOUND_COMPILED", 0);
  for (auto i = static_cast<uint64_t>(GetParam()); i < count && !HasFailure(); i += kSlices) {
    CompileOptions options = OptionsFor(first + i);
    Check(first + i, options);
    if (compiled == 0 || i / kSlices % compiled != 0) continue;
    options.compile_mode = CompileMode::kBlock;
    options.cache.enabled = true;
    options.cache.directory = cache.path();
    Check(first + i, options);
  }
  RecordProperty("over_inputs", static_cast<int>(over_));
  RecordProperty("refused", static_cast<int>(refused_));
  EXPECT_GE(over_, count >= 100 ? 100 : 0);  // the judge has something to judge
}

// Steps of a round read until its end and write from its beginning on.
TEST(BoundImages, RoundsGiveTheBitsOfOutputsInMemoryOfTheirOwn) {
  const uint64_t count = 2 + FromEnvironment("KILN_BOUND_PROGRAMS", 0) / 50;
  const uint64_t first = FromEnvironment("KILN_SEED", 0);
  int in_rounds = 0;
  for (uint64_t seed = first; seed < first + count && !HasFailure(); ++seed) {
    KILN_ASSERT_OK_AND_ASSIGN(const BoundProgram program, MakeImagesProgram(seed));
    CompileOptions options = OptionsFor(seed);
    options.on_plan = [&](const PlanInfo& plan) {
      in_rounds += plan.text.find(" parts") != std::string::npos;
    };
    KILN_ASSERT_OK_AND_ASSIGN(BoundJudge judge, BoundJudge::Create(program, options));
    EXPECT_EQ(WhatIsWrong(judge, seed, 2, 1), "") << "seed " << seed << "\n"
                                                  << Print(program.graph);
  }
  EXPECT_GE(in_rounds, 1);
}

INSTANTIATE_TEST_SUITE_P(Seeds, BoundOutputs, testing::Range(0, kSlices));

}  // namespace
}  // namespace kiln
