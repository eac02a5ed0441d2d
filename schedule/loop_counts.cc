// SPDX-License-Identifier: Apache-2.0
#include "schedule/loop_counts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "schedule/analysis.h"
#include "schedule/reductions.h"

namespace kiln {

bool Has(const std::vector<int32_t>& dims, int32_t dim) {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

bool VariesAlong(const ExprNode& read, const std::vector<int32_t>& dims) {
  for (const IndexExpr& index : read.index) {
    if (index.load >= 0) return true;
    for (const IndexExpr::Term& term : index.terms) {
      if (!term.extent && Has(dims, term.dim)) return true;
    }
  }
  return false;
}

std::vector<uint64_t> VariesWith(const ScalarExpr& expr) {
  std::vector<uint64_t> varies;
  const auto bit = [](int32_t dim) { return dim < 64 ? uint64_t{1} << dim : 0; };
  for (const ExprNode& node : expr.nodes()) {
    uint64_t own = node.op == ScalarOp::kIndex ? bit(node.ref) : 0;
    for (const ExprId arg : node.args) {
      if (arg >= 0) own |= varies[static_cast<size_t>(arg)];
    }
    for (const IndexExpr& index : node.index) {
      if (index.load >= 0) own |= varies[static_cast<size_t>(index.load)];
      for (const IndexExpr::Term& term : index.terms) own |= term.extent ? 0 : bit(term.dim);
    }
    varies.push_back(own);
  }
  return varies;
}

LoopCounts::LoopCounts(const Kernel& kernel, std::span<const int64_t> extents, LoopSummary loops)
    : kernel_(kernel),
      extents_(extents),
      loops_(std::move(loops)),
      exprs_(Expressions(kernel)),
      kept_(loops_.stored) {
  for (const KernelOutput& output : kernel.outputs)
    output_dims_.push_back(LoopDims(kernel, output));
  for (int64_t k = 0; k < loops_.row_dims; ++k)
    row_dims_.push_back(kernel.innermost() - static_cast<int32_t>(k));
  kept_.resize(kernel.stages.size());
  if (loops_.joins) passes_ = PassesOf(kernel, kept_);
  for (size_t e = passes_.size(); e < size(); ++e) passes_.push_back(LoopOf(e));
  loops_.expanded.resize(kernel.inputs.size());
  // What does not vary with the dims of the inner loops is computed outside of them.
  hoisted_ = row_dims_;
  for (size_t e = 0; loops_.nests == LoopSummary::Nests::kTiles && e < kernel.stages.size(); ++e)
    if (IsReduction(e)) hoisted_ = stage(e).over;
  CountRuns();
  FindChains();
}

// Outputs that lie alike are written in one loop, which has the number of the first.
size_t LoopCounts::LoopOf(size_t e) const {
  for (size_t other = kernel_.stages.size(); loops_.joins && other < e; ++other) {
    const KernelOutput& a = kernel_.outputs[e - kernel_.stages.size()];
    const KernelOutput& b = kernel_.outputs[other - kernel_.stages.size()];
    if (a.dims == b.dims && a.layout == b.layout) return other;
  }
  return e;
}

bool LoopCounts::ByTiles(size_t e) const {
  return IsReduction(e) && !Has(stage(e).over, kernel_.innermost());
}

bool LoopCounts::LoopsOver(size_t e, int32_t dim) const {
  return Has(Dims(e), dim) || (IsStage(e) && Has(stage(e).over, dim));
}

double LoopCounts::Elements(const std::vector<int32_t>& dims) const {
  double elements = 1;
  for (const int32_t dim : dims) elements *= extent(dim);
  return elements;
}

double LoopCounts::Domain(size_t e) const {
  const double own = Elements(Dims(e));
  return IsStage(e) ? own * Elements(stage(e).over) : own;
}

double LoopCounts::Row() const { return std::max(1.0, Elements(row_dims_)); }

double LoopCounts::RowOf(size_t e) const {
  const auto runs = [&](int32_t dim) { return LoopsOver(e, dim); };
  // Columns are collapsed where they are stored, but are reduced one dim after the other.
  const bool by_dim = loops_.nests == LoopSummary::Nests::kTiles && IsStage(e);
  if (!by_dim && std::all_of(row_dims_.begin(), row_dims_.end(), runs)) return Row();
  return std::max(1.0, runs(kernel_.innermost()) ? extent(kernel_.innermost()) : Domain(e));
}

double LoopCounts::TileElements() const {
  for (size_t e = 0; loops_.nests == LoopSummary::Nests::kTiles && e < kernel_.stages.size(); ++e) {
    if (!IsReduction(e)) continue;
    const auto columns = static_cast<double>(loops_.columns);
    const double across = std::min(columns, extent(kernel_.innermost()));
    return Elements(stage(e).over) * (ByTiles(e) ? across : 1);
  }
  return 0;
}

double LoopCounts::Tiles() const {
  for (size_t e = 0; loops_.nests == LoopSummary::Nests::kTiles && e < kernel_.stages.size(); ++e) {
    if (!IsReduction(e)) continue;
    const double row = extent(kernel_.innermost()), columns = static_cast<double>(loops_.columns);
    const double kept = Elements(stage(e).dims);
    return ByTiles(e) && row > 0 ? kept / row * std::ceil(row / columns) : kept;
  }
  return 0;
}

double LoopCounts::RunsOf(size_t e, uint64_t varies) const {
  double runs = runs_[e];
  for (const int32_t dim : hoisted_) {
    if (!LoopsOver(e, dim)) continue;
    if (dim >= 64 || (varies >> dim & 1) != 0) return runs_[e];
    runs /= std::max(1.0, extent(dim));
  }
  return runs;
}

bool LoopCounts::VariesAlongRow(const ExprNode& read) const { return VariesAlong(read, row_dims_); }

void LoopCounts::CountRuns() {
  runs_.assign(size(), 0);
  std::map<std::pair<size_t, size_t>, double> asked_by;  // (stage, pass of its readers): elements
  for (size_t e = size(); e-- > 0;) {
    if (Stored(e)) {
      runs_[e] = Domain(e);
      if (PassOf(e) == e) row_loops_ += runs_[e] / RowOf(e);
    }
    std::map<size_t, double> asked;
    std::set<std::pair<int32_t, bool>> own;  // stages read at the reader's own element
    for (const ExprNode& node : expr(e).nodes()) {
      if (node.op != ScalarOp::kRead || node.source != ReadSource::kStage) continue;
      const auto of = static_cast<size_t>(node.ref);
      const bool varies = VariesAlongRow(node);
      if (IsIdentityRead(node, stage(of).dims) && !own.insert({node.ref, varies}).second) continue;
      const double by_node = varies ? runs_[e] : runs_[e] / Row();
      asked[of] = OneNest() ? std::max(asked[of], by_node) : asked[of] + by_node;
    }
    // Of one loop, what several ask for is computed once.
    for (const auto& [of, elements] : asked) {
      double& before = asked_by[{of, OneNest() ? 0 : PassOf(e)}];
      runs_[of] += std::max(0.0, elements - before);
      before = std::max(before, elements);
    }
  }
  row_loops_ /= RowsAtOnce();
  if (!OneNest()) return;
  row_loops_ = 0;
  for (size_t e = kernel_.stages.size(); e < size(); ++e)
    row_loops_ = std::max(row_loops_, runs_[e] / RowOf(e) / RowsAtOnce());
}

// Stages come before their readers.
void LoopCounts::FindChains() {
  for (size_t e = 0; e < size(); ++e) {
    Chain body;
    std::vector<double> depth;
    std::set<size_t> inside;
    for (const ExprNode& node : expr(e).nodes()) {
      const Chain own = ChainOf(expr(e), node);
      double before = 0;
      for (const ExprId arg : node.args)
        if (arg >= 0) before = std::max(before, depth[static_cast<size_t>(arg)]);
      const bool computes = node.op == ScalarOp::kRead && !Loads(node) && VariesAlongRow(node);
      if (computes) {
        const auto of = static_cast<size_t>(node.ref);
        before = std::max(before, chains_[of].depth);
        if (inside.insert(of).second) {
          body.instructions += chains_[of].instructions;
          inside.insert(inlined_[of].begin(), inlined_[of].end());
        }
      }
      body.instructions += own.instructions + (Loads(node) ? 1 : 0);
      depth.push_back(before + own.depth);
    }
    body.depth = depth.empty() ? 0 : depth[static_cast<size_t>(expr(e).root())];
    chains_.push_back(body);
    inlined_.emplace_back(inside.begin(), inside.end());
  }
}

bool LoopCounts::AwaitedByRow(size_t e) const {
  if (Apart() || !Has(stage(e).over, kernel_.innermost())) return false;
  std::set<int32_t> needs = {static_cast<int32_t>(e)};
  for (size_t reader = e + 1; reader < size(); ++reader) {
    const std::vector<ExprNode>& nodes = expr(reader).nodes();
    const bool reads = std::any_of(nodes.begin(), nodes.end(), [&](const ExprNode& node) {
      return node.op == ScalarOp::kRead && node.source == ReadSource::kStage &&
             needs.count(node.ref) != 0;
    });
    if (!reads) continue;
    if (LoopsOver(reader, kernel_.innermost())) return true;
    needs.insert(static_cast<int32_t>(reader));
  }
  return false;
}

double LoopCounts::DepthAfter(size_t e) const {
  double depth = 0;
  for (size_t reader = e + 1; reader < size(); ++reader) {
    if (!Stored(reader) || !LoopsOver(reader, kernel_.innermost())) continue;
    const std::vector<ExprNode>& nodes = expr(reader).nodes();
    const bool reads = std::any_of(nodes.begin(), nodes.end(), [&](const ExprNode& node) {
      return node.op == ScalarOp::kRead && node.source == ReadSource::kStage;
    });
    if (reads) depth = std::max(depth, chains_[reader].depth);
  }
  return depth;
}

int64_t LoopCounts::StrideOf(const std::vector<int32_t>& dims, int32_t dim, DType type) const {
  auto stride = static_cast<int64_t>(SizeOf(type));
  for (size_t k = dims.size(); k-- > 0 && dims[k] != dim;) {
    if (__builtin_mul_overflow(stride, extents_[static_cast<size_t>(dims[k])], &stride))
      return INT64_MAX;  // no operand is so large
  }
  return stride;
}

bool LoopCounts::Conflicts(const std::vector<int32_t>& dims, int32_t dim, DType type) const {
  constexpr int64_t kPage = 4096;  // correctness
  return StrideOf(dims, dim, type) % kPage == 0;
}

}  // namespace kiln
