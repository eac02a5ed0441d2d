// SPDX-License-Identifier: Apache-2.0
#include "schedule/cuda/price.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "schedule/cuda/grid_launches.h"
#include "schedule/work.h"

namespace kiln {
namespace {

constexpr double kBlocksAtOnce = 32;      // correctness: of a multiprocessor, about
constexpr double kReservedBytes = 1024;   // correctness: of shared memory, for each block
constexpr double kBusyElements = 512;     // speed: side by side, that keep a multiprocessor at work
constexpr double kNearBytesAClock = 128;  // correctness: of a first-level cache

// What a launch takes, beside starting.
struct LaunchNs {
  double memory = 0, compute = 0;
  double occupancy = 0;  // threads on a multiprocessor of those that it could have
};

// Blocks on a multiprocessor at once.
double BlocksAtOnce(const GridLaunch& launch, const Gpu& gpu) {
  const double by_registers = gpu.registers / (launch.registers * launch.block);
  const double by_shared = gpu.shared_bytes / (launch.shared_bytes + kReservedBytes);
  const double blocks =
      std::min({gpu.threads / launch.block, by_registers, by_shared, kBlocksAtOnce});
  return std::max(1.0, std::floor(blocks));
}

LaunchNs NsOf(const GridLaunch& launch, const Machine& machine) {
  const Gpu& gpu = machine.gpu;
  LaunchNs ns;
  if (launch.threads == 0) return ns;
  const double blocks = std::ceil(launch.threads / launch.block);
  const double wave = BlocksAtOnce(launch, gpu) * gpu.multiprocessors;
  const double threads = std::min(blocks, wave) * std::min(launch.block, launch.threads);
  const double used = std::min(blocks, gpu.multiprocessors);
  ns.occupancy = std::min(1.0, threads / used / gpu.threads);
  const double near = gpu.multiprocessors * kNearBytesAClock * gpu.clock_ghz;
  // What blocks that run together share the second-level cache for.
  const double walked_at_once = launch.walked * std::min(1.0, wave / blocks);
  const double moving = launch.walked / machine.GbPerS(launch.walked) +
                        launch.again / machine.GbPerS(walked_at_once) + launch.near / near;
  const double waits = launch.rounds / launch.threads * gpu.latency_ns;
  ns.memory = std::max(moving, waits * std::ceil(blocks / wave));
  // By the multiprocessor with most blocks, as far as those at once keep it busy.
  const double most = std::ceil(blocks / gpu.multiprocessors);
  const double elements = std::min(most, BlocksAtOnce(launch, gpu)) *
                          std::min(launch.block, launch.threads) * launch.independent;
  ns.compute = launch.work_ns / blocks * most * gpu.multiprocessors /
               std::min(1.0, elements / kBusyElements);
  return ns;
}

double OperandBytes(const Kernel& kernel, std::span<const int64_t> extents) {
  double bytes = 0;
  const auto add = [&](const auto& operand) {
    double elements = 1;
    for (const int32_t dim : operand.dims)
      elements *= static_cast<double>(extents[static_cast<size_t>(dim)]);
    bytes += elements * static_cast<double>(SizeOf(operand.type));
  };
  for (const KernelInput& input : kernel.inputs) add(input);
  for (const KernelOutput& output : kernel.outputs) add(output);
  return bytes;
}

}  // namespace

Price CudaPriceOf(const Kernel& kernel, std::span<const int64_t> extents, const Machine& machine,
                  const Schedule& schedule) {
  Price price;
  price.bytes = OperandBytes(kernel, extents);
  for (const GridLaunch& launch : GridLaunchesOf(kernel, extents, schedule, machine)) {
    const LaunchNs ns = NsOf(launch, machine);
    price.ns += machine.launch_ns + Overlapped(ns.memory, ns.compute);
    price.memory_ns += ns.memory;
    price.compute_ns += ns.compute;
    price.expensive_repeats = std::max(price.expensive_repeats, launch.expensive_repeats);
  }
  return price;
}

std::string CudaPicture(const Kernel& kernel, std::span<const int64_t> extents,
                        const Schedule& schedule, const Machine& machine) {
  std::string text;
  for (const GridLaunch& launch : GridLaunchesOf(kernel, extents, schedule, machine)) {
    const LaunchNs ns = NsOf(launch, machine);
    const std::string makes = absl::StrJoin(launch.makes, ", ", [&](std::string* out, size_t e) {
      const size_t stages = kernel.stages.size();
      absl::StrAppend(out, e < stages ? "s" : "out", e < stages ? e : e - stages);
    });
    absl::StrAppend(
        &text, "launch for ", makes,
        absl::StrFormat(
            ": %.0f threads in blocks of %.0f, %.2f of what fits at once; %.4g kB, %.4g read "
            "again; memory %.4g us, compute %.4g\n",
            launch.threads, launch.block, ns.occupancy, launch.walked / 1000,
            (launch.again + launch.near) / 1000, ns.memory / 1000, ns.compute / 1000));
  }
  return text;
}

}  // namespace kiln
