// SPDX-License-Identifier: Apache-2.0
// The functions of kiln/trace.h that a Traced calls, and those of lazy evaluation.
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/catch_exceptions.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "kiln/trace.h"
#include "trace/failure.h"
#include "trace/function.h"
#include "trace/thread_state.h"

namespace kiln {

CompileOptions BackgroundCompile() {
  CompileOptions options;
  options.compile_mode = CompileMode::kBackground;
  return options;
}

absl::Status SetLazyOptions(const CompileOptions& options) {
  return CatchExceptions("SetLazyOptions", [&]() -> absl::Status {
    tracing::ThreadState* const thread = tracing::ThreadState::Get();
    const tracing::Entry entry(thread);
    if (!entry.ok()) return tracing::Entry::Refusal(thread);
    return thread->lazy.SetOptions(options);
  });
}

LazyStats lazy_stats() {
  tracing::ThreadState* const thread = tracing::ThreadState::Get();
  return thread != nullptr ? thread->lazy.stats() : LazyStats();
}

ExcludeFromTrace::ExcludeFromTrace(Location where) {
  tracing::ThreadState* const thread = tracing::ThreadState::Get();
  const tracing::Entry entry(thread);
  if (!entry.ok() || thread->call == nullptr || thread->excluded()) return;
  const absl::Status begun = CatchExceptions("ExcludeFromTrace", [&] {
    if (thread->recorder != thread->call) {
      thread->recorder->Failed(
          tracing::TraceFailure(thread->call->name(), TraceError::kExclusion,
                                absl::StrCat("a region at ", tracing::ToString(where),
                                             " is left out in a function that is differentiated")),
          /*ends=*/true);
    } else {
      call_ = thread->call;
      call_->BeginExclusion(this, where);
    }
    return absl::OkStatus();
  });
  if (!begun.ok()) thread->call->Fail(begun);
}

ExcludeFromTrace::~ExcludeFromTrace() {
  if (call_ == nullptr) return;
  // The call may be over, or be another thread's: only one that this thread is in is looked into.
  tracing::ThreadState* const thread = tracing::ThreadState::Get();
  const tracing::Entry entry(thread);
  if (thread == nullptr || thread->call != call_) return;
  const absl::Status ended = CatchExceptions("ExcludeFromTrace", [&] {
    call_->EndExclusion(this);
    return absl::OkStatus();
  });
  if (!ended.ok()) call_->Fail(ended);
}

namespace tracing {

std::shared_ptr<Function> NewFunction(const TraceOptions& options, bool frozen) {
  try {
    return std::make_shared<Function>(options, frozen);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

namespace {

absl::Status MovedFrom() {
  return absl::FailedPreconditionError(
      "trace: the function was moved from, or there was no memory for it; call the kiln::Traced "
      "that "
      "has it now");
}

// That all arguments have their values.
absl::Status EvaluateArguments(const std::string& name, const Array* const* arguments, size_t count,
                               Location where) {
  for (size_t k = 0; k < count; ++k) {
    const Array& argument = *arguments[k];
    const absl::Status status =
        argument.status().ok() ? Evaluate(argument.node(), where) : argument.status();
    if (!status.ok()) return Annotate(status, absl::StrCat("trace \"", name, "\", argument ", k));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status StatusOf(const Function* function) {
  return function != nullptr ? function->status() : MovedFrom();
}
TraceStats StatsOf(const Function* function) {
  return function != nullptr ? function->stats() : TraceStats();
}
absl::StatusOr<std::string> ProfileOf(const Function* function) {
  if (function == nullptr) return MovedFrom();
  return CatchExceptions("get_profile", [&] { return function->Profile(); });
}
absl::StatusOr<DumpInfo> DumpTo(Function* function, absl::string_view file,
                                const DumpOptions& options) {
  if (function == nullptr) return MovedFrom();
  return function->Dump(file, options);
}
void Forget(Function* function) {
  if (function != nullptr) function->Forget();
}

Call::Call(std::shared_ptr<Function> called, const Array* const* arguments, size_t count,
           Location where) noexcept
    : function_(std::move(called)) {
  const absl::Status status = CatchExceptions("calling a trace", [&]() -> absl::Status {
    if (function_ == nullptr) return MovedFrom();
    Function& function = *function_;
    ThreadState* const thread = ThreadState::Get();
    const Entry entry(thread);
    if (!entry.ok())
      return Annotate(Entry::Refusal(thread), absl::StrCat("trace \"", function.name(), "\""));
    if (!function.Take()) {
      return TraceFailure(function.name(), TraceError::kThread,
                          "a call of it is running already, of another "
                          "thread or of itself");
    }
    entered_ = true;
    function.Forgotten().clear();
    ++function.state_.stats.calls;
    function.results_.clear();
    if (thread->call != nullptr && !thread->excluded()) {
      return TraceFailure(
          function.name(), TraceError::kNested,
          absl::StrCat("it is called within the trace \"", thread->call->name(), "\""));
    }
    if (thread->recorder->parent() != nullptr) {
      return TraceFailure(function.name(), TraceError::kNested,
                          "it is called within a function that is differentiated");
    }
    KILN_RETURN_IF_ERROR(function.CheckOptions());
    KILN_RETURN_IF_ERROR(EvaluateArguments(function.name(), arguments, count, where));
    function.state_.Tidy();
    KILN_ASSIGN_OR_RETURN(Record* const record, function.state_.FindRecord(arguments, count));
    if (record != nullptr && function.state_.frozen && record->replays > 0) {
      ++function.state_.stats.frozen_calls;
      return function.RunFrozen(*record, arguments, thread->engine, function.results_);
    }
    core_ = &function.call_.emplace(function.state_, *thread, record,
                                    record == nullptr ? std::make_unique<Record>() : nullptr);
    core_->AddArguments(arguments, count);
    runs_ = true;
    return absl::OkStatus();
  });
  Leave(status);
}

void Call::Leave(const absl::Status& status) {
  error_ = status;
  if (!entered_) return;
  function_->status_ = status;
  if (!status.ok()) ++function_->state_.stats.errors;
}

Call::~Call() {
  const Entry entry(ThreadState::Get());
  if (runs_ && !finished_) Leave(CatchExceptions("a trace", [&] { return core_->Abandon(); }));
  if (!entered_) return;
  function_->call_.reset();
  function_->results_.clear();  // a frozen function holds no array for longer than its call
  const auto gone = function_->Forgotten();
  function_->GiveBack();
}

const Array& Call::argument(size_t k) const { return core_->argument(k); }

void Call::Finish(Array* results, size_t count) noexcept {
  finished_ = true;
  const Entry entry(ThreadState::Get());
  const bool replayed = core_->replays();
  const absl::Status status =
      CatchExceptions("a trace", [&] { return core_->Finish(results, count); });
  if (!status.ok()) {
    core_->Fail(status);
    for (size_t k = 0; k < count; ++k) results[k] = Array(NewErrorNode(status));
  }
  if (status.ok()) ++(replayed ? function_->state_.stats.replays : function_->state_.stats.records);
  Leave(status);
}

size_t Call::num_results() const { return error_.ok() ? function_->results_.size() : 1; }

Array Call::result(size_t k) const {
  if (!error_.ok()) return Array(NewErrorNode(error_));
  if (k < function_->results_.size()) return function_->results_[k];
  return Array(NewErrorNode(absl::InternalError("trace: it has no such result")));
}

}  // namespace tracing
}  // namespace kiln
