// SPDX-License-Identifier: Apache-2.0
#include "trace/call_core.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/catch_exceptions.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "trace/extents.h"
#include "trace/failure.h"
#include "trace/function_state.h"
#include "trace/mismatch.h"

namespace kiln::tracing {

CallCore::CallCore(FunctionState& function, ThreadState& thread, Record* record,
                   std::unique_ptr<Record> made)
    : Recorder(function.table, made != nullptr ? made->log : function.scratch, function.operands),
      function_(function),
      thread_(thread),
      outer_(thread.call),
      outer_recorder_(thread.recorder),
      record_(record),
      made_(std::move(made)) {
  const TraceOptions& options = function.options;
  log_.exact = options.capture_as_const || options.record_only || function.frozen;
  log_.constant_arrays = options.capture_as_const;
  if (record_ != nullptr) replayed_ = &record_->log;
  thread.call = this;
  thread.recorder = this;
}

CallCore::~CallCore() {
  thread_.call = outer_;
  thread_.recorder = outer_recorder_;
  function_.arguments.clear();
  if (!log_kept_) log_.Clear(status_);
}

const Array& CallCore::argument(size_t k) const { return function_.arguments[k]; }

void CallCore::AddArguments(const Array* const* arguments, size_t count) {
  for (size_t k = 0; k < count; ++k) {
    // A node of its own, so that one array in two places is two arguments.
    const Node* const from = arguments[k]->node();
    Node* const node = NewNode();
    function_.arguments.emplace_back(Share(node));
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

absl::Status CallCore::CheckCall(const CallSignature& signature,
                                 std::span<const ValueType* const> types,
                                 std::span<const ValueType>* results) {
  if (replayed_ != nullptr && !FailedHere()) return absl::OkStatus();
  return Recorder::CheckCall(signature, types, results);
}

absl::StatusOr<const CallSignature*> CallCore::WithSymbolicExtents(const Request& request,
                                                                   const CallSignature* signature) {
  const SymbolicAttributes symbolic(request.op, request.attributes, log_);
  return symbolic.any() ? table_.GetOrAdd(request.op, symbolic.list(), signature->num_results)
                        : signature;
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
  if (function_.options.symbolic || function_.options.record_only) {
    status = TraceFailure(function_.name(), TraceError::kRead,
                          absl::StrCat("a value is read at ", ToString(where),
                                       ", and a symbolic trace has none before its end"),
                          "return it, or trace without symbolic and record_only");
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
  const TraceOptions& options = function_.options;
  absl::Status status;
  if (options.capture_as_const || options.symbolic || options.record_only) {
    status =
        TraceFailure(function_.name(), TraceError::kExclusion,
                     absl::StrCat("a region at ", ToString(where),
                                  " is left out of a trace that is symbolic, or has what it "
                                  "captures as constants"),
                     "trace without symbolic, record_only and capture_as_const, or without the "
                     "region");
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
    std::vector<uint32_t>& live = function_.live;
    live.clear();
    log_.FindLive(live);
    Record::Segment& segment = made_->segments.emplace_back();
    segment.end = log_.operations.size();
    if (live.empty()) return absl::OkStatus();
    segment.program = std::make_unique<Program>(
        begin_, segment.end, live,
        function_.FindSymbolic(made_->segments.size() - 1, log_, begin_, segment.end, live));
    if (function_.options.record_only) {
      FailLive();
      return absl::OkStatus();
    }
    ++function_.stats.runs;
    return segment.program->Run(log_, function_.eager, thread_.engine, function_.options.compile,
                                function_.options.profiling);
  });
  begin_ = log_.operations.size();
  return status;
}

absl::Status CallCore::CutReplay() {
  Record::Segment& segment = record_->segments[segment_++];
  if (segment.program != nullptr && !function_.options.record_only) {
    ++function_.stats.runs;
    KILN_RETURN_IF_ERROR(segment.program->Run(log_, function_.eager, thread_.engine,
                                              function_.options.compile,
                                              function_.options.profiling));
  }
  FailLive();
  return absl::OkStatus();
}

void CallCore::FailLive() {
  std::vector<uint32_t>& live = function_.live;
  live.clear();
  log_.FindLive(live);
  for (const uint32_t id : live) {
    const Operation& from = log_.operations[log_.values[id].origin];
    Node* const node = log_.values[id].node;
    const std::string what =
        absl::StrCat("the ", from.signature->op->name, " of ", ToString(from.where));
    if (function_.options.record_only) {
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
  KILN_RETURN_IF_ERROR(status_);
  if (!records()) {
    ++record_->replays;
    return absl::OkStatus();
  }
  log_.ReleaseNodes();
  for (uint32_t id = 0; log_.exact && id < log_.values.size(); ++id)
    if (log_.values[id].kind == LogValue::Kind::kCaptured) made_->AddCaptured(id);
  function_.AddRecord(std::move(made_));
  log_kept_ = true;
  return absl::OkStatus();
}

}  // namespace kiln::tracing
