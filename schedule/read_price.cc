// SPDX-License-Identifier: Apache-2.0
#include "schedule/read_price.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "kernel/abi.h"
#include "schedule/analysis.h"

namespace kiln {
namespace {

// True if a vector along a row, which begins at a multiple of its length, reads one element.
bool OneForAVector(const LoopCounts& counts, const ExprNode& read, int64_t divisor) {
  return read.source == ReadSource::kInput &&
         DivisorOf(counts.kernel(), static_cast<size_t>(read.ref)) != 0 &&
         divisor % counts.loops().step == 0;
}

// Each lane finds its own address where guards may clamp it.
bool Clamped(const LoopCounts& counts, size_t e) {
  return counts.loops().segments == LoopSummary::Segments::kNone && HasGuard(counts.expr(e));
}

// True if the read is of other elements than its own, in a loop over several dims as one: there a
// vector may run over the end of a row, so that each lane finds its own address.
bool CrossesRows(const LoopCounts& counts, const ExprNode& read) {
  if (counts.loops().row_dims <= 1 || read.source != ReadSource::kInput) return false;
  const KernelInput& input = counts.kernel().inputs[static_cast<size_t>(read.ref)];
  return !IsIdentityRead(read, input.dims) && counts.VariesAlongRow(read);
}

// True if neighbours in a vector are neighbours in memory, or a few elements of the innermost dim
// apart. `clamped`: shifted reads are not.
bool AlongLanes(const LoopCounts& counts, const ExprNode& read, bool clamped) {
  const bool in_table =
      read.source == ReadSource::kInput && counts.loops().expanded[static_cast<size_t>(read.ref)];
  if (in_table) return true;
  if (CrossesRows(counts, read)) return false;
  size_t axes = read.index.size();
  const bool few = counts.lane_dim() != counts.kernel().innermost() && axes > 0;
  if (few && read.index[axes - 1].IsDim() &&
      read.index[axes - 1].terms[0].dim == counts.kernel().innermost())
    --axes;
  for (size_t axis = 0; axis < axes; ++axis) {
    const IndexExpr& index = read.index[axis];
    if (index.load >= 0) return false;
    for (const IndexExpr::Term& term : index.terms) {
      if (term.extent || term.dim != counts.lane_dim()) continue;
      if (clamped && !index.IsDim()) return false;
      if (axis + 1 != axes || term.coef != 1 || index.mod != 0) return false;
      if (index.div != 1 && !OneForAVector(counts, read, index.div)) return false;
    }
  }
  return true;
}

class ReadPricer {
 public:
  ReadPricer(const LoopCounts& counts, const Machine& machine, double bytes)
      : counts_(counts), machine_(machine), bytes_(bytes) {}

  // Reads of elements one by one keep the units busy that compute, too.
  double GatherNs(size_t e, const std::vector<uint64_t>& varies) const {
    if (counts_.loops().transposes) return 0;
    double ns = 0;
    const bool clamped = Clamped(counts_, e);
    const std::vector<double> reached = Reached(counts_.expr(e), varies);
    for (size_t i = 0; i < reached.size(); ++i) {
      const ExprNode& node = counts_.expr(e).nodes()[i];
      if (node.op == ScalarOp::kRead && node.source == ReadSource::kInput &&
          (VariesAlong(node, {counts_.lane_dim()}) || CrossesRows(counts_, node)) &&
          !AlongLanes(counts_, node, clamped))
        ns += reached[i] *
              (counts_.VariesAlongRow(node) ? counts_.Runs(e) : counts_.Runs(e) / counts_.Row()) *
              machine_.gather_ns;
    }
    return ns;
  }

  // What reads cost over the walk: those that are turned, and those of second loops.
  double OddReadsNs() const {
    const bool transposes =
        counts_.loops().transposes && counts_.loops().across != LoopSummary::Across::kBlocks;
    double ns = 0;
    std::vector<double> asked(counts_.kernel().inputs.size(), 0);
    std::map<std::pair<size_t, size_t>, double> by_pass;  // (pass, input): elements
    for (size_t e = 0; e < counts_.size(); ++e) {
      const bool clamped = Clamped(counts_, e);
      std::vector<double> own(asked.size(), 0);
      for (const ExprNode& node : counts_.expr(e).nodes()) {
        if (node.op != ScalarOp::kRead || node.source != ReadSource::kInput) continue;
        const auto input = static_cast<size_t>(node.ref);
        if (!counts_.VariesAlongRow(node)) continue;
        own[input] += counts_.Runs(e);
        if (transposes && !AlongLanes(counts_, node, clamped))
          ns += counts_.Runs(e) * machine_.transpose_ns;
      }
      // Of one loop, what several read is read once.
      for (size_t k = 0; k < own.size(); ++k) {
        double& before = by_pass[{counts_.PassOf(e), k}];
        asked[k] += std::max(0.0, own[k] - before);
        before = std::max(before, own[k]);
      }
    }
    if (counts_.AcrossRows() && !counts_.OneNest()) ns += StridesNs();
    if (counts_.loops().along >= 0) ns += TilesNs();
    ns += MovedRowsNs();
    for (size_t k = 0; k < asked.size(); ++k) {
      const KernelInput& input = counts_.kernel().inputs[k];
      const double all = counts_.Elements(input.dims);
      if (asked[k] <= all) continue;
      const double again = (asked[k] - all) * static_cast<double>(SizeOf(input.type));
      const double near = all * static_cast<double>(SizeOf(input.type));
      const bool row = Has(input.dims, counts_.kernel().innermost()) && !counts_.Apart();
      ns += again / machine_.GbPerS(row ? std::min(near, BetweenReads()) : near);
    }
    return ns;
  }

 private:
  // Bytes that are read before a row, or the column of a tile, is read again. Rows follow each
  // other in time, also where a column of them is only in the second-level cache.
  double BetweenReads() const {
    const double tile = counts_.TileElements(), row = counts_.Row() * sizeof(float);
    double bytes = 0;
    for (const KernelInput& input : counts_.kernel().inputs)
      if (SpansAll(counts_.kernel(), input.dims)) bytes += static_cast<double>(SizeOf(input.type));
    bytes *= tile;
    return bytes > static_cast<double>(machine_.l2_bytes) ? bytes : row;
  }

  // Rows of inputs that lie in another order than the outputs: unless the loop next to the
  // innermost follows them, a line that two rows share is read for each.
  double MovedRowsNs() const {
    const int32_t x = counts_.kernel().innermost();
    const int32_t next =
        counts_.loops().order >= 0 ? static_cast<int32_t>(counts_.loops().order) : x - 1;
    double ns = 0;
    for (const KernelInput& input : counts_.kernel().inputs) {
      const std::vector<int32_t>& dims = input.dims;
      const bool moved = static_cast<int>(dims.size()) == counts_.kernel().num_iterated() &&
                         x >= 1 && dims.back() == x && !std::is_sorted(dims.begin(), dims.end());
      if (!moved || dims[dims.size() - 2] == next) continue;
      const double row = counts_.Elements({x}) * static_cast<double>(SizeOf(input.type));
      const double all = counts_.Elements(dims) * static_cast<double>(SizeOf(input.type));
      ns += all / row * kLine / machine_.GbPerS(bytes_);
    }
    return ns;
  }

  // Tiles that are transposed follow each other along the operands, or along the outputs, some at a
  // time: the one is read in runs, or the other written. Each run begins at a place of its own.
  double TilesNs() const {
    const auto dim = static_cast<int32_t>(counts_.loops().along);
    const double along = counts_.Elements({dim}), row = counts_.Row();
    const auto tile = static_cast<double>(counts_.loops().tile),
               tiles = static_cast<double>(counts_.loops().tiles);
    const KernelOutput& output = counts_.kernel().outputs[0];
    const double all = counts_.Elements(output.dims);
    const double whole =
        all / std::max(1.0, along * row) * std::ceil(along / kTileRows) * std::ceil(row / tile);
    const double elements = whole * kTileRows * tile;
    const double written = elements / std::min(row, tile * tiles);
    const double read = elements / (tiles > 1 ? kTileRows : RunOf(dim));
    const double inner =
        tiles > 1 ? std::min(tiles, std::ceil(row / tile)) : std::ceil(along / kTileRows);
    return (written + read) * machine_.latency_ns + (elements - all) * machine_.transpose_ns +
           whole / inner * machine_.loop_ns;
  }

  // Elements of inputs in one piece along `dim`, which is their last, and those before it that are
  // not the innermost.
  double RunOf(int32_t dim) const {
    for (const KernelInput& input : counts_.kernel().inputs) {
      if (input.dims.empty() || input.dims.back() != dim) continue;
      double run = 1;
      for (size_t k = input.dims.size(); k-- > 0 && input.dims[k] != counts_.kernel().innermost();)
        run *= counts_.Elements({input.dims[k]});
      return std::max(1.0, run);
    }
    return 1;
  }

  // What vectors across rows take to transpose what they load and store.
  double StridesNs() const {
    double elements = 0;
    for (size_t k = 0; k < counts_.kernel().inputs.size(); ++k)
      elements += IsReadInPlace(counts_.kernel(), k)
                      ? counts_.Elements(counts_.kernel().inputs[k].dims)
                      : 0;
    for (const KernelOutput& output : counts_.kernel().outputs)
      elements += SpansAll(counts_.kernel(), output.dims) ? counts_.Elements(output.dims) : 0;
    return elements * machine_.transpose_ns;
  }

  // The part of elements for which `condition` holds: known where it compares a coordinate with an
  // extent, as those of concats do; else one of two arms is as likely as the other.
  double PartWhere(const ScalarExpr& expr, ExprId condition) const {
    constexpr double kEither = 1.0 / 2;
    const ExprNode& compare = expr.node(condition);
    if (compare.op != ScalarOp::kLt && compare.op != ScalarOp::kLe) return kEither;
    const ExprNode* index = &expr.node(compare.args[0]);
    const ExprNode* extent = &expr.node(compare.args[1]);
    const bool above = extent->op == ScalarOp::kIndex;
    if (above) std::swap(index, extent);
    if (index->op != ScalarOp::kIndex || extent->op != ScalarOp::kExtent) return kEither;
    const auto of = [&](const ExprNode* node) { return counts_.extent(node->ref); };
    const double below = std::min(1.0, of(extent) / std::max(1.0, of(index)));
    return above ? 1 - below : below;
  }

  // The part of an expression's runs that comes to each node, where choices that all lanes make
  // alike are branches.
  std::vector<double> Reached(const ScalarExpr& expr, const std::vector<uint64_t>& varies) const {
    const std::vector<ExprNode>& nodes = expr.nodes();
    std::vector<double> reached(nodes.size(), 0);
    reached[static_cast<size_t>(expr.root())] = 1;
    const auto reach = [&](ExprId id, double part) {
      if (id < 0) return;
      double& known = reached[static_cast<size_t>(id)];
      known = std::max(known, part);
    };
    for (size_t i = nodes.size(); i-- > 0;) {
      const ExprNode& node = nodes[i];
      const bool branches =
          node.op == ScalarOp::kGuard && counts_.lane_dim() < 64 &&
          (varies[static_cast<size_t>(node.args[0])] >> counts_.lane_dim() & 1) == 0;
      const double holds = branches ? PartWhere(expr, node.args[0]) : 1;
      reach(node.args[0], reached[i]);
      reach(node.args[1], reached[i] * holds);
      reach(node.args[2], reached[i] * (branches ? 1 - holds : 1));
      for (const IndexExpr& index : node.index) reach(index.load, reached[i]);
    }
    return reached;
  }

  const LoopCounts& counts_;
  const Machine& machine_;
  const double bytes_;  // of all operands
};

}  // namespace

double GatherNs(const LoopCounts& counts, size_t e, const std::vector<uint64_t>& varies,
                const Machine& machine, double bytes) {
  return ReadPricer(counts, machine, bytes).GatherNs(e, varies);
}

bool ReadsAlongLanes(const LoopCounts& counts, size_t e, const ExprNode& read) {
  return AlongLanes(counts, read, Clamped(counts, e));
}

std::vector<double> BytesByPass(const LoopCounts& counts) {
  const Kernel& kernel = counts.kernel();
  std::map<std::pair<size_t, size_t>, double> read;  // (pass, input): elements
  for (size_t e = 0; e < counts.size(); ++e) {
    if (!counts.Stored(e)) continue;
    std::vector<size_t> loop = counts.inlined(e);
    loop.push_back(e);
    for (const size_t of : loop) {
      for (const ExprNode& node : counts.expr(of).nodes()) {
        if (node.op != ScalarOp::kRead || node.source != ReadSource::kInput ||
            !counts.VariesAlongRow(node))
          continue;
        double& elements = read[{counts.PassOf(e), static_cast<size_t>(node.ref)}];
        elements = std::max(elements, counts.Runs(e));
      }
    }
  }
  std::vector<double> bytes(counts.size(), 0);
  for (const auto& [by, elements] : read) {
    const KernelInput& input = kernel.inputs[by.second];
    bytes[by.first] +=
        std::min(elements, counts.Elements(input.dims)) * static_cast<double>(SizeOf(input.type));
  }
  for (size_t k = 0; k < kernel.outputs.size(); ++k) {
    const KernelOutput& output = kernel.outputs[k];
    bytes[counts.PassOf(kernel.stages.size() + k)] +=
        counts.Elements(output.dims) * static_cast<double>(SizeOf(output.type));
  }
  return bytes;
}

double OddReadsNs(const LoopCounts& counts, const Machine& machine, double bytes) {
  return ReadPricer(counts, machine, bytes).OddReadsNs();
}

}  // namespace kiln
