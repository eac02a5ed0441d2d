// SPDX-License-Identifier: Apache-2.0
#include "tools/shard.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/sha256.h"
#include "compiler/kernel_key.h"

namespace kiln {
namespace {

constexpr int kMostShards = 10'000;

std::vector<std::pair<CacheKey, size_t>> ByKey(const std::vector<KernelJob>& jobs) {
  std::vector<std::pair<CacheKey, size_t>> keys;
  for (size_t k = 0; k < jobs.size(); ++k)
    keys.emplace_back(KernelPreimage(jobs[k].identity).Key(), k);
  std::sort(keys.begin(), keys.end());
  return keys;
}

}  // namespace

absl::StatusOr<Shard> Shard::Parse(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, '/');
  Shard shard;
  if (parts.size() == 2 && absl::SimpleAtoi(parts[0], &shard.index) &&
      absl::SimpleAtoi(parts[1], &shard.count) && shard.index >= 1 && shard.index <= shard.count &&
      shard.count <= kMostShards)
    return shard;
  return absl::InvalidArgumentError(absl::StrCat("--shard \"", text, "\": expected i/n, such as ",
                                                 "2/4, with 1 <= i <= n <= ", kMostShards));
}

std::vector<KernelJob> Shard::Of(std::vector<KernelJob> jobs) const {
  std::vector<KernelJob> part;
  const std::vector<std::pair<CacheKey, size_t>> keys = ByKey(jobs);
  for (size_t k = static_cast<size_t>(index - 1); k < keys.size(); k += static_cast<size_t>(count))
    part.push_back(std::move(jobs[keys[k].second]));
  return part;
}

std::string DigestOf(const std::vector<KernelJob>& jobs) {
  std::string all;
  for (const auto& [key, job] : ByKey(jobs)) all.append(key.begin(), key.end());
  return ToHex(Sha256(all)).substr(0, 8);
}

}  // namespace kiln
