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

// Elements that the reduced dims span, at most; extents are 32-bit numbers.
int64_t ColumnElements(const Stage& reduction, const SizeClass& sizes);

}  // namespace kiln

#endif  // KILN_SCHEDULE_REDUCTIONS_H_
