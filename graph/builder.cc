// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "graph/tensors.h"
#include "kiln/graph.h"

namespace kiln {
namespace {

// Outputs of a node whose record leaves the number open: what its graph gives (a loop's less the
// condition), or the parts of a split, as many as there are sizes, in an attribute or an input.
size_t CountOfOutputs(const Graph& graph, const std::vector<ValueId>& inputs, const Attrs& attrs) {
  for (const auto& [name, value] : attrs) {
    const auto* body = std::get_if<Body>(&value);
    if (body == nullptr || *body == nullptr) continue;
    const size_t given = (*body)->outputs().size();
    return name == "body" && given > 0 ? given - 1 : given;
  }
  if (const auto sizes = attrs.find("split"); sizes != attrs.end()) {
    const auto* list = std::get_if<std::vector<int64_t>>(&sizes->second);
    return list != nullptr ? list->size() : 0;
  }
  if (inputs.size() < 2 || !inputs[1].valid()) return 0;
  const Shape& shape = graph.value(inputs[1]).shape;
  const std::optional<int64_t> count = shape.size() == 1 ? shape[0].constant() : std::nullopt;
  return count && *count > 0 ? static_cast<size_t>(*count) : 0;
}

// kInvalidArgument: the graph has no such value. An absent input is one that is not valid.
absl::Status CheckIds(const Graph& graph, const std::vector<ValueId>& ids, absl::string_view op) {
  for (const ValueId id : ids) {
    if (id.v < static_cast<int64_t>(graph.values().size())) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("graph \"", graph.name, "\", ", op, ": value ", id.v, " is not one of its ",
                     graph.values().size(), "; a value belongs to the builder that gave it"));
  }
  return absl::OkStatus();
}

}  // namespace

GraphBuilder::GraphBuilder(std::string name) : own_(std::make_unique<Graph>()), graph_(own_.get()) {
  own_->name = std::move(name);
}

GraphBuilder::GraphBuilder(Graph* graph) : graph_(graph) {}

GraphBuilder::GraphBuilder(GraphBuilder&& other) noexcept
    : own_(std::move(other.own_)),
      graph_(std::exchange(other.graph_, nullptr)),
      status_(std::exchange(other.status_, absl::FailedPreconditionError(
                                               "graph builder: its graph was moved away"))) {}

GraphBuilder::~GraphBuilder() = default;

const Value& GraphBuilder::value(ValueId id) const { return graph_->value(id); }

DType GraphBuilder::type(ValueId id) const { return graph_->value(id).type; }

const Shape& GraphBuilder::shape(ValueId id) const { return graph_->value(id).shape; }

ValueId GraphBuilder::Input(std::string name, DType type, Shape shape) {
  return status_.ok() ? graph_->AddInput(std::move(name), type, std::move(shape)) : ValueId{};
}

ValueId GraphBuilder::Constant(Tensor tensor, std::string name) {
  if (status_.ok() && tensor.device() != kiln::Device()) {
    status_ = absl::InvalidArgumentError(
        absl::StrCat("constant \"", name, "\": the tensor is on a GPU; copy it to the CPU"));
  }
  return status_.ok() ? graph_->AddConstant(std::move(name), std::move(tensor)) : ValueId{};
}

ValueId GraphBuilder::Scalar(DType type, double value) {
  return Constant(FilledTensor(type, {}, value));
}

ValueId GraphBuilder::Ints(const std::vector<int64_t>& values) {
  Tensor tensor = Tensor::Allocate(DType::kI64, {static_cast<int64_t>(values.size())});
  if (!values.empty()) std::memcpy(tensor.data(), values.data(), values.size() * sizeof(int64_t));
  return Constant(std::move(tensor));
}

std::vector<ValueId> GraphBuilder::Ops(absl::string_view op, std::vector<ValueId> inputs,
                                       Attrs attrs, std::string name) {
  if (!status_.ok()) return {};
  const OpDef* def = FindOp(op);
  if (def == nullptr) {
    status_ = absl::InvalidArgumentError(
        absl::StrCat("op \"", op, "\": there is none of this name; see \"kiln ops\""));
    return {};
  }
  status_ = CheckIds(*graph_, inputs, op);
  if (!status_.ok()) return {};
  std::vector<std::string> outputs;
  if (def->num_outputs < 0) outputs.resize(CountOfOutputs(*graph_, inputs, attrs));
  absl::StatusOr<std::vector<ValueId>> ids = graph_->AddNode(
      *def, std::move(inputs), std::move(attrs), std::move(name), std::move(outputs));
  if (!ids.ok()) {
    status_ = ids.status();
    return {};
  }
  return *std::move(ids);
}

ValueId GraphBuilder::Op(absl::string_view op, std::vector<ValueId> inputs, Attrs attrs,
                         std::string name) {
  const std::vector<ValueId> ids = Ops(op, std::move(inputs), std::move(attrs), std::move(name));
  return ids.empty() ? ValueId{} : ids[0];
}

void GraphBuilder::Output(ValueId value, std::string name) {
  if (status_.ok() && !value.valid())
    status_ = absl::InvalidArgumentError(
        absl::StrCat("graph \"", graph_->name, "\", output \"", name, "\": no value"));
  if (status_.ok()) status_ = CheckIds(*graph_, {value}, absl::StrCat("output \"", name, "\""));
  if (status_.ok()) graph_->AddOutput(value, std::move(name));
}

absl::StatusOr<Graph> GraphBuilder::Finish() && {
  KILN_RETURN_IF_ERROR(status_);
  KILN_RETURN_IF_ERROR(Verify(*own_));
  return std::move(*own_);
}

void GraphBuilder::HoldToGuards() {
  for (const Guard& guard : graph_->guards()) {
    if (std::find(graph_->premises.begin(), graph_->premises.end(), guard) ==
        graph_->premises.end())
      graph_->premises.push_back(guard);
  }
}

absl::StatusOr<Body> GraphBuilder::FinishBody() && {
  KILN_ASSIGN_OR_RETURN(Graph graph, std::move(*this).Finish());
  return std::make_shared<const Graph>(std::move(graph));
}

}  // namespace kiln
