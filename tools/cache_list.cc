// SPDX-License-Identifier: Apache-2.0
// kiln cache stats, ls: the cache as a whole.
#include <ctime>
#include <iostream>
#include <numeric>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "persistent_cache/settings.h"
#include "tools/cache.h"
#include "tools/exit_code.h"
#include "tools/report.h"

namespace kiln {
namespace {

nlohmann::json CountsToJson(const CacheCounts& counts) {
  return {{"hits", counts.hits},           {"misses", counts.misses},
          {"builds", counts.builds},       {"failures", counts.failures},
          {"evictions", counts.evictions}, {"damaged", counts.damaged},
          {"saved_ms", counts.saved_ms}};
}

std::vector<std::string> CountRow(const std::string& name, const CacheCounts& counts) {
  return {name,
          absl::StrCat(counts.hits),
          absl::StrCat(counts.misses),
          absl::StrCat(counts.builds),
          absl::StrCat(counts.failures),
          absl::StrCat(counts.evictions),
          absl::StrCat(counts.damaged),
          absl::StrFormat("%.1f", static_cast<double>(counts.saved_ms) / 1000)};
}

std::string TimeText(int64_t ns) {
  if (ns == 0) return "-";
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromUnixNanos(ns), absl::UTCTimeZone());
}

void PrintStats(const nlohmann::json& results, const CacheStatistics& counted) {
  std::cout << Table({{"directory", results["directory"].get<std::string>()},
                      {"entries", absl::StrCat(results["entries"].get<int64_t>())},
                      {"bytes", Bytes(results["bytes"].get<int64_t>())},
                      {"on disk", absl::StrCat(Bytes(results["allocated_bytes"].get<int64_t>()),
                                               " of ", Bytes(results["max_bytes"].get<int64_t>()))},
                      {"since", TimeText(counted.since_ns)}})
            << "\n";
  std::vector<std::vector<std::string>> rows = {
      {"target", "hits", "misses", "builds", "failures", "evicted", "damaged", "saved s"}};
  for (const auto& [target, counts] : counted.targets) rows.push_back(CountRow(target, counts));
  rows.push_back(CountRow("all", counted.Sum()));
  std::cout << Table(rows);
}

// One line of `ls`.
struct Line {
  EntryInfo info;
  nlohmann::json json;
  double wall_ms = 0;
};

// What --target, --kind, --older, --newer, --larger and --model leave.
class Filter {
 public:
  static absl::StatusOr<Filter> Make(const CacheFlags& flags, Store& store) {
    Filter filter;
    filter.target_ = flags.target;
    filter.kind_ = flags.kind;
    if (!flags.older.empty()) {
      KILN_ASSIGN_OR_RETURN(filter.older_, ParseAge(flags.older));
    }
    if (!flags.newer.empty()) {
      KILN_ASSIGN_OR_RETURN(filter.newer_, ParseAge(flags.newer));
    }
    if (!flags.larger.empty()) {
      KILN_ASSIGN_OR_RETURN(filter.larger_, ParseByteSize(flags.larger));
    }
    if (flags.model.model.empty()) return filter;
    TuneUse tune;
    tune.store = &store;
    KILN_ASSIGN_OR_RETURN(const auto kernels, KernelsOfModel(flags.model, flags.common, tune));
    filter.of_model_.emplace();
    for (const KernelJob& kernel : kernels)
      filter.of_model_->insert(KernelPreimage(kernel.identity).Key());
    return filter;
  }
  bool Takes(const EntryInfo& info) const {
    const int64_t idle = SystemNowNs() - info.mtime_ns;
    return idle >= older_ && idle <= newer_ && info.bytes >= larger_ &&
           (!of_model_.has_value() || of_model_->count(info.key) != 0);
  }
  bool Takes(const nlohmann::json& line) const {
    return (target_.empty() || line["target"] == target_) &&
           (kind_.empty() || line["kind"] == kind_);
  }

 private:
  std::string target_, kind_;
  int64_t older_ = 0, newer_ = INT64_MAX, larger_ = 0;
  std::optional<std::set<CacheKey>> of_model_;
};

Line ReadLine(Store& store, const EntryInfo& info) {
  Line line{info, {}, 0};
  const absl::StatusOr<Entry> entry = store.Read(info.key);
  line.json = {{"key", ToHex(info.key)},
               {"device", ""},
               {"features", nlohmann::json::array()},
               {"bytes", info.bytes},
               {"allocated_bytes", info.allocated_bytes},
               {"sections", nlohmann::json::array()},
               {"kernel", nullptr},
               {"kind", ""},
               {"target", ""},
               {"used", TimeText(info.mtime_ns)},
               {"status", "ok"}};
  if (!entry.ok()) {
    line.json["status"] = std::string(entry.status().message());
    return line;
  }
  auto meta = MetaOf(*entry);
  const std::string& preimage = *entry->Find("preimage");
  line.json["device"] = meta["device"];
  line.json["features"] = absl::StrSplit(meta["isa"], ' ', absl::SkipEmpty());
  for (const Section& section : entry->sections) line.json["sections"].push_back(section.tag);
  if (!FieldOf(preimage, "kernel").empty()) line.json["kernel"] = KernelSummary(preimage);
  const bool is_kernel = !line.json["kernel"].is_null();
  line.json["kind"] =
      is_kernel ? meta["schedule"].substr(0, meta["schedule"].find(' ')) : meta["kind"];
  line.json["target"] = meta["target"];
  line.json["wall_ms"] = absl::SimpleAtod(meta["wall_ms"], &line.wall_ms) ? line.wall_ms : 0.0;
  if (entry->Find("failure") != nullptr)
    line.json["status"] = absl::StrCat("fails: ", *entry->Find("failure"));
  return line;
}

void Sort(std::vector<Line>& lines, const std::string& by) {
  std::stable_sort(lines.begin(), lines.end(), [&](const Line& a, const Line& b) {
    if (by == "used") return a.info.mtime_ns > b.info.mtime_ns;
    if (by == "size") return a.info.bytes > b.info.bytes;
    if (by == "time") return a.wall_ms > b.wall_ms;
    return a.info.key < b.info.key;
  });
}

// What the other columns leave of a line for the last one, but some.
size_t LastWidth(const std::vector<std::vector<std::string>>& rows) {
  constexpr size_t kLine = 80, kLeast = 12;
  std::vector<size_t> widths = ColumnWidths(rows);
  widths.pop_back();
  const size_t used = std::accumulate(widths.begin(), widths.end(), widths.size() * kColumnGap);
  return std::max(kLeast, kLine - std::min(kLine, used));
}

void PrintLines(const std::vector<Line>& lines) {
  std::vector<CacheKey> keys;
  for (const Line& line : lines) keys.push_back(line.info.key);
  const size_t digits = UniqueDigits(keys);
  std::vector<std::vector<std::string>> rows = {
      {"key", "size", "used", "built ms", "target", "kind", "kernel"}};
  for (const Line& line : lines) {
    const std::string status = line.json["status"];
    const std::string kernel =
        line.json["kernel"].is_null() ? "" : line.json["kernel"].get<std::string>();
    rows.push_back(
        {ToHex(line.info.key).substr(0, digits), Bytes(line.info.bytes), Ago(line.info.mtime_ns),
         absl::StrFormat("%.0f", line.wall_ms),
         Fit(std::string(absl::StripPrefix(line.json["target"].get<std::string>(), "x86-64-")), 6),
         Fit(line.json["kind"], 16), status == "ok" ? kernel : status});
  }
  const size_t width = LastWidth(rows);
  for (std::vector<std::string>& row : rows) row.back() = Fit(row.back(), width);
  std::cout << Table(rows);
}

}  // namespace

int CacheStats(const CacheFlags& flags) {
  const auto store = OpenStore(flags, /*read_only=*/!flags.zero);
  if (!store.ok()) return Fail(store.status(), kExitCache);
  const absl::StatusOr<std::vector<EntryInfo>> entries = (*store)->List();
  if (!entries.ok()) return Fail(entries.status(), kExitCache);
  int64_t bytes = 0;
  int64_t allocated = 0;
  for (const EntryInfo& entry : *entries) {
    bytes += entry.bytes;
    allocated += entry.allocated_bytes;
  }
  const CacheStatistics counted = (*store)->Statistics();
  nlohmann::json results = CountsToJson(counted.Sum());
  results.update({{"directory", (*store)->directory()},
                  {"entries", entries->size()},
                  {"bytes", bytes},
                  {"allocated_bytes", allocated},
                  {"max_bytes", (*store)->max_bytes()},
                  {"since", TimeText(counted.since_ns)},
                  {"zeroed", flags.zero},
                  {"targets", nlohmann::json::object()}});
  for (const auto& [target, counts] : counted.targets)
    results["targets"][target] = CountsToJson(counts);
  if (flags.zero) {
    const absl::Status done = (*store)->ZeroStatistics();
    if (!done.ok()) return Fail(done, kExitCache);
  }
  if (flags.common.json) {
    PrintJson("cache.stats", flags.common, results);
  } else {
    PrintStats(results, counted);
  }
  return kExitOk;
}

int CacheList(const CacheFlags& flags) {
  const auto store = OpenStore(flags, true);
  if (!store.ok()) return Fail(store.status(), kExitCache);
  const absl::StatusOr<Filter> filter = Filter::Make(flags, **store);
  if (!filter.ok())
    return Fail(filter.status(),
                flags.model.model.empty() ? kExitUsage : ModelExit(filter.status()));
  const absl::StatusOr<std::vector<EntryInfo>> entries = (*store)->List();
  if (!entries.ok()) return Fail(entries.status(), kExitCache);
  std::vector<Line> lines;
  for (const EntryInfo& info : *entries) {
    if (!filter->Takes(info)) continue;
    Line line = ReadLine(**store, info);
    const bool shown = flags.all || !flags.kind.empty() || !line.json["kernel"].is_null() ||
                       line.json["status"] != "ok";
    if (shown && filter->Takes(line.json)) lines.push_back(std::move(line));
  }
  Sort(lines, flags.sort);
  if (flags.common.json) {
    nlohmann::json list = nlohmann::json::array();
    for (const Line& line : lines) list.push_back(line.json);
    PrintJson("cache.ls", flags.common, {{"entries", list}});
  } else {
    PrintLines(lines);
  }
  return kExitOk;
}

}  // namespace kiln
