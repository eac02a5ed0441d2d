// SPDX-License-Identifier: Apache-2.0
#include "persistent_cache/statistics.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

constexpr char kHead[] = "kiln-statistics 1\n";
constexpr char kEnd[] = "end\n";
constexpr absl::string_view kSuffix = ".count";
constexpr int64_t kMaxBytes = 64 << 20;

struct CountField {
  const char* name;
  uint64_t CacheCounts::*value;
};
constexpr CountField kFields[] = {
    {"hits", &CacheCounts::hits},           {"misses", &CacheCounts::misses},
    {"builds", &CacheCounts::builds},       {"failures", &CacheCounts::failures},
    {"evictions", &CacheCounts::evictions}, {"damaged", &CacheCounts::damaged},
    {"saved_ms", &CacheCounts::saved_ms},
};

std::string Total(const StoreLayout& layout) { return absl::StrCat(layout.Statistics(), "/total"); }

// `total` and the files that are not in it yet, whose names are put into the result's `merged`.
CacheStatistics ReadAll(FileSystem& files, const StoreLayout& layout) {
  CacheStatistics sum;
  std::set<std::string> counted;
  if (const auto text = files.ReadFile(Total(layout), kMaxBytes); text.ok()) {
    if (absl::StatusOr<CacheStatistics> total = ParseStatistics(*text); total.ok()) {
      counted.swap(total->merged);
      sum = *std::move(total);
    }
  }
  const auto names = files.ListDir(layout.Statistics());
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    if (!absl::EndsWith(name, kSuffix)) continue;
    sum.merged.insert(name);
    if (counted.count(name) != 0) continue;
    const auto text = files.ReadFile(absl::StrCat(layout.Statistics(), "/", name), kMaxBytes);
    if (!text.ok()) continue;
    if (const auto part = ParseStatistics(*text); part.ok()) sum.Merge(*part);
  }
  return sum;
}

// Replaces `total` and removes the files that it now holds.
absl::Status WriteTotal(FileSystem& files, const StoreLayout& layout,
                        const CacheStatistics& total) {
  KILN_RETURN_IF_ERROR(
      WriteWhole(files, layout, Total(layout), FormatStatistics(total), /*durable=*/false));
  for (const std::string& name : total.merged)
    files.Unlink(absl::StrCat(layout.Statistics(), "/", name)).IgnoreError();
  return absl::OkStatus();
}

}  // namespace

CacheCounts& CacheCounts::operator+=(const CacheCounts& other) {
  for (const CountField& field : kFields) this->*field.value += other.*field.value;
  return *this;
}

CacheCounts CacheStatistics::Sum() const {
  CacheCounts sum;
  for (const auto& [target, counts] : targets) sum += counts;
  return sum;
}

void CacheStatistics::Merge(const CacheStatistics& other) {
  if (other.since_ns != 0)
    since_ns = since_ns == 0 ? other.since_ns : std::min(since_ns, other.since_ns);
  for (const auto& [target, counts] : other.targets) targets[target] += counts;
  for (const auto& [key, hits] : other.uses) uses[key] += hits;
}

std::string FormatStatistics(const CacheStatistics& statistics) {
  std::string text = absl::StrCat(kHead, "since ", statistics.since_ns, "\n");
  for (const std::string& name : statistics.merged) absl::StrAppend(&text, "merged ", name, "\n");
  for (const auto& [target, counts] : statistics.targets) {
    absl::StrAppend(&text, StatisticsName(target));
    for (const CountField& field : kFields)
      absl::StrAppend(&text, " ", field.name, " ", counts.*field.value);
    text += "\n";
  }
  for (const auto& [key, hits] : statistics.uses)
    absl::StrAppend(&text, "use ", ToHex(key), " ", hits, "\n");
  return text + kEnd;
}

absl::StatusOr<CacheStatistics> ParseStatistics(absl::string_view text) {
  if (!absl::StartsWith(text, kHead) || !absl::EndsWith(text, kEnd))
    return absl::DataLossError("statistics: cut short");
  CacheStatistics statistics;
  text.remove_prefix(sizeof(kHead) - 1);
  text.remove_suffix(sizeof(kEnd) - 1);
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    bool ok = words.size() % 2 == (words[0] == "since" || words[0] == "merged" ? 0 : 1);
    if (ok && words[0] == "since") {
      ok = absl::SimpleAtoi(words[1], &statistics.since_ns);
    } else if (ok && words[0] == "merged") {
      statistics.merged.emplace(words[1]);
    } else if (words[0] == "use") {
      const auto key = ParseHexDigest(words.size() == 3 ? words[1] : "");
      uint64_t hits = 0;
      ok = key.has_value() && absl::SimpleAtoi(words[2], &hits);
      if (ok) statistics.uses[*key] += hits;
    } else if (ok) {
      CacheCounts& counts = statistics.targets[std::string(words[0])];
      for (size_t k = 1; ok && k < words.size(); k += 2) {
        uint64_t value = 0;
        ok = absl::SimpleAtoi(words[k + 1], &value);
        for (const CountField& field : kFields) {
          if (words[k] == field.name) counts.*field.value += value;
        }
      }
    }
    if (!ok) return absl::DataLossError(absl::StrCat("statistics: cannot read \"", line, "\""));
  }
  return statistics;
}

absl::Status AddStatistics(FileSystem& files, const StoreLayout& layout,
                           const CacheStatistics& statistics) {
  const std::string name = absl::StrCat(layout.Statistics(), "/", UniqueName(), kSuffix);
  return WriteWhole(files, layout, name, FormatStatistics(statistics), /*durable=*/false);
}

CacheStatistics ReadStatistics(FileSystem& files, const StoreLayout& layout) {
  CacheStatistics sum = ReadAll(files, layout);
  sum.merged.clear();
  return sum;
}

void CompactStatistics(FileSystem& files, const StoreLayout& layout) {
  const auto lock = files.TryLock(layout.UpkeepLock(), kStatisticsLock);
  if (lock.ok() && *lock == nullptr) return;  // where there are no locks, a count may get lost
  CacheStatistics all = ReadAll(files, layout);
  for (auto use = all.uses.begin(); use != all.uses.end();)
    use = absl::IsNotFound(files.Stat(layout.FileOf(use->first)).status()) ? all.uses.erase(use)
                                                                           : std::next(use);
  WriteTotal(files, layout, all).IgnoreError();
}

absl::Status ZeroStatistics(FileSystem& files, const StoreLayout& layout, int64_t now_ns) {
  const auto lock = files.TryLock(layout.UpkeepLock(), kStatisticsLock);
  if (lock.ok() && *lock == nullptr)
    return absl::UnavailableError("cache statistics: another process works on them; try again");
  CacheStatistics zero;
  zero.since_ns = now_ns;
  zero.merged = ReadAll(files, layout).merged;
  return WriteTotal(files, layout, zero);
}

std::string StatisticsName(absl::string_view target) {
  std::string name(target.substr(0, 64));
  for (char& c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && !absl::StrContains("_.+-", c))
      c = '_';
  }
  return name.empty() || name == "since" || name == "merged" || name == "use" ? "-" : name;
}

}  // namespace kiln
