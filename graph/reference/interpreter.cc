// SPDX-License-Identifier: Apache-2.0
#include "kiln/graph/reference/interpreter.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kiln/base/status.h"
#include "kiln/base/status_macros.h"
#include "kiln/graph/builder.h"
#include "kiln/graph/check_node.h"
#include "kiln/graph/infer.h"
#include "kiln/graph/op.h"
#include "kiln/graph/reference/evaluate.h"
#include "kiln/graph/reference/scalar.h"
#include "kiln/graph/tensors.h"

namespace kiln {
namespace {

using reference::ToDeclared;
using reference::Widen;

constexpr int64_t kMaxBytes = int64_t{16} << 30;

class Interpreter {
 public:
  Interpreter(const Graph& graph, SymbolValues symbols,
              const std::function<void(ValueId, const Tensor&)>& observe)
      : graph_(graph),
        symbols_(std::move(symbols)),
        observe_(observe),
        limit_(static_cast<int32_t>(graph.values().size())) {}

  void Set(ValueId id, Tensor wide) {
    if (values_.size() < graph_.values().size()) values_.resize(graph_.values().size());
    values_[static_cast<size_t>(id.v)] = std::move(wide);
  }
  const Tensor& Get(ValueId id) {
    std::optional<Tensor>& value = values_[static_cast<size_t>(id.v)];
    if (!value)
      value = Widen(
          *graph_.value(id).constant);  // Verify: what is read is an input, computed, or a constant
    return *value;
  }

  absl::Status Run() {
    values_.resize(graph_.values().size());
    const std::vector<int> uses = CountUses();
    const size_t count = graph_.nodes().size();
    std::vector<int> left = uses;
    for (size_t i = 0; i < count; ++i) {
      const Node node = graph_.nodes()[i];
      KILN_RETURN_IF_ERROR(RunNode(node));
      for (const ValueId input : node.inputs) {  // memory: what nobody reads any more goes
        if (input.valid() && --left[static_cast<size_t>(input.v)] == 0)
          values_[static_cast<size_t>(input.v)].reset();
      }
    }
    return absl::OkStatus();
  }

 private:
  std::vector<int> CountUses() const {
    std::vector<int> uses(graph_.values().size(), 0);
    for (const Node& node : graph_.nodes()) {
      for (const ValueId input : node.inputs) {
        if (input.valid()) ++uses[static_cast<size_t>(input.v)];
      }
    }
    for (const Graph::Output& output : graph_.outputs())
      ++uses[static_cast<size_t>(output.value.v)];
    return uses;
  }

  absl::Status RunNode(const Node& node) {
    KILN_RETURN_IF_ERROR(Annotate(Compute(node), Subject(node)));
    for (const ValueId output : node.outputs) {
      if (observe_ && output.v < limit_)
        observe_(output, ToDeclared(Get(output), graph_.value(output).type));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Tensor> NewOutput(ValueId id) {
    const Value& value = graph_.value(id);
    KILN_ASSIGN_OR_RETURN(std::vector<int64_t> extents, Evaluate(value.shape, symbols_));
    const DType wide = IsFloat(value.type) ? DType::kF64 : DType::kI64;
    const int64_t bytes = CheckedBytes(wide, extents);
    if (bytes < 0 || bytes > kMaxBytes) {
      return absl::ResourceExhaustedError(absl::StrCat("\"", value.name, "\" would have the shape ",
                                                       ToString(ToShape(extents)),
                                                       "; the interpreter stops at 16 GiB"));
    }
    return Tensor::Allocate(wide, std::move(extents));
  }

  absl::Status Compute(const Node& node) {
    switch (node.op->kind) {
      case OpKind::kComposite:
        return RunComposite(node);
      case OpKind::kScalar:
        return RunScalar(node);
      case OpKind::kReduce:
        return RunReduce(node);
      case OpKind::kIndex:
        return RunIndex(node);
      default:
        return RunReference(node);
    }
  }

  // Appends the decomposition to the graph and runs what was appended.
  absl::Status RunComposite(const Node& node) {
    const size_t first = graph_.nodes().size();
    GraphBuilder builder(&graph_);
    KILN_ASSIGN_OR_RETURN(const std::vector<ValueId> results, node.op->decompose(builder, node));
    KILN_RETURN_IF_ERROR(builder.status());
    values_.resize(graph_.values().size());
    const size_t end = graph_.nodes().size();
    for (size_t i = first; i < end; ++i) {
      const Node inner = graph_.nodes()[i];
      KILN_RETURN_IF_ERROR(RunNode(inner));
    }
    for (size_t k = 0; k < results.size(); ++k) Set(node.outputs[k], Get(results[k]));
    for (size_t i = first; i < end; ++i) {
      for (const ValueId output : graph_.nodes()[i].outputs)
        values_[static_cast<size_t>(output.v)].reset();
    }
    return absl::OkStatus();
  }

  std::vector<Tensor> Inputs(const Node& node) {
    std::vector<Tensor> inputs;
    for (const ValueId id : node.inputs) inputs.push_back(id.valid() ? Get(id) : Tensor());
    return inputs;
  }

  absl::Status RunScalar(const Node& node) {
    const ScalarExpr body = ScalarBodyOf(graph_, node);
    KILN_RETURN_IF_ERROR(reference::CheckScalar(body));
    KILN_ASSIGN_OR_RETURN(Tensor out, NewOutput(node.outputs[0]));
    const DType type = graph_.value(node.outputs[0]).type;
    reference::Map(body, Inputs(node), out);
    if (node.op == FindOp("cast") && IsFloat(type)) reference::RoundAll(out, type);
    Set(node.outputs[0], std::move(out));
    return absl::OkStatus();
  }

  absl::Status RunReduce(const Node& node) {
    KILN_ASSIGN_OR_RETURN(Tensor out, NewOutput(node.outputs[0]));
    const Value& input = graph_.value(node.inputs[0]);
    KILN_ASSIGN_OR_RETURN(const std::vector<int> axes,
                          NormalAxes(IntsAttr(node, "axes"), input.shape.size(), true));
    reference::Reduce(*node.op->reduce, ComputeType(input.type), Get(node.inputs[0]), axes, out);
    Set(node.outputs[0], std::move(out));
    return absl::OkStatus();
  }

  absl::Status RunIndex(const Node& node) {
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      KILN_ASSIGN_OR_RETURN(const IndexMap map, node.op->index(graph_, node, static_cast<int>(k)));
      if (map.view) {
        const Tensor& from = Get(node.inputs[0]);
        KILN_ASSIGN_OR_RETURN(std::vector<int64_t> extents,
                              Evaluate(graph_.value(node.outputs[k]).shape, symbols_));
        Set(node.outputs[k],
            Tensor::View(from.data(), from.dtype(), std::move(extents), {}, from.owner()));
        continue;
      }
      KILN_ASSIGN_OR_RETURN(Tensor out, NewOutput(node.outputs[k]));
      KILN_RETURN_IF_ERROR(reference::Move(map, symbols_, Inputs(node), out));
      Set(node.outputs[k], std::move(out));
    }
    return absl::OkStatus();
  }

  absl::Status RunReference(const Node& node) {
    if (node.op->reference == nullptr)
      return absl::UnimplementedError("the record has no reference loop");
    std::vector<Tensor> outputs;
    for (const ValueId id : node.outputs) {
      KILN_ASSIGN_OR_RETURN(outputs.emplace_back(), NewOutput(id));
    }
    KILN_RETURN_IF_ERROR(node.op->reference(node, Inputs(node), std::span(outputs)));
    for (size_t k = 0; k < outputs.size(); ++k) {
      reference::WrapAll(outputs[k], graph_.value(node.outputs[k]).type);
      Set(node.outputs[k], std::move(outputs[k]));
    }
    return absl::OkStatus();
  }

  Graph graph_;
  SymbolValues symbols_;
  const std::function<void(ValueId, const Tensor&)>& observe_;
  int32_t limit_;                              // values from here on belong to decompositions
  std::vector<std::optional<Tensor>> values_;  // dense, f64 or i64
};

absl::Status CheckInput(const Value& value, const Tensor& tensor) {
  if (tensor.dtype() != value.type || tensor.shape().size() != value.shape.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("input \"", value.name, "\": is ", Name(tensor.dtype()), " ",
                     ToString(ToShape(tensor.shape())), "; the graph takes ", Name(value.type), " ",
                     ToString(value.shape)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SymbolValues> BindSymbols(const Graph& graph, std::span<const Tensor> inputs) {
  if (inputs.size() != graph.inputs().size()) {
    return absl::InvalidArgumentError(absl::StrCat("graph \"", graph.name, "\": takes ",
                                                   graph.inputs().size(), " inputs; ",
                                                   inputs.size(), " are given"));
  }
  SymbolValues symbols;
  for (size_t k = 0; k < inputs.size(); ++k) {
    const Value& value = graph.value(graph.inputs()[k]);
    KILN_RETURN_IF_ERROR(CheckInput(value, inputs[k]));
    for (size_t i = 0; i < value.shape.size(); ++i) {
      const Dim& dim = value.shape[i];
      const bool is_symbol = dim.terms().size() == 1 && dim.terms()[0].coef == 1 &&
                             dim.terms()[0].atoms.size() == 1 &&
                             dim.terms()[0].atoms[0].kind == Dim::Atom::Kind::kSymbol;
      if (is_symbol) symbols.emplace(dim.terms()[0].atoms[0].symbol, inputs[k].shape()[i]);
    }
  }
  for (size_t k = 0; k < inputs.size(); ++k) {
    const Value& value = graph.value(graph.inputs()[k]);
    for (size_t i = 0; i < value.shape.size(); ++i) {
      KILN_ASSIGN_OR_RETURN(const int64_t extent, value.shape[i].Evaluate(symbols));
      if (extent != inputs[k].shape()[i]) {
        return absl::InvalidArgumentError(absl::StrCat("input \"", value.name, "\": extent ", i,
                                                       " is ", inputs[k].shape()[i], "; ",
                                                       value.shape[i].ToString(), " is ", extent));
      }
    }
  }
  return symbols;
}

absl::StatusOr<std::vector<Tensor>> Interpret(
    const Graph& graph, std::span<const Tensor> inputs,
    const std::function<void(ValueId, const Tensor&)>& observe) {
  KILN_RETURN_IF_ERROR(Verify(graph));
  KILN_ASSIGN_OR_RETURN(SymbolValues symbols, BindSymbols(graph, inputs));
  for (const Guard& guard : graph.guards()) {
    const absl::StatusOr<bool> holds = guard.Holds(symbols);
    if (!holds.ok() || *holds) continue;  // a guard about the bytes of an input is the caller's
    return absl::FailedPreconditionError(
        absl::StrCat("graph \"", graph.name, "\": the assumption \"", guard.ToString(),
                     "\" does not hold for these inputs; import the model for their extents"));
  }
  Interpreter interpreter(graph, std::move(symbols), observe);
  for (size_t k = 0; k < inputs.size(); ++k) {
    interpreter.Set(graph.inputs()[k], Widen(inputs[k]));
    if (observe) observe(graph.inputs()[k], inputs[k]);
  }
  KILN_RETURN_IF_ERROR(interpreter.Run());
  std::vector<Tensor> outputs;
  for (const Graph::Output& output : graph.outputs()) {
    outputs.push_back(ToDeclared(interpreter.Get(output.value), graph.value(output.value).type));
  }
  return outputs;
}

absl::StatusOr<std::vector<Tensor>> Interpret(const Graph& graph, std::span<const Tensor> inputs) {
  return Interpret(graph, inputs, {});
}

}  // namespace kiln
