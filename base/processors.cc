// SPDX-License-Identifier: Apache-2.0
#include "base/processors.h"

#include <sched.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace kiln {
namespace {

std::string TextOf(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// `quota` of each `period`, in microseconds; words that are no numbers are no quota.
int Whole(absl::string_view quota, absl::string_view period) {
  int64_t used = 0, of = 0;
  if (!absl::SimpleAtoi(quota, &used) || !absl::SimpleAtoi(period, &of) || used <= 0 || of <= 0)
    return INT_MAX;
  return static_cast<int>(std::min<int64_t>(used / of + (used % of != 0 ? 1 : 0), INT_MAX));
}

int QuotaOfFolder(const std::string& folder) {
  const std::vector<std::string> both =
      absl::StrSplit(TextOf(folder + "/cpu.max"), absl::ByAnyChar(" \n"));
  if (both.size() >= 2) return Whole(both[0], both[1]);
  return Whole(TextOf(folder + "/cpu.cfs_quota_us"), TextOf(folder + "/cpu.cfs_period_us"));
}

}  // namespace

int QuotaProcessors(const std::string& groups, const std::string& root) {
  int least = INT_MAX;
  // A line is "id:controllers:path"; version 2 has no controllers.
  for (absl::string_view line : absl::StrSplit(groups, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::vector<absl::string_view> controllers = absl::StrSplit(parts[1], ',');
    const bool of_cpu = std::count(controllers.begin(), controllers.end(), "cpu") > 0;
    if (!parts[1].empty() && !of_cpu) continue;
    const std::string mount = of_cpu ? root + "/cpu" : root;
    std::string path(parts[2] == "/" ? "" : parts[2]);
    while (true) {
      least = std::min(least, QuotaOfFolder(mount + path));
      if (path.empty()) break;
      path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
  }
  return std::max(least, 1);
}

int Processors() {
  cpu_set_t allowed;
  const bool known = sched_getaffinity(0, sizeof allowed, &allowed) == 0;
  const int processors = known ? std::max(CPU_COUNT(&allowed), 1) : 1;
  return std::min(processors, QuotaProcessors(TextOf("/proc/self/cgroup"), "/sys/fs/cgroup"));
}

}  // namespace kiln
