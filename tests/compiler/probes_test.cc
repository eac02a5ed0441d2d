// SPDX-License-Identifier: Apache-2.0
// Extents for probes are found for all kernels that graphs make: random kernels, and the kernels of
// random graphs. As many as KILN_RANDOM_KERNELS and KILN_RANDOM_GRAPHS say.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/compile.h"
#include "exec/validate/probe.h"
#include "kernel/text.h"
#include "schedule/choose.h"
#include "schedule/device.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/fusion/random_graph.h"
#include "tests/fusion/random_moves.h"
#include "tests/kernel/random.h"

namespace kiln {
namespace {

// How probes were found for the kernels seen so far.
struct Found {
  int kernels = 0, without = 0, few = 0, of_example = 0, none = 0;
  std::map<std::string, int> seen;

  void Add(const std::string& text, const std::string& schedule,
           const std::vector<int64_t>& at_most, const std::vector<int64_t>& example) {
    if (seen[absl::StrCat(text, schedule, absl::StrJoin(at_most, ","))]++ > 0) return;
    const Kernel kernel = *ParseKernel(text);
    const LaunchInfo chosen = Schedule::Parse(schedule, HostTarget().device)->Info();
    ++kernels;
    const size_t count = ProbesFor(kernel, chosen, at_most).size();
    if (count < 3) ++few;
    if (count > 0) return;
    ++without;
    const bool alone = !ProbesOf(kernel, chosen, at_most, example, true).empty();
    ++(alone ? of_example : none);
    if (!alone && none < 20) {
      ADD_FAILURE() << "no extents for probes\n"
                    << text << schedule << "\nat most " << absl::StrJoin(at_most, ",")
                    << "\nexample " << absl::StrJoin(example, ",");
    }
  }
  void Print(const char* what) const {
    std::cout << what << ": " << kernels << " kernels, " << few << " with less than 3 probes, "
              << of_example << " with those of their example alone, " << none << " with none\n";
  }
};

void AddKernelsOf(const Graph& graph, Found& found) {
  CompileOptions options;
  options.target = LowestTarget();
  const absl::StatusOr<Compiled> compiled = CompileGraph(graph, options);
  if (!compiled.ok()) return;  // not what is tested here
  for (const program::KernelDef& def : compiled->variant.program.kernels()) {
    for (const program::KernelChoice& choice : def.choices()) {
      found.Add(def.text(), choice.schedule(), {choice.at_most().begin(), choice.at_most().end()},
                {def.example().begin(), def.example().end()});
    }
  }
}

TEST(Probes, FitRandomKernels) {
  Found found;
  for (int seed = 0; seed < static_cast<int>(FromEnvironment("KILN_RANDOM_KERNELS", 1000));
       ++seed) {
    const Kernel kernel = RandomKernel(static_cast<uint64_t>(seed));
    const SizeClass any{std::vector<int64_t>(kernel.dims.size(), kUnbounded)};
    const Schedule schedule = ChooseSchedule(kernel, any, ShippedMachine(LowestTarget()));
    found.Add(Print(kernel), schedule.ToString(), {}, {});
  }
  found.Print("random kernels");
  EXPECT_EQ(found.without, 0);
}

TEST(Probes, FitKernelsOfRandomGraphs) {
  Found found;
  for (int seed = 0; seed < static_cast<int>(FromEnvironment("KILN_RANDOM_GRAPHS", 200)); ++seed) {
    KILN_ASSERT_OK_AND_ASSIGN(const RandomNet net,
                              MakeRandomNet(static_cast<uint64_t>(seed), 60'000));
    AddKernelsOf(net.graph, found);
  }
  found.Print("kernels of random graphs");
  EXPECT_EQ(found.none, 0);
}

TEST(Probes, FitKernelsOfRandomMoves) {
  Found found;
  int graphs = 0;
  for (int seed = 0; seed < static_cast<int>(FromEnvironment("KILN_RANDOM_GRAPHS", 300)); ++seed) {
    const absl::StatusOr<RandomMoves> moves = MakeRandomMoves(static_cast<uint64_t>(seed));
    if (!moves.ok()) continue;  // a step that some value does not allow
    ++graphs;
    AddKernelsOf(moves->graph, found);
  }
  found.Print(absl::StrCat("kernels of ", graphs, " random moves").c_str());
  EXPECT_GT(graphs, 0);
  EXPECT_EQ(found.none, 0);
}

}  // namespace
}  // namespace kiln
