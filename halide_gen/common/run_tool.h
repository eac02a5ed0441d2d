// SPDX-License-Identifier: Apache-2.0
// Programs that finish what Halide has made: assemblers, a linker. No Halide here.
//
//   KILN_RETURN_IF_ERROR(RunTool({"as", "-o", "/tmp/k.o", "/tmp/k.s"}, "/tmp/log", "binutils"));
#ifndef KILN_HALIDE_GEN_COMMON_RUN_TOOL_H_
#define KILN_HALIDE_GEN_COMMON_RUN_TOOL_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace kiln {

// Runs a program, by its path or from the system's search path, until it ends; what it writes goes
// to the file `log`. kUnavailable if it cannot be run (the message asks to install what it
// `comes_with`) or lacked space, worth another try; kInternal with its own words if it refuses.
absl::Status RunTool(const std::vector<std::string>& command, const std::string& log,
                     absl::string_view comes_with);

// What the exit of such a tool means that is not 0, from all it wrote: kUnavailable if it lacked
// space (no whole line is left, or one names a full disk or memory), kInternal if it refuses.
absl::Status RefusalOf(absl::string_view tool, absl::string_view said);

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_COMMON_RUN_TOOL_H_
