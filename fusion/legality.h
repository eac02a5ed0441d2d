// SPDX-License-Identifier: Apache-2.0
// Legality: may a set of nodes be one kernel?
//
// Yes, if the set lowers to a Kernel and a scheduler made for its shape accepts that. The scheduler
// of last resort accepts every Kernel but runs each stage as a loop of its own, which saves
// nothing; its yes counts only where that is as good (one reduction with what leads to it and what
// follows on its result, or a kernel without rows). Answers are remembered by the structure of the
// set, so that the layers of a network are lowered once.
#ifndef KILN_FUSION_LEGALITY_H_
#define KILN_FUSION_LEGALITY_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "kiln/base/decision.h"
#include "kiln/fusion/group.h"
#include "kiln/fusion/node_facts.h"
#include "kiln/graph/graph.h"

namespace kiln {

inline constexpr size_t kMaxBuffers = 16;  // inputs and outputs of a kernel

class Legality {
 public:
  Legality(const Graph& graph, const GraphFacts& facts) : graph_(graph), facts_(facts) {}

  // Whether `group` (ascending nodes, outputs) may be one kernel. Thread-compatible.
  Decision Check(const Group& group);

 private:
  std::string Structure(const Group& group) const;

  const Graph& graph_;
  const GraphFacts& facts_;
  absl::flat_hash_map<std::string, Decision> known_;
};

}  // namespace kiln

#endif  // KILN_FUSION_LEGALITY_H_
