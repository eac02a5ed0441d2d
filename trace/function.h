// SPDX-License-Identifier: Apache-2.0
// Function: what a Traced has recorded, one record for each list of argument types, and which of
// them a call replays. Where none fits, the call makes a new one, or says what differs. The record
// of a frozen function runs by itself.
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
#include "trace/call_core.h"
#include "trace/engine.h"
#include "trace/function_state.h"
#include "trace/record.h"

namespace kiln::tracing {

class Function {
 public:
  Function(const TraceOptions& options, bool frozen) : state_(options, frozen) {}

  const std::string& name() const { return state_.name(); }
  const absl::Status& status() const { return status_; }
  TraceStats stats() const;
  absl::StatusOr<std::string> Profile() const;
  // Writes the newest record as a model.
  absl::StatusOr<DumpInfo> Dump(absl::string_view file, const DumpOptions& options);
  // Now, or, where a call is running, at its end. Any thread.
  void Forget();

 private:
  friend class Call;
  // Found with the first call.
  const absl::Status& CheckOptions();
  // The records, if Forget was called since: the function has none then. For who has taken it.
  std::list<std::unique_ptr<Record>> Forgotten();
  // A call without the function.
  absl::Status RunFrozen(Record& record, const Array* const* arguments, Engine& engine,
                         std::vector<Array>& results);

  // kForgetting: for the moment that Forget takes.
  enum class Use : uint8_t { kFree, kCalled, kForgetting };
  // Whether the caller has it now; else it is in use. Waits while it is tended.
  bool Take();
  void GiveBack() { use_.store(Use::kFree, std::memory_order_release); }
  std::atomic<Use> use_{Use::kFree};
  std::atomic<bool> forget_{false};  // as soon as no call is running
  FunctionState state_;
  std::optional<CallCore> call_;  // the one that is running
  absl::Status status_;
  std::optional<absl::Status> checked_;  // of the options
  std::vector<Array> results_;           // of a call that did not run the function
};

}  // namespace kiln::tracing

#endif  // KILN_TRACE_FUNCTION_H_
