// SPDX-License-Identifier: Apache-2.0
// Whether options can be compiled with.
#ifndef KILN_COMPILER_CHECK_OPTIONS_H_
#define KILN_COMPILER_CHECK_OPTIONS_H_

#include "absl/status/status.h"
#include "kiln/options.h"

namespace kiln {

// kInvalidArgument, or kUnimplemented for what is not there yet: names the option, what it is and
// what is expected.
absl::Status CheckOptions(const CompileOptions& options);

// Whether compiling for a model with these options starts no thread: it has one thread, nothing is
// built in the background, and no number of builds at once is given.
bool StartsNoThreads(const CompileOptions& options);

}  // namespace kiln

#endif  // KILN_COMPILER_CHECK_OPTIONS_H_
