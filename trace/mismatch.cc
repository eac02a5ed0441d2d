// SPDX-License-Identifier: Apache-2.0
#include "trace/mismatch.h"

#include <optional>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "trace/number.h"

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
    {"constant", "pass it as an argument, or trace without capture_as_const"},
    {"too many operations", "let the function make the same calls each time"},
    {"too few operations", "let the function make the same calls each time"},
    {"read", "read the same values at the same places each time, or in ExcludeFromTrace"},
    {"unreadable", "keep the array alive in the first call too, or return it"},
    {"results", "return the same values of the function each time"},
    {"arguments", "call it with as many arguments as it was recorded with"},
    {"exclusion", "begin and end regions left out of the trace at the same places each time"},
    {"nested", "call the plain function, or call this one in ExcludeFromTrace"},
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
namespace {

// Captured arrays are numbered as they come up, so that two of them have two texts. `other` is the
// log that this one is compared with, or null.
std::string CapturedText(const Log& log, uint32_t id, const Log* other) {
  size_t number = 0;
  for (uint32_t k = 0; k < id; ++k)
    if (log.values[k].kind == LogValue::Kind::kCaptured) ++number;
  const bool replaced = other != nullptr && log.exact && id < other->values.size() &&
                        other->values[id].kind == LogValue::Kind::kCaptured &&
                        other->values[id].node != log.values[id].node;
  return absl::StrCat(replaced ? "another array as " : "", "captured array ", number, " ",
                      log.values[id].type.ToString());
}

std::string TextOf(const Log& log, uint32_t id, const Log* other) {
  if (id == kAbsent) return "nothing";
  const LogValue& value = log.values[id];
  switch (value.kind) {
    case LogValue::Kind::kArgument:
      return absl::StrCat("argument ", value.origin, " ", value.type.ToString());
    case LogValue::Kind::kCaptured:
      return CapturedText(log, id, other);
    case LogValue::Kind::kNumber:
    case LogValue::Kind::kConstant:
      if (value.type.rank > 0) return absl::StrCat("a constant ", value.type.ToString());
      return absl::StrCat("the number ", NumberText(value.bits, value.type.type), " ",
                          Name(value.type.type));
    case LogValue::Kind::kResult:
      break;
  }
  const Operation& from = log.operations[value.origin];
  const std::string result =
      from.form->num_results > 1 ? absl::StrCat("result ", id - from.first_result, " of ") : "";
  return absl::StrCat(result, "the ", from.form->op->name, " of operation ", value.origin, " at ",
                      ToString(from.where));
}

std::string TextOf(const Log& log, const Operation& operation, const Log* other) {
  std::string text;
  switch (operation.kind) {
    case Operation::Kind::kCall:
      text = operation.form->ToString();
      break;
    case Operation::Kind::kRead:
      text = "read";
      break;
    case Operation::Kind::kExclude:
      return "the begin of a region left out";
    case Operation::Kind::kResume:
      return "the end of a region left out";
    case Operation::Kind::kResults:
      text = "return";
      break;
  }
  const auto operands = log.OperandsOf(operation);
  for (size_t k = 0; k < operands.size(); ++k)
    absl::StrAppend(&text, k == 0 ? "(" : ", ", TextOf(log, operands[k], other));
  return operands.empty() ? text + "()" : text + ")";
}

bool IsNew(const Log& log, uint32_t id, size_t operation) {
  const LogValue& value = log.values[id];
  return value.kind != LogValue::Kind::kResult && value.kind != LogValue::Kind::kArgument &&
         value.origin == operation;
}

std::optional<TraceError> ClassOf(const Log& record, uint32_t expected, const Log& log,
                                  uint32_t got, size_t at) {
  if (expected == kAbsent || got == kAbsent)
    return expected == got ? std::nullopt : std::optional(TraceError::kInputCount);
  const bool was_new = IsNew(record, expected, at), is_new = IsNew(log, got, at);
  if (was_new != is_new)
    return was_new ? TraceError::kExpectedExternal : TraceError::kExpectedInternal;
  if (!is_new) return expected == got ? std::nullopt : std::optional(TraceError::kWiring);
  const LogValue& a = record.values[expected];
  const LogValue& b = log.values[got];
  if (a.kind != b.kind) {
    const bool numbers = a.kind != LogValue::Kind::kCaptured && b.kind != LogValue::Kind::kCaptured;
    return numbers ? TraceError::kConstant : TraceError::kExpectedExternal;
  }
  if (a.type.type != b.type.type) return TraceError::kDtype;
  if (!(a.type == b.type)) return TraceError::kShape;
  if (a.kind == LogValue::Kind::kCaptured)
    return log.exact && a.node != b.node ? std::optional(TraceError::kConstant) : std::nullopt;
  const bool compared = log.exact || a.kind == LogValue::Kind::kConstant;
  return compared && a.bits != b.bits ? std::optional(TraceError::kConstant) : std::nullopt;
}

TraceError ClassOf(const Log& record, const Operation& expected, const Log& log,
                   const Operation& got, size_t at) {
  using Kind = Operation::Kind;
  if (expected.kind != got.kind) {
    for (const Kind kind : {Kind::kExclude, Kind::kResume})
      if (expected.kind == kind || got.kind == kind) return TraceError::kExclusion;
    if (expected.kind == Kind::kRead || got.kind == Kind::kRead) return TraceError::kRead;
    return got.kind == Kind::kResults ? TraceError::kTooFew : TraceError::kTooMany;
  }
  if (got.kind == Kind::kRead) return TraceError::kRead;
  if (got.kind == Kind::kResults) return TraceError::kResults;
  if (expected.form->op != got.form->op) return TraceError::kOperation;
  const auto was = record.OperandsOf(expected), is = log.OperandsOf(got);
  if (was.size() != is.size()) return TraceError::kInputCount;
  if (expected.form != got.form) return TraceError::kAttributes;
  for (size_t k = 0; k < is.size(); ++k)
    if (const auto found = ClassOf(record, was[k], log, is[k], at)) return *found;
  return TraceError::kOperation;
}

}  // namespace

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

absl::Status TraceFailure(absl::string_view name, TraceError error, absl::string_view what) {
  return MismatchStatus(error, absl::StrCat("trace \"", name, "\": ", Name(error), ": ", what, "; ",
                                            kTexts[static_cast<size_t>(error)].advice));
}

absl::Status Explain(absl::string_view name, const Log& record, const Log& log) {
  const size_t at = log.operations.size() - 1;
  const Operation& got = log.operations[at];
  std::string text = absl::StrCat("operation ", at, " is ", TextOf(log, got, &record), " at ",
                                  ToString(got.where));
  if (at >= record.operations.size()) {
    return TraceFailure(name, TraceError::kTooMany,
                        absl::StrCat(text, ", the record ends before it"));
  }
  const Operation& expected = record.operations[at];
  absl::StrAppend(&text, ", recorded was ", TextOf(record, expected, nullptr), " at ",
                  ToString(expected.where));
  return TraceFailure(name, ClassOf(record, expected, log, got, at), text);
}

}  // namespace tracing
}  // namespace kiln
