// SPDX-License-Identifier: Apache-2.0
// The VM against EvalKernel on random kernels: every instruction set, one to three threads.
#include <algorithm>
#include <string>
#include <vector>

#include "exec/support/launch.h"
#include "exec/vm/vm.h"
#include "gtest/gtest.h"
#include "kernel/text.h"
#include "tests/exec_vm/vm_harness.h"
#include "tests/kernel/random.h"

namespace kiln {
namespace {

int RunInVm(const VmKernel& vm, RandomRun& run, Pool& pool) {
  std::vector<int32_t> extents(run.extents.begin(), run.extents.end());
  std::vector<TestArg> args;
  args.reserve(run.inputs.size() + run.outputs.size());
  std::vector<void*> argv = {nullptr};
  const auto add = [&](RandomOperand& operand) {
    args.emplace_back(operand.type, operand.data(), operand.shape, operand.strides);
    argv.push_back(&args.back().arg);
  };
  for (RandomOperand& input : run.inputs) add(input);
  for (int32_t& extent : extents) argv.push_back(&extent);
  for (uint64_t& param : run.params) argv.push_back(&param);
  for (RandomOperand& output : run.outputs) add(output);
  Launcher launcher(&pool);
  const bool lines = std::all_of(args.begin() + static_cast<ptrdiff_t>(run.inputs.size()),
                                 args.end(), [](const TestArg& a) { return WholeLines(a.arg); });
  return launcher.Launch(&kiln::RunVm, &vm, argv.data(), lines);
}

TEST(VmRandomTest, EqualsNaiveEvaluation) {
  constexpr int kKernels = 440;
  Pool pools[] = {Pool(1), Pool(2), Pool(3)};
  for (uint64_t seed = 1; seed <= kKernels; ++seed) {
    const Kernel kernel = seed % 6 == 5 ? RandomSums(seed) : RandomKernel(seed);
    const RandomRun fresh = MakeRandomRun(kernel, seed, 20000);
    RandomRun want = fresh;
    ASSERT_TRUE(
        EvalKernel(kernel, want.InputBuffers(), want.extents, want.params, want.OutputBuffers())
            .ok());
    for (const IsaLevel isa : LevelsHere()) {
      const auto vm = VmKernel::Compile(kernel, isa);
      ASSERT_TRUE(vm.ok()) << vm.status();
      for (Pool& pool : pools) {
        RandomRun got = fresh;
        ASSERT_EQ(RunInVm(**vm, got, pool), 0) << "seed " << seed;
        ASSERT_EQ(FirstDifference(kernel, got, want), "")
            << "seed " << seed << " isa " << static_cast<int>(isa) << " threads " << pool.threads()
            << "\n"
            << Print(kernel);
      }
    }
  }
}

}  // namespace
}  // namespace kiln
