// SPDX-License-Identifier: Apache-2.0
#include "graph/reference/interpreter.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "graph/check_node.h"
#include "graph/custom_op.h"
#include "graph/graph.h"
#include "graph/infer.h"
#include "graph/op.h"
#include "graph/rebuild.h"
#include "graph/reference/evaluate.h"
#include "graph/reference/scalar.h"
#include "graph/tensors.h"
#include "kiln/graph.h"

namespace kiln {
namespace {

using reference::ToDeclared;
using reference::Widen;

constexpr int64_t kMaxBytes = int64_t{16} << 30;

absl::StatusOr<std::vector<Tensor>> RunBody(const Graph& body, std::vector<Tensor> inputs,
                                            const SymbolValues& outer);

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

  // What a graph has in 16-bit floats is rounded to them at the output of every op.
  void SetRounded(ValueId id, Tensor wide) {
    const DType type = graph_.value(id).type;
    if (IsFloat(type) && SizeOf(type) == 2) reference::RoundAll(wide, type);
    Set(id, std::move(wide));
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
      case OpKind::kControl:
        KILN_RETURN_IF_ERROR(node.op == FindOp("if") ? RunIf(node) : RunLoop(node));
        return BindOutputs(node);
      default:
        if (!node.op->dynamic) return RunReference(node);
        KILN_RETURN_IF_ERROR(RunDynamic(node));
        return BindOutputs(node);
    }
  }

  // What a dynamic node has found out: extents, or elements, that are symbols from here on.
  absl::Status BindOutputs(const Node& node) {
    for (const ValueId id : node.outputs) {
      const Value& value = graph_.value(id);
      const Tensor& tensor = Get(id);
      if (tensor.shape().size() != value.shape.size()) {
        return absl::InternalError(absl::StrCat("\"", value.name, "\" has rank ",
                                                tensor.shape().size(), ", expected ",
                                                ToString(value.shape)));
      }
      for (size_t axis = 0; axis < value.shape.size(); ++axis)
        Learn(SymbolOf(value.shape[axis]), tensor.shape()[axis]);
      if (!value.shape_content) continue;
      for (size_t i = 0; i < value.shape_content->size(); ++i)
        Learn(SymbolOf((*value.shape_content)[i]), ReadInt(tensor, static_cast<int64_t>(i)));
    }
    return absl::OkStatus();
  }
  void Learn(const std::string& symbol, int64_t value) {
    if (!symbol.empty()) symbols_.emplace(symbol, value);
  }

  absl::Status RunDynamic(const Node& node) {
    std::vector<Tensor> outputs;
    if (node.op == FindOp("custom")) return RunCustom(node);
    KILN_RETURN_IF_ERROR(node.op->evaluate(node, OrderedInputs(node), outputs));
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      const bool is_u64 = outputs[k].dtype() == DType::kU64;
      Set(node.outputs[k], is_u64 ? SeenAs(outputs[k], DType::kI64) : std::move(outputs[k]));
    }
    return absl::OkStatus();
  }

  // The caller's code takes tensors of the declared types.
  absl::Status RunCustom(const Node& node) {
    std::vector<Tensor> inputs, outputs;
    for (const ValueId id : node.inputs)
      inputs.push_back(id.valid() ? ToDeclared(Get(id), graph_.value(id).type) : Tensor());
    for (const ValueId id : node.outputs) {
      const Value& value = graph_.value(id);
      KILN_ASSIGN_OR_RETURN(std::vector<int64_t> shape, Evaluate(value.shape, symbols_));
      if (CheckedBytes(value.type, shape) < 0 || CheckedBytes(value.type, shape) > kMaxBytes)
        return absl::ResourceExhaustedError("its result is too large");
      outputs.push_back(Tensor::Allocate(value.type, std::move(shape)));
    }
    const CustomOp& op = CustomOpOf(node);
    KILN_RETURN_IF_ERROR(op.run(inputs, op.attrs, std::span(outputs)));
    for (size_t k = 0; k < outputs.size(); ++k) Set(node.outputs[k], Widen(outputs[k]));
    return absl::OkStatus();
  }

  absl::Status RunIf(const Node& node) {
    const std::vector<Tensor> inputs = Inputs(node);
    const Graph& branch =
        GraphAttr(node, ReadInt(inputs[0], 0) != 0 ? "then_branch" : "else_branch");
    KILN_ASSIGN_OR_RETURN(std::vector<Tensor> results,
                          RunBody(branch, {inputs.begin() + 1, inputs.end()}, symbols_));
    for (size_t k = 0; k < results.size(); ++k) Set(node.outputs[k], std::move(results[k]));
    return absl::OkStatus();
  }

  absl::Status RunLoop(const Node& node) {
    const Graph& body = GraphAttr(node, "body");
    const auto carried = static_cast<size_t>(IntAttr(node, "carried"));
    std::vector<Tensor> state = Inputs(node);
    const int64_t trips = node.inputs[0].valid() ? ReadInt(state[0], 0) : INT64_MAX;
    bool more = !node.inputs[1].valid() || ReadInt(state[1], 0) != 0;
    std::vector<std::vector<Tensor>> stacks(node.outputs.size() - carried);
    const auto scalar = [](int64_t value) {
      Tensor tensor = Tensor::Allocate(DType::kI64, {});
      WriteInt(tensor, 0, value);
      return tensor;
    };
    for (int64_t i = 0; i < trips && more; ++i) {
      state[0] = scalar(i);
      state[1] = scalar(1);
      KILN_ASSIGN_OR_RETURN(std::vector<Tensor> results, RunBody(body, state, symbols_));
      more = ReadInt(results[0], 0) != 0;
      for (size_t k = 0; k < carried; ++k) state[k + 2] = results[k + 1];
      for (size_t k = 0; k < stacks.size(); ++k) stacks[k].push_back(results[k + 1 + carried]);
    }
    for (size_t k = 0; k < carried; ++k) Set(node.outputs[k], state[k + 2]);
    for (size_t k = 0; k < stacks.size(); ++k)
      KILN_RETURN_IF_ERROR(Stack(node.outputs[k + carried], stacks[k]));
    return absl::OkStatus();
  }

  // One result of all turns, along a new first axis. Without a turn, extents that no one knows are
  // 0.
  absl::Status Stack(ValueId id, const std::vector<Tensor>& turns) {
    const Value& value = graph_.value(id);
    std::vector<int64_t> shape = {static_cast<int64_t>(turns.size())};
    for (size_t axis = 1; axis < value.shape.size(); ++axis) {
      shape.push_back(turns.empty() ? value.shape[axis].Evaluate(symbols_).value_or(0)
                                    : turns[0].shape()[axis - 1]);
    }
    Tensor out = Tensor::Allocate(IsFloat(value.type) ? DType::kF64 : DType::kI64, shape);
    char* at = static_cast<char*>(out.data());
    for (const Tensor& turn : turns) {
      if (turn.shape() != turns[0].shape())
        return absl::InvalidArgumentError("the turns' results have different shapes");
      std::memcpy(at, turn.data(), static_cast<size_t>(turn.size_bytes()));
      at += turn.size_bytes();
    }
    Set(id, std::move(out));
    return absl::OkStatus();
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

  // For references, which order elements: u64 is i64's bits with an order of its own.
  std::vector<Tensor> OrderedInputs(const Node& node) {
    std::vector<Tensor> inputs = Inputs(node);
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (node.inputs[k].valid() && graph_.value(node.inputs[k]).type == DType::kU64)
        inputs[k] = SeenAs(inputs[k], DType::kU64);
    }
    return inputs;
  }
  static Tensor SeenAs(const Tensor& wide, DType type) {
    return Tensor::View(wide.data(), type, wide.shape(), {}, wide.owner());
  }

  absl::Status RunScalar(const Node& node) {
    const ScalarExpr body = ScalarBodyOf(graph_, node);
    KILN_RETURN_IF_ERROR(reference::CheckScalar(body));
    KILN_ASSIGN_OR_RETURN(Tensor out, NewOutput(node.outputs[0]));
    const DType type = graph_.value(node.outputs[0]).type;
    reference::Map(body, Inputs(node), out);
    if (node.op == FindOp("cast") && IsFloat(type)) reference::RoundAll(out, type);
    SetRounded(node.outputs[0], std::move(out));
    return absl::OkStatus();
  }

  absl::Status RunReduce(const Node& node) {
    KILN_ASSIGN_OR_RETURN(Tensor out, NewOutput(node.outputs[0]));
    const Value& input = graph_.value(node.inputs[0]);
    KILN_ASSIGN_OR_RETURN(const std::vector<int> axes,
                          NormalAxes(IntsAttr(node, "axes"), input.shape.size(), true));
    reference::Reduce(*node.op->reduce, ComputeType(input.type), Get(node.inputs[0]), axes, out);
    SetRounded(node.outputs[0], std::move(out));
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
      const DType type = graph_.value(node.outputs[k]).type;
      KILN_RETURN_IF_ERROR(reference::Move(map, symbols_, Inputs(node), type, out));
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
    KILN_RETURN_IF_ERROR(node.op->reference(node, OrderedInputs(node), std::span(outputs)));
    for (size_t k = 0; k < outputs.size(); ++k) {
      reference::WrapAll(outputs[k], graph_.value(node.outputs[k]).type);
      SetRounded(node.outputs[k], std::move(outputs[k]));
    }
    return absl::OkStatus();
  }

  Graph graph_;
  SymbolValues symbols_;
  const std::function<void(ValueId, const Tensor&)>& observe_;
  int32_t limit_;                              // values from here on belong to decompositions
  std::vector<std::optional<Tensor>> values_;  // dense, f64 or i64
};

// Whether these inputs are such that `graph` is right: extents, known elements and guards. Values
// of symbols are added; those of the graph around it stay.
bool Fits(const Graph& graph, const std::vector<Tensor>& inputs, SymbolValues& symbols) {
  const auto equal = [&](const Dim& dim, int64_t value) {
    if (const std::string symbol = SymbolOf(dim); !symbol.empty()) symbols.emplace(symbol, value);
    const absl::StatusOr<int64_t> expected = dim.Evaluate(symbols);
    return expected.ok() && *expected == value;
  };
  for (size_t k = 0; k < inputs.size(); ++k) {
    const Value& value = graph.value(graph.inputs()[k]);
    if (value.shape.size() != inputs[k].shape().size()) return false;
    for (size_t axis = 0; axis < value.shape.size(); ++axis) {
      if (!equal(value.shape[axis], inputs[k].shape()[axis])) return false;
    }
    if (!value.shape_content) continue;
    for (size_t i = 0; i < value.shape_content->size(); ++i) {
      if (!equal((*value.shape_content)[i], ReadInt(inputs[k], static_cast<int64_t>(i))))
        return false;
    }
  }
  for (const Guard& guard : graph.guards()) {
    const absl::StatusOr<bool> holds = guard.Holds(symbols);
    if (holds.ok() && !*holds) return false;
  }
  return true;
}

// A graph that a node owns, for wide inputs. Where its assumptions do not hold for them it is made
// again for exactly their extents.
absl::StatusOr<std::vector<Tensor>> RunBody(const Graph& body, std::vector<Tensor> inputs,
                                            const SymbolValues& outer) {
  SymbolValues symbols = outer;
  std::optional<Graph> exact;
  if (!Fits(body, inputs, symbols)) {
    std::vector<Shape> shapes;
    for (const Tensor& input : inputs) shapes.push_back(ToShape(input.shape()));
    KILN_ASSIGN_OR_RETURN(exact, WithInputShapes(body, shapes));
    symbols = outer;
    if (!Fits(*exact, inputs, symbols)) {
      return absl::FailedPreconditionError(
          absl::StrCat("graph \"", body.name, "\": its assumptions do not hold for these inputs"));
    }
  }
  const Graph& graph = exact ? *exact : body;
  const std::function<void(ValueId, const Tensor&)> nobody;
  Interpreter interpreter(graph, std::move(symbols), nobody);
  for (size_t k = 0; k < inputs.size(); ++k)
    interpreter.Set(graph.inputs()[k], std::move(inputs[k]));
  KILN_RETURN_IF_ERROR(interpreter.Run());
  std::vector<Tensor> outputs;
  for (const Graph::Output& output : graph.outputs())
    outputs.push_back(interpreter.Get(output.value));
  return outputs;
}

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
      if (const std::string symbol = SymbolOf(dim); !symbol.empty())
        symbols.emplace(symbol, inputs[k].shape()[i]);
    }
    if (!value.shape_content) continue;
    const Tensor dense = Dense(inputs[k]);
    for (size_t i = 0; i < value.shape_content->size(); ++i) {
      if (dense.num_elements() != static_cast<int64_t>(value.shape_content->size())) break;
      const std::string symbol = SymbolOf((*value.shape_content)[i]);
      const int64_t element = ReadInt(dense, static_cast<int64_t>(i));
      if (!symbol.empty() && element < 0) {
        return absl::FailedPreconditionError(
            absl::StrCat("input \"", value.name, "\": element ", i, " is ", element,
                         "; the graph holds for elements from 0 on"));
      }
      if (!symbol.empty()) symbols.emplace(symbol, element);
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
