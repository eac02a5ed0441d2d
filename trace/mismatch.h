// SPDX-License-Identifier: Apache-2.0
// What a call of a trace did that its record did not: which class, both operations, both places.
#ifndef KILN_TRACE_MISMATCH_H_
#define KILN_TRACE_MISMATCH_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "trace/log.h"

namespace kiln::tracing {

// Why the last operation of `log`, the call at hand, is not the record's.
absl::Status Explain(absl::string_view name, const Log& record, const Log& log);

}  // namespace kiln::tracing

#endif  // KILN_TRACE_MISMATCH_H_
