// SPDX-License-Identifier: Apache-2.0
// LiveSet: the bytes that live at once while clusters of nodes run in an order, kept up to date as
// clusters move.
//
// A value lives from the place of the cluster that makes it to the place of its last reader. What
// the user gives and asks for is not counted: it is not ours to place, and neither are values that
// never leave their cluster.
//
// Example: places 0: a = f(x), 1: b = g(a), 2: c = h(a, b), all of 4 bytes: 4, 8 and 8 bytes live.
#ifndef KILN_FUSION_LIVE_SET_H_
#define KILN_FUSION_LIVE_SET_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "fusion/node_analysis.h"
#include "graph/graph.h"

namespace kiln {

class LiveSet {
 public:
  // The place at which a node runs.
  using PlaceOf = std::function<int(NodeId)>;

  // `asked` (by value): outputs of the graph. `analysis` must outlive the set.
  LiveSet(const GraphAnalysis& analysis, std::vector<bool> asked, int places,
          const PlaceOf& place_of);

  // What nodes of places [first, last] move to places in the same range does to the bytes there.
  // `nodes`: all nodes that run there.
  std::vector<int64_t> Moved(int first, int last, const std::vector<NodeId>& nodes,
                             const PlaceOf& before, const PlaceOf& after);
  // Places and readers that Moved has looked at so far: what it costs.
  int64_t steps() const { return steps_; }
  // True if the bytes in `moved`, from place `first` on, are more than the peak is now, and clearly
  // more than it was at first.
  bool RaisesPeak(int first, const std::vector<int64_t>& moved) const;
  void Set(int first, const std::vector<int64_t>& moved);

 private:
  // A value's readers, and what one of its nodes reads.
  struct Use {
    NodeId producer;
    int64_t bytes = 0;
    std::vector<NodeId> readers;
  };
  void Add(const Use& use, int first, int last, const PlaceOf& place_of, int sign,
           std::vector<int64_t>& change) const;

  std::vector<Use> uses_;
  std::vector<std::vector<int>> touched_;  // by node: uses that it makes or reads
  std::vector<int64_t> live_;              // by place
  int64_t allowed_ = 0;                    // a peak that nobody minds
  int64_t steps_ = 0;
};

}  // namespace kiln

#endif  // KILN_FUSION_LIVE_SET_H_
