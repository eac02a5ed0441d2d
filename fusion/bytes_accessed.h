// SPDX-License-Identifier: Apache-2.0
// BytesAccessed: bytes that pass between kernels and memory, the plainest measure of what fusion
// gains.
//
// Example: relu(x * y) over n floats. One by one: 2 reads and a write, then a read and a write, 20
// n bytes in two launches; as one kernel 12 n bytes in one, which is the lower bound: each input
// and output of the graph once.
#ifndef KILN_FUSION_BYTES_ACCESSED_H_
#define KILN_FUSION_BYTES_ACCESSED_H_

#include <cstdint>
#include <vector>

#include "fusion/group.h"
#include "graph/graph.h"

namespace kiln {

// Bytes; a value is counted once however often a group reads it, unknown extents count as 32, and
// a view is the value whose memory it is.
struct GroupBytesAccessed {
  int64_t in = 0, out = 0;
  int64_t unfused = 0;  // in and out of its nodes, each run alone
};

struct BytesAccessed {
  std::vector<GroupBytesAccessed> groups;  // of Grouping::groups; nothing for views and host groups
  int launches = 0;                        // kernels and library operators
  int64_t walked = 0;                      // in and out of all groups
  int64_t unfused = 0;
  int64_t lower_bound = 0;  // inputs, constants that groups read, and outputs of the graph, once
};

// A pure function; the grouping is one of this graph.
BytesAccessed BytesAccessedOf(const Graph& graph, const Grouping& grouping);

}  // namespace kiln

#endif  // KILN_FUSION_BYTES_ACCESSED_H_
