// SPDX-License-Identifier: Apache-2.0
#include "kiln/graph/onnx/converter.h"

#include <algorithm>

namespace kiln::onnx {
namespace {

bool Before(const Converter* a, const Converter* b) {
  const int order = absl::string_view(a->op).compare(b->op);
  return order != 0 ? order < 0 : a->since < b->since;
}

std::vector<const Converter*> Sorted() {
  std::vector<const Converter*> all;
  for (const auto rows : {ElementwiseConverters(), ReduceConverters(), ShapeConverters(), NeuralConverters()}) {
    for (const Converter& row : rows) all.push_back(&row);
  }
  std::sort(all.begin(), all.end(), Before);
  return all;
}

}  // namespace

const std::vector<const Converter*>& AllConverters() {
  static const auto* const all = new std::vector<const Converter*>(Sorted());
  return *all;
}

const Converter* FindConverter(absl::string_view op, int64_t opset) {
  const auto& all = AllConverters();
  // The first row behind all rows of this operator that are not newer than `opset`.
  const auto behind = std::partition_point(all.begin(), all.end(), [&](const Converter* row) {
    const int order = absl::string_view(row->op).compare(op);
    return order != 0 ? order < 0 : row->since <= opset;
  });
  if (behind == all.begin()) return nullptr;
  const Converter* row = *(behind - 1);
  return row->op == op ? row : nullptr;
}

}  // namespace kiln::onnx
