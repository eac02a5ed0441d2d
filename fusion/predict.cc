// SPDX-License-Identifier: Apache-2.0
#include "fusion/predict.h"

#include <algorithm>

#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "fusion/bytes_accessed.h"
#include "fusion/legality.h"
#include "fusion/lower.h"
#include "fusion/node_analysis.h"
#include "graph/op.h"

namespace kiln {
namespace {

// Multiplications and additions of a library operator; 0 where they do not count.
double Flops(const Graph& graph, const Node& node) {
  const absl::string_view op = node.op->name;
  const auto elements = [&](ValueId value) {
    return static_cast<double>(EstimatedElements(graph.value(value).shape));
  };
  const double results = elements(node.outputs[0]);
  if (op == "matmul" || op == "matmul_integer") {
    const Shape& a = graph.value(node.inputs[0]).shape;
    const bool transposed = op == "matmul" && a.size() > 1 && IntAttr(node, "trans_a") != 0;
    const Dim& terms = transposed ? a[a.size() - 2] : a.back();
    return 2 * results * static_cast<double>(EstimatedElements({terms}));
  }
  if (op == "conv_backward_weights") {  // each element of the cotangent meets one filter
    const Dim& filters = graph.value(node.outputs[0]).shape[0];
    return 2 * elements(node.inputs[1]) * results /
           std::max(1.0, static_cast<double>(EstimatedElements({filters})));
  }
  const bool quantised = op == "qlinear_conv";
  if (op != "conv" && op != "conv_integer" && op != "conv_transpose" && !quantised) return 0;
  const ValueId weight = node.inputs[quantised ? 3 : 1];
  const Shape& weights = graph.value(weight).shape;
  const bool transposed = op == "conv_transpose";
  // Each result of a convolution, or each element that a transposed one scatters, meets one filter.
  const double places = transposed ? elements(node.inputs[0]) : results;
  return 2 * places * elements(weight) /
         std::max(1.0, static_cast<double>(EstimatedElements({weights[0]})));
}

}  // namespace

absl::StatusOr<std::vector<double>> PredictNs(const Graph& graph, const Grouping& grouping,
                                              const Machine& machine) {
  const BytesAccessed traffic = BytesAccessedOf(graph, grouping);
  std::vector<double> predicted;
  for (size_t i = 0; i < grouping.groups.size(); ++i) {
    const Group& group = grouping.groups[i];
    double ns = 0;
    if (group.kind == Group::Kind::kKernel) {
      KILN_ASSIGN_OR_RETURN(const LoweredGroup lowered, LowerGroup(graph, group));
      const Price price = EstimatedPrice(lowered, machine);
      ns = price.ns + price.idle_ns;
    } else if (group.kind == Group::Kind::kLibrary) {
      const GroupBytesAccessed& bytes = traffic.groups[i];
      const double flops = Flops(graph, graph.node(group.call->op));
      const auto walked = static_cast<double>(bytes.in + bytes.out);
      ns = TimeOf(walked, walked, flops / machine.gflops, machine);
    }
    predicted.push_back(ns);
  }
  return predicted;
}

}  // namespace kiln
