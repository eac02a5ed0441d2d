// SPDX-License-Identifier: Apache-2.0
// Library nodes become kernels, where no library of the device computes them and their records say
// which. What has none stays a library node, which runs on the host; as all do where the products
// of a sum would go through memory.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "fusion/device_call.h"
#include "fusion/pass.h"
#include "fusion/rewrite.h"
#include "graph/graph.h"
#include "graph/op.h"

namespace kiln {

absl::StatusOr<bool> ExpandLibrary(Graph& graph, const PassContext& context) {
  if (!context.fuses_reductions) return false;
  std::vector<NodeId> nodes;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (node.op->by_kernels != nullptr && !IsDeviceCall(graph, node, context.library))
      nodes.push_back(NodeId{static_cast<int32_t>(i)});
  }
  bool changed = false;
  for (const NodeId id : nodes) {
    const std::string name = graph.node(id).name;
    const absl::Status status = Expand(graph, id, graph.node(id).op->by_kernels);
    if (absl::IsUnimplemented(status)) continue;
    if (!status.ok()) return Annotate(status, absl::StrCat("node \"", name, "\""));
    changed = true;
  }
  return Finished(graph, changed);
}

}  // namespace kiln
