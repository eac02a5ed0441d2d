// SPDX-License-Identifier: Apache-2.0
#include "training/phase_graph.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "base/printable.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "graph/op.h"
#include "graph/ops/nodes.h"
#include "graph/tensors.h"

namespace kiln::training {
namespace {

using ops::To;

bool Is(const Node& node, absl::string_view op) { return op == node.op->name; }

// Whether input 1 is the step by which a random operator draws.
bool DrawsByStep(const Node& node) {
  constexpr absl::string_view kRandom[] = {"bernoulli", "dropout", "multinomial", "random_normal",
                                           "random_uniform"};
  return std::any_of(std::begin(kRandom), std::end(kRandom),
                     [&](absl::string_view op) { return Is(node, op); });
}

absl::Status CheckBody(const Node& owner, const Graph& body) {
  for (const Node& node : body.nodes()) {
    if (Is(node, "dropout") || Is(node, "batch_norm"))
      return absl::UnimplementedError(absl::StrCat(
          "trainer: node \"", Printable(owner.name), "\" has a ", node.op->name,
          " in its body; training of what a loop or branch drops or normalises is not supported"));
    for (const auto& [name, value] : node.attrs) {
      if (const auto* inner = std::get_if<Body>(&value))
        KILN_RETURN_IF_ERROR(CheckBody(owner, **inner));
    }
  }
  return absl::OkStatus();
}

// Copies a model, node by node, for another phase.
class Copy {
 public:
  Copy(const Graph& from, Phase phase)
      : from_(from), phase_(phase), b_(&to_), map_(from.values().size()) {
    to_.name = from.name;
    to_.premises = from.premises;
    for (const ValueId id : from.inputs()) {
      const Value& input = from.value(id);
      At(id) = to_.AddInput(input.name, input.type, input.shape);
      to_.mutable_value(At(id)).shape_content = input.shape_content;
    }
  }

  // The value that stands for a constant, or for a statistic, of this name.
  void Use(const std::string& name, ValueId value) { used_.emplace(name, value); }
  GraphBuilder& builder() { return b_; }
  void DrawBy(ValueId count) { draws_ = count; }

  absl::Status Nodes() {
    for (const Node& node : from_.nodes()) KILN_RETURN_IF_ERROR(Add(node));
    for (const Guard& guard : from_.guards()) to_.AddGuard(guard);
    for (const Graph::Output& output : from_.outputs())
      to_.AddOutput(Of(output.value), output.name);
    return b_.status();
  }

  // What a batch has by the name of its statistic, of the statistic's type.
  const std::map<std::string, ValueId>& batch_statistics() const { return batch_; }
  Graph Take() { return std::move(to_); }

 private:
  ValueId& At(ValueId id) { return map_[static_cast<size_t>(id.v)]; }

  ValueId Of(ValueId id) {
    if (!id.valid() || At(id).valid()) return id.valid() ? At(id) : id;
    const Value& constant = from_.value(id);  // nothing else has no value yet
    const auto used = used_.find(constant.name);
    return At(id) = used != used_.end()
                        ? used->second
                        : to_.AddConstant(constant.name, *constant.constant, constant.literal);
  }

  absl::Status Add(const Node& node) {
    for (const auto& [name, value] : node.attrs) {
      if (const auto* body = std::get_if<Body>(&value))
        KILN_RETURN_IF_ERROR(CheckBody(node, **body));
    }
    if (Is(node, "batch_norm")) return AddBatchNorm(node);
    if (Is(node, "dropout") && phase_ == Phase::kInference) return AddIdentity(node);
    std::vector<ValueId> inputs;
    for (const ValueId id : node.operands.empty() ? node.inputs : node.operands)
      inputs.push_back(Of(id));
    if (DrawsByStep(node) && draws_.valid()) {
      if (inputs.size() < 2) inputs.resize(2);
      if (!inputs[1].valid()) inputs[1] = draws_;
    }
    return AddAs(node, std::move(inputs));
  }

  absl::Status AddAs(const Node& node, std::vector<ValueId> inputs) {
    std::vector<std::string> names;
    for (const ValueId id : node.outputs) names.push_back(from_.value(id).name);
    KILN_ASSIGN_OR_RETURN(
        const std::vector<ValueId> made,
        to_.AddNode(*node.op, std::move(inputs), node.attrs, node.name, std::move(names)));
    for (size_t k = 0; k < made.size(); ++k) At(node.outputs[k]) = made[k];
    return absl::OkStatus();
  }

  absl::Status AddIdentity(const Node& node) {
    const ValueId x = Of(node.inputs[0]);
    KILN_ASSIGN_OR_RETURN(
        const std::vector<ValueId> made,
        to_.AddNode(*FindOp("identity"), {x}, {}, node.name, {from_.value(node.outputs[0]).name}));
    At(node.outputs[0]) = made[0];
    if (node.outputs.size() > 1)
      At(node.outputs[1]) =
          b_.Op("expand", {b_.Scalar(DType::kBool, 1)}, {{"shape", DimsValue(b_.shape(x))}});
    return b_.status();
  }

  absl::Status AddBatchNorm(const Node& node) {
    const StatisticNames names = StatisticsOf(from_, node);
    std::vector<ValueId> inputs;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const std::string& name = k == 3 ? names.mean : names.variance;
      const auto used = k < 3 || name.empty() ? used_.end() : used_.find(name);
      inputs.push_back(used != used_.end() ? used->second : Of(node.inputs[k]));
    }
    if (phase_ == Phase::kTraining && !names.mean.empty())
      KILN_RETURN_IF_ERROR(NormalizeByBatch(names, inputs));
    return AddAs(node, std::move(inputs));
  }

  absl::Status NormalizeByBatch(const StatisticNames& names, std::vector<ValueId>& inputs) {
    const DType type = ComputeType(b_.type(inputs[0])), stored = b_.type(inputs[3]);
    std::vector<int64_t> others;
    for (size_t axis = 0; axis < b_.shape(inputs[0]).size(); ++axis) {
      if (axis != 1) others.push_back(static_cast<int64_t>(axis));
    }
    const auto mean_of = [&](ValueId x) {
      return b_.Op("reduce_mean", {x}, {{"axes", others}, {"keepdims", int64_t{1}}});
    };
    const auto channels = [&](ValueId x) { return b_.Op("squeeze", {x}, {{"axes", others}}); };
    const ValueId x = To(b_, inputs[0], type), mean = mean_of(x);
    const ValueId difference = b_.Op("sub", {x, mean});
    const ValueId variance = mean_of(b_.Op("mul", {difference, difference}));
    inputs[3] = channels(mean);
    inputs[4] = channels(variance);
    KILN_RETURN_IF_ERROR(b_.status());
    batch_[names.mean] = To(b_, inputs[3], stored);
    batch_[names.variance] = To(b_, inputs[4], stored);
    return b_.status();
  }

  const Graph& from_;
  const Phase phase_;
  Graph to_;
  GraphBuilder b_;
  std::vector<ValueId> map_;
  std::map<std::string, ValueId> used_, batch_;
  ValueId draws_;
};

}  // namespace

absl::StatusOr<PhaseGraph> MakePhaseGraph(const Graph& model, const Choice& choice, Phase phase,
                                          double momentum) {
  Copy copy(model, phase);
  GraphBuilder& b = copy.builder();
  std::vector<ValueId> parameters, statistics, flat_statistics;
  const auto add = [&](const FlatGroup& group, const char* name, std::vector<ValueId>& parts) {
    const ValueId flat = b.Input(absl::StrCat("kiln/", name, ".", Name(group.type)), group.type,
                                 {group.layout.elements});
    for (const ValueId part : Parts(b, group.layout, flat)) {
      copy.Use(group.layout.parts[parts.size()].name, part);
      parts.push_back(part);
    }
    return flat;
  };
  for (const FlatGroup& group : choice.parameters) {
    std::vector<ValueId> parts;
    add(group, "parameters", parts);
    parameters.insert(parameters.end(), parts.begin(), parts.end());
  }
  for (const FlatGroup& group : choice.statistics) {
    std::vector<ValueId> parts;
    flat_statistics.push_back(add(group, "statistics", parts));
  }
  if (phase == Phase::kTraining) copy.DrawBy(b.Input("kiln/draws", DType::kI64, {}));
  KILN_RETURN_IF_ERROR(b.status());
  KILN_RETURN_IF_ERROR(copy.Nodes());
  for (size_t g = 0; g < choice.statistics.size() && phase == Phase::kTraining; ++g) {
    const FlatGroup& group = choice.statistics[g];
    std::vector<ValueId> batch;
    for (const FlatLayout::Part& part : group.layout.parts) {
      const auto found = copy.batch_statistics().find(part.name);
      if (found == copy.batch_statistics().end())
        return absl::FailedPreconditionError(
            absl::StrCat("trainer: made for other extents, the model has no statistic \"",
                         Printable(part.name), "\""));
      batch.push_back(found->second);
    }
    const ValueId kept = b.Op("mul", {flat_statistics[g], b.Scalar(group.type, momentum)});
    const ValueId fresh =
        b.Op("mul", {Flat(b, group.layout, batch), b.Scalar(group.type, 1 - momentum)});
    statistics.push_back(b.Op("add", {kept, fresh}));
  }
  KILN_RETURN_IF_ERROR(b.status());
  PhaseGraph made;
  made.graph = copy.Take();
  made.model_outputs = made.graph.outputs().size();
  made.parameters = parameters.size();
  made.statistics = statistics.size();
  for (const std::vector<ValueId>* values : {&parameters, &statistics}) {
    for (const ValueId id : *values)
      made.graph.AddOutput(id, absl::StrCat("kiln/", made.graph.outputs().size()));
  }
  return made;
}

absl::StatusOr<Graph> WithValues(const Graph& model, const std::map<std::string, Tensor>& values) {
  Copy copy(model, Phase::kInference);
  for (const auto& [name, value] : values) copy.Use(name, copy.builder().Constant(value, name));
  KILN_RETURN_IF_ERROR(copy.Nodes());
  Graph graph = copy.Take();
  graph.RemoveDead();
  KILN_RETURN_IF_ERROR(Verify(graph));
  return graph;
}

}  // namespace kiln::training
