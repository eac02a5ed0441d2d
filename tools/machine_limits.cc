// SPDX-License-Identifier: Apache-2.0
#include "tools/machine_limits.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace kiln {

std::string TextOfFile(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

int64_t GroupMemoryLimit(const std::string& groups, const std::string& root) {
  int64_t least = INT64_MAX;
  // A line is "id:controllers:path"; version 2 has no controllers.
  for (absl::string_view line : absl::StrSplit(groups, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || (!parts[1].empty() && parts[1] != "memory")) continue;
    const std::string folder = parts[1].empty() ? root : root + "/memory";
    const char* const file = parts[1].empty() ? "/memory.max" : "/memory.limit_in_bytes";
    std::string path(parts[2] == "/" ? "" : parts[2]);
    while (true) {
      int64_t limit = 0;  // "max" is no number, and no limit
      if (absl::SimpleAtoi(TextOfFile(folder + path + file), &limit) && limit > 0)
        least = std::min(least, limit);
      if (path.empty()) break;
      path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
  }
  return least;
}

std::string ChosenWord(const std::string& text) {
  const size_t open = text.find('['), close = text.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return "";
  return text.substr(open + 1, close - open - 1);
}

}  // namespace kiln
