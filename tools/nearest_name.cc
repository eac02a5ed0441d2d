// SPDX-License-Identifier: Apache-2.0
#include "tools/nearest_name.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

constexpr size_t kLongest = 256;  // names of models may have any length

size_t MostEdits(absl::string_view a, absl::string_view b) {
  return (std::max(a.size(), b.size()) + 1) / 3;
}

// The optimal string alignment distance: no part of a name is edited twice.
size_t Edits(absl::string_view a, absl::string_view b) {
  std::vector<size_t> two_above, above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    two_above = std::exchange(above, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], two_above[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string NearestName(absl::string_view name, const std::vector<std::string>& candidates) {
  std::string nearest;
  size_t fewest = kLongest;
  for (const std::string& candidate : candidates) {
    if (std::max(name.size(), candidate.size()) > kLongest) continue;
    const size_t most = std::min(MostEdits(name, candidate), fewest - 1);
    const auto [shorter, longer] = std::minmax({name.size(), candidate.size()});
    if (longer - shorter > most) continue;
    const size_t edits = Edits(name, candidate);
    if (edits > most) continue;
    nearest = candidate;
    fewest = edits;
    if (edits == 0) break;
  }
  return nearest;
}

std::string DidYouMean(absl::string_view name, const std::vector<std::string>& candidates) {
  const std::string nearest = NearestName(name, candidates);
  return nearest.empty() ? "" : absl::StrCat("; did you mean \"", nearest, "\"?");
}

}  // namespace kiln
