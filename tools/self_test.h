// SPDX-License-Identifier: Apache-2.0
// kiln run --self-test: a package runs the test cases that it has, and compares.
#ifndef KILN_TOOLS_SELF_TEST_H_
#define KILN_TOOLS_SELF_TEST_H_

#include <string>

#include "kiln/options.h"
#include "kiln/package.h"
#include "tools/common.h"

namespace kiln {

// Prints a line for each output of each case, or one JSON object; the exit code: 1 where an output
// differs, 2 where the package has no cases.
int SelfTest(const std::string& path, const CommonOptions& common, const CompileOptions& options,
             const PackageOptions& package);

}  // namespace kiln

#endif  // KILN_TOOLS_SELF_TEST_H_
