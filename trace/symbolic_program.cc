// SPDX-License-Identifier: Apache-2.0
#include "trace/symbolic_program.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "base/guard.h"
#include "trace/log_graph.h"

namespace kiln::tracing {
namespace {

bool SameButExtents(const Log& log, const LogValue& a, const LogValue& b) {
  if (a.kind != b.kind || a.type.type != b.type.type || a.type.rank != b.type.rank) return false;
  switch (a.kind) {
    case LogValue::Kind::kNumber:
      return !log.exact || a.bits == b.bits;
    case LogValue::Kind::kCaptured:
      return !log.constant_arrays || a.node == b.node;
    case LogValue::Kind::kConstant: {
      if (a.node == nullptr || b.node == nullptr) return a.node == b.node && a.bits == b.bits;
      const Tensor &x = a.node->tensor, &y = b.node->tensor;
      return x.shape() == y.shape() &&
             std::memcmp(x.data(), y.data(), static_cast<size_t>(x.size_bytes())) == 0;
    }
    default:
      return true;
  }
}

// What the extents of the log make of the symbols; nothing: an axis has another number.
std::optional<SymbolValues> ValuesOf(const Graph& graph, const std::vector<uint32_t>& operands,
                                     const Log& log) {
  SymbolValues values;
  for (size_t k = 0; k < operands.size(); ++k) {
    const Shape& shape = graph.value(graph.inputs()[k]).shape;
    const ValueType& type = log.values[operands[k]].type;
    if (type.type != graph.value(graph.inputs()[k]).type || type.rank != shape.size())
      return std::nullopt;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const int64_t extent = type.extents[axis];
      const std::optional<int64_t> number = shape[axis].constant();
      const int64_t expected =
          number ? *number : values.emplace(shape[axis].ToString(), extent).first->second;
      if (expected != extent) return std::nullopt;
    }
  }
  return values;
}

}  // namespace

bool SameButExtents(const Log& a, const Log& b, size_t begin, size_t end) {
  if (a.operations.size() < end || b.operations.size() < end) return false;
  for (size_t i = begin; i < end; ++i) {
    const Operation &x = a.operations[i], &y = b.operations[i];
    if (x.kind != y.kind || x.symbolic != y.symbolic || x.first_result != y.first_result)
      return false;
    const auto p = a.OperandsOf(x), q = b.OperandsOf(y);
    if (!std::equal(p.begin(), p.end(), q.begin(), q.end())) return false;
    for (const uint32_t id : p)
      if (id != kAbsent && !SameButExtents(a, a.values[id], b.values[id])) return false;
  }
  return true;
}

std::shared_ptr<SymbolicProgram> SymbolicProgram::Of(const Log& a, const Log& b, size_t begin,
                                                     size_t end,
                                                     const std::vector<uint32_t>& results) {
  auto made = std::make_shared<SymbolicProgram>();
  absl::StatusOr<Graph> graph =
      ToGraph(a, begin, end, results, Constants::kAll, made->operands_, &b);
  if (!graph.ok()) return nullptr;
  made->graph_ = *std::move(graph);
  made->results_ = results;
  return made->Fits(a) && made->Fits(b) ? made : nullptr;
}

bool SymbolicProgram::Fits(const Log& log) const {
  const std::optional<SymbolValues> values = ValuesOf(graph_, operands_, log);
  if (!values) return false;
  for (const Guard& guard : graph_.guards())
    if (!guard.Holds(*values).value_or(false)) return false;
  for (size_t k = 0; k < results_.size(); ++k) {
    const Value& value = graph_.value(graph_.outputs()[k].value);
    const absl::StatusOr<std::vector<int64_t>> shape = Evaluate(value.shape, *values);
    if (!shape.ok() || *shape != log.values[results_[k]].type.shape()) return false;
  }
  return true;
}

}  // namespace kiln::tracing
