// SPDX-License-Identifier: Apache-2.0
// Where the reads of a kernel lead under given extents.
//
// A kernel may only be called with extents under which every read that is performed lies in its
// operand. Example: a concat of three pieces,
//
//   dims c n0 n1
//   out 0 f32 [c] = guard(lt(index(c), |n0|), in0[c], in1[c-|n0|])     in0 [n0], in1 [n1]
//
// with c=9 n0=4 n1=2: in1 is read at 0..4 where the guard is false, and strays over n1: a launch
// that no graph makes. Reads under a guard are followed exactly, coordinate by coordinate, as far
// as the guard depends on coordinates and extents; a guard on data may hold anywhere.
#ifndef KILN_EXEC_VALIDATE_PROBE_READS_H_
#define KILN_EXEC_VALIDATE_PROBE_READS_H_

#include <cstdint>
#include <vector>

#include "kernel/kernel.h"

namespace kiln {

// An axis that is read at indices from `least` to `most`, some of which it does not have.
struct StrayRead {
  const IndexExpr* index = nullptr;
  int32_t dim = 0;  // of the axis
  int64_t least = 0, most = 0;
};

// Follows the reads of one expression of a kernel. Thread-compatible.
class ReadFollower {
 public:
  // `space`: the dims over which `expr` is evaluated. Both must outlive the follower.
  ReadFollower(const Kernel& kernel, const ScalarExpr& expr, std::vector<int32_t> space);

  const std::vector<int32_t>& space() const { return space_; }
  // The dims whose coordinates are followed one by one.
  const std::vector<int32_t>& walked() const { return walked_; }

  // Axes that are left; none if there is nothing to evaluate. `extents` has one per dim.
  std::vector<StrayRead> Strays(const std::vector<int64_t>& extents) const;

 private:
  // The least and greatest index of each axis of a guarded read.
  struct Reach;
  struct Walk;
  void FindConditions();
  void FindGuarded();
  void FollowGuarded(const std::vector<int64_t>& extents, std::vector<StrayRead>& strays) const;
  void Visit(Walk& walk, std::vector<Reach>& reached) const;

  const Kernel& kernel_;
  const ScalarExpr& expr_;
  const std::vector<int32_t> space_;
  std::vector<ExprId> open_;     // reads that no guard protects
  std::vector<ExprId> guarded_;  // the others
  std::vector<bool> leads_;      // nodes through which a guarded read is reached
  // Of each guard, by node: the parts of its condition, all of which must hold, that depend on
  // coordinates and extents alone, as nodes of conditions_.
  std::vector<std::vector<ExprId>> holds_;
  ScalarExpr conditions_;
  std::vector<int32_t> walked_;  // the dims on which conditions and guarded reads depend
};

}  // namespace kiln

#endif  // KILN_EXEC_VALIDATE_PROBE_READS_H_
