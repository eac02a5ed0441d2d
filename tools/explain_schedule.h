// SPDX-License-Identifier: Apache-2.0
// kiln explain --schedule: the schedules that each kernel of a model could run with, and what they
// are expected to cost.
#ifndef KILN_TOOLS_EXPLAIN_SCHEDULE_H_
#define KILN_TOOLS_EXPLAIN_SCHEDULE_H_

#include <vector>

#include "compiler/machine_of.h"
#include "tools/common.h"
#include "tools/explain_plan.h"

namespace kiln {

// Prints the candidates of every group that is a kernel, for each of its size classes, cheapest
// first: that one is chosen, unless it was measured that another one is faster. Returns the exit
// code.
int ExplainSchedules(const std::vector<PlannedPart>& parts, const CompileOptions& options,
                     const CommonOptions& common);

}  // namespace kiln

#endif  // KILN_TOOLS_EXPLAIN_SCHEDULE_H_
