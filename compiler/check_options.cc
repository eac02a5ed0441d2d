// SPDX-License-Identifier: Apache-2.0
#include "compiler/check_options.h"

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kiln/model.h"

namespace kiln {

absl::Status CheckOptions(const CompileOptions& options) {
  if (options.graph_opt_level < 0 || options.graph_opt_level > 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("graph_opt_level: is ", options.graph_opt_level, ", expected 0 to 3"));
  }
  if (options.jit_level < 0 || options.jit_level > 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("jit_level: is ", options.jit_level, ", expected 0 to 2"));
  }
  KILN_RETURN_IF_ERROR(CheckThreads(options.threads));
  if (options.build_jobs < 0 || options.build_jobs > kMaxThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat("build_jobs: is ", options.build_jobs, ", expected 0 (all) to ", kMaxThreads));
  }
  if (options.workspace_limit < 0) {
    return absl::InvalidArgumentError(absl::StrCat("workspace_limit: is ", options.workspace_limit,
                                                   ", expected 0 (no limit) or more"));
  }
  if (options.max_weight_bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_weight_bytes: is ", options.max_weight_bytes, ", expected 0 or more"));
  }
  std::set<std::string> names;
  for (const std::string& name : options.updatable) {
    if (!names.insert(name).second)
      return absl::InvalidArgumentError(
          absl::StrCat("updatable: names \"", name, "\" twice; name it once"));
  }
  if (options.math == MathMode::kFast)
    return absl::UnimplementedError("math mode \"fast\" is not there yet; use strict");
  return absl::OkStatus();
}

bool StartsNoThreads(const CompileOptions& options) {
  return options.threads == 1 && options.build_jobs == 0 &&
         options.compile_mode != CompileMode::kBackground;
}

}  // namespace kiln
