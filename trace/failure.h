// SPDX-License-Identifier: Apache-2.0
// The errors of traces: their classes and names, and statuses that carry one.
#ifndef KILN_TRACE_FAILURE_H_
#define KILN_TRACE_FAILURE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kiln/trace.h"

namespace kiln::tracing {

// kFailedPrecondition with the class, which TraceErrorOf finds.
absl::Status MismatchStatus(TraceError error, absl::string_view message);

// `trace "NAME": CLASS: WHAT; ADVICE`; without an advice, what to do is that of the class.
absl::Status TraceFailure(absl::string_view name, TraceError error, absl::string_view what,
                          absl::string_view advice = "");
// "FILE:LINE"; "its end" of no line: the end of a function.
std::string ToString(Location where);

// " on cuda:0"; nothing for the host.
std::string DeviceText(Device device);

}  // namespace kiln::tracing

#endif  // KILN_TRACE_FAILURE_H_
