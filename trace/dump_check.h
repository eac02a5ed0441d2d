// SPDX-License-Identifier: Apache-2.0
// Options of a dump: what each means for which file, and what is refused.
#ifndef KILN_TRACE_DUMP_CHECK_H_
#define KILN_TRACE_DUMP_CHECK_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kiln/options.h"
#include "kiln/trace_dump.h"
#include "trace/record.h"

namespace kiln::tracing {

enum class DumpFormat : uint8_t { kOnnx, kGraph, kPackage };

// By the end of its name; kInvalidArgument: another one.
absl::StatusOr<DumpFormat> FormatOf(absl::string_view file);

// kInvalidArgument: an option is wrong, or about another one that is not given; kUnimplemented: it
// has no meaning, or none for this format.
absl::Status CheckDump(const DumpOptions& options, DumpFormat format, const Record& record);

// What a package is compiled with: options of the trace, with what is wanted raised or switched.
CompileOptions PackageOptionsFor(const std::optional<OptimizeForInference>& wanted,
                                 CompileOptions options);

}  // namespace kiln::tracing

#endif  // KILN_TRACE_DUMP_CHECK_H_
