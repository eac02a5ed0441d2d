// SPDX-License-Identifier: Apache-2.0
// Groups of graphs that are compiled for a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "fusion/legality.h"
#include "schedule/analysis.h"
#include "schedule/choose.h"
#include "schedule/device.h"
#include "tests/base/environment.h"
#include "tests/fusion/nets.h"
#include "tests/fusion/random_graph.h"

namespace kiln {
namespace {

constexpr const char* kLevels[] = {"cuda-sm80", "cuda-sm90", "cuda-sm100", "cuda-sm120"};

const Machine& MachineAt(size_t level) { return ShippedMachine(*Target::Parse(kLevels[level])); }

// The prices of all kernels, with what is theirs to check.
double CheckKernels(const Graph& graph, const Grouping& grouping, const Machine& machine) {
  const DeviceModel& model = ModelOf(machine.target);
  double ns = 0;
  for (const Group& group : KernelGroups(grouping)) {
    const absl::StatusOr<LoweredGroup> lowered = LowerGroup(graph, group);
    EXPECT_THAT(lowered, IsOk());
    if (!lowered.ok()) continue;
    const Kernel& kernel = lowered->canonical.kernel;
    SCOPED_TRACE(Print(kernel));
    EXPECT_TRUE(AcceptsKernel(kernel, machine.target));
    if (group.nodes.size() > 1) {
      const auto numbers = static_cast<size_t>(
          std::count_if(kernel.inputs.begin(), kernel.inputs.end(),
                        [](const KernelInput& input) { return input.dims.empty(); }));
      EXPECT_TRUE(
          model.caps.Allows(kernel.inputs.size() - numbers + kernel.outputs.size(), numbers));
      EXPECT_LE(CompileWork(kernel), model.caps.compile_work);
    }
    const SizeClass any{std::vector<int64_t>(kernel.dims.size(), kUnbounded)};
    for (const SizeClass& sizes : SizeClassesFor(kernel, any)) {
      const Schedule schedule = ChooseSchedule(kernel, sizes, machine);
      EXPECT_THAT(schedule.CheckFor(kernel), IsOk()) << schedule.ToString();
    }
    ns += EstimatedPrice(*lowered, machine).ns;
  }
  return ns;
}

TEST(GpuGroups, RandomGraphsFuseIntoKernelsThatPay) {
  const uint64_t graphs = FromEnvironment("KILN_RANDOM_GRAPHS", 60);
  size_t fewer = 0;
  for (uint64_t seed = 0; seed < graphs; ++seed) {
    KILN_ASSERT_OK_AND_ASSIGN(RandomNet net, MakeRandomNet(seed, 60'000));
    const Machine& machine = MachineAt(seed % 4);
    KILN_ASSERT_OK(RunPasses(net.graph, {.target = machine.target}));
    SCOPED_TRACE(absl::StrCat("seed ", seed, "\n", Print(net.graph)));
    const Grouping apart = Grouped(net.graph, {.level = 1, .machine = &machine});
    const Grouping grouped = Grouped(net.graph, {.machine = &machine});
    const double before = CheckKernels(net.graph, apart, machine);
    const double after = CheckKernels(net.graph, grouped, machine);
    EXPECT_LE(after, 1.1 * before) << ToString(grouped, net.graph);
    fewer += KernelGroups(apart).size() - KernelGroups(grouped).size();
  }
  EXPECT_GT(fewer, graphs) << "some launches are saved";
}

// One launch where the CPU has one kernel, by the template that is made for it.
TEST(GpuGroups, NormalisationsAreOneLaunch) {
  const Machine& machine = MachineAt(1);
  for (const char* text :
       {"graph g\ninput x : f32 [512, 768]\ny = softmax(x) {axis = -1}\noutput y\n",
        "graph g\ninput x : f32 [n, 768]\ninput r : f32 [n, 768]\ninput s : f32 [768]\n"
        "input b : f32 [768]\na = add(x, r)\ny = layer_norm(a, s, b) {axis = -1, epsilon = 1e-5}\n"
        "output y\n"}) {
    SCOPED_TRACE(text);
    Graph graph = Parsed(text);
    KILN_ASSERT_OK(RunPasses(graph, {.target = machine.target}));
    const std::vector<Group> kernels = KernelGroups(Grouped(graph, {.machine = &machine}));
    ASSERT_EQ(kernels.size(), 1u);
    KILN_ASSERT_OK_AND_ASSIGN(const LoweredGroup lowered, LowerGroup(graph, kernels[0]));
    const Kernel& kernel = lowered.canonical.kernel;
    SizeClass sizes{std::vector<int64_t>(kernel.dims.size(), kUnbounded)};
    sizes.at_most[static_cast<size_t>(kernel.innermost())] = 768;
    EXPECT_STREQ(ChooseSchedule(kernel, sizes, machine).name(), "warp_rows");
  }
}

// Activations stay as they come: cuDNN and Kiln's own loops take either.
TEST(GpuGroups, ConvolutionsKeepTheirLayout) {
  const char* const text =
      "graph g\ninput x : f32 [1, 8, 14, 14]\ninput w : f32 [8, 8, 3, 3]\ninput v : f32 [8, 8, 3, "
      "3]\na = conv(x, w) {pads = [1, 1, 1, 1]}\nb = relu(a)\ny = conv(b, v) {pads = [1, 1, 1, "
      "1]}\noutput y\n";
  const auto transposes = [&](Target target) {
    Graph graph = Parsed(text);
    EXPECT_THAT(RunPasses(graph, {.target = target}), IsOk());
    const std::string printed = Print(graph);
    size_t count = 0;
    for (size_t at = 0; (at = printed.find("transpose", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(transposes(LowestTarget(DeviceKind::kCuda)), 0u);
  EXPECT_GT(transposes(LowestTarget()), 0u) << "the CPU's library likes channels last";
}

}  // namespace
}  // namespace kiln
