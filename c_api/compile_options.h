// SPDX-License-Identifier: Apache-2.0
// Options of C as those of C++, and models compiled with them.
#ifndef KILN_C_API_COMPILE_OPTIONS_H_
#define KILN_C_API_COMPILE_OPTIONS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "c_api/handles.h"
#include "kiln/kiln.h"
#include "kiln/options.h"

namespace kiln::c_api {

// kInvalidArgument: a name, a shape or the target is malformed.
absl::StatusOr<CompileOptions> CompileOptionsOf(const kiln_compile_options* options);

// A handle of the model that `compile` makes with these options.
template <typename Compiling>
absl::Status MakeModel(const kiln_compile_options* options, kiln_model** out,
                       const Compiling& compile) {
  KILN_ASSIGN_OR_RETURN(const CompileOptions given, CompileOptionsOf(options));
  KILN_ASSIGN_OR_RETURN(Model model, compile(given));
  *out = new kiln_model(std::move(model));
  return absl::OkStatus();
}

}  // namespace kiln::c_api

#endif  // KILN_C_API_COMPILE_OPTIONS_H_
