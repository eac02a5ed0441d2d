// SPDX-License-Identifier: Apache-2.0
#include "tools/diff_lines.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace kiln {
namespace {

constexpr size_t kMost = 2000;  // the table below has the square of it

std::vector<absl::string_view> Lines(absl::string_view text) {
  if (text.empty()) return {};
  return absl::StrSplit(absl::StripSuffix(text, "\n"), '\n');
}

// lengths[i][j]: of the longest common subsequence of left from i on and right from j on.
std::vector<std::vector<uint16_t>> CommonLengths(const std::vector<absl::string_view>& left,
                                                 const std::vector<absl::string_view>& right) {
  std::vector<std::vector<uint16_t>> lengths(left.size() + 1,
                                             std::vector<uint16_t>(right.size() + 1));
  for (size_t i = left.size(); i-- > 0;) {
    for (size_t j = right.size(); j-- > 0;) {
      lengths[i][j] = left[i] == right[j] ? static_cast<uint16_t>(lengths[i + 1][j + 1] + 1)
                                          : std::max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  return lengths;
}

}  // namespace

std::string DiffLines(const std::string& a, const std::string& b) {
  std::vector<absl::string_view> left = Lines(a), right = Lines(b), tail;
  std::string out;
  size_t same = 0;
  for (; same < std::min(left.size(), right.size()) && left[same] == right[same]; ++same)
    absl::StrAppend(&out, "  ", left[same], "\n");
  left.erase(left.begin(), left.begin() + static_cast<ptrdiff_t>(same));
  right.erase(right.begin(), right.begin() + static_cast<ptrdiff_t>(same));
  while (!left.empty() && !right.empty() && left.back() == right.back()) {
    tail.push_back(left.back());
    left.pop_back();
    right.pop_back();
  }
  left.resize(std::min(left.size(), kMost));
  right.resize(std::min(right.size(), kMost));
  const std::vector<std::vector<uint16_t>> common = CommonLengths(left, right);
  size_t i = 0, j = 0;
  while (i < left.size() || j < right.size()) {
    if (i < left.size() && j < right.size() && left[i] == right[j]) {
      absl::StrAppend(&out, "  ", left[i++], "\n");
      ++j;
    } else if (j == right.size() || (i < left.size() && common[i + 1][j] >= common[i][j + 1])) {
      absl::StrAppend(&out, "- ", left[i++], "\n");
    } else {
      absl::StrAppend(&out, "+ ", right[j++], "\n");
    }
  }
  for (auto line = tail.rbegin(); line != tail.rend(); ++line)
    absl::StrAppend(&out, "  ", *line, "\n");
  return out;
}

std::string WithContext(const std::string& diff, size_t lines) {
  const std::vector<absl::string_view> all = Lines(diff);
  std::vector<bool> shown(all.size());
  for (size_t k = 0; k < all.size(); ++k) {
    if (absl::StartsWith(all[k], "  ")) continue;
    for (size_t near = k - std::min(k, lines); near <= std::min(k + lines, all.size() - 1); ++near)
      shown[near] = true;
  }
  std::string out;
  for (size_t k = 0; k < all.size(); ++k) {
    if (shown[k]) absl::StrAppend(&out, all[k], "\n");
    if (!shown[k] && (k == 0 || shown[k - 1])) out += " ...\n";
  }
  return out;
}

}  // namespace kiln
