// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/nodes.h"

#include <numeric>
#include <utility>
#include <vector>

namespace kiln::ops {

ValueId To(GraphBuilder& b, ValueId x, DType type) {
  if (!b.status().ok() || !x.valid() || b.value(x).type == type) return x;
  return b.Op("cast", {x}, {{"to", type}});
}

ValueId OverChannels(GraphBuilder& b, ValueId v, size_t rank) {
  if (rank <= 2) return v;
  std::vector<int64_t> axes(rank - 2);
  std::iota(axes.begin(), axes.end(), 1);
  return b.Op("unsqueeze", {v}, {{"axes", std::move(axes)}});
}

}  // namespace kiln::ops
