// SPDX-License-Identifier: Apache-2.0
#include "persistent_cache/merge.h"

#include <map>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"

namespace kiln {
namespace {

int64_t RoundsOf(const Entry& entry) {
  const std::map<std::string, std::string> meta = MetaOf(entry);
  const auto found = meta.find("rounds");
  int64_t rounds = 0;
  return found != meta.end() && absl::SimpleAtoi(found->second, &rounds) ? rounds : -1;
}

}  // namespace

bool StaysOver(const Entry& a, const Entry& b) {
  const int64_t of_a = RoundsOf(a), of_b = RoundsOf(b);
  return of_a != of_b ? of_a > of_b : EncodeEntry(a) > EncodeEntry(b);
}

std::vector<Entry> MergeEntries(std::vector<Entry> entries) {
  std::map<CacheKey, Entry> by_key;
  for (Entry& entry : entries) {
    const auto [at, is_new] = by_key.emplace(entry.key, entry);
    if (!is_new && StaysOver(entry, at->second)) at->second = std::move(entry);
  }
  std::vector<Entry> merged;
  for (auto& [key, entry] : by_key) merged.push_back(std::move(entry));
  return merged;
}

}  // namespace kiln
