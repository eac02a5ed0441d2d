// SPDX-License-Identifier: Apache-2.0
#include "exec/memory/part.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace kiln {
namespace {

// A section ends where an interval ends for the first time since one began.
void FindSections(PlanPart& part) {
  std::vector<int64_t> ends;
  for (const Interval& interval : part.intervals) ends.push_back(interval.upper);
  std::sort(ends.begin(), ends.end());
  std::vector<int64_t> times;  // one in each section: the latest begin
  size_t end = 0;
  for (size_t i = 0; i < part.size(); ++i) {
    const int64_t begin = part.intervals[i].lower;
    // Ends at or before this begin: the set that was alive before them was maximal.
    const bool ended = ends[end] <= begin;
    while (ends[end] <= begin) ++end;
    if (times.empty() || ended) times.push_back(begin);
    times.back() = begin;
  }
  std::vector<int64_t> change(times.size() + 1, 0);  // of the bytes alive, section by section
  for (const Interval& interval : part.intervals) {
    const auto number = [&](int64_t time) {
      return std::lower_bound(times.begin(), times.end(), time) - times.begin();
    };
    const auto first = number(interval.lower), beyond = number(interval.upper);
    change[static_cast<size_t>(first)] += interval.size;
    change[static_cast<size_t>(beyond)] -= interval.size;
    part.sections.push_back({static_cast<uint32_t>(first), static_cast<uint32_t>(beyond - 1)});
  }
  part.section_bytes.resize(times.size());
  std::partial_sum(change.begin(), change.end() - 1, part.section_bytes.begin());
  part.lower_bound = *std::max_element(part.section_bytes.begin(), part.section_bytes.end());
}

}  // namespace

int64_t PlanPart::FullestSection(size_t i) const {
  const auto begin = section_bytes.begin();
  return *std::max_element(begin + sections[i].first, begin + sections[i].last + 1);
}

std::vector<PlanPart> CutIntoParts(std::span<const Interval> intervals) {
  std::vector<size_t> order;
  for (size_t i = 0; i < intervals.size(); ++i) {
    if (intervals[i].size > 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return intervals[a].lower < intervals[b].lower; });
  std::vector<PlanPart> parts;
  int64_t end = std::numeric_limits<int64_t>::min();
  for (const size_t i : order) {
    if (parts.empty() || intervals[i].lower >= end) parts.emplace_back();
    parts.back().numbers.push_back(i);
    parts.back().intervals.push_back(intervals[i]);
    end = std::max(end, intervals[i].upper);
  }
  for (PlanPart& part : parts) FindSections(part);
  return parts;
}

}  // namespace kiln
