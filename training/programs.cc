// SPDX-License-Identifier: Apache-2.0
#include "training/programs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/dtype.h"
#include "base/printable.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "graph/gradient/mixed_precision.h"
#include "graph/ops/nodes.h"
#include "graph/rebuild.h"
#include "graph/training/flat_tensors.h"
#include "graph/training/optimizer.h"
#include "kiln/gradients.h"
#include "training/phase_graph.h"
#include "training/schedule.h"
#include "training/state.h"

namespace kiln::training {
namespace {

using ops::To;

absl::Status CheckNumbers(const TrainerOptions& o) {
  const auto check = [](const char* name, double value, bool holds, const char* range) {
    return holds ? absl::OkStatus() : Invalid("trainer: ", name, " is ", value, "; it is ", range);
  };
  const auto limit = [](double value) { return value >= 0 && std::isfinite(value); };
  KILN_RETURN_IF_ERROR(check("clip_norm", o.clip_norm, limit(o.clip_norm), "0 or above"));
  KILN_RETURN_IF_ERROR(check("clip_value", o.clip_value, limit(o.clip_value), "0 or above"));
  KILN_RETURN_IF_ERROR(check("loss_scale", o.loss_scale,
                             o.loss_scale >= kLeastScale && o.loss_scale <= kLargestScale,
                             "from 2^-64 to 2^64"));
  KILN_RETURN_IF_ERROR(check("micro_batches", o.micro_batches, o.micro_batches >= 1, "1 or above"));
  KILN_RETURN_IF_ERROR(check("batch_norm_momentum", o.batch_norm_momentum,
                             o.batch_norm_momentum >= 0 && o.batch_norm_momentum <= 1,
                             "from 0 to 1"));
  const bool known =
      o.precision == DType::kF32 || o.precision == DType::kBF16 || o.precision == DType::kF16;
  if (!known)
    return Invalid("trainer: precision is ", Name(o.precision), "; it is f32, bf16 or f16");
  if (!o.compile.states.empty() || !o.compile.updatable.empty() || !o.compile.const_shapes.empty())
    return Invalid("trainer: compile.states, compile.updatable and compile.const_shapes are the ",
                   "trainer's own; leave them empty");
  return absl::OkStatus();
}

absl::StatusOr<size_t> OutputOf(const Graph& model, const std::string& name) {
  std::vector<std::string> names;
  for (const Graph::Output& output : model.outputs()) {
    if (name.empty() || output.name == name) return names.size();
    names.push_back(Printable(output.name));
  }
  return Invalid("trainer: the model has no output \"", Printable(name), "\"; it has ",
                 names.empty() ? "none" : absl::StrJoin(names, ", "));
}

// Makes the graph again by `make`, which takes the model made for the shapes of its own inputs.
template <typename Make>
std::shared_ptr<const Graph::Maker> MakerOf(const std::shared_ptr<const Plan>& plan, Make make) {
  return std::make_shared<const Graph::Maker>(
      [plan, make](const std::vector<Shape>& shapes) -> absl::StatusOr<Graph> {
        const auto own = static_cast<std::ptrdiff_t>(plan->model.inputs().size());
        KILN_ASSIGN_OR_RETURN(const Graph made,
                              WithInputShapes(plan->model, {shapes.begin(), shapes.begin() + own}));
        return make(made);
      });
}

// The labels of this model's output, which may be made for other extents than the plan's.
absl::StatusOr<ValueId> AddLabels(GraphBuilder& b, const Plan& plan, ValueId output) {
  KILN_ASSIGN_OR_RETURN(const LossPort port,
                        LabelsOf(plan.options.loss, b.value(output), plan.options.labels));
  return port.labels ? b.Input(port.labels->name, port.labels->type, port.labels->shape)
                     : ValueId();
}

// The gradient of a group's parameters, from those of all.
std::vector<ValueId> FlatGradients(GraphBuilder& b, const Plan& plan,
                                   const std::vector<ValueId>& gradients) {
  std::vector<ValueId> flat;
  auto at = gradients.begin();
  for (const FlatGroup& group : plan.choice.parameters) {
    const auto end = at + static_cast<std::ptrdiff_t>(group.layout.parts.size());
    flat.push_back(Flat(b, group.layout, {at, end}));
    at = end;
  }
  return flat;
}

absl::StatusOr<Graph> Gradients(const Plan& plan, const Graph& model) {
  const TrainerOptions& options = plan.options;
  KILN_ASSIGN_OR_RETURN(PhaseGraph phase, MakePhaseGraph(model, plan.choice, Phase::kTraining,
                                                         options.batch_norm_momentum));
  Graph graph = std::move(phase.graph);
  if (options.precision != DType::kF32) {
    KILN_ASSIGN_OR_RETURN(graph, WithProductsIn(graph, options.precision));
    graph.maker = nullptr;
  }
  std::vector<ValueId> parameters;
  std::vector<Graph::Output> outputs(1);
  const std::vector<Graph::Output> made = graph.outputs();
  for (size_t k = 0; k < phase.parameters; ++k)
    parameters.push_back(made[phase.model_outputs + k].value);
  const ValueId output = made[plan.output].value;
  GraphBuilder b(&graph);
  const ValueId scale = b.Input("kiln/scale", DType::kF32, {});
  KILN_ASSIGN_OR_RETURN(const ValueId labels, AddLabels(b, plan, output));
  KILN_ASSIGN_OR_RETURN(const ValueId loss, AddLoss(b, options.loss, output, labels));
  ValueId scaled = loss;
  if (options.precision == DType::kF16) scaled = b.Op("mul", {loss, To(b, scale, b.type(loss))});
  KILN_ASSIGN_OR_RETURN(const std::vector<ValueId> gradients,
                        kiln::Gradients(b, scaled, parameters));
  outputs[0] = {"loss", loss};
  for (const ValueId flat : FlatGradients(b, plan, gradients))
    outputs.push_back({absl::StrCat("gradients.", outputs.size()), flat});
  for (size_t k = made.size() - phase.statistics; k < made.size(); ++k)
    outputs.push_back({absl::StrCat("statistics.", outputs.size()), made[k].value});
  KILN_RETURN_IF_ERROR(b.status());
  graph.SetOutputs(std::move(outputs));
  graph.RemoveDead();
  graph.premises = model.premises;
  KILN_RETURN_IF_ERROR(Verify(graph));
  return graph;
}

absl::StatusOr<Graph> Evaluation(const Plan& plan, const Graph& model, bool with_loss) {
  KILN_ASSIGN_OR_RETURN(PhaseGraph phase, MakePhaseGraph(model, plan.choice, Phase::kInference, 0));
  Graph graph = std::move(phase.graph);
  std::vector<Graph::Output> outputs = graph.outputs();
  outputs.resize(phase.model_outputs);
  if (with_loss) {
    GraphBuilder b(&graph);
    const ValueId output = outputs[plan.output].value;
    KILN_ASSIGN_OR_RETURN(const ValueId labels, AddLabels(b, plan, output));
    KILN_ASSIGN_OR_RETURN(const ValueId loss, AddLoss(b, plan.options.loss, output, labels));
    outputs.push_back({"kiln/loss", loss});
  }
  graph.SetOutputs(std::move(outputs));
  graph.RemoveDead();
  KILN_RETURN_IF_ERROR(Verify(graph));
  return graph;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Plan>> MakePlan(Graph model, const TrainerOptions& options) {
  KILN_RETURN_IF_ERROR(CheckNumbers(options));
  KILN_RETURN_IF_ERROR(CheckLoss(options.loss));
  KILN_RETURN_IF_ERROR(CheckOptimizer(options.optimizer));
  KILN_RETURN_IF_ERROR(CheckSchedule(options.schedule));
  Plan plan;
  plan.options = options;
  plan.model = std::move(model);
  KILN_ASSIGN_OR_RETURN(plan.output, OutputOf(plan.model, options.output));
  const ValueId output = plan.model.outputs()[plan.output].value;
  KILN_ASSIGN_OR_RETURN(plan.loss,
                        LabelsOf(options.loss, plan.model.value(output), options.labels));
  for (const ValueId id : plan.model.inputs()) {
    if (plan.loss.labels && plan.model.value(id).name == options.labels)
      return Invalid("trainer: the model has an input \"", Printable(options.labels),
                     "\"; give labels another name with `labels`");
  }
  KILN_ASSIGN_OR_RETURN(plan.choice,
                        Choose(plan.model, output, options.parameters, options.frozen));
  return std::make_shared<const Plan>(std::move(plan));
}

absl::StatusOr<Graph> GradientGraph(const std::shared_ptr<const Plan>& plan) {
  KILN_ASSIGN_OR_RETURN(Graph graph, Gradients(*plan, plan->model));
  graph.maker = MakerOf(plan, [plan](const Graph& made) { return Gradients(*plan, made); });
  return graph;
}

absl::StatusOr<Graph> EvaluationGraph(const std::shared_ptr<const Plan>& plan, bool with_loss) {
  KILN_ASSIGN_OR_RETURN(Graph graph, Evaluation(*plan, plan->model, with_loss));
  graph.maker = MakerOf(
      plan, [plan, with_loss](const Graph& made) { return Evaluation(*plan, made, with_loss); });
  return graph;
}

absl::StatusOr<Graph> SumGraph(const Plan& plan) {
  GraphBuilder b("sum");
  std::vector<ValueId> sums;
  for (const FlatGroup& group : plan.choice.parameters) {
    const Shape shape = {group.layout.elements};
    const ValueId x = b.Input("sum", group.type, shape);
    const ValueId y = b.Input("part", group.type, shape);
    sums.push_back(b.Op("add", {x, y}));
  }
  for (size_t k = 0; k < sums.size(); ++k) b.Output(sums[k], absl::StrCat("sum.", k));
  return std::move(b).Finish();
}

absl::StatusOr<Graph> UpdateGraph(const Plan& plan) {
  const TrainerOptions& options = plan.options;
  GraphBuilder b("update");
  std::vector<ValueId> parameters, gradients;
  std::vector<std::vector<ValueId>> moments;
  for (const FlatGroup& group : plan.choice.parameters) {
    const auto input = [&](const std::string& name) {
      return b.Input(name, group.type, {group.layout.elements});
    };
    parameters.push_back(input("parameter"));
    gradients.push_back(input("gradient"));
    moments.emplace_back();
    for (const std::string& name : MomentNames(options.optimizer))
      moments.back().push_back(input(name));
  }
  const ValueId lr = b.Input("lr", DType::kF64, {}), t = b.Input("t", DType::kI64, {});
  const ValueId share = b.Input("share", DType::kF32, {});
  KILN_RETURN_IF_ERROR(b.status());
  ValueId finite;
  for (ValueId& gradient : gradients) {
    const DType type = b.type(gradient), wide = ComputeType(type);
    gradient = To(b, b.Op("mul", {To(b, gradient, wide), To(b, share, wide)}), type);
    if (options.precision == DType::kF16) {
      const ValueId most =
          b.Op("reduce_max", {b.Op("abs", {gradient})}, {{"keepdims", int64_t{0}}});
      const ValueId infinity = b.Scalar(type, std::numeric_limits<double>::infinity());
      const ValueId own = b.Op("less", {most, infinity});
      finite = finite.valid() ? b.Op("and", {finite, own}) : own;
    }
    if (options.clip_value > 0) gradient = ClipByValue(b, gradient, options.clip_value);
  }
  if (options.clip_norm > 0)
    gradients = ClipByGlobalNorm(b, gradients, options.clip_norm).gradients;
  KILN_RETURN_IF_ERROR(b.status());
  const auto give = [&](ValueId next, ValueId old) {
    if (finite.valid()) next = b.Op("where", {finite, next, old});
    b.Output(next, absl::StrCat("next.", next.v));
  };
  for (size_t g = 0; g < parameters.size(); ++g) {
    KILN_ASSIGN_OR_RETURN(const Updated next, Update(b, options.optimizer, parameters[g],
                                                     gradients[g], moments[g], lr, t));
    give(next.parameter, parameters[g]);
    for (size_t k = 0; k < moments[g].size(); ++k) give(next.moments[k], moments[g][k]);
  }
  if (finite.valid()) b.Output(finite, "finite");
  return std::move(b).Finish();
}

}  // namespace kiln::training
