// SPDX-License-Identifier: Apache-2.0
// The attributes of a convolution as the record `conv` has them.
#ifndef KILN_GRAPH_ONNX_CONV_ATTRS_H_
#define KILN_GRAPH_ONNX_CONV_ATTRS_H_

#include "absl/status/statusor.h"
#include "graph/onnx/node_view.h"

namespace kiln::onnx {

// Of a node with the data as input 0 and the weight as input `weight`.
absl::StatusOr<Attrs> ConvAttrs(NodeView& n, int weight);

}  // namespace kiln::onnx

#endif  // KILN_GRAPH_ONNX_CONV_ATTRS_H_
