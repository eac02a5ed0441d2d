// SPDX-License-Identifier: Apache-2.0
#include "trace/function_state.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "trace/failure.h"

namespace kiln::tracing {
namespace {

constexpr size_t kMaxRecords = 16;  // memory: variants of one function

const ValueType& TypeOf(const Array& array) { return array.node()->type; }

// The first difference between arguments and those of a record; nothing: there is none.
std::optional<TraceError> Difference(const Record& record, const Array* const* arguments,
                                     size_t count) {
  if (record.arguments.size() != count) return TraceError::kArguments;
  std::optional<TraceError> found;
  for (size_t k = 0; k < count; ++k) {
    const ValueType &was = record.arguments[k], &is = TypeOf(*arguments[k]);
    if (was.type != is.type) return TraceError::kDtype;
    if (record.devices[k] != arguments[k]->node()->tensor.device()) return TraceError::kDevice;
    if (!(was == is)) found = TraceError::kShape;
  }
  return found;
}

std::string TypesText(const std::vector<ValueType>& types, const std::vector<Device>& devices) {
  std::string text = "(";
  for (size_t k = 0; k < types.size(); ++k)
    absl::StrAppend(&text, k == 0 ? "" : ", ", types[k].ToString(), DeviceText(devices[k]));
  return text + ")";
}

}  // namespace

void FunctionState::Tidy() {
  if (!table.full()) return;
  std::vector<const CallSignature*> signatures;
  for (const auto& record : records)
    for (const Operation& operation : record->log.operations)
      if (operation.signature != nullptr)
        signatures.insert(signatures.end(), {operation.signature, operation.symbolic});
  table.RetainOnly(signatures);
  eager.Clear();
}

absl::StatusOr<Record*> FunctionState::FindRecord(const Array* const* arguments, size_t count) {
  std::optional<TraceError> difference;
  for (auto it = records.begin(); it != records.end(); ++it) {
    const std::optional<TraceError> found = Difference(**it, arguments, count);
    if (!found) {
      if (it != records.begin()) records.splice(records.begin(), records, it);
      return records.front().get();
    }
    if (!difference) difference = found;
  }
  if (!difference || (*difference == TraceError::kShape && options.symbolic_shape)) return nullptr;
  std::vector<ValueType> types;
  std::vector<Device> devices;
  for (size_t k = 0; k < count; ++k) {
    types.push_back(TypeOf(*arguments[k]));
    devices.push_back(arguments[k]->node()->tensor.device());
  }
  const Record& record = *records.front();
  return TraceFailure(
      name(), *difference,
      absl::StrCat("the arguments are ", TypesText(types, devices), ", recorded were ",
                   TypesText(record.arguments, record.devices)));
}

void FunctionState::AddRecord(std::unique_ptr<Record>&& record) {
  // Files are named by memory of the code that made the call, which may be unloaded.
  const char *file = nullptr, *kept = nullptr;
  for (Operation& operation : record->log.operations) {
    if (operation.where.file != file) {
      file = operation.where.file;
      kept = files.emplace(file).first->c_str();
    }
    operation.where.file = kept;
  }
  records.push_front(std::move(record));
  if (records.size() > kMaxRecords) records.pop_back();
}

std::shared_ptr<SymbolicProgram> FunctionState::FindSymbolic(
    size_t segment, const Log& log, size_t begin, size_t end,
    const std::vector<uint32_t>& results) const {
  const Record* like = nullptr;
  for (const auto& record : records) {
    const std::vector<Record::Segment>& segments = record->segments;
    if (segment >= segments.size()) continue;
    const Program* const program = segments[segment].program.get();
    // Where the segment before ends this one begins.
    if (program == nullptr || program->results() != results || segments[segment].end != end ||
        (segment > 0 ? segments[segment - 1].end : 0) != begin ||
        !SameButExtents(record->log, log, begin, end))
      continue;
    if (program->symbolic() != nullptr && program->symbolic()->Fits(log))
      return program->symbolic();
    if (like == nullptr) like = record.get();
  }
  return like != nullptr ? SymbolicProgram::Of(like->log, log, begin, end, results) : nullptr;
}

absl::Status FunctionState::CheckFreezable(bool reads, bool excludes) const {
  if (!frozen) return absl::OkStatus();
  if (reads) {
    return TraceFailure(name(), TraceError::kNotFrozen,
                        "it reads a value, on which what it does next may depend");
  }
  if (excludes) {
    return TraceFailure(name(), TraceError::kNotFrozen, "it has a region left out of the trace");
  }
  return absl::OkStatus();
}

}  // namespace kiln::tracing
