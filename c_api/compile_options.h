// SPDX-License-Identifier: Apache-2.0
// Options of C as those of C++.
#ifndef KILN_C_API_COMPILE_OPTIONS_H_
#define KILN_C_API_COMPILE_OPTIONS_H_

#include "absl/status/statusor.h"
#include "kiln/kiln.h"
#include "kiln/options.h"

namespace kiln::c_api {

// kInvalidArgument: a name, a shape or the target is malformed.
absl::StatusOr<CompileOptions> CompileOptionsOf(const kiln_compile_options* options);

}  // namespace kiln::c_api

#endif  // KILN_C_API_COMPILE_OPTIONS_H_
