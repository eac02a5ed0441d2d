// SPDX-License-Identifier: Apache-2.0
// FormGroups: which nodes of a graph become one kernel, one library call, one view.
//
// Clusters of nodes are merged (merge.h) as long as a merge is legal and pays; what is left is
// listed in an order in which it can run.
#ifndef KILN_FUSION_FORM_GROUPS_H_
#define KILN_FUSION_FORM_GROUPS_H_

#include "absl/status/statusor.h"
#include "fusion/group.h"
#include "fusion/legality.h"
#include "graph/graph.h"

namespace kiln {

// A pure function of graph and options. The graph is verified and has no composite nodes (pass
// expand_composites). kInvalidArgument names an entry of `alone` or `forced` that no node has.
absl::StatusOr<Grouping> FormGroups(const Graph& graph, const GroupOptions& options);
// The same with what is known from graphs before, for the same options.
absl::StatusOr<Grouping> FormGroups(const Graph& graph, const GroupOptions& options,
                                    KnownVerdicts& known);

}  // namespace kiln

#endif  // KILN_FUSION_FORM_GROUPS_H_
