// SPDX-License-Identifier: Apache-2.0
// What the templates for sums at places that data choose (add_at, kernel/kernel.h) share.
#ifndef KILN_SCHEDULE_SUMS_H_
#define KILN_SCHEDULE_SUMS_H_

#include <cstddef>

#include "base/decision.h"
#include "kernel/kernel.h"

namespace kiln {

// Yes for kernels of add_at that loop, without reductions.
Decision AcceptsSums(const Kernel& kernel);

// True if what is added lies along the innermost dim in the output, too, at one place for all.
bool AddsRows(const Kernel& kernel);

// The axis of the output that tasks divide among them: the first that is loaded.
size_t DividedAxis(const Kernel& kernel);

// True if all that is added goes to one place along that axis: there is nothing to divide.
bool HasOnePlace(const Kernel& kernel);

}  // namespace kiln

#endif  // KILN_SCHEDULE_SUMS_H_
