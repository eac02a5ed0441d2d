// SPDX-License-Identifier: Apache-2.0
#include "tests/cli/trace_rules.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

using nlohmann::json;

constexpr char kPhases[] = "BEXiICbnestfPNODMVvRcLS";

bool IsTime(const json& event, const char* field) {
  return event.contains(field) && event[field].is_number() && event[field].get<double>() >= 0;
}

struct Slice {
  int64_t begin, end;  // ns
};

class Checker {
 public:
  explicit Checker(const json& file) : file_(file) {}

  std::vector<std::string> Check() {
    if (!file_.is_object()) return {"no object"};
    if (!file_.contains("traceEvents") || !file_["traceEvents"].is_array())
      return {"traceEvents is no array"};
    if (file_.contains("displayTimeUnit") && file_["displayTimeUnit"] != "ms" &&
        file_["displayTimeUnit"] != "ns")
      Fault("displayTimeUnit");
    for (const json& event : file_["traceEvents"]) CheckEvent(event);
    for (const auto& [thread, open] : open_)
      if (!open.empty()) Fault(absl::StrCat("B without E: ", open.back()));
    for (auto& [thread, slices] : slices_) CheckNesting(slices);
    return std::move(faults_);
  }

 private:
  void Fault(const std::string& what) { faults_.push_back(what); }

  void CheckEvent(const json& event) {
    if (!event.is_object()) return Fault("an event is no object");
    const std::string shown = event.dump();
    const std::string phase = event.contains("ph") && event["ph"].is_string()
                                  ? event["ph"].get<std::string>()
                                  : std::string();
    if (phase.size() != 1 || std::string(kPhases).find(phase) == std::string::npos)
      return Fault("ph: " + shown);
    for (const char* field : {"pid", "tid"})
      if (!event.contains(field) || !event[field].is_number_integer())
        return Fault(absl::StrCat(field, ": ", shown));
    if (phase != "E" && (!event.contains("name") || !event["name"].is_string()))
      return Fault("name: " + shown);
    if (phase != "M" && !IsTime(event, "ts")) return Fault("ts: " + shown);
    if (phase == "X" && !IsTime(event, "dur")) return Fault("dur: " + shown);
    if (event.contains("args") && !event["args"].is_object()) return Fault("args: " + shown);
    CheckPhase(event, phase, shown);
  }

  void CheckPhase(const json& event, const std::string& phase, const std::string& shown) {
    const auto thread = std::pair(event["pid"].get<int64_t>(), event["tid"].get<int64_t>());
    if (phase == "X") {
      const double begin = event["ts"].get<double>(), length = event["dur"].get<double>();
      const int64_t from = std::llround(begin * 1000);
      slices_[thread].push_back({from, from + std::llround(length * 1000)});
    } else if (phase == "i" || phase == "I") {
      const std::string scope = event.value("s", "t");
      if (scope != "g" && scope != "p" && scope != "t") Fault("s: " + shown);
    } else if (phase == "C") {
      if (!event.contains("args") || event["args"].empty()) return Fault("counter: " + shown);
      for (const json& series : event["args"])
        if (!series.is_number()) Fault("counter: " + shown);
    } else if (phase == "B") {
      open_[thread].push_back(event["name"].get<std::string>());
    } else if (phase == "E") {
      std::vector<std::string>& open = open_[thread];
      if (open.empty() || (event.contains("name") && event["name"] != open.back()))
        return Fault("E without its B: " + shown);
      open.pop_back();
    }
  }

  void CheckNesting(std::vector<Slice>& slices) {
    std::sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) {
      return std::pair(a.begin, -a.end) < std::pair(b.begin, -b.end);
    });
    std::vector<int64_t> ends;
    for (const Slice& slice : slices) {
      while (!ends.empty() && ends.back() <= slice.begin) ends.pop_back();
      if (!ends.empty() && slice.end > ends.back())
        Fault(absl::StrCat("slices overlap at ", slice.begin, " ns"));
      ends.push_back(slice.end);
    }
  }

  const json& file_;
  std::vector<std::string> faults_;
  std::map<std::pair<int64_t, int64_t>, std::vector<std::string>> open_;
  std::map<std::pair<int64_t, int64_t>, std::vector<Slice>> slices_;
};

}  // namespace

std::vector<std::string> TraceFaults(const std::string& text) {
  // The parser refuses what is no UTF-8.
  const json file = json::parse(text, nullptr, false);
  if (file.is_discarded()) return {"no JSON in UTF-8"};
  return Checker(file).Check();
}

}  // namespace kiln
