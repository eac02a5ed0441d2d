// SPDX-License-Identifier: Apache-2.0
#include "trace/tape.h"

#include <cstring>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/op.h"
#include "kiln/gradients.h"
#include "trace/log_graph.h"

namespace kiln::tracing {
class Tape::Maker {
 public:
  Maker(const Graph& graph, const std::vector<uint32_t>& outside)
      : graph_(graph), sources_(graph.values().size()), needed_(graph.values().size()) {
    for (size_t k = 0; k < outside.size(); ++k)
      sources_[Ix(graph.inputs()[k])] = {Source::Kind::kExternal, outside[k]};
  }

  // Node i is operation i of the log, for the first `operations`.
  absl::StatusOr<Tape> Make(const std::vector<ValueId>& results, size_t operations) {
    for (const ValueId id : results) needed_[Ix(id)] = true;
    for (size_t i = graph_.nodes().size(); i-- > 0;) {
      if (!IsNeeded(graph_.nodes()[i])) continue;
      for (const ValueId id : graph_.nodes()[i].inputs)
        if (id.valid()) needed_[Ix(id)] = true;
    }
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.nodes()[i];
      if (!IsNeeded(node)) continue;
      Add(node);
      if (i < operations) tape_.calls_.back().operation = i;
    }
    for (const ValueId id : results) {
      Source source = SourceOf(id);
      if (source.kind == Source::Kind::kConstant) source = Expand(source, graph_.value(id).shape);
      if (source.kind == Source::Kind::kIntermediate) tape_.last_use_[source.id] = SIZE_MAX;
      tape_.results_.push_back(source);
    }
    for (Call& call : tape_.calls_) {
      KILN_ASSIGN_OR_RETURN(call.attributes, ViewsOf(call));
    }
    return std::move(tape_);
  }

 private:
  using Node = kiln::Node;

  // A call's attributes as views; calls_ must not grow after it.
  static absl::StatusOr<std::vector<Attribute>> ViewsOf(const Call& call) {
    std::vector<Attribute> views;
    for (const auto& [key, value] : call.attrs) {
      const char* const name = key.c_str();
      Attribute& view = views.emplace_back(name, int64_t{0});
      if (const auto* i = std::get_if<int64_t>(&value)) {
        view.integer = *i;
      } else if (const auto* d = std::get_if<double>(&value)) {
        view = Attribute(name, *d);
      } else if (const auto* s = std::get_if<std::string>(&value)) {
        view = Attribute(name, absl::string_view(*s));
      } else if (const auto* t = std::get_if<DType>(&value)) {
        view = Attribute(name, std::optional<DType>(*t));
      } else if (const auto* v = std::get_if<std::vector<int64_t>>(&value)) {
        view.kind = Attribute::Kind::kInts;
        view.ints = v->data();
        view.size = v->size();
      } else {
        return absl::UnimplementedError(absl::StrCat("gradient: its operator \"", call.op->name,
                                                     "\" has the attribute \"", key,
                                                     "\", which calls of it have not"));
      }
    }
    return views;
  }

  static size_t Ix(ValueId id) { return static_cast<size_t>(id.v); }

  bool IsNeeded(const Node& node) const {
    for (const ValueId id : node.outputs)
      if (needed_[Ix(id)]) return true;
    return false;
  }

  Source SourceOf(ValueId id) {
    if (!id.valid()) return {};
    Source& source = sources_[Ix(id)];
    if (source.kind == Source::Kind::kAbsent) source = ConstantOf(*graph_.value(id).constant);
    return source;
  }

  Source ConstantOf(const Tensor& tensor) {
    TypedOperand constant;
    constant.kind = TypedOperand::Kind::kConstant;
    constant.type = *ValueType::Of(tensor.dtype(), tensor.shape());
    if (tensor.rank() == 0)
      std::memcpy(&constant.bits, tensor.data(), SizeOf(tensor.dtype()));
    else
      constant.node = tape_.arrays_.emplace_back(Array::of(tensor)).node();
    tape_.constants_.push_back(constant);
    return {Source::Kind::kConstant, static_cast<uint32_t>(tape_.constants_.size() - 1)};
  }

  Source Expand(Source from, const Shape& shape) {
    static const OpDef* const expand = FindOp("expand");
    Call& call = tape_.calls_.emplace_back();
    call.op = expand;
    call.attrs["shape"] = *kiln::Constant(shape);
    call.operands = {from};
    return Made();
  }

  // A value of the last call.
  Source Made() {
    tape_.last_use_.push_back(tape_.calls_.size() - 1);
    return {Source::Kind::kIntermediate, static_cast<uint32_t>(tape_.last_use_.size() - 1)};
  }

  void Add(const Node& node) {
    static const OpDef* const filled = FindOp("constant_of_shape");
    if (const auto value = node.attrs.find("value");
        node.op == filled && value != node.attrs.end()) {
      // Calls have no tensors as attributes.
      Tensor number = Tensor::Allocate(std::get<Tensor>(value->second).dtype(), {});
      std::memcpy(number.data(), std::get<Tensor>(value->second).data(), SizeOf(number.dtype()));
      sources_[Ix(node.outputs[0])] =
          Expand(ConstantOf(number), graph_.value(node.outputs[0]).shape);
      return;
    }
    Call call;
    call.op = node.op;
    call.attrs = node.attrs;
    call.num_results = node.outputs.size();
    for (const ValueId id : node.inputs) call.operands.push_back(SourceOf(id));
    for (const Source& source : call.operands)
      if (source.kind == Source::Kind::kIntermediate)
        tape_.last_use_[source.id] = tape_.calls_.size();
    tape_.calls_.push_back(std::move(call));
    for (const ValueId id : node.outputs) sources_[Ix(id)] = Made();
  }

  const Graph& graph_;
  std::vector<Source> sources_;  // by value; kAbsent: a constant, or not there yet
  std::vector<bool> needed_;
  Tape tape_;
};

absl::StatusOr<Tape> Tape::Of(const Log& log, size_t arguments, bool with_values) {
  const std::span<const uint32_t> values = log.OperandsOf(log.operations.back());
  std::vector<uint32_t> ids(values.begin(), values.end()), outside;
  for (uint32_t k = 0; k < arguments; ++k) ids.push_back(k);  // inputs, used or not
  KILN_ASSIGN_OR_RETURN(Graph graph,
                        ToGraph(log, 0, log.operations.size() - 1, ids, Constants::kFew, outside));
  const size_t operations = graph.nodes().size();
  std::vector<ValueId> results, by;
  for (size_t k = 0; k < ids.size(); ++k)
    (k < values.size() ? results : by).push_back(graph.outputs()[k].value);
  GraphBuilder b(&graph);
  KILN_ASSIGN_OR_RETURN(const std::vector<ValueId> gradients, Gradients(b, results[0], by));
  if (!with_values) results.clear();
  results.insert(results.end(), gradients.begin(), gradients.end());
  return Maker(graph, outside).Make(results, operations);
}

absl::StatusOr<std::vector<Array>> Tape::Write(const Log& log, std::span<const Array> arguments,
                                               Recorder& to, Location where) const {
  std::vector<Array> made(last_use_.size());
  const auto operand_of = [&](const Source& source) {
    TypedOperand operand;
    if (source.kind == Source::Kind::kConstant) return constants_[source.id];
    if (source.kind == Source::Kind::kIntermediate) operand.node = made[source.id].node();
    if (source.kind == Source::Kind::kExternal) {
      const LogValue& value = log.values[source.id];
      if (value.kind == LogValue::Kind::kNumber) {
        operand.kind = TypedOperand::Kind::kNumber;
        operand.type = value.type;
        operand.bits = value.bits;
        return operand;
      }
      operand.node = source.id < arguments.size() ? arguments[source.id].node() : value.node;
    }
    if (operand.node != nullptr) operand.kind = TypedOperand::Kind::kArray;
    return operand;
  };
  std::vector<TypedOperand> operands;
  size_t next = 0;
  for (size_t i = 0; i < calls_.size(); ++i) {
    const Call& call = calls_[i];
    operands.clear();
    for (const Source& source : call.operands) operands.push_back(operand_of(source));
    const std::span<Array> results(made.data() + next, call.num_results);
    next += call.num_results;
    KILN_RETURN_IF_ERROR(to.Write(
        *call.op, call.attributes, operands,
        call.operation < log.operations.size() ? log.operations[call.operation].where : where,
        results));
    // A value that nobody needs any more is none that a program gives.
    for (const Source& source : call.operands)
      if (source.kind == Source::Kind::kIntermediate && last_use_[source.id] == i)
        made[source.id] = Array();
    for (size_t k = next - call.num_results; k < next; ++k)
      if (last_use_[k] == i) made[k] = Array();
  }
  std::vector<Array> results;
  for (const Source& source : results_) results.emplace_back(Share(operand_of(source).node));
  return results;
}

}  // namespace kiln::tracing
