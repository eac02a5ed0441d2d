// SPDX-License-Identifier: Apache-2.0
// Parts of a planning problem that are planned apart, and their sections.
//
// A part is what lies between two times that no interval crosses. Its sections are the maximal sets
// of intervals that are alive together, in the order of time; each interval lives in consecutive
// ones, and two intervals meet if and only if they share a section. Example:
//
//   intervals  a [0, 2)  b [1, 3)  c [2, 4)  d [4, 5)
//   parts      {a, b, c} {d}: nothing crosses time 4
//   sections   {a, b} {b, c} of the first part: a in [0, 0], b in [0, 1], c in [1, 1]
#ifndef KILN_EXEC_MEMORY_PART_H_
#define KILN_EXEC_MEMORY_PART_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exec/memory/interval.h"

namespace kiln {

struct PlanPart {
  struct Sections {
    uint32_t first = 0, last = 0;  // both included
  };
  std::vector<size_t> numbers;         // of its intervals among those that were cut
  std::vector<Interval> intervals;     // by ascending lower
  std::vector<Sections> sections;      // per interval, ascending in `first`
  std::vector<int64_t> section_bytes;  // per section
  int64_t lower_bound = 0;             // the largest of section_bytes

  size_t size() const { return intervals.size(); }
  // A double: the difference of two times may exceed 64 bits.
  double life(size_t i) const {
    return static_cast<double>(intervals[i].upper) - static_cast<double>(intervals[i].lower);
  }
  // Bytes of the fullest section that interval i lives in.
  int64_t FullestSection(size_t i) const;
};

// Offsets of the intervals of a part.
struct Packing {
  std::vector<int64_t> offsets;
  int64_t peak = 0;
  const char* order = "";  // what made it
  bool stopped = false;    // before it was done as well as it might have been
};

// Cuts intervals into parts, in the order of time. Empty intervals are in none. The sum of all
// sizes must be below 2^63.
std::vector<PlanPart> CutIntoParts(std::span<const Interval> intervals);

}  // namespace kiln

#endif  // KILN_EXEC_MEMORY_PART_H_
