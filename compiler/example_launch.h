// SPDX-License-Identifier: Apache-2.0
// Extents under which a Program launches its kernels: launches that are right for certain, for the
// validation of what is compiled (validation.h).
//
// Example: of `n, 768` with the guard n % 8 == 0, KernelDef.example becomes 8, 768.
#ifndef KILN_COMPILER_EXAMPLE_LAUNCH_H_
#define KILN_COMPILER_EXAMPLE_LAUNCH_H_

#include <vector>

#include "base/guard.h"
#include "exec/program.pb.h"

namespace kiln {

// Sets KernelDef.example wherever values of the symbols are found under which all guards hold; if
// there are any, such that the launch has something to do.
void SetExampleLaunches(const std::vector<Guard>& guards, program::Program& program);

}  // namespace kiln

#endif  // KILN_COMPILER_EXAMPLE_LAUNCH_H_
