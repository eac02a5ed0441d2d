// SPDX-License-Identifier: Apache-2.0
// Rewriting node by node: what passes of small rules are made of.
#ifndef KILN_FUSION_REWRITE_H_
#define KILN_FUSION_REWRITE_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "fusion/pass.h"
#include "graph/graph.h"
#include "kiln/graph.h"

namespace kiln {

// What a rule finds: the value that the node's only output may be replaced by, or nothing. A rule
// may add nodes that then nobody uses.
using Found = std::optional<ValueId>;
using Rule = Found (*)(Graph& graph, const Node& node, const PassContext& context);

// Applies the first rule that fits each node, again until none fits, and drops what is dead then.
// What has another type or shape than the node's output is not taken. Returns whether any was.
absl::StatusOr<bool> Rewrite(Graph& graph, std::span<const Rule> rules, const PassContext& context);

// Puts what `meaning` makes of a node into its place; the node is dead then. An error of `meaning`
// leaves the node, and maybe nodes that nobody uses.
absl::Status Expand(Graph& graph, NodeId id,
                    absl::StatusOr<std::vector<ValueId>> (*meaning)(GraphBuilder& b,
                                                                    const Node& node));

// What a pass that only adds nodes returns: sorts the graph and drops what is dead if it `changed`.
absl::StatusOr<bool> Finished(Graph& graph, bool changed);

// ---- For rules.
bool Is(const Node& node, absl::string_view op);
// The node that makes the value, or null.
const Node* Producer(const Graph& graph, ValueId value);
// True if one node reads `value`, once, and the user does not. O(size of the graph).
bool HasOneReader(const Graph& graph, ValueId value);
// A constant of the type and shape of `like` (itself a constant), with `number` in each place.
ValueId ConstantLike(Graph& graph, ValueId like, double number);
// A node of one output; nothing if it cannot be.
Found Made(Graph& graph, absl::string_view op, std::vector<ValueId> inputs, Attrs attrs,
           const std::string& name);

}  // namespace kiln

#endif  // KILN_FUSION_REWRITE_H_
