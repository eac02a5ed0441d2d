// SPDX-License-Identifier: Apache-2.0
#include "fusion/pass.h"

namespace kiln {

absl::StatusOr<bool> DeadCode(Graph& graph, const PassContext&) { return graph.RemoveDead(); }

}  // namespace kiln
