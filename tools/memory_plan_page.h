// SPDX-License-Identifier: Apache-2.0
// A memory plan as a page to look at: time from left to right, bytes of the arena upwards, a
// rectangle for each interval.
//
// The page is one HTML file that loads nothing. It is light or dark as the reader's system is. An
// interval's name, bytes and life show where the pointer is, and for the one that the arrow keys
// move to; a table below has them all. Names come from models: they are escaped, and control
// characters are written as \xHH.
#ifndef KILN_TOOLS_MEMORY_PLAN_PAGE_H_
#define KILN_TOOLS_MEMORY_PLAN_PAGE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace kiln {

struct PlannedInterval {
  std::string name;
  int64_t lower = 0, upper = 0;  // lives in the steps [lower, upper), lower < upper
  int64_t offset = 0, size = 0;  // bytes
};

struct MemoryPlanPage {
  std::string title;
  std::vector<PlannedInterval> intervals = {};
  std::vector<std::string> steps = {};  // names of the steps 0, 1, ...; may be fewer than there are
  int64_t peak = 0, lower_bound = 0, sum = 0;
};

// The figures and the picture alone, for pages that have more (html_report.h).
std::string MemoryPlanFigure(const MemoryPlanPage& page);

// The text of the file. At most 20000 intervals are drawn and listed, the largest; the page says so
// where there are more.
std::string MemoryPlanHtml(const MemoryPlanPage& page);

}  // namespace kiln

#endif  // KILN_TOOLS_MEMORY_PLAN_PAGE_H_
