// SPDX-License-Identifier: Apache-2.0
// Cuts of the innermost dim, between which guards on it are decided.
//
// Concat, pad and rotary embeddings become guards such as `guard(lt(index(c), extent(n0)), in0[a,
// c], in1[a, c-|n0|])`. Lanes of one vector would take both sides, each at clamped addresses. Cut
// at |n0|, each piece of the row reads one side only, at neighbouring addresses.
//
// Example: Cuts of the above is {|n0|}; Between(kernel, cuts, 0) has `in0[a, c]` in its place, and
// is meant for c < |n0|; Between(kernel, cuts, 1) has `in1[a, c-|n0|]`, for c >= |n0|.
#ifndef KILN_SCHEDULE_INDEX_SPLIT_H_
#define KILN_SCHEDULE_INDEX_SPLIT_H_

#include <span>
#include <vector>

#include "kernel/kernel.h"

namespace kiln {

// Places, as offsets and extents only, at which a comparison with the innermost coordinate in the
// condition of a guard changes; ascending whatever the extents are, distinct. Empty if there are
// none, too many, or if their order depends on extents.
std::vector<IndexExpr> Cuts(const Kernel& kernel);

// The kernel where cuts[piece - 1] <= innermost coordinate < cuts[piece]: comparisons with cuts and
// the guards that depend on nothing else are replaced by what they are there.
Kernel Between(const Kernel& kernel, const std::vector<IndexExpr>& cuts, size_t piece);

// How long the pieces of a row are where dims have these extents; none if one that matters is
// unbounded. Example: cuts {|n0|} and extents {n0: 3, the row: 10} give {3, 7}.
std::vector<int64_t> PieceLengths(const Kernel& kernel, const std::vector<IndexExpr>& cuts,
                                  std::span<const int64_t> extents);

}  // namespace kiln

#endif  // KILN_SCHEDULE_INDEX_SPLIT_H_
