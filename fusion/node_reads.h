// SPDX-License-Identifier: Apache-2.0
// How one element of a node's output depends on elements of its inputs: the form that lowering and
// grouping work on.
//
// Scalar, reduce and index nodes all become a list of reads. Each axis of a read value has extent
// 1, runs with an axis of the output, is reduced, or is found by index arithmetic. Example, concat
// of x [n] and y [m]: reads {x: same axis with no offset but another extent, so affine(0, 1, 0)},
// {y: affine(0, 1, -n)}, pieces {0: o < n}, {1: n <= o}.
#ifndef KILN_FUSION_NODE_READS_H_
#define KILN_FUSION_NODE_READS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "kiln/dim.h"

namespace kiln {

struct ReadAxis {
  enum class Kind : uint8_t {
    kOne,      // the axis has extent 1 and is not reduced
    kSame,     // o[out_axis], over the whole axis
    kReduced,  // all elements
    kAffine,   // floor((coef * o[out_axis] + offset) / div); out_axis -1: offset alone
    kLoaded,   // an element of read `load`
  };
  Kind kind = Kind::kOne;
  int out_axis = -1;
  int64_t coef = 1;
  Dim offset = 0;
  int64_t div = 1;
  int load = -1;
};

struct NodeRead {
  ValueId value;  // invalid: an absent optional input
  std::vector<ReadAxis> axes;
  // True if every element is found without index arithmetic: the value runs with the output.
  bool Runs() const;
};

// The shape over which the elements of `value` are computed, whose axes `out_axis` counts: its own,
// or that of its updates if it is of a scatter node.
const Shape& LoopShape(const Graph& graph, ValueId value);

struct NodeReads {
  // Scalar, reduce: one per input. Scatter: the updates, then each coordinate of a place.
  std::vector<NodeRead> reads;
  struct Piece {
    int read;
    std::vector<IndexPiece::Bound> bounds;  // those that do not always hold
  };
  std::vector<Piece> pieces;  // index nodes: the first whose bounds hold, else `fill`
  uint64_t fill = 0;          // as IndexMap has it
};

// The reads of the producer of `value`, a scalar, reduce, index or scatter node. kUnimplemented if
// an index is not affine.
absl::StatusOr<NodeReads> ReadsOf(const Graph& graph, ValueId value);

// If `value` is a view, the value whose memory it is; else nothing.
std::optional<ValueId> ViewSource(const Graph& graph, ValueId value);

// The position of `value` among its producer's outputs.
int OutputIndex(const Graph& graph, ValueId value);

}  // namespace kiln

#endif  // KILN_FUSION_NODE_READS_H_
