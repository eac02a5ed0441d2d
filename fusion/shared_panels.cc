// SPDX-License-Identifier: Apache-2.0
// A matrix that changes and that several products of few rows read is packed once for all of them:
// the weights of a recurrent network in training, of which every step of time, forward and back,
// is a product.
//
// Example: y1 = x1 * w, y2 = x2 * w, y3 = x3 * w, with w [512, 2048], become
//   panels [64, 512, 32] = transpose(reshape(w, [512, 64, 32]))           one kernel
//   y1 = reshape(transpose(x1 * panels))                                  a stack of 64 products
// A library reads its matrix in panels of columns; given another order, it copies the matrix in
// each call, which for few rows takes half as long as the product. Sums of a result are as before:
// over the same terms, in the library's order. Constant matrices are packed when a model is loaded.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "fusion/library_call.h"
#include "fusion/pass.h"
#include "fusion/rewrite.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "kiln/graph.h"

namespace kiln {
namespace {

// Columns of a panel: two registers of AVX-512, four of AVX2, as exec/library/gemm_block.h has it.
constexpr int64_t kPanelColumns = 32;  // speed
// With more rows the copy is little beside the product; one is a product with a vector.
constexpr int64_t kLeastRows = 2, kMostRows = 64;  // speed
// Results lie as panels and are read in another order, never in place: they are a part of the
// matrix at most.
constexpr int64_t kLeastTermsOfRow = 4;  // speed

int64_t Number(const Dim& dim) { return dim.constant().value_or(0); }

// A product of rows and a matrix of numbers' extents that panels divide, which is no constant.
bool TakesPanels(const Graph& graph, const Node& node) {
  if (!Is(node, "matmul") || IntAttr(node, "trans_a") != 0) return false;
  const Value &x = graph.value(node.inputs[0]), &w = graph.value(node.inputs[1]);
  if (w.constant || w.type != DType::kF32 || x.shape.size() != 2 || w.shape.size() != 2)
    return false;
  const int64_t rows = Number(x.shape[0]);
  const bool transposed = IntAttr(node, "trans_b") != 0;
  const int64_t columns = Number(w.shape[transposed ? 0 : 1]);
  return kLeastRows <= rows && rows <= kMostRows && columns > kPanelColumns &&
         columns % kPanelColumns == 0 &&
         kLeastTermsOfRow * rows <= Number(w.shape[transposed ? 1 : 0]);
}

// [k, n], or [n, k] where it is `transposed`, as [n / 32, k, 32].
ValueId Panels(GraphBuilder& b, ValueId w, const Shape& shape, bool transposed) {
  const int64_t columns = Number(shape[transposed ? 0 : 1]);
  const Dim panels(columns / kPanelColumns), terms = shape[transposed ? 1 : 0];
  const Shape cut = transposed ? Shape{panels, Dim(kPanelColumns), terms}
                               : Shape{terms, panels, Dim(kPanelColumns)};
  const std::vector<int64_t> perm =
      transposed ? std::vector<int64_t>{0, 2, 1} : std::vector<int64_t>{1, 0, 2};
  return b.Op("transpose", {b.Op("reshape", {w}, {{"shape", DimsValue(cut)}})}, {{"perm", perm}});
}

}  // namespace

absl::StatusOr<bool> SharedPanels(Graph& graph, const PassContext&) {
  std::map<std::pair<ValueId, bool>, std::vector<NodeId>> alike;  // by matrix and how it lies
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (TakesPanels(graph, node)) {
      alike[{node.inputs[1], IntAttr(node, "trans_b") != 0}].push_back(
          NodeId{static_cast<int32_t>(i)});
    }
  }
  GraphBuilder b(&graph);
  bool changed = false;
  for (const auto& [matrix, products] : alike) {
    if (products.size() < kLeastSharers) continue;
    const ValueId panels =
        Panels(b, matrix.first, Shape(graph.value(matrix.first).shape), matrix.second);
    for (const NodeId id : products) {
      const Node node = graph.node(id);  // a copy: nodes are added
      const Shape shape = graph.value(node.outputs[0]).shape;
      const ValueId stack = b.Op("matmul", {node.inputs[0], panels}, {}, node.name);
      const ValueId rows =
          b.Op("transpose", {stack}, {{"perm", std::vector<int64_t>{1, 0, 2}}}, node.name);
      const ValueId y = b.Op("reshape", {rows}, {{"shape", DimsValue(shape)}}, node.name);
      KILN_RETURN_IF_ERROR(b.status());
      graph.ReplaceUses(node.outputs[0], y);
    }
    changed = true;
  }
  return Finished(graph, changed);
}

}  // namespace kiln
