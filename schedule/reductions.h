// SPDX-License-Identifier: Apache-2.0
// What the reduction templates of all devices share: which kernels they accept, and which maps are
// stored between their loops.
#ifndef KILN_SCHEDULE_REDUCTIONS_H_
#define KILN_SCHEDULE_REDUCTIONS_H_

#include <cstdint>
#include <vector>

#include "base/decision.h"
#include "kernel/kernel.h"
#include "schedule/size_class.h"

namespace kiln {

bool IsReduction(const Stage& stage);

// Yes for reductions over the innermost dim, of values that depend on all dims, with maps around
// them; outputs are dense over all dims, or over the rows.
Decision AcceptsRows(const Kernel& kernel);

// Yes for reductions that all go over the same dims and together with those kept span all, with
// maps around them; outputs are dense over all dims, or over those kept.
Decision AcceptsColumns(const Kernel& kernel);

// The first reduction of a kernel that has one.
const Stage& FirstReduction(const Kernel& kernel);

// The maps worth storing where each row passes through all stages (MapsToMaterialise): also those
// with one value for a row, which would be computed for every vector of it.
std::vector<bool> MapsOfRowsToMaterialise(const Kernel& kernel);

// The pass that makes each stage: reductions over the same dims, none of them the innermost, are
// made together where none needs what the pass, or a stage after its first, leaves. A pass has the
// number of its first stage; any other stage is a pass of its own. `stored`: as in analysis.h.
//
// Example, batch norm backward: the sums over a of in0[a, b] and of in0[a, b] in1[a, b] are one
// pass, which reads in0 once; those of x and of (x - mean)^2 are two.
std::vector<size_t> PassesOf(const Kernel& kernel, const std::vector<bool>& stored);

// Of the passes, the one with most reductions: how many it has.
int64_t LargestPass(const Kernel& kernel, const std::vector<bool>& stored);

// The stages of the pass that begins with `first`.
std::vector<size_t> StagesOf(const std::vector<size_t>& passes, size_t first);

// Elements that the reduced dims span, at most; extents are 32-bit numbers.
int64_t ColumnElements(const Stage& reduction, const SizeClass& sizes);

}  // namespace kiln

#endif  // KILN_SCHEDULE_REDUCTIONS_H_
