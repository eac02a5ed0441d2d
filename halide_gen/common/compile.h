// SPDX-License-Identifier: Apache-2.0
// One request in this process. The worker runs it in a child, since LLVM may abort.
#ifndef KILN_HALIDE_GEN_COMMON_COMPILE_H_
#define KILN_HALIDE_GEN_COMMON_COMPILE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "halide_gen/common/protocol.h"

namespace kiln {

// An answer without code.
CodegenAnswer Failure(CodegenAnswer::Outcome outcome, absl::string_view error,
                      bool of_schedule = false);

// Never throws. `dir` is an empty directory for this request's files.
CodegenAnswer Compile(const CodegenRequest& request, const std::string& dir);

// Makes what the first compilation in a process has to make (tables of LLVM), and nothing else that
// later code depends on.
void WarmUp();

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_COMMON_COMPILE_H_
