// SPDX-License-Identifier: Apache-2.0
// The parser of text graphs with sizes in place of symbols; ParseGraph (text.h) is made of it.
#ifndef KILN_GRAPH_PARSE_SIZED_H_
#define KILN_GRAPH_PARSE_SIZED_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "graph/graph.h"
#include "kiln/dim.h"

namespace kiln {

struct ParseSizes {
  std::map<std::string, Dim> symbols = {};  // what is written for these, everywhere
  // The inputs' shapes, in their order; empty: as they are written.
  std::vector<Shape> inputs = {};
  // The inputs keep their symbols, and guards say what these are.
  bool under_guards = false;
};

struct ParsedGraph {
  absl::Status status;
  Graph graph;               // as far as it was read
  bool rule_failed = false;  // of an error: the rule of a node says it, and not the text
};

ParsedGraph ParseSized(absl::string_view text, const ParseSizes& sizes);

}  // namespace kiln

#endif  // KILN_GRAPH_PARSE_SIZED_H_
