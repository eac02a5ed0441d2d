// SPDX-License-Identifier: Apache-2.0
// Random kernels, compiled with the schedule that is chosen and with every other candidate, against
// EvalKernel.
#include "tests/kernel/random.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernel/operands.h"
#include "kernel/text.h"
#include "schedule/choose.h"
#include "schedule/device.h"
#include "tests/base/environment.h"
#include "tests/halide_gen/harness.h"

namespace kiln {
namespace {

std::vector<HostView> Views(std::vector<RandomOperand>& operands) {
  std::vector<HostView> views;
  for (RandomOperand& operand : operands) {
    views.push_back({operand.type, operand.shape, operand.strides, operand.data()});
  }
  return views;
}

void CheckSchedule(const Kernel& kernel, uint64_t seed, IsaLevel isa, const Schedule& schedule) {
  SCOPED_TRACE(schedule.ToString());
  const CompiledKernel compiled(Print(kernel), isa, schedule);
  ASSERT_TRUE(compiled.ok());
  for (uint64_t round = 0; round < 4; ++round) {
    RandomRun want = MakeRandomRun(kernel, seed * 16 + round, 20000);
    // Such launches are skipped, or are the VM's.
    if (AnyEmpty(want.outputs) || ReducesNothing(kernel, want.extents)) continue;
    RandomRun got = want;
    const absl::Status naive =
        EvalKernel(kernel, want.InputBuffers(), want.extents, want.params, want.OutputBuffers());
    ASSERT_TRUE(naive.ok()) << naive;
    const std::vector<int32_t> extents(got.extents.begin(), got.extents.end());
    ASSERT_EQ(
        compiled.loaded().Run(kernel, extents, got.params, Views(got.inputs), Views(got.outputs)),
        0);
    EXPECT_EQ(FirstDifference(kernel, got, want), "") << "round " << round;
  }
}

// With at most `most` candidates for unknown extents, cheapest first.
void CheckSeed(uint64_t seed, IsaLevel isa, size_t most, bool sums = false) {
  const Kernel kernel = sums ? RandomSums(seed) : RandomKernel(seed);
  SCOPED_TRACE(testing::Message() << "seed " << seed << "\n" << Print(kernel));
  const SizeClass any{std::vector<int64_t>(kernel.dims.size(), kUnbounded)};
  const std::vector<Candidate> candidates =
      CandidatesFor(kernel, any, ShippedMachine(CpuTarget(isa)));
  for (size_t k = 0; k < std::min(most, candidates.size()); ++k)
    CheckSchedule(kernel, seed, isa, candidates[k].schedule);
}

class RandomTest : public testing::TestWithParam<IsaLevel> {
 protected:
  void SetUp() override {
    if (LevelOf(HostCpu()) < GetParam()) GTEST_SKIP() << "this machine is not " << Name(GetParam());
  }
};

// KILN_RANDOM_SEEDS asks for more.
uint64_t Seeds(uint64_t usual) { return FromEnvironment("KILN_RANDOM_SEEDS", usual); }

TEST_P(RandomTest, ChosenSchedule) {
  for (uint64_t seed = 0; seed < Seeds(8); ++seed) CheckSeed(seed, GetParam(), 1);
}

TEST_P(RandomTest, AllCandidates) {
  for (uint64_t seed = 0; seed < Seeds(2); ++seed) CheckSeed(1000 + seed, GetParam(), 100);
}

TEST_P(RandomTest, SumsAtPlaces) {
  for (uint64_t seed = 0; seed < Seeds(8); ++seed) CheckSeed(seed, GetParam(), 1, /*sums=*/true);
}

INSTANTIATE_TEST_SUITE_P(Levels, RandomTest, testing::Values(IsaLevel::kV3, IsaLevel::kV4),
                         [](const auto& info) {
                           return info.param == IsaLevel::kV3 ? "V3" : "V4";
                         });

}  // namespace
}  // namespace kiln
