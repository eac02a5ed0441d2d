// SPDX-License-Identifier: Apache-2.0
#include "trace/log_graph.h"

#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "exec/binding.h"
#include "trace/extents.h"

namespace kiln::tracing {

Tensor ElementsOf(const LogValue& value) {
  if (value.node != nullptr) return value.node->tensor;
  Tensor number = Tensor::Allocate(value.type.type, {});
  std::memcpy(number.data(), &value.bits, SizeOf(value.type.type));
  return number;
}

absl::StatusOr<ValueId> LogGraph::ValueOf(uint32_t id) {
  if (id == kAbsent) return ValueId{};
  if (!ids_[id].valid()) {
    KILN_ASSIGN_OR_RETURN(ids_[id], FromOutside(id));
  }
  return ids_[id];
}

absl::Status LogGraph::Add(size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    const Operation& operation = log_.operations[i];
    if (operation.kind != Operation::Kind::kCall) continue;
    std::vector<ValueId> inputs;
    for (const uint32_t id : log_.OperandsOf(operation)) {
      KILN_ASSIGN_OR_RETURN(inputs.emplace_back(), ValueOf(id));
    }
    KILN_ASSIGN_OR_RETURN(Attrs attrs, AttrsOf(operation));
    std::vector<std::string> names;
    for (uint32_t k = 0; k < operation.signature->num_results; ++k)
      names.push_back(ValueName(operation.first_result + k, operation));
    KILN_ASSIGN_OR_RETURN(const std::vector<ValueId> results,
                          graph.AddNode(*operation.signature->op, std::move(inputs),
                                        std::move(attrs), NodeName(operation), std::move(names)));
    for (size_t k = 0; k < results.size(); ++k) ids_[operation.first_result + k] = results[k];
  }
  return absl::OkStatus();
}

namespace {

class ProgramGraph : public LogGraph {
 public:
  ProgramGraph(const Log& log, const Log* other, Constants constants)
      : LogGraph(log), other_(other), all_(constants == Constants::kAll) {
    graph.name = "trace";
  }
  std::vector<uint32_t> operands;

 protected:
  absl::StatusOr<ValueId> FromOutside(uint32_t id) override {
    const LogValue& value = log_.values[id];
    if (value.kind == LogValue::Kind::kConstant || IsConstantArray(value) ||
        (value.kind == LogValue::Kind::kNumber && all_ && log_.exact))
      return graph.AddConstant("", ElementsOf(value));
    // An argument that is used for its extents alone is compared nowhere else.
    if (other_ != nullptr && (other_->values[id].type.type != value.type.type ||
                              other_->values[id].type.rank != value.type.rank))
      return absl::UnimplementedError("an input has another type or rank");
    operands.push_back(id);
    return graph.AddInput(absl::StrCat("x", operands.size() - 1), value.type.type, ShapeOf(id));
  }

  absl::StatusOr<Attrs> AttrsOf(const Operation& operation) override {
    if (!all_ || operation.symbolic == operation.signature) return operation.signature->attrs;
    return SubstituteExtents(*operation.signature, *operation.symbolic,
                             [&](LogAxis at) { return DimOf(at); });
  }

 private:
  Shape ShapeOf(uint32_t id) {
    const ValueType& type = log_.values[id].type;
    Shape shape = ToShape(type.shape());
    for (size_t i = 0; other_ != nullptr && i < shape.size(); ++i) {
      const std::pair both(type.extents[i], other_->values[id].type.extents[i]);
      if (both.first == both.second) continue;
      const size_t symbol = symbols_.emplace(both, symbols_.size()).first->second;
      shape[i] = Dim::Symbol(absl::StrCat("n", symbol));
    }
    return shape;
  }

  // An argument that is used for its extents alone is an input, too.
  absl::StatusOr<Dim> DimOf(LogAxis at) {
    const LogValue& value = log_.values[at.value];
    if (ids_[at.value].valid() || value.kind == LogValue::Kind::kArgument) {
      KILN_ASSIGN_OR_RETURN(const ValueId id, ValueOf(at.value));
      return graph.value(id).shape[at.axis];
    }
    // A third log may have another one, even where both logs have the same.
    if (other_ != nullptr)
      return absl::UnimplementedError("an attribute is made of an extent that no input tells");
    return value.type.extents[at.axis];
  }

  bool IsConstantArray(const LogValue& value) const {
    if (value.kind != LogValue::Kind::kCaptured || value.node == nullptr || !all_ ||
        !log_.constant_arrays)
      return false;
    const Tensor& tensor = value.node->tensor;
    return tensor.device() == Device() && UsableAsIs(tensor);
  }

  const Log* const other_;
  const bool all_;
  std::map<std::pair<int64_t, int64_t>, size_t> symbols_;  // by the two extents of an axis
};

}  // namespace

absl::StatusOr<Graph> ToGraph(const Log& log, size_t begin, size_t end,
                              const std::vector<uint32_t>& results, Constants constants,
                              std::vector<uint32_t>& operands, const Log* other) {
  ProgramGraph made(log, other, constants);
  KILN_RETURN_IF_ERROR(made.Add(begin, end));
  for (size_t k = 0; k < results.size(); ++k) {
    KILN_ASSIGN_OR_RETURN(const ValueId id, made.ValueOf(results[k]));
    made.graph.AddOutput(id, absl::StrCat("y", k));
  }
  operands = std::move(made.operands);
  return std::move(made.graph);
}

}  // namespace kiln::tracing
