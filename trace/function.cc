// SPDX-License-Identifier: Apache-2.0
#include "trace/function.h"

#include <set>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "compiler/check_options.h"
#include "trace/failure.h"

namespace kiln::tracing {

const absl::Status& Function::CheckOptions() {
  if (checked_) return *checked_;
  checked_ =
      Annotate(kiln::CheckOptions(state_.options.compile), absl::StrCat("trace \"", name(), "\""));
  if (checked_->ok() && state_.frozen && (state_.options.symbolic || state_.options.record_only)) {
    checked_ = TraceFailure(name(), TraceError::kNotFrozen,
                            "the options ask for symbolic or record_only, "
                            "which run nothing at first");
  }
  return *checked_;
}

absl::Status Function::RunFrozen(Record& record, const Array* const* arguments, Engine& engine,
                                 std::vector<Array>& results) {
  Log& log = record.log;
  for (const uint32_t id : record.captured) {
    const LogValue& value = log.values[id];
    if (value.node->refs.load(std::memory_order_acquire) >
        value.node->record_refs.load(std::memory_order_acquire))
      continue;
    return TraceFailure(name(), TraceError::kConstant,
                        absl::StrCat("the host has given up the captured ", value.type.ToString(),
                                     ", which operation ", value.origin, " at ",
                                     ToString(log.operations[value.origin].where), " takes"));
  }
  const auto count = static_cast<uint32_t>(record.arguments.size());
  const auto release = absl::MakeCleanup([&] {
    for (uint32_t k = 0; k < count; ++k) log.ReleaseValue(k);
    for (const Record::Segment& segment : record.segments) {
      if (segment.program == nullptr) continue;
      for (const uint32_t id : segment.program->results()) log.ReleaseValue(id);
    }
  });
  for (uint32_t k = 0; k < count; ++k) log.values[k].node = Share(arguments[k]->node());
  absl::Status status;
  for (const Record::Segment& segment : record.segments) {
    if (segment.program == nullptr) continue;
    for (const uint32_t id : segment.program->results()) {
      LogValue& value = log.values[id];
      value.node = NewNode();
      value.node->type = value.type;
    }
    status = segment.program->Run(log, state_.eager, engine, state_.options.compile,
                                  state_.options.profiling);
    ++state_.stats.runs;
    if (!status.ok()) break;
  }
  if (status.ok()) {
    for (const uint32_t id : record.results) results.emplace_back(Share(log.values[id].node));
  }
  return status;
}

TraceStats Function::stats() const {
  TraceStats stats = state_.stats;
  stats.variants = static_cast<int64_t>(state_.records.size());
  if (state_.records.empty()) return stats;
  std::set<const void*> compiled;
  for (const auto& each : state_.records)
    for (const Record::Segment& segment : each->segments)
      if (segment.program != nullptr && segment.program->compiled() != nullptr)
        compiled.insert(segment.program->compiled());
  stats.compiled = static_cast<int64_t>(compiled.size());
  const Record& record = *state_.records.front();
  for (const Operation& operation : record.log.operations)
    if (operation.kind == Operation::Kind::kCall) ++stats.operations;
  for (const Record::Segment& segment : record.segments)
    if (segment.program != nullptr) ++stats.segments;
  return stats;
}

void Function::Forget() {
  forget_.store(true, std::memory_order_release);
  Use free = Use::kFree;
  if (!use_.compare_exchange_strong(free, Use::kForgetting, std::memory_order_acquire)) return;
  const auto gone = Forgotten();  // released last: an owner of memory may call the function
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

std::list<std::unique_ptr<Record>> Function::Forgotten() {
  std::list<std::unique_ptr<Record>> gone;
  if (forget_.exchange(false, std::memory_order_acquire)) gone.swap(state_.records);
  return gone;
}

}  // namespace kiln::tracing
