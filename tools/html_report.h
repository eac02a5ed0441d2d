// SPDX-License-Identifier: Apache-2.0
// What Kiln makes of a model and how it runs, as a page: its groups, the time of each launch, the
// arena, and its kernels with their schedules and prices. One HTML file that loads nothing;
// pictures are zoomed with the wheel, or + and -, and moved by dragging.
#ifndef KILN_TOOLS_HTML_REPORT_H_
#define KILN_TOOLS_HTML_REPORT_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kiln/model.h"
#include "tools/memory_plan_page.h"
#include "tools/report_graph.h"

namespace kiln {

struct ReportPage {
  struct Kernel {
    size_t group = 0;
    std::string nodes, schedule, text;
    double predicted_us = 0;
    std::optional<double> measured_us;
  };
  std::string title;
  std::vector<std::pair<std::string, std::string>> facts;  // what, and how much
  GroupPicture groups;
  std::vector<ThunkTime> launches;       // of one run, in order
  std::optional<MemoryPlanPage> memory;  // nothing: the model is several programs
  std::vector<Kernel> kernels;
};

// The text of the file.
std::string ReportHtml(const ReportPage& page);

}  // namespace kiln

#endif  // KILN_TOOLS_HTML_REPORT_H_
