// SPDX-License-Identifier: Apache-2.0
// A picture of the groups of a model: a box for each, below those whose values it takes, with a
// line for each value that passes through memory.
#ifndef KILN_TOOLS_REPORT_GRAPH_H_
#define KILN_TOOLS_REPORT_GRAPH_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace kiln {

struct GroupBox {
  std::string kind;                // kernel, library, view, host: decides the colour
  std::vector<std::string> nodes;  // a line each; the first six are shown, all in the title
  std::string costs;               // last line
};

struct GroupPicture {
  std::vector<GroupBox> boxes;                   // in an order in which they can run
  std::vector<std::pair<size_t, size_t>> edges;  // from an earlier box to a later one
};

// An SVG element. Names are escaped (html.h).
std::string GroupSvg(const GroupPicture& picture);

}  // namespace kiln

#endif  // KILN_TOOLS_REPORT_GRAPH_H_
