// SPDX-License-Identifier: Apache-2.0
// The sum of cotangents of one value, in the order in which they are found. The parts of a value
// that was cut up (the gates of a recurrent cell, its steps of time, heads, groups of channels) are
// each zero but for a range of one axis: where they fill the axis their sum is a concat.
//
//   y1 = x[:, 0:2], y2 = x[:, 2:5]: pad(g1) + pad(g2) = concat(g1, g2)
//
// The same bits as the sums, but that -0 + 0 is 0. Example:
//   SumOfParts sum;
//   sum.Add(nodes, g);       // any number of times
//   sum.Value(nodes)         // their sum
#ifndef KILN_GRAPH_GRADIENT_SUM_OF_PARTS_H_
#define KILN_GRAPH_GRADIENT_SUM_OF_PARTS_H_

#include "graph/gradient/nodes.h"

namespace kiln::gradient {

class SumOfParts {
 public:
  void Add(Nodes& m, ValueId part);
  // Invalid where nothing was added.
  ValueId Value(Nodes& m);

 private:
  void AddParts(Nodes& m);

  ValueId sum_;
  Ids parts_;  // padded ones, not in `sum_` yet
};

}  // namespace kiln::gradient

#endif  // KILN_GRAPH_GRADIENT_SUM_OF_PARTS_H_
