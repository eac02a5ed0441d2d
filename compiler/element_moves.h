// SPDX-License-Identifier: Apache-2.0
// Kernels that only move elements, and need not run: what they write can lie where it is read from,
// or be read where it was written.
//
//   rows       x [35, 1, 2048] -> gather row 3 -> [1, 2048]    a view of bytes [24576, 32768) of x
//   concat     of h0, h1, h2 along the first axis              each h is written into its part
//
// The executor has the last word (exec/placement.h): where such a view or such parts would need
// more memory, or where a part lies elsewhere for another reason, it copies.
#ifndef KILN_COMPILER_ELEMENT_MOVES_H_
#define KILN_COMPILER_ELEMENT_MOVES_H_

#include <cstddef>
#include <map>
#include <set>
#include <vector>

#include "fusion/group.h"
#include "fusion/strided_view.h"
#include "graph/graph.h"

namespace kiln {

class ElementMoves {
 public:
  ElementMoves(const Graph& graph, const Grouping& grouping);

  // The value whose memory `id` is, through views of all of a value.
  ValueId ThroughViews(ValueId id) const;
  // Whether a kernel, a library operator or parts of a concat write the value.
  bool IsWritten(ValueId id) const { return written_.count(id) != 0; }

  // If the group's outputs are dense parts of values outside it: a view of one node up for each
  // output, in the order of the nodes. Else empty.
  const std::vector<StridedView>& RowsOf(const Group& group) const;
  // Whether the group is a concat of parts that lie one after the other, each written by a launch,
  // and most of them in their places: the rest is copied.
  bool IsConcatOfParts(const Group& group) const { return concats_.count(&group) != 0; }

 private:
  void FindRows(const Group& group);
  void FindConcat(const Group& group);

  const Graph& graph_;
  std::map<ValueId, ValueId> view_of_;
  std::set<ValueId> written_;
  std::set<ValueId> of_outputs_;  // what outputs of the graph are, through views
  std::set<ValueId> parts_;       // of concats
  std::map<const Group*, std::vector<StridedView>> rows_;
  std::set<const Group*> concats_;
};

}  // namespace kiln

#endif  // KILN_COMPILER_ELEMENT_MOVES_H_
