// SPDX-License-Identifier: Apache-2.0
#include "tools/trace_file.h"

#include <algorithm>
#include <utility>

namespace kiln {
namespace {

constexpr int kProcess = 1;
constexpr std::pair<TraceFile::Track, const char*> kTracks[] = {
    {TraceFile::Track::kCompile, "compile"},
    {TraceFile::Track::kKernels, "kernels"},
    {TraceFile::Track::kCache, "cache"},
    {TraceFile::Track::kLaunches, "launches"}};

// Thousandths, so that slices end to end in nanoseconds are so in the file.
double Microseconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1000; }

nlohmann::json Named(const char* what, int thread, const char* name) {
  return {
      {"name", what}, {"ph", "M"}, {"pid", kProcess}, {"tid", thread}, {"args", {{"name", name}}}};
}

}  // namespace

nlohmann::json& TraceFile::Add(Track track, const std::string& name, const char* phase,
                               int64_t at) {
  return events_.emplace_back(nlohmann::json{{"name", name},
                                             {"ph", phase},
                                             {"ts", Microseconds(std::max<int64_t>(at, 0))},
                                             {"pid", kProcess},
                                             {"tid", static_cast<int>(track)}});
}

void TraceFile::Slice(Track track, const std::string& name, int64_t begin, int64_t end,
                      const nlohmann::json& args) {
  nlohmann::json& event = Add(track, name, "X", begin);
  event["dur"] = Microseconds(std::max<int64_t>(end - begin, 0));
  event["args"] = args;
}

void TraceFile::Instant(Track track, const std::string& name, int64_t at,
                        const nlohmann::json& args) {
  nlohmann::json& event = Add(track, name, "i", at);
  event["s"] = "t";  // the line is as high as its track
  event["args"] = args;
}

void TraceFile::Counter(Track track, const std::string& name, int64_t at,
                        const nlohmann::json& series) {
  Add(track, name, "C", at)["args"] = series;
}

std::string TraceFile::Write() const {
  nlohmann::json events = nlohmann::json::array();
  events.push_back(Named("process_name", 0, "kiln bench"));
  for (const auto& [track, name] : kTracks)
    events.push_back(Named("thread_name", static_cast<int>(track), name));
  for (const nlohmann::json& event : events_) events.push_back(event);
  const nlohmann::json file = {{"traceEvents", std::move(events)},
                               {"displayTimeUnit", "ms"},
                               {"otherData", {{"producer", "kiln " KILN_VERSION}}}};
  return file.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace kiln
