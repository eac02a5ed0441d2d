// SPDX-License-Identifier: Apache-2.0
#include "schedule/compute_price.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernel/abi.h"
#include "schedule/analysis.h"
#include "schedule/read_price.h"

namespace kiln {
namespace {

// Halvings that fold the lanes of a row: a shuffle and a combination each.
constexpr int kFoldSteps = std::bit_width(static_cast<uint64_t>(kReduceLanes)) - 1;

class ComputePricer {
 public:
  ComputePricer(const LoopCounts& counts, const Machine& machine, double bytes)
      : counts_(counts), machine_(machine), bytes_(bytes), own_ns_(counts.size()) {}

  ComputePrice Run() && {
    price_.by_pass.resize(counts_.size());
    for (size_t e = 0; e < counts_.size(); ++e) AddExpr(e);
    for (size_t e = 0; e < counts_.size(); ++e) {
      if (!counts_.Stored(e) || counts_.Runs(e) < 1) continue;
      AddPass(e);
      AddLatency(e);
      if (counts_.IsReduction(e) && !counts_.ByTiles(e)) AddFolds(e);
    }
    return price_;
  }

 private:
  void AddExpr(size_t e) {
    const ScalarExpr& expr = counts_.expr(e);
    const std::vector<uint64_t> varies = VariesWith(expr);
    Work work;  // of the loop over its elements
    for (size_t i = 0; i < varies.size(); ++i) {
      const ExprNode& node = expr.nodes()[i];
      const double runs = counts_.RunsOf(e, varies[i]);
      work.Add(WorkOf(expr, node, machine_), runs * ScalarFactor(e, node));
      if (counts_.Loads(node)) work.ns += runs * machine_.add_ns;
      if (!IsExpensive(node.op)) continue;
      double distinct = 1;
      for (size_t dim = 0; dim < std::min<size_t>(64, counts_.kernel().dims.size()); ++dim) {
        if ((varies[i] >> dim & 1) != 0) distinct *= counts_.extent(static_cast<int32_t>(dim));
      }
      price_.expensive_repeats = std::max(price_.expensive_repeats, runs / std::max(1.0, distinct));
    }
    if (counts_.IsReduction(e)) work.ns += counts_.Runs(e) * CombineNs(counts_.stage(e), machine_);
    const double gather_ns = GatherNs(counts_, e, varies, machine_, bytes_);
    const double ns = Overlapped(work.ns, work.divider_ns);
    price_.ns += ns + gather_ns;
    own_ns_[e] = ns;
    price_.short_rows_ns += (LaneFactor(e) - 1) * ns + MasksNs(e);
    if (!counts_.Kept(e)) return;
    const Stage& stage = counts_.stage(e);
    // Kept rows stay in the nearest cache, columns and whole stages where they fit.
    const auto size = static_cast<double>(SizeOf(stage.type));
    const double bytes = 2 * counts_.Domain(e) * size;
    const bool spans = SpansAll(counts_.kernel(), stage.dims);
    const double tile = spans ? counts_.TileElements() * size : 0;
    const bool near = tile <= static_cast<double>(machine_.l2_bytes);
    price_.ns += bytes / machine_.GbPerS(counts_.Apart() ? bytes : near ? 0 : tile);
  }

  // How many times the work of its elements the vectors of a stored expression's loop do: lanes
  // beyond the end of a row, and registers that a vector does not fill, work too.
  double LaneFactor(size_t e) const {
    const double lanes = static_cast<double>(counts_.loops().step);
    if (counts_.EmptyRows()) return 1;
    if (counts_.AcrossRows()) return LanesAcrossRows(lanes);
    const auto bytes = static_cast<double>(machine_.vector_bytes);
    const bool by_lanes = counts_.IsReduction(e) && !counts_.ByTiles(e);
    if (counts_.ByTiles(e)) return 1;  // see AddTiles
    const double filled = by_lanes ? 1 : std::max(1.0, bytes / 4 / lanes);
    if (!counts_.LoopsOver(e, counts_.kernel().innermost())) return filled;
    const double row = counts_.RowOf(e);
    const double most = by_lanes ? static_cast<double>(kReduceLanes) : lanes;
    const double rest = std::fmod(row, most);
    const double step = by_lanes ? std::min(lanes, bytes / 4) : lanes;
    return filled * (row - rest + std::ceil(rest / step) * step) / row;
  }

  // The vectors of the last step of a row store under masks, if the step is not whole.
  double MasksNs(size_t e) const {
    if (counts_.IsStage(e) || counts_.AcrossRows() || counts_.EmptyRows()) return 0;
    if (!counts_.LoopsOver(e, counts_.kernel().innermost())) return 0;
    const auto step = static_cast<double>(counts_.loops().step);
    const double row = counts_.RowOf(e);
    if (std::fmod(row, step) == 0) return 0;
    const double lanes = static_cast<double>(machine_.vector_bytes) / 4;
    return counts_.Runs(e) / row * std::ceil(step / lanes) * machine_.mask_ns;
  }

  // The same for vectors across rows, of which the last is a part.
  double LanesAcrossRows(double lanes) const {
    double rows = 1;
    for (int64_t k = 1; k <= counts_.loops().lane_dims; ++k)
      rows *= counts_.extent(counts_.kernel().innermost() - static_cast<int32_t>(k));
    return counts_.loops().lane_dims == 0 || rows < 1 ? 1 : std::ceil(rows / lanes) * lanes / rows;
  }

  // What a row has one of is computed for one row at a time, without vectors.
  double ScalarFactor(size_t e, const ExprNode& node) const {
    const bool scalar = counts_.loops().one_row_at_a_time && Info(node.op).function &&
                        !counts_.LoopsOver(e, counts_.kernel().innermost());
    return scalar ? static_cast<double>(machine_.vector_bytes) / 4 : 1;
  }

  // The loop over a stored expression, with the maps that it computes in place.
  struct Body {
    Chain chain;
    double ns = 0;
  };
  Body BodyOf(size_t e) const {
    Body body{counts_.chain(e), own_ns_[e]};
    for (const size_t inside : counts_.inlined(e)) body.ns += own_ns_[inside];
    return body;
  }

  // A map that several loops compute in place is computed in each as often as that runs.
  void AddPass(size_t e) {
    double& ns = price_.by_pass[counts_.PassOf(e)];
    ns += own_ns_[e];
    for (const size_t inside : counts_.inlined(e))
      ns += own_ns_[inside] * std::min(1.0, counts_.Runs(e) / std::max(1.0, counts_.Runs(inside)));
  }

  // What loops wait for operations to end, beyond what their units take: a core overlaps those of a
  // step, and steps as far as it runs ahead; but an accumulator waits for itself.
  void AddLatency(size_t e) {
    const Body body = BodyOf(e);
    const auto lanes = static_cast<double>(machine_.vector_bytes) / 4;
    const double step =
        static_cast<double>(counts_.ByTiles(e) ? counts_.loops().columns : counts_.loops().step);
    const double vectors = std::max(1.0, step / lanes);
    const auto links = static_cast<double>(counts_.loops().links);
    const double in_flight =
        vectors + machine_.window / std::max(1.0, body.chain.instructions / links);
    const double waits = body.chain.depth / links * machine_.latency_ns / in_flight;
    double ns = counts_.Runs(e) / lanes * waits * links;
    const bool begins = counts_.PassOf(e) == e;  // the accumulators of a pass wait together
    if (counts_.IsReduction(e) && begins) ns = std::max(ns, AccumulatorNs(e));
    ns = std::hypot(ns, body.ns);
    price_.latency_ns += ns - body.ns;
    if (counts_.loops().links > 1)  // what a link leaves for the next stays in the nearest cache
      price_.ns += (links - 1) * counts_.Runs(e) * 2 * sizeof(float) / machine_.GbPerS(0);
    if (counts_.ByTiles(e)) AddTiles(e, ns);
  }

  // What a reduction waits for its accumulators.
  double AccumulatorNs(size_t e) const {
    const double depth = machine_.latency_ns;
    if (counts_.AcrossRows()) return 0;
    if (!counts_.ByTiles(e)) {
      const double row = counts_.RowOf(e),
                   steps = std::ceil(row / static_cast<double>(kReduceLanes));
      return counts_.Runs(e) / row * (steps - 1) * depth;
    }
    const auto columns = static_cast<double>(counts_.loops().columns);
    if (!counts_.loops().sums_in_cache) return counts_.Runs(e) / columns * depth;
    return counts_.Runs(e) / std::max(columns, counts_.RowOf(e)) * depth;
  }

  // The fold of a row's lanes: instructions, and the wait of loops over the row that need it where
  // rows go one by one. Rows that fold together share the vectors, and wait together.
  void AddFolds(size_t e) {
    if (counts_.AcrossRows() || counts_.loops().folds_together) return;
    const double rows = counts_.Runs(e) / counts_.RowOf(e),
                 vector = static_cast<double>(machine_.vector_bytes) / 4;
    price_.short_rows_ns += rows * 2 * kFoldSteps * CombineNs(counts_.stage(e), machine_) * vector;
    if (counts_.loops().batch > 1 || !counts_.AwaitedByRow(e)) return;
    price_.short_rows_ns += rows * (kFoldSteps + counts_.DepthAfter(e)) * machine_.latency_ns;
  }

  // Reductions by tiles of columns, which take `ns` for their elements.
  void AddTiles(size_t e, double ns) {
    const Stage& stage = counts_.stage(e);
    const auto bytes = static_cast<double>(SizeOf(stage.type));
    const auto columns = static_cast<double>(counts_.loops().columns);
    const double row = std::max(1.0, counts_.RowOf(e));
    // Whole tiles, of which the last has idle lanes.
    const double idle = std::ceil(row / columns) * columns / row - 1;
    price_.short_rows_ns += idle * ns;
    if (counts_.loops().sums_in_cache)
      price_.ns += 2 * bytes * counts_.Runs(e) / machine_.GbPerS(0);
    if (counts_.PassOf(e) != e) return;
    const double steps = counts_.Runs(e) / std::min(row, columns);
    price_.tile_loops += steps / static_cast<double>(kOuterReduceBlock);
    if (!counts_.loops().strides && !counts_.loops().sums_in_cache)
      price_.jumps_ns += steps * RowJumpNs(e);
    if (!counts_.loops().sums_in_cache && !counts_.loops().rows_in_cache && row > columns &&
        bytes_ > static_cast<double>(machine_.l3_bytes))
      price_.jumps_ns += steps * machine_.jump_ns;
  }

  // The rows of a block lie side by side in a cache, unless they are so far apart that too few fit
  // into the same sets: then each is fetched anew for each tile.
  double RowJumpNs(size_t e) const {
    int64_t inputs = 0, stride = 1;
    for (const ExprNode& node : counts_.expr(e).nodes()) {
      if (!counts_.Loads(node) || node.source != ReadSource::kInput ||
          !counts_.VariesAlongRow(node))
        continue;
      const KernelInput& input = counts_.kernel().inputs[static_cast<size_t>(node.ref)];
      const int32_t down = counts_.stage(e).over.back();
      if (!Has(input.dims, down) || !counts_.Conflicts(input.dims, down, input.type)) continue;
      ++inputs;
      stride = std::max(stride, counts_.StrideOf(input.dims, down, input.type));
    }
    if (kOuterReduceBlock * inputs < machine_.l2_bytes / stride) return 0;
    if (bytes_ <= static_cast<double>(machine_.l3_bytes)) return 0;
    return static_cast<double>(inputs) * machine_.jump_ns;
  }

  const LoopCounts& counts_;
  const Machine& machine_;
  const double bytes_;          // of all operands
  std::vector<double> own_ns_;  // of each expression's own operations
  ComputePrice price_;
};

}  // namespace

ComputePrice ComputePriceOf(const LoopCounts& counts, const Machine& machine, double bytes) {
  return ComputePricer(counts, machine, bytes).Run();
}

}  // namespace kiln
