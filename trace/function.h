// SPDX-License-Identifier: Apache-2.0
// Function: what a Traced has recorded, and CallCore: one call of it, which is the recorder of its
// thread meanwhile.
//
// A record is a log and where it was cut into programs: at each read of a value that was not there
// yet, at the begin of a region that is left out, and at the end. A later call writes a log of its
// own and compares it with the record, operation by operation, by their words; at each cut the
// program there runs on the values of the new log. The record of a frozen function runs by itself.
#ifndef KILN_TRACE_FUNCTION_H_
#define KILN_TRACE_FUNCTION_H_

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kiln/trace.h"
#include "trace/log.h"
#include "trace/program.h"
#include "trace/recorder.h"

namespace kiln::tracing {

// What was recorded for arguments of these types.
struct Record {
  std::vector<ValueType> arguments;
  std::vector<Device> devices;
  Log log;
  struct Segment {
    size_t end = 0;                    // operations before it
    std::unique_ptr<Program> program;  // null: nothing that is needed
  };
  std::vector<Segment> segments;
  std::vector<uint32_t> results;
  std::vector<uint32_t> captured;  // arrays that are part of the record
  std::vector<size_t> failures;    // before which operations calls failed, in order
  bool reads = false;              // the host has looked at a value
  bool excludes = false;           // it has regions that are left out
  int64_t replays = 0;
};

class Function;

class CallCore : public Recorder {
 public:
  // `record`: what is replayed; null: `made` is written. One call of `function` at a time, whose
  // memory it takes.
  CallCore(Function& function, ThreadState& thread, Record* record, std::unique_ptr<Record> made);
  ~CallCore() override;

  void AddArguments(const Array* const* arguments, size_t count);
  const Array& argument(size_t k) const;
  Function& function() { return function_; }
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
  absl::Status failure() const override { return status_; }
  absl::Status CheckCall(const CallForm& form, std::span<const ValueType* const> types,
                         std::span<const ValueType>* results) override;
  absl::StatusOr<const CallForm*> Open(const Request& request, const CallForm* form) override;
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

  Function& function_;
  ThreadState& thread_;
  CallCore* const outer_;
  Recorder* const outer_recorder_;
  Record* const record_;
  std::unique_ptr<Record> made_;
  size_t segment_ = 0, begin_ = 0;
  size_t next_failure_ = 0;  // of those that are replayed
  absl::Status status_;
  const ExcludeFromTrace* scope_ = nullptr;  // of the region that is left out now
  Location scope_begin_;
  bool reads_ = false;     // the host has looked at a value
  bool excludes_ = false;  // a region was left out
  bool log_kept_ = false;  // it is a record's
};

class Function {
 public:
  Function(const TraceOptions& options, bool frozen) : options_(options), frozen_(frozen) {}

  const TraceOptions& options() const { return options_; }
  const std::string& name() const { return options_.name; }
  const absl::Status& status() const { return status_; }
  TraceStats stats() const;
  absl::StatusOr<std::string> Profile() const;
  // Writes the newest record as a model.
  absl::StatusOr<DumpInfo> Dump(absl::string_view file, const DumpOptions& options);
  // Now, or, where a call is running, at its end. Any thread.
  void Forget();

 private:
  friend class CallCore;
  friend class Call;
  // Found with the first call.
  const absl::Status& CheckOptions();
  // What was asked for during a call. For who has taken it.
  void ForgetIfAsked();
  // Forgets forms that no record has, where there are many. Before a call.
  void Tidy();
  // The record for these arguments; null: there is none yet. An error: there must not be one.
  absl::StatusOr<Record*> Find(const Array* const* arguments, size_t count);
  // Of what a call has done beside its operations.
  absl::Status CheckFreezable(bool reads, bool excludes) const;
  // What a new record compiles for its segment of this number, operations [begin, end) of the log:
  // where another record has the same but for extents, a program for all of them. Else null.
  std::shared_ptr<Generic> FindGeneric(size_t segment, const Log& log, size_t begin, size_t end,
                                       const std::vector<uint32_t>& results) const;
  // A call without the function.
  absl::Status RunFrozen(Record& record, const Array* const* arguments, Engine& engine,
                         std::vector<Array>& results);

  const TraceOptions options_;
  const bool frozen_;
  // kTended: for the moment that Forget takes.
  enum class Use : uint8_t { kFree, kCalled, kTended };
  // Whether the caller has it now; else it is in use. Waits while it is tended.
  bool Take();
  void GiveBack() { use_.store(Use::kFree, std::memory_order_release); }
  std::atomic<Use> use_{Use::kFree};
  std::atomic<bool> forget_{false};  // as soon as no call is running
  CallTable table_;
  Steps steps_;
  // Of calls, which have it one after the other: a call takes no memory once this has grown.
  Log scratch_;  // of those that replay
  OperandTypes operands_;
  std::vector<Array> arguments_;
  std::vector<uint32_t> live_;
  std::optional<CallCore> call_;                // the one that is running
  std::list<std::unique_ptr<Record>> records_;  // newest use first
  TraceStats stats_;
  absl::Status status_;
  std::optional<absl::Status> checked_;  // of the options
  std::vector<Array> results_;           // of a call that did not run the function
};

}  // namespace kiln::tracing

#endif  // KILN_TRACE_FUNCTION_H_
