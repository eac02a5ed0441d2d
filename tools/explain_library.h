// SPDX-License-Identifier: Apache-2.0
// kiln explain --library: who computes each library call of a model, and why not those before.
#ifndef KILN_TOOLS_EXPLAIN_LIBRARY_H_
#define KILN_TOOLS_EXPLAIN_LIBRARY_H_

#include <string>
#include <vector>

#include "tools/common.h"

namespace kiln {

// Runs the model once, kernels on the VM, on inputs made from `specs` (tools/inputs.h), prints the
// calls of the plans that were made, and returns the exit code.
int ExplainLibrary(const std::string& model, const std::vector<std::string>& specs,
                   const CommonOptions& common);

}  // namespace kiln

#endif  // KILN_TOOLS_EXPLAIN_LIBRARY_H_
