// SPDX-License-Identifier: Apache-2.0
// The error of what can be compiled only when the extents of the inputs are numbers, such as an
// extent that is too long an expression of theirs. Who has them tries again with these numbers.
#ifndef KILN_GRAPH_OPEN_EXTENTS_H_
#define KILN_GRAPH_OPEN_EXTENTS_H_

#include <string>

#include "absl/status/status.h"

namespace kiln {

absl::Status OpenExtentsError(std::string message);  // kUnimplemented

// Whether it is such an error, or one that Annotate made of it.
bool IsOfOpenExtents(const absl::Status& status);

}  // namespace kiln

#endif  // KILN_GRAPH_OPEN_EXTENTS_H_
