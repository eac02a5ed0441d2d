// SPDX-License-Identifier: Apache-2.0
// Legality: may a set of nodes be one kernel, and what does it cost?
//
// Yes, if the set lowers to a Kernel and a template made for its shape accepts that. The template
// of last resort (schedule/cpu/staged.h) accepts every Kernel but runs each stage as a loop of its
// own, which saves nothing; its yes counts only where that is as good (one reduction with what
// leads to it and what follows on its result, or a kernel without rows).
//
// Answers are remembered for all graphs that are grouped in turn (recompute.h), by structure:
// operators, who reads whom, and which extents and offsets are equal. Where nodes read along their
// own dims, at most offset by numbers, and no view cuts an extent in two, the kernel follows from
// the structure alone: layers that differ in extents, or in where a flat tensor has their
// parameters, are lowered once, and each size is priced once.
#ifndef KILN_FUSION_LEGALITY_H_
#define KILN_FUSION_LEGALITY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/decision.h"
#include "fusion/group.h"
#include "fusion/lower.h"
#include "fusion/node_analysis.h"
#include "graph/graph.h"
#include "kernel/kernel.h"
#include "schedule/machine.h"
#include "schedule/price.h"

namespace kiln {

struct Verdict {
  Decision legal = Decision::Yes();
  Price price;  // with the extents that the graph knows; unknown ones count as 32
};

// What groups of one structure are.
struct GroupForm {
  bool needs_extents = false;  // the rest is unknown: another kernel for other extents
  Decision legal = Decision::Yes();
  std::optional<Kernel> kernel = {};           // none: they do not lower
  std::vector<std::vector<size_t>> dims = {};  // of each dim: extents whose product it is
  std::map<std::vector<int64_t>, Verdict> verdicts = {};  // by extents
};

// All that answers depend on but the machine. A value.
struct KnownVerdicts {
  std::unordered_map<std::string, GroupForm> forms;  // by structure
  int64_t lowered = 0;                               // groups, so far
};

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
  // A group, and the numbers that it is without.
  struct Structure {
    std::string key;
    std::vector<int64_t> extents;  // and offsets: each once, in the order in which the key has them
    bool decides_the_kernel = true;  // whatever these are
  };
  class StructureWriter;
  absl::StatusOr<LoweredGroup> Lowered(const Group& group);
  GroupForm FormOf(const Group& group, const Structure& structure);
  Verdict VerdictOf(const Group& group);

  const Graph& graph_;
  const GraphAnalysis& analysis_;
  const Machine& machine_;
  KnownVerdicts& known_;
};

// The price of a lowered kernel, unknown extents counted as 32.
Price EstimatedPrice(const LoweredGroup& lowered, const Machine& machine);

}  // namespace kiln

#endif  // KILN_FUSION_LEGALITY_H_
