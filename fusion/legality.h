// SPDX-License-Identifier: Apache-2.0
// Legality: may a set of nodes be one kernel, and what does it cost?
//
// Yes, if the set lowers to a Kernel and a template made for its shape accepts that. The template
// of last resort (schedule/cpu/staged.h) accepts every Kernel but runs each stage as a loop of its
// own, which saves nothing; its yes counts only where that is as good (one reduction with what
// leads to it and what follows on its result, or a kernel without rows). Answers are remembered by
// the structure of the set, so that the layers of a network are lowered once, and once for all
// graphs that are grouped in turn (recompute.h).
#ifndef KILN_FUSION_LEGALITY_H_
#define KILN_FUSION_LEGALITY_H_

#include <string>
#include <unordered_map>
#include <vector>

#include "base/decision.h"
#include "fusion/group.h"
#include "fusion/lower.h"
#include "fusion/node_analysis.h"
#include "graph/graph.h"
#include "schedule/machine.h"
#include "schedule/price.h"

namespace kiln {

struct Verdict {
  Decision legal = Decision::Yes();
  Price price;  // with the extents that the graph knows; unknown ones count as 32
};

// By structure: all that the answer depends on but the machine.
using KnownVerdicts = std::unordered_map<std::string, Verdict>;

class Legality {
 public:
  // `known`: of this machine; answers are added.
  Legality(const Graph& graph, const GraphAnalysis& analysis, const Machine& machine,
           KnownVerdicts& known)
      : graph_(graph), analysis_(analysis), machine_(machine), known_(known) {}

  // Whether `group` (ascending nodes, outputs) may be one kernel, and its price if it lowers to
  // one. Thread-compatible.
  const Verdict& Check(const Group& group);

 private:
  std::string Structure(const Group& group) const;

  const Graph& graph_;
  const GraphAnalysis& analysis_;
  const Machine& machine_;
  KnownVerdicts& known_;
};

// The price of a lowered kernel, unknown extents counted as 32.
Price EstimatedPrice(const LoweredGroup& lowered, const Machine& machine);

}  // namespace kiln

#endif  // KILN_FUSION_LEGALITY_H_
