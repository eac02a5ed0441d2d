// SPDX-License-Identifier: Apache-2.0
// How the kernels of the benchmark use the memory of a GPU: the schedules that are chosen for
// cuda-sm90, counted by the emulator, in a table. Of outer dims as many elements as keep a run
// short; a figure for each element does not depend on them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "compiler/compile_graph.h"
#include "graph/text.h"
#include "kernel/text.h"
#include "tests/cuda/device_kernel_check.h"
#include "tests/cuda/emulated_gpu.h"
#include "tests/cuda/network_paths.h"

namespace kiln {
namespace {

constexpr int64_t kElements = 1 << 17;  // of a run

// Dims that no reduction is over shrink, outermost first; a dim of a kernel of one, too.
std::vector<int64_t> Shortened(const Kernel& kernel, std::vector<int64_t> extents) {
  const auto dims = static_cast<size_t>(kernel.num_iterated());
  std::vector<bool> reduced(dims, false);
  for (const Stage& stage : kernel.stages)
    for (const int32_t d : stage.over) reduced[static_cast<size_t>(d)] = true;
  int64_t elements = std::accumulate(extents.begin(), extents.begin() + static_cast<int64_t>(dims),
                                     int64_t{1}, std::multiplies<>());
  for (size_t d = 0; d < dims; ++d) {
    if (reduced[d] || (d + 1 == dims && dims > 1)) continue;
    while (elements > kElements && extents[d] % 2 == 0) {
      extents[d] /= 2;
      elements /= 2;
    }
  }
  return extents;
}

struct Figures {
  double instructions = 0;  // of an element
  double sectors = 0;       // of the requests, for each that their bytes need
  double requested = 0;     // sectors, for each sector of inputs and outputs
  double conflicts = 0;     // wavefronts of shared memory, for each that there must be
  double wide = 0;          // bytes of full-warp loads that are of 16 bytes a thread, of all
  uint64_t local = 0;
};

Figures FiguresOf(const kiln_ptx_counters& counters, int64_t elements) {
  const auto ratio = [](uint64_t a, uint64_t b) {
    return b == 0 ? 1.0 : static_cast<double>(a) / static_cast<double>(b);
  };
  constexpr uint64_t kSector = 32;
  uint64_t full = 0;
  for (size_t k = 0; k < std::size(counters.full_warp_loads); ++k)
    full += counters.full_warp_loads[k] << k;
  return {.instructions = ratio(counters.thread_instructions, static_cast<uint64_t>(elements)),
          .sectors = ratio(kSector * (counters.load_sectors + counters.store_sectors),
                           counters.load_bytes + counters.store_bytes),
          .requested = ratio(counters.load_sectors + counters.store_sectors,
                             counters.unique_load_sectors + counters.unique_store_sectors),
          .conflicts = ratio(counters.shared_wavefronts, counters.ideal_wavefronts),
          .wide = ratio(16 * counters.full_warp_loads[4], full),
          .local = counters.local_accesses};
}

class BenchAccess : public testing::Test {
 protected:
  // Of each kernel of a graph of the benchmark.
  std::vector<Figures> Measured(const std::string& name, const std::string& type) {
    const std::string path = KILN_SOURCE_DIR "/bench/kernels/" + name + ".graph";
    CompileOptions options;
    options.target = *Target::Parse("cuda-sm90");
    const Compiled compiled = *CompileGraph(*ParseGraph(GraphTextOf(path, type)), options);
    std::vector<Figures> all;
    for (const program::Thunk& thunk : compiled.variant.program.regions(0).thunks()) {
      if (!thunk.has_kernel()) continue;
      const program::KernelDef& def = compiled.variant.program.kernels(thunk.kernel().kernel());
      std::vector<int64_t> extents;
      for (const std::string& dim : thunk.kernel().dims())
        extents.push_back(Dim::Parse(dim)->Evaluate({}).value_or(1));
      all.push_back(FiguresAt(name + (type == "f32" ? "" : " " + type), def, extents));
    }
    return all;
  }

  Figures FiguresAt(const std::string& name, const program::KernelDef& def,
                    const std::vector<int64_t>& whole) {
    const Kernel kernel = *ParseKernel(def.text());
    const auto fits = [&](const program::KernelChoice& choice) {
      for (int d = 0; d < choice.at_most_size(); ++d)
        if (whole[static_cast<size_t>(d)] > choice.at_most(d)) return false;
      return true;
    };
    const auto choice = std::find_if(def.choices().begin(), def.choices().end(), fits);
    const Schedule schedule = *Schedule::Parse(choice->schedule(), DeviceKind::kCuda);
    DeviceKernelCheck check(gpu_, kernel, schedule);
    EXPECT_EQ(check.error(), "");
    const std::vector<int64_t> extents = Shortened(kernel, whole);
    kiln_ptx_counters counters{};
    kiln_ptx_clear();
    EXPECT_EQ(check.Run(MakeRandomRunAt(kernel, 3, extents), 0, &counters), "");
    const int64_t elements = std::accumulate(
        extents.begin(), extents.begin() + kernel.num_iterated(), int64_t{1}, std::multiplies<>());
    const Figures figures = FiguresOf(counters, elements);
    std::printf("%-18s %-22s %7.1f %7.3f %7.3f %7.3f %6.2f %3lu  %s\n", name.c_str(),
                def.name().substr(0, 22).c_str(), figures.instructions, figures.sectors,
                figures.requested, figures.conflicts, figures.wide, figures.local,
                schedule.ToString().c_str());
    return figures;
  }

  const std::shared_ptr<cuda::Gpu> gpu_ = EmulatedGpu();
};

// What a kernel may take. Sectors above 1 for each of inputs and outputs are rows that all rows of
// another operand read, from the first-level cache: of k3, k5, k7, k8, axis0 of k6 and k10.
struct Bound {
  const char* graph;
  double instructions, requested;
  double sectors = 1.05;
  const char* type = "f32";
  double wide = 0;  // the least
};
constexpr Bound kBounds[] = {
    {"k1_1M", 20, 1.0},
    {"k2_1M", 400, 1.0},
    {"k3_erf", 55, 1.02},
    {"k3_tanh", 45, 1.02},
    {"k4", 35, 1.0},
    {"k5_ln_512x768", 24, 1.36},
    {"k5_rms_4096x1024", 14, 1.17},
    {"k6_4096x128", 45, 1.0},
    {"k6_1024x4096", 36, 1.0},
    {"k6_axis0_128x4096", 35, 1.48},
    {"k7", 45, 1.29},
    {"k8_half", 40, 2.2, 1.34},  // an element at a time around the middle of a row
    {"k8_interleaved", 38, 1.72, 1.34},
    {"k9", 46, 1.07},  // of two passes
    {"k10_infer", 25, 1.13},
    {"k10_train", 36, 1.1},
    {"k11", 24, 1.166},
    {"k12", 28, 1.1},
    {"k13_4M", 26, 1.0},
    {"k14_row", 8, 1.002},
    {"k14_col", 6, 1.0},
    {"k14_full", 8, 1.002},
    {"k15", 20, 1.04},
    // Of 16 bits: two elements are rounded by one instruction, and widened by two.
    {"k1_1M", 31, 1.0, 1.05, "bf16", 1},
    {"k1_1M", 33, 1.0, 1.05, "f16", 1},
    {"k4", 39, 1.0, 1.05, "bf16", 1},
    {"k5_ln_512x768", 31, 1.39, 1.05, "bf16"},
    {"k14_row", 10, 1.003, 1.05, "bf16"},
};

TEST_F(BenchAccess, IsWithinItsBounds) {
  for (const Bound& bound : kBounds) {
    SCOPED_TRACE(testing::Message() << bound.graph << " " << bound.type);
    for (const Figures& figures : Measured(bound.graph, bound.type)) {
      EXPECT_GE(figures.wide, bound.wide);
      EXPECT_LE(figures.instructions, bound.instructions);
      EXPECT_LE(figures.sectors, bound.sectors);
      EXPECT_LE(figures.requested, bound.requested + 1e-3);
      EXPECT_EQ(figures.conflicts, 1.0);
      EXPECT_EQ(figures.local, 0u);
    }
  }
}

}  // namespace
}  // namespace kiln
