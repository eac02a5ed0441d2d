// SPDX-License-Identifier: Apache-2.0
// The errors of traces: which class, both operations, both places, and what to do.
#ifndef KILN_TRACE_MISMATCH_H_
#define KILN_TRACE_MISMATCH_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kiln/trace.h"
#include "trace/log.h"

namespace kiln::tracing {

// kFailedPrecondition with the class, which TraceErrorOf finds.
absl::Status MismatchStatus(TraceError error, absl::string_view message);

// Why the last operation of `log`, the call at hand, is not the record's.
absl::Status Explain(absl::string_view name, const Log& record, const Log& log);

// "trace "NAME": CLASS: WHAT"
absl::Status TraceFailure(absl::string_view name, TraceError error, absl::string_view what);

// "FILE:LINE"
std::string ToString(Location where);

}  // namespace kiln::tracing

#endif  // KILN_TRACE_MISMATCH_H_
