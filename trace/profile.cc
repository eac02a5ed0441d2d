// SPDX-License-Identifier: Apache-2.0
// get_profile: the programs of a function's newest record with the times of their launches.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "trace/function.h"

namespace kiln::tracing {
namespace {

using Json = nlohmann::ordered_json;

Json LaunchesOf(const Program& program) {
  Json launches = Json::array();
  for (const ThunkTime& time : program.times()) {
    launches.push_back({{"kind", time.kind},
                        {"name", time.name},
                        {"ms", time.ms / static_cast<double>(program.timed_runs())},
                        {"bytes", time.bytes},
                        {"vm", time.vm}});
  }
  return launches;
}

}  // namespace

absl::StatusOr<std::string> Function::Profile() const {
  if (!state_.options.profiling) {
    return absl::FailedPreconditionError(absl::StrCat(
        "trace \"", name(), "\": it has no profile; set TraceOptions::profiling before its calls"));
  }
  if (state_.records.empty() || state_.records.front()->replays == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "trace \"", name(), "\": it has no profile before its second call; call it again"));
  }
  const Record& record = *state_.records.front();
  Json segments = Json::array();
  size_t begin = 0;
  for (const Record::Segment& segment : record.segments) {
    Json operations = Json::array();
    for (size_t i = begin; i < segment.end; ++i) {
      const Operation& operation = record.log.operations[i];
      if (operation.signature == nullptr) continue;
      operations.push_back({{"op", operation.signature->op->name},
                            {"file", operation.where.file},
                            {"line", operation.where.line}});
    }
    begin = segment.end;
    if (segment.program == nullptr) continue;
    segments.push_back({{"operations", std::move(operations)},
                        {"runs", segment.program->runs()},
                        {"timed_runs", segment.program->timed_runs()},
                        {"launches", LaunchesOf(*segment.program)}});
  }
  const TraceStats now = stats();
  const Json profile = {{"schema", "kiln.trace_profile/1"},
                        {"trace", name()},
                        {"calls", now.calls},
                        {"replays", now.replays},
                        {"frozen_calls", now.frozen_calls},
                        {"segments", std::move(segments)}};
  return profile.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace kiln::tracing
