// SPDX-License-Identifier: Apache-2.0
// Windows that slide over the axes of [batch, channels, spatial...]: what convolutions and pools
// have in common.
#ifndef KILN_GRAPH_OPS_WINDOW_H_
#define KILN_GRAPH_OPS_WINDOW_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/op.h"

namespace kiln::ops {

// One entry for each spatial axis. Offset k of the window at output place o reads input place
// o * stride + k * dilation - before.
struct Window {
  std::vector<int64_t> kernel, stride, dilation, before, after;
  size_t rank() const { return kernel.size(); }
};

// From the attributes strides, pads (all beginnings, then all ends) and dilations; absent ones are
// 1, 0 and 1.
absl::StatusOr<Window> WindowOf(const Node& node, std::vector<int64_t> kernel);

// Calls f(kernel place (flat), input place (flat)) for all offsets of the window at output place
// `o` that lie in the input. `in` are the input's spatial extents.
template <typename F>
void ForEachTap(const Window& w, const std::vector<int64_t>& in, const std::vector<int64_t>& o,
                F&& f) {
  const auto visit = [&](auto&& self, size_t axis, int64_t kernel_flat,
                         int64_t input_flat) -> void {
    if (axis == w.rank()) return f(kernel_flat, input_flat);
    const int64_t begin = o[axis] * w.stride[axis] - w.before[axis], step = w.dilation[axis];
    const int64_t first = begin < 0 ? (step - 1 - begin) / step : 0;
    for (int64_t k = first; k < w.kernel[axis] && begin + k * step < in[axis]; ++k)
      self(self, axis + 1, kernel_flat * w.kernel[axis] + k,
           input_flat * in[axis] + begin + k * step);
  };
  visit(visit, 0, 0, 0);
}

// Taps of the window at output place `at` that lie in the padded input, which is what divides the
// sum of a pool when padding counts.
int64_t PaddedTaps(const Window& w, const std::vector<int64_t>& in, const std::vector<int64_t>& at);

// The spatial extents of what a convolution of x [N, C, ...] gives.
Shape ConvPlaces(const Window& w, const Shape& x);
// Those of a pool. `up`: a last window that the end cuts off counts too, unless it begins in the
// padding behind x.
Shape PoolPlaces(const Window& w, const Shape& x, bool up);

// The next coordinate tuple below `extents`, row-major; false after the last.
bool Next(std::vector<int64_t>& at, const std::vector<int64_t>& extents);

// The product of `extents`.
int64_t Count(const std::vector<int64_t>& extents);

}  // namespace kiln::ops

#endif  // KILN_GRAPH_OPS_WINDOW_H_
