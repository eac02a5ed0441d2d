// SPDX-License-Identifier: Apache-2.0
// Gradients of moves that are shorter than the transpose of each output's IndexMap.
#include <utility>

#include "graph/gradient/nodes.h"
#include "graph/gradient/rules.h"
#include "graph/op.h"

namespace kiln::gradient {

// The cotangents one after the other, in place of a sum of padded ones.
absl::StatusOr<Ids> Split(GraphBuilder& b, const Node& node, std::span<const ValueId> g) {
  Nodes m(b);
  Ids parts;
  for (size_t k = 0; k < g.size(); ++k)
    parts.push_back(g[k].valid() ? g[k] : m.ZerosLike(node.outputs[k]));
  return m.Give({m.Op("concat", std::move(parts), {{"axis", IntAttr(node, "axis")}})});
}

}  // namespace kiln::gradient
