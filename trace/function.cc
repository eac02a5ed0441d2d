// SPDX-License-Identifier: Apache-2.0
#include "trace/function.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/catch_exceptions.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "compiler/check_options.h"
#include "trace/extents.h"
#include "trace/failure.h"
#include "trace/mismatch.h"

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

const absl::Status& Function::CheckOptions() {
  if (checked_) return *checked_;
  checked_ = kiln::CheckOptions(options_.compile);
  if (checked_->ok() && frozen_ && (options_.symbolic || options_.record_only)) {
    checked_ = TraceFailure(name(), TraceError::kNotFrozen,
                            "the options ask for symbolic or record_only, "
                            "which run nothing at first");
  }
  return *checked_;
}

void Function::Tidy() {
  if (!table_.full()) return;
  std::vector<const CallForm*> forms;
  for (const auto& record : records_)
    for (const Operation& operation : record->log.operations)
      if (operation.form != nullptr) forms.insert(forms.end(), {operation.form, operation.open});
  table_.Keep(forms);
  steps_.Clear();
}

absl::StatusOr<Record*> Function::Find(const Array* const* arguments, size_t count) {
  std::optional<TraceError> difference;
  for (auto it = records_.begin(); it != records_.end(); ++it) {
    const std::optional<TraceError> found = Difference(**it, arguments, count);
    if (!found) {
      if (it != records_.begin()) records_.splice(records_.begin(), records_, it);
      return records_.front().get();
    }
    if (!difference) difference = found;
  }
  if (!difference || (*difference == TraceError::kShape && options_.symbolic_shape)) return nullptr;
  std::vector<ValueType> types;
  std::vector<Device> devices;
  for (size_t k = 0; k < count; ++k) {
    types.push_back(TypeOf(*arguments[k]));
    devices.push_back(arguments[k]->node()->tensor.device());
  }
  const Record& record = *records_.front();
  return TraceFailure(
      name(), *difference,
      absl::StrCat("the arguments are ", TypesText(types, devices), ", recorded were ",
                   TypesText(record.arguments, record.devices)));
}

std::shared_ptr<Generic> Function::FindGeneric(size_t segment, const Log& log, size_t begin,
                                               size_t end,
                                               const std::vector<uint32_t>& results) const {
  const Record* like = nullptr;
  for (const auto& record : records_) {
    if (segment >= record->segments.size()) continue;
    const Program* const program = record->segments[segment].program.get();
    if (program == nullptr || program->results() != results ||
        record->segments[segment].end != end || !SameButExtents(record->log, log, begin, end))
      continue;
    if (program->generic() != nullptr && program->generic()->Fits(log)) return program->generic();
    if (like == nullptr) like = record.get();
  }
  return like != nullptr ? Generic::Of(like->log, log, begin, end, results) : nullptr;
}

absl::Status Function::CheckFreezable(bool reads, bool excludes) const {
  if (!frozen_) return absl::OkStatus();
  if (reads) {
    return TraceFailure(name(), TraceError::kNotFrozen,
                        "it reads a value, on which what it does next may depend");
  }
  if (excludes) {
    return TraceFailure(name(), TraceError::kNotFrozen, "it has a region left out of the trace");
  }
  return absl::OkStatus();
}

absl::Status Function::RunFrozen(Record& record, const Array* const* arguments, Engine& engine,
                                 std::vector<Array>& results) {
  Log& log = record.log;
  for (const uint32_t id : record.captured) {
    const LogValue& value = log.values[id];
    if (value.node->refs.load(std::memory_order_acquire) > 1) continue;
    return TraceFailure(
        name(), TraceError::kConstant,
        absl::StrCat("nobody but the record has the captured ", value.type.ToString(),
                     " any more, which operation ", value.origin, " at ",
                     ToString(log.operations[value.origin].where), " takes"));
  }
  const auto count = static_cast<uint32_t>(record.arguments.size());
  for (uint32_t k = 0; k < count; ++k) log.values[k].node = Share(arguments[k]->node());
  absl::Status status;
  for (const Record::Segment& segment : record.segments) {
    if (segment.program == nullptr) continue;
    for (const uint32_t id : segment.program->results()) {
      LogValue& value = log.values[id];
      value.node = NewNode();
      value.node->type = value.type;
    }
    status = segment.program->Run(log, steps_, engine, options_.compile, options_.profiling);
    ++stats_.runs;
    if (!status.ok()) break;
  }
  if (status.ok()) {
    for (const uint32_t id : record.results) results.emplace_back(Share(log.values[id].node));
  }
  for (uint32_t k = 0; k < count; ++k) log.ReleaseValue(k);
  for (const Record::Segment& segment : record.segments) {
    if (segment.program == nullptr) continue;
    for (const uint32_t id : segment.program->results()) log.ReleaseValue(id);
  }
  return status;
}

TraceStats Function::stats() const {
  TraceStats stats = stats_;
  stats.variants = static_cast<int64_t>(records_.size());
  if (records_.empty()) return stats;
  const Record& record = *records_.front();
  for (const Operation& operation : record.log.operations)
    if (operation.kind == Operation::Kind::kCall) ++stats.operations;
  for (const Record::Segment& segment : record.segments)
    if (segment.program != nullptr) ++stats.segments;
  return stats;
}

void Function::Forget() {
  forget_.store(true, std::memory_order_release);
  Use free = Use::kFree;
  if (!use_.compare_exchange_strong(free, Use::kTended, std::memory_order_acquire)) return;
  ForgetIfAsked();
  GiveBack();
}

bool Function::Take() {
  constexpr int kMost = 1 << 20;  // of a child of a fork, whose parent's thread was tending it
  for (int i = 0; i < kMost; ++i) {
    Use now = Use::kFree;
    if (use_.compare_exchange_strong(now, Use::kCalled, std::memory_order_acquire)) return true;
    if (now == Use::kCalled) return false;
    std::this_thread::yield();
  }
  return false;
}

void Function::ForgetIfAsked() {
  if (forget_.exchange(false, std::memory_order_acquire)) records_.clear();
}

CallCore::CallCore(Function& function, ThreadState& thread, Record* record,
                   std::unique_ptr<Record> made)
    : Recorder(function.table_, made != nullptr ? made->log : function.scratch_,
               function.operands_),
      function_(function),
      thread_(thread),
      outer_(thread.call),
      outer_recorder_(thread.recorder),
      record_(record),
      made_(std::move(made)) {
  const TraceOptions& options = function.options_;
  log_.exact = options.capture_as_const || options.record_only || function.frozen_;
  log_.constant_arrays = options.capture_as_const;
  if (record_ != nullptr) replayed_ = &record_->log;
  thread.call = this;
  thread.recorder = this;
}

CallCore::~CallCore() {
  thread_.call = outer_;
  thread_.recorder = outer_recorder_;
  function_.arguments_.clear();
  if (!log_kept_) log_.Clear(status_);
}

const Array& CallCore::argument(size_t k) const { return function_.arguments_[k]; }

void CallCore::AddArguments(const Array* const* arguments, size_t count) {
  for (size_t k = 0; k < count; ++k) {
    // A node of its own, so that one array in two places is two arguments.
    const Node* const from = arguments[k]->node();
    Node* const node = NewNode();
    function_.arguments_.emplace_back(Share(node));
    node->type = from->type;
    node->SetTensor(from->tensor);
    if (made_ != nullptr) {
      made_->arguments.push_back(from->type);
      made_->devices.push_back(from->tensor.device());
    }
    log_.AddArgument(node);
  }
}

void CallCore::Fail(const absl::Status& status) {
  if (status_.ok()) status_ = status;
}

bool CallCore::FailedHere() {
  const std::vector<size_t>& failures = record_->failures;
  const size_t here = log_.operations.size();
  while (next_failure_ < failures.size() && failures[next_failure_] < here) ++next_failure_;
  return next_failure_ < failures.size() && failures[next_failure_] == here;
}

void CallCore::Failed(const absl::Status& status, bool ends) {
  if (!status_.ok()) return;
  if (ends) return Fail(status);
  if (records()) return made_->failures.push_back(log_.operations.size());
  if (!FailedHere()) return Fail(status);
  ++next_failure_;
}

absl::Status CallCore::CheckCall(const CallForm& form, std::span<const ValueType* const> types,
                                 std::span<const ValueType>* results) {
  if (replayed_ != nullptr && !FailedHere()) return absl::OkStatus();
  KILN_ASSIGN_OR_RETURN(*results, table_.Infer(form, types));
  return absl::OkStatus();
}

absl::StatusOr<const CallForm*> CallCore::Open(const Request& request, const CallForm* form) {
  const OpenAttributes open(request.op, request.attributes, log_);
  return open.any() ? table_.Find(request.op, open.list(), form->num_results) : form;
}

absl::Status CallCore::Compare() {
  if (replayed_ == nullptr) return absl::OkStatus();
  const size_t begin = log_.operations.back().first_word, end = log_.words.size();
  if (end <= replayed_->words.size()) {
    // A few words: a call of memcmp would take longer.
    const uint64_t *const is = log_.words.data(), *const was = replayed_->words.data();
    uint64_t different = 0;
    for (size_t i = begin; i < end; ++i) different |= is[i] ^ was[i];
    if (different == 0) return absl::OkStatus();
  }
  Fail(Explain(function_.name(), *replayed_, log_));
  return status_;
}

absl::Status CallCore::Add(Operation::Kind kind, Node* node, Location where) {
  KILN_RETURN_IF_ERROR(status_);
  log_.Begin(kind, node != nullptr ? 1 : 0, where);
  if (node != nullptr) log_.AddNode(node);
  return Compare();
}

absl::Status CallCore::Read(Node* node, Location where) {
  if (node->failed()) return node->error;
  if (node->ready()) return absl::OkStatus();
  absl::Status status;
  if (function_.options_.symbolic || function_.options_.record_only) {
    status = TraceFailure(function_.name(), TraceError::kRead,
                          absl::StrCat("a value is read at ", ToString(where),
                                       ", and a symbolic trace has none before its end"));
  } else {
    status = Add(Operation::Kind::kRead, node, where);
    if (status.ok()) status = Cut();
  }
  Fail(status);
  return status;
}

void CallCore::BeginExclusion(const ExcludeFromTrace* scope, Location where) {
  scope_ = scope;
  scope_begin_ = where;
  const TraceOptions& options = function_.options_;
  absl::Status status;
  if (options.capture_as_const || options.symbolic || options.record_only) {
    status = TraceFailure(function_.name(), TraceError::kExclusion,
                          absl::StrCat("a region at ", ToString(where),
                                       " is left out of a trace that is symbolic, or has what it "
                                       "captures as constants"));
  } else {
    excludes_ = true;
    status = Add(Operation::Kind::kExclude, nullptr, where);
    if (status.ok()) status = Cut();
  }
  Fail(status);
  thread_.recorder = &thread_.lazy;
}

void CallCore::EndExclusion(const ExcludeFromTrace* scope) {
  if (scope != scope_) return;
  scope_ = nullptr;
  if (thread_.recorder != &thread_.lazy) {
    Fail(TraceFailure(function_.name(), TraceError::kExclusion,
                      absl::StrCat("the region that is left out from ", ToString(scope_begin_),
                                   " on ends in a function that is differentiated")));
    return;
  }
  thread_.recorder = this;
  Fail(Add(Operation::Kind::kResume, nullptr, Location()));
}

absl::Status CallCore::Cut() {
  const absl::Status status = CatchExceptions("running a trace", [&]() -> absl::Status {
    if (!records()) return CutReplay();
    std::vector<uint32_t>& live = function_.live_;
    live.clear();
    log_.FindLive(live);
    Record::Segment& segment = made_->segments.emplace_back();
    segment.end = log_.operations.size();
    if (live.empty()) return absl::OkStatus();
    segment.program = std::make_unique<Program>(
        begin_, segment.end, live,
        function_.FindGeneric(made_->segments.size() - 1, log_, begin_, segment.end, live));
    if (function_.options_.record_only) {
      FailLive();
      return absl::OkStatus();
    }
    ++function_.stats_.runs;
    return segment.program->Run(log_, function_.steps_, thread_.engine, function_.options_.compile,
                                function_.options_.profiling);
  });
  begin_ = log_.operations.size();
  return status;
}

absl::Status CallCore::CutReplay() {
  Record::Segment& segment = record_->segments[segment_++];
  if (segment.program != nullptr && !function_.options_.record_only) {
    ++function_.stats_.runs;
    KILN_RETURN_IF_ERROR(segment.program->Run(log_, function_.steps_, thread_.engine,
                                              function_.options_.compile,
                                              function_.options_.profiling));
  }
  FailLive();
  return absl::OkStatus();
}

void CallCore::FailLive() {
  std::vector<uint32_t>& live = function_.live_;
  live.clear();
  log_.FindLive(live);
  for (const uint32_t id : live) {
    const Operation& from = log_.operations[log_.values[id].origin];
    Node* const node = log_.values[id].node;
    const std::string what =
        absl::StrCat("the ", from.form->op->name, " of ", ToString(from.where));
    if (function_.options_.record_only) {
      node->SetTypeOnly(absl::FailedPreconditionError(
          absl::StrCat("trace \"", function_.name(), "\": record_only runs nothing, so that ", what,
                       " has no value; trace without it")));
    } else {
      node->SetError(TraceFailure(function_.name(), TraceError::kUnreadable,
                                  absl::StrCat(what, " is held here, and was not when recorded")));
    }
  }
}

absl::Status CallCore::AddReturn(Array* results, size_t count) {
  KILN_RETURN_IF_ERROR(status_);
  for (size_t k = 0; k < count; ++k) {
    Node* const node = results[k].node();
    if (node == nullptr) {
      return Invalid("trace \"", function_.name(), "\": result ", k,
                     " is an empty kiln::Array(); return one with elements");
    }
    if (node->failed()) return node->error;
    if (!Owns(node)) KILN_RETURN_IF_ERROR(Evaluate(node, Location()));
  }
  log_.Begin(Operation::Kind::kResults, count, Location());
  for (size_t k = 0; k < count; ++k) log_.AddNode(results[k].node());
  KILN_RETURN_IF_ERROR(Compare());
  if (records()) {
    const std::span<const uint32_t> ids = log_.OperandsOf(log_.operations.back());
    made_->results.assign(ids.begin(), ids.end());
    made_->reads = reads_;
    made_->excludes = excludes_;
  }
  // A call that compares may have read what the one that recorded did not.
  KILN_RETURN_IF_ERROR(function_.CheckFreezable(reads_, excludes_));
  return Cut();
}

absl::Status CallCore::Abandon() {
  Fail(absl::FailedPreconditionError(
      absl::StrCat("trace \"", function_.name(),
                   "\": an exception ended the function, and what it had "
                   "computed is gone")));
  return status_;
}

absl::Status CallCore::Finish(Array* results, size_t count) {
  if (scope_ != nullptr) {
    Fail(TraceFailure(function_.name(), TraceError::kExclusion,
                      absl::StrCat("the region that is left out from ", ToString(scope_begin_),
                                   " on has not ended when the function returns")));
  }
  Fail(AddReturn(results, count));
  if (!status_.ok()) {
    for (size_t k = 0; k < count; ++k) results[k] = Array(NewErrorNode(status_));
    return status_;
  }
  if (!records()) {
    ++record_->replays;
    return absl::OkStatus();
  }
  log_.ReleaseNodes();
  for (uint32_t id = 0; log_.exact && id < log_.values.size(); ++id)
    if (log_.values[id].kind == LogValue::Kind::kCaptured) made_->captured.push_back(id);
  function_.records_.push_front(std::move(made_));
  log_kept_ = true;
  if (function_.records_.size() > kMaxRecords) function_.records_.pop_back();
  return absl::OkStatus();
}

}  // namespace kiln::tracing
