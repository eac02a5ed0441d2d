// SPDX-License-Identifier: Apache-2.0
// CallCore: one call of a traced function, which is the recorder of its thread meanwhile.
//
// A call writes a log of its own. Where there is a record of the function for these arguments, the
// log is compared with it, operation by operation, by their words; at each cut the program there
// runs on the values of the new log. Else the log becomes a record.
#ifndef KILN_TRACE_CALL_CORE_H_
#define KILN_TRACE_CALL_CORE_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "kiln/trace.h"
#include "trace/function_state.h"
#include "trace/record.h"
#include "trace/recorder.h"
#include "trace/thread_state.h"

namespace kiln::tracing {

class CallCore : public Recorder {
 public:
  // `record`: what is replayed; null: `made` is written. One call of `function` at a time, whose
  // memory it takes.
  CallCore(FunctionState& function, ThreadState& thread, Record* record,
           std::unique_ptr<Record> made);
  ~CallCore() override;

  void AddArguments(const Array* const* arguments, size_t count);
  const Array& argument(size_t k) const;
  const std::string& name() const { return function_.name(); }
  bool replays() const { return record_ != nullptr; }
  absl::Status Read(Node* node, Location where) override;
  void NoteRead() { reads_ = true; }
  // `scope` is compared, and never looked into: it may live longer than the call.
  void BeginExclusion(const ExcludeFromTrace* scope, Location where);
  void EndExclusion(const ExcludeFromTrace* scope);
  // The first error of the call; later operations have it too.
  void Fail(const absl::Status& status);
  // One that the record has at this place as well leaves the call as it is: the program may go on
  // without the results.
  void Failed(const absl::Status& status, bool ends) override;
  absl::Status Finish(Array* results, size_t count);
  // Instead of Finish, where an exception has ended the function.
  absl::Status Abandon();

 protected:
  absl::Status CheckCall(const CallSignature& signature, std::span<const ValueType* const> types,
                         std::span<const ValueType>* results) override;
  absl::StatusOr<const CallSignature*> WithSymbolicExtents(const Request& request,
                                                           const CallSignature* signature) override;
  absl::Status Compare() override;

 private:
  bool records() const { return made_ != nullptr; }
  absl::Status Add(Operation::Kind kind, Node* node, Location where);
  absl::Status AddReturn(Array* results, size_t count);
  // Whether the record has a call that failed here.
  bool FailedHere();
  // Runs what was written since the last cut.
  absl::Status Cut();
  absl::Status CutReplay();
  // Of what is held and has no value now.
  void FailLive();

  FunctionState& function_;
  ThreadState& thread_;
  CallCore* const outer_;
  Recorder* const outer_recorder_;
  Record* const record_;
  std::unique_ptr<Record> made_;
  size_t segment_ = 0, begin_ = 0;
  size_t next_failure_ = 0;                  // of those that are replayed
  const ExcludeFromTrace* scope_ = nullptr;  // of the region that is left out now
  Location scope_begin_;
  bool reads_ = false;     // the host has looked at a value
  bool excludes_ = false;  // a region was left out
  bool log_kept_ = false;  // it is a record's
};

}  // namespace kiln::tracing

#endif  // KILN_TRACE_CALL_CORE_H_
