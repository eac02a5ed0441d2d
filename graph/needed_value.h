// SPDX-License-Identifier: Apache-2.0
// The error of what can be compiled only when the elements of a value are known, such as the axes
// of a reduction that come as an input. Who has them, as a caller with inputs at hand does, tries
// again with the value as a constant.
#ifndef KILN_GRAPH_NEEDED_VALUE_H_
#define KILN_GRAPH_NEEDED_VALUE_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "graph/graph.h"

namespace kiln {

absl::Status NeedsValue(const Value& value);  // kUnimplemented

// The name of the value, from such an error or one that Annotate made of it; else nothing.
std::optional<std::string> NeededValue(const absl::Status& status);

}  // namespace kiln

#endif  // KILN_GRAPH_NEEDED_VALUE_H_
