// SPDX-License-Identifier: Apache-2.0
// How a Program says with which schedule a kernel runs in a size class.
//
// Example: {at_most = {kUnbounded, 768}} with row_reduction is at_most: [-1, 768].
#ifndef KILN_COMPILER_KERNEL_CHOICE_H_
#define KILN_COMPILER_KERNEL_CHOICE_H_

#include "exec/program.pb.h"
#include "schedule/schedule.h"
#include "schedule/size_class.h"

namespace kiln {

// Adds what is known to an empty choice.
void SetChoice(const Schedule& schedule, const SizeClass& sizes, program::KernelChoice* choice);

// The class of a choice, whatever a stored Program says.
SizeClass ClassOf(const program::KernelChoice& choice);

}  // namespace kiln

#endif  // KILN_COMPILER_KERNEL_CHOICE_H_
