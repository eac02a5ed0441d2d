// SPDX-License-Identifier: Apache-2.0
// LoweredGroups: lowers the groups of one graph (fusion/lower.h). Of operators that are groups by
// themselves, as all are without optimisation, those that are alike are lowered once.
#ifndef KILN_COMPILER_LOWERED_GROUPS_H_
#define KILN_COMPILER_LOWERED_GROUPS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "fusion/group.h"
#include "fusion/lower.h"
#include "graph/graph.h"

namespace kiln {

class LoweredGroups {
 public:
  explicit LoweredGroups(const Graph& graph) : graph_(graph) {}

  // LowerGroup of it.
  absl::StatusOr<LoweredGroup> Lower(const Group& group);

 private:
  struct Kept {
    LoweredGroup lowered;
    std::vector<ValueId> values;  // of its node: inputs, then outputs
  };
  // Operator, attributes, and types, extents and equality of operands. Empty: more decides, such as
  // elements of a constant or symbols.
  std::string KeyOf(const Group& group) const;

  const Graph& graph_;
  std::map<std::string, Kept> kept_;
};

}  // namespace kiln

#endif  // KILN_COMPILER_LOWERED_GROUPS_H_
