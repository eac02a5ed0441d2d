// SPDX-License-Identifier: Apache-2.0
// More records, as in ops.h: those that find, order and write elements as data say, and shifts.
#ifndef KILN_GRAPH_OPS_DATA_OPS_H_
#define KILN_GRAPH_OPS_DATA_OPS_H_

#include "graph/op.h"

namespace kiln::ops {

// indexing.cc
extern const OpDef kIota, kGatherElements, kTake;
// order.cc
extern const OpDef kTopK, kCumulative, kScatterElements, kScatterNd;
// lookup.cc
extern const OpDef kLookup;
// logic.cc
extern const OpDef kShiftLeft, kShiftRight;

}  // namespace kiln::ops

#endif  // KILN_GRAPH_OPS_DATA_OPS_H_
