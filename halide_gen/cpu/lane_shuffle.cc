// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/lane_shuffle.h"

#include <map>
#include <numeric>

namespace kiln {

using Halide::Expr;
using Halide::Internal::Shuffle;

Expr PickLanes(const std::vector<Expr>& vectors, const std::vector<PickedLane>& lanes) {
  std::map<size_t, int> starts;  // by vector
  std::vector<Expr> used;
  std::vector<int> indices;
  int elements = 0;
  for (const PickedLane& lane : lanes) {
    const auto [start, is_new] = starts.emplace(lane.vector, elements);
    if (is_new) {
      used.push_back(vectors[lane.vector]);
      elements += used.back().type().lanes();
    }
    indices.push_back(start->second + lane.element);
  }
  std::vector<int> in_order(static_cast<size_t>(elements));
  std::iota(in_order.begin(), in_order.end(), 0);
  return used.size() == 1 && indices == in_order ? used[0] : Shuffle::make(used, indices);
}

}  // namespace kiln
