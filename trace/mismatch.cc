// SPDX-License-Identifier: Apache-2.0
#include "trace/mismatch.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "trace/failure.h"
#include "trace/number.h"

namespace kiln::tracing {
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
                      log.values[id].type.ToString(), DeviceText(DeviceOf(log.values[id].bits)));
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
  const std::string result = from.signature->num_results > 1
                                 ? absl::StrCat("result ", id - from.first_result, " of ")
                                 : "";
  return absl::StrCat(result, "the ", from.signature->op->name, " of operation ", value.origin,
                      " at ", ToString(from.where));
}

std::string TextOf(const Log& log, const Operation& operation, const Log* other) {
  std::string text;
  switch (operation.kind) {
    case Operation::Kind::kCall:
      text = operation.symbolic->ToString();
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

// Whether operand k of an operation comes from outside, and comes up there first.
bool IsNew(const Log& log, size_t operation, size_t k) {
  const auto operands = log.OperandsOf(log.operations[operation]);
  const LogValue& value = log.values[operands[k]];
  return value.kind != LogValue::Kind::kResult && value.kind != LogValue::Kind::kArgument &&
         value.origin == operation &&
         std::find(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(k),
                   operands[k]) == operands.begin() + static_cast<std::ptrdiff_t>(k);
}

// Of operand k of operation `at`.
std::optional<TraceError> ClassOf(const Log& record, const Log& log, size_t at, size_t k) {
  const uint32_t expected = record.OperandsOf(record.operations[at])[k];
  const uint32_t got = log.OperandsOf(log.operations[at])[k];
  if (expected == kAbsent || got == kAbsent)
    return expected == got ? std::nullopt : std::optional(TraceError::kInputCount);
  const bool was_new = IsNew(record, at, k), is_new = IsNew(log, at, k);
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
  const bool captured = a.kind == LogValue::Kind::kCaptured;
  if (captured && a.bits != b.bits) return TraceError::kDevice;
  if (!(a.type == b.type)) return TraceError::kShape;
  if (captured)
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
  if (expected.signature->op != got.signature->op) return TraceError::kOperation;
  const auto was = record.OperandsOf(expected), is = log.OperandsOf(got);
  if (was.size() != is.size()) return TraceError::kInputCount;
  if (expected.symbolic != got.symbolic) return TraceError::kAttributes;
  for (size_t k = 0; k < is.size(); ++k)
    if (const auto found = ClassOf(record, log, at, k)) return *found;
  return TraceError::kOperation;
}

}  // namespace

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

}  // namespace kiln::tracing
