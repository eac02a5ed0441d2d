// SPDX-License-Identifier: Apache-2.0
// The two products of a convolution y = conv(x, w) that its gradient is made of, for any number of
// spatial axes; conv_transpose uses them, too. And what windows see, for pools.
#ifndef KILN_GRAPH_GRADIENT_CONVOLVE_H_
#define KILN_GRAPH_GRADIENT_CONVOLVE_H_

#include "absl/status/statusor.h"
#include "graph/gradient/nodes.h"
#include "graph/ops/window.h"

namespace kiln::gradient {

struct Convolution {
  ops::Window window;
  int64_t group = 1;
};

// The attributes of conv that say it.
Attrs AttrsOf(const Convolution& c);

// What x, of shape `in`, takes from the cotangent g of y: w [M, C / group, ...] transposed.
ValueId OfConvolved(Nodes& m, const Convolution& c, ValueId g, ValueId w, const Shape& in);

// What w takes.
ValueId OfWeight(Nodes& m, const Convolution& c, ValueId g, ValueId x);

// Of x [N, C, ...] what tap `at` of the window sees at all places of an output of the spatial
// extents `out` behind its first two: [N, C, out...]; `fill` in the padding.
ValueId UnderTap(Nodes& m, const ops::Window& window, ValueId x, const Ints& at, const Shape& out,
                 double fill = 0);

}  // namespace kiln::gradient

#endif  // KILN_GRAPH_GRADIENT_CONVOLVE_H_
