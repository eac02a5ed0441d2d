// SPDX-License-Identifier: Apache-2.0
// LoopCounts: the loops that the expressions of a kernel run in under a LoopSummary, and how often.
//
// Expressions are numbered as by Expressions(kernel): stages, then outputs. One is *stored* if its
// values are in memory, in a loop nest of its own; any other is computed where it is read.
//
// Example, softmax over [a, b] with exp(x - max) stored, for extents 10 and 64: the maximum runs
// over 640 elements in rows of 64, and so do the map, the sum and the output.
#ifndef KILN_SCHEDULE_LOOP_COUNTS_H_
#define KILN_SCHEDULE_LOOP_COUNTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernel/kernel.h"
#include "schedule/loops.h"
#include "schedule/work.h"

namespace kiln {

// A value; `kernel` and `extents` outlive it. Thread-compatible.
class LoopCounts {
 public:
  LoopCounts(const Kernel& kernel, std::span<const int64_t> extents, LoopSummary loops);

  const Kernel& kernel() const { return kernel_; }
  const LoopSummary& loops() const { return loops_; }
  double extent(int32_t dim) const {
    return static_cast<double>(extents_[static_cast<size_t>(dim)]);
  }
  size_t size() const { return exprs_.size(); }
  const ScalarExpr& expr(size_t e) const { return *exprs_[e]; }
  bool IsStage(size_t e) const { return e < kernel_.stages.size(); }
  const Stage& stage(size_t e) const { return kernel_.stages[e]; }
  bool IsReduction(size_t e) const { return IsStage(e) && stage(e).kind == Stage::Kind::kReduce; }
  bool Stored(size_t e) const { return !IsStage(e) || IsReduction(e) || kept_[e]; }
  // A map that is stored before it is read.
  bool Kept(size_t e) const { return IsStage(e) && kept_[e]; }
  // The first stage or output of the loop that makes `e`, where they are joined; else `e` itself.
  size_t PassOf(size_t e) const { return passes_[e]; }
  // True for a reduction of other dims than the innermost, along which vectors run.
  bool ByTiles(size_t e) const;
  const std::vector<int32_t>& Dims(size_t e) const {
    return IsStage(e) ? stage(e).dims : output_dims_[e - kernel_.stages.size()];
  }
  bool LoopsOver(size_t e, int32_t dim) const;

  // Loop nests: all outputs in one; each stage in one of its own; vectors across rows.
  bool OneNest() const { return loops_.nests == LoopSummary::Nests::kOne; }
  bool Apart() const { return loops_.nests == LoopSummary::Nests::kEach; }
  bool AcrossRows() const { return loops_.across != LoopSummary::Across::kNo; }
  double RowsAtOnce() const { return AcrossRows() ? static_cast<double>(loops_.step) : 1; }
  // The dim that vectors run along.
  int32_t lane_dim() const {
    return kernel_.innermost() - (loops_.across == LoopSummary::Across::kUnrolled ? 1 : 0);
  }

  double Elements(const std::vector<int32_t>& dims) const;
  // Elements that the loop of a stored expression runs over, and those of its innermost loop.
  double Domain(size_t e) const;
  double RowOf(size_t e) const;
  // Of the innermost loop over all the dims that are collapsed.
  double Row() const;
  // Of tiles of columns: the elements of one, and how many there are; 0 in other nests.
  double TileElements() const;
  double Tiles() const;
  bool EmptyRows() const { return Elements(row_dims_) < 1; }

  // How often an expression is computed: its domain if it is stored, else as its readers ask; and a
  // node of it that varies with these dims (VariesWith).
  double Runs(size_t e) const { return runs_[e]; }
  double RunsOf(size_t e, uint64_t varies) const;
  // Loops over rows that start.
  double RowLoops() const { return row_loops_; }

  bool VariesAlongRow(const ExprNode& read) const;
  // True for reads from memory; a map that is not stored is computed instead.
  bool Loads(const ExprNode& node) const {
    return node.op == ScalarOp::kRead &&
           (node.source == ReadSource::kInput || Stored(static_cast<size_t>(node.ref)));
  }
  // Of the body of an expression's loop, with the maps that it computes in place; and the stages
  // that these are.
  const Chain& chain(size_t e) const { return chains_[e]; }
  const std::vector<size_t>& inlined(size_t e) const { return inlined_[e]; }

  // True if `e` reduces the innermost dim and a loop over that needs the result: loops over one row
  // cannot overlap then. And the longest chain of the loops over a row that read a stage after it.
  bool AwaitedByRow(size_t e) const;
  double DepthAfter(size_t e) const;

  // Bytes from one element to the next along `dim` of something dense with these dims; and whether
  // neighbours fall into few sets of a cache.
  int64_t StrideOf(const std::vector<int32_t>& dims, int32_t dim, DType type) const;
  bool Conflicts(const std::vector<int32_t>& dims, int32_t dim, DType type) const;

 private:
  size_t LoopOf(size_t e) const;
  void CountRuns();
  void FindChains();

  const Kernel& kernel_;
  std::span<const int64_t> extents_;
  LoopSummary loops_;
  std::vector<const ScalarExpr*> exprs_;
  std::vector<std::vector<int32_t>> output_dims_;  // of their loops
  std::vector<bool> kept_;
  std::vector<size_t> passes_;
  std::vector<int32_t> row_dims_;  // that the innermost loop runs over
  std::vector<int32_t> hoisted_;   // dims of loops outside of which the rest is computed
  std::vector<double> runs_;
  std::vector<Chain> chains_;
  std::vector<std::vector<size_t>> inlined_;
  double row_loops_ = 0;
};

bool Has(const std::vector<int32_t>& dims, int32_t dim);
bool VariesAlong(const ExprNode& read, const std::vector<int32_t>& dims);

// The dims that each node varies with, as bits.
std::vector<uint64_t> VariesWith(const ScalarExpr& expr);

}  // namespace kiln

#endif  // KILN_SCHEDULE_LOOP_COUNTS_H_
