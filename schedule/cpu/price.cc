// SPDX-License-Identifier: Apache-2.0
#include "schedule/cpu/price.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "schedule/compute_price.h"
#include "schedule/index_split.h"
#include "schedule/loop_counts.h"
#include "schedule/read_price.h"
#include "schedule/work.h"

namespace kiln {
namespace {

// Elements of an input that are asked for, if each read asked for others.
double ElementsRead(const LoopCounts& counts, size_t input) {
  double elements = 0;
  for (size_t e = 0; e < counts.size(); ++e) {
    for (const ExprNode& node : counts.expr(e).nodes()) {
      if (node.op == ScalarOp::kRead && node.source == ReadSource::kInput &&
          static_cast<size_t>(node.ref) == input)
        elements += counts.Runs(e);
    }
  }
  return elements;
}

// Every operand once.
struct Walk {
  double bytes = 0, ns = 0;
};

// Bandwidths are measured with as much read as written; to write a line takes reading it too, so
// that what moves is 1.5 times what is measured.
constexpr double kMovedByMeasure = 1.5;  // correctness

Walk WalkOf(const LoopCounts& counts, const Machine& machine) {
  const Kernel& kernel = counts.kernel();
  double read = 0, written = 0;
  for (size_t k = 0; k < kernel.inputs.size(); ++k) {
    const KernelInput& input = kernel.inputs[k];
    read += std::min(counts.Elements(input.dims), ElementsRead(counts, k)) *
            static_cast<double>(SizeOf(input.type));
  }
  for (const KernelOutput& output : kernel.outputs)
    written += counts.Elements(output.dims) * static_cast<double>(SizeOf(output.type));
  const double bytes = read + written;
  const double moved = counts.OneNest() ? (read + 2 * written) / kMovedByMeasure : bytes;
  return {bytes, moved / machine.GbPerS(bytes)};
}

// Without walking and starting, which pieces of a row share.
struct Parts {
  Price price;
  double latency_ns = 0, short_rows_ns = 0;
  double unhidden_ns = 0;  // see UnhiddenNs
  double loops = 0;
};

// What the whole hides and its loops cannot: where they run one after the other, what one moves
// hides behind its own operations alone.
double UnhiddenNs(const LoopCounts& counts, const ComputePrice& compute, const Machine& machine,
                  double bytes) {
  if (!counts.Apart()) return 0;
  const std::vector<double> moved = BytesByPass(counts);
  double apart = 0, memory_ns = 0, compute_ns = 0;
  for (size_t pass = 0; pass < moved.size(); ++pass) {
    const double ns = moved[pass] / machine.GbPerS(bytes);
    apart += Overlapped(ns, compute.by_pass[pass]);
    memory_ns += ns;
    compute_ns += compute.by_pass[pass];
  }
  return apart - Overlapped(memory_ns, compute_ns);
}

Parts PartsOf(const LoopCounts& counts, const Machine& machine, double bytes) {
  const ComputePrice compute = ComputePriceOf(counts, machine, bytes);
  Parts parts;
  parts.price.compute_ns = compute.ns;
  parts.latency_ns = compute.latency_ns;
  parts.short_rows_ns = compute.short_rows_ns;
  parts.unhidden_ns = UnhiddenNs(counts, compute, machine, bytes);
  parts.price.expensive_repeats = compute.expensive_repeats;
  parts.price.memory_ns = OddReadsNs(counts, machine, bytes) + compute.jumps_ns;
  parts.loops = counts.RowLoops() + compute.tile_loops;
  return parts;
}

// Rows that run in pieces: each element computes what its piece needs, or all pieces where those
// share vectors.
Parts PiecesOf(const LoopCounts& counts, std::span<const int64_t> whole, const Machine& machine,
               double bytes) {
  const Kernel& kernel = counts.kernel();
  const std::vector<IndexExpr> cuts = Cuts(kernel);
  std::vector<int64_t> extents(whole.begin(), whole.end());
  int64_t& row = extents[static_cast<size_t>(kernel.innermost())];
  const std::vector<int64_t> lengths = PieceLengths(kernel, cuts, whole);
  const bool shared = counts.loops().segments == LoopSummary::Segments::kBlended;
  Parts all;
  all.loops = counts.RowLoops();
  for (size_t k = 0; k <= cuts.size(); ++k) {
    if (!shared) row = std::max<int64_t>(1, lengths[k]);
    const Kernel piece = Between(kernel, cuts, k);
    LoopSummary own = counts.loops();
    own.segments = LoopSummary::Segments::kNone;
    const Parts parts = PartsOf(LoopCounts(piece, extents, std::move(own)), machine, bytes);
    all.price.compute_ns += parts.price.compute_ns;
    all.latency_ns += parts.latency_ns;
    all.short_rows_ns += parts.short_rows_ns;
    all.price.memory_ns += parts.price.memory_ns;
    all.price.expensive_repeats =
        std::max(all.price.expensive_repeats, parts.price.expensive_repeats);
    all.loops += shared && k > 0 ? 0 : parts.loops;
  }
  return all;
}

// How many times as long as with equal shares, on average over numbers of threads, the threads of a
// loop with `steps` steps of `elements` take. No kernel knows how many threads will run it.
double UnequalShares(double steps, double elements, double grain) {
  constexpr double kThreads[] = {1, 2, 4, 8};  // speed
  const double all = steps * elements;
  double log_sum = 0;
  for (const double threads : kThreads) {
    const double most = std::clamp(all / grain, 1.0, threads);  // as many as find work
    log_sum += std::log(std::max(1.0, std::ceil(steps / threads) / steps * most));
  }
  return std::exp(log_sum / static_cast<double>(std::size(kThreads)));
}

}  // namespace

Price CpuPriceOf(const Kernel& kernel, std::span<const int64_t> extents, const Machine& machine,
                 const Schedule& schedule) {
  if (kernel.num_iterated() == 0) {  // no loops
    Price price;
    price.ns = machine.launch_ns;
    return price;
  }
  const LoopCounts counts(kernel, extents, schedule.Loops(kernel));
  const Walk walk = WalkOf(counts, machine);
  const bool pieces = counts.loops().segments != LoopSummary::Segments::kNone;
  const Parts parts = pieces ? PiecesOf(counts, extents, machine, walk.bytes)
                             : PartsOf(counts, machine, walk.bytes);
  Price price = parts.price;
  price.bytes = walk.bytes;
  price.memory_ns += walk.ns;
  const double started = machine.launch_ns + parts.loops * machine.loop_ns;
  price.ns = started + Overlapped(price.memory_ns, price.compute_ns);
  const double waiting = started + Overlapped(price.memory_ns, price.compute_ns + parts.latency_ns);
  price.idle_ns = waiting - price.ns + parts.short_rows_ns + parts.unhidden_ns;
  if (const double tiles = counts.Tiles(); tiles > 0) {
    const auto grain = static_cast<double>(machine.parallel_grain);
    const double shares = UnequalShares(tiles, counts.TileElements(), grain);
    price.idle_ns += (shares - 1) * (price.ns + price.idle_ns);
  }
  return price;
}

}  // namespace kiln
