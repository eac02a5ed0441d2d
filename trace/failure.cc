// SPDX-License-Identifier: Apache-2.0
#include "trace/failure.h"

#include <optional>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

constexpr char kPayload[] = "kiln.trace_error";

struct ErrorText {
  const char* name;
  const char* advice;
};
// By TraceError.
constexpr ErrorText kTexts[kNumTraceErrors] = {
    {"operation", "let the function make the same calls each time, or trace each way it takes"},
    {"attributes", "attributes are part of a record; trace a function for each"},
    {"input count", "give the operator the same operands each time"},
    {"wiring", "let the function join its operations in the same way each time"},
    {"expected internal", "use what the call computes, or trace a function for each way"},
    {"expected external", "pass the array as an argument"},
    {"dtype", "cast it, or trace a function for each type"},
    {"shape", "pass it as an argument of a trace with symbolic_shape, or trace it anew (forget)"},
    {"device", "copy it to the recorded device"},
    {"constant",
     "pass it as an argument, make it once outside of the function, or trace without "
     "capture_as_const"},
    {"too many operations", "let the function make the same calls each time"},
    {"too few operations", "let the function make the same calls each time"},
    {"read",
     "read the same values at the same places each time, or in ExcludeFromTrace "
     "(Python: kiln.Excluded)"},
    {"unreadable", "keep the array alive in the first call too, or return it"},
    {"results", "return the same values of the function each time"},
    {"arguments", "call it with as many arrays as it was recorded with"},
    {"exclusion", "begin and end regions left out of the trace at the same places each time"},
    {"nested",
     "call the plain function; or, if it is not differentiated, call it in ExcludeFromTrace "
     "(Python: kiln.Excluded)"},
    {"thread", "one thread at a time calls a traced function and uses its values"},
    {"not frozen", "trace it, which checks each call"},
};

}  // namespace

absl::string_view Name(TraceError error) { return kTexts[static_cast<size_t>(error)].name; }

std::optional<TraceError> TraceErrorOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  if (!payload) return std::nullopt;
  for (size_t i = 0; i < kNumTraceErrors; ++i)
    if (*payload == kTexts[i].name) return static_cast<TraceError>(i);
  return std::nullopt;
}

namespace tracing {

std::string ToString(Location where) {
  absl::string_view file = where.file;
  if (const size_t slash = file.rfind('/'); slash != absl::string_view::npos)
    file.remove_prefix(slash + 1);
  return file.empty() ? "its end" : absl::StrCat(file, ":", where.line);
}

absl::Status MismatchStatus(TraceError error, absl::string_view message) {
  absl::Status status = absl::FailedPreconditionError(message);
  status.SetPayload(kPayload, absl::Cord(Name(error)));
  return status;
}

absl::Status TraceFailure(absl::string_view name, TraceError error, absl::string_view what,
                          absl::string_view advice) {
  if (advice.empty()) advice = kTexts[static_cast<size_t>(error)].advice;
  return MismatchStatus(
      error, absl::StrCat("trace \"", name, "\": ", Name(error), ": ", what, "; ", advice));
}

std::string DeviceText(Device device) {
  if (device == Device()) return "";
  return absl::StrCat(" on cuda:", device.index);
}

}  // namespace tracing
}  // namespace kiln
