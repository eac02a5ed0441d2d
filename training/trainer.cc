// SPDX-License-Identifier: Apache-2.0
#include "kiln/trainer.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/catch_exceptions.h"
#include "base/dtype.h"
#include "base/file_system.h"
#include "base/printable.h"
#include "base/publish_file.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "base/try_allocate.h"
#include "compiler/check_options.h"
#include "compiler/compile.h"
#include "compiler/model_bytes.h"
#include "compiler/model_source.h"
#include "graph/graph.h"
#include "graph/onnx/export.h"
#include "graph/tensors.h"
#include "graph/training/optimizer.h"
#include "training/batches.h"
#include "training/loss.h"
#include "training/phase_graph.h"
#include "training/programs.h"
#include "training/schedule.h"
#include "training/state.h"

namespace kiln {
namespace {

using training::Plan;

constexpr char kTraining[] = "training";
constexpr int64_t kGrowthInterval = 2000;  // finite steps before the loss scale doubles

// A compiled program, and the one context that runs it.
struct Program {
  static absl::StatusOr<Program> Make(absl::StatusOr<Graph> graph, const CompileOptions& options) {
    KILN_RETURN_IF_ERROR(graph.status());
    KILN_ASSIGN_OR_RETURN(Model model, Compile(*std::move(graph), options));
    Context context = model.NewContext();
    return Program{std::move(model), std::move(context)};
  }

  // Binds the next inputs, and the next outputs.
  absl::Status BindInputs(const Tensor& tensor) { return context.Bind(next_input++, tensor); }
  absl::Status BindInputs(const std::vector<Tensor>& tensors) {
    for (const Tensor& tensor : tensors) KILN_RETURN_IF_ERROR(BindInputs(tensor));
    return absl::OkStatus();
  }
  absl::Status BindOutputs(const std::vector<Tensor>& tensors) {
    for (const Tensor& tensor : tensors)
      KILN_RETURN_IF_ERROR(context.BindOutput(next_output++, tensor));
    return absl::OkStatus();
  }
  void Rebind() { next_input = next_output = 0; }

  Model model;
  Context context;
  size_t next_input = 0, next_output = 0;
};

struct Programs {
  static absl::StatusOr<Programs> Make(const std::shared_ptr<const Plan>& plan) {
    const CompileOptions& options = plan->options.compile;
    Programs made;
    KILN_ASSIGN_OR_RETURN(made.gradients, Program::Make(training::GradientGraph(plan), options));
    KILN_ASSIGN_OR_RETURN(made.update, Program::Make(training::UpdateGraph(*plan), options));
    if (plan->options.micro_batches > 1) {
      KILN_ASSIGN_OR_RETURN(made.sum, Program::Make(training::SumGraph(*plan), options));
    }
    return made;
  }

  std::optional<Program> gradients, sum, update;
};

// One element in memory of its own.
absl::StatusOr<Tensor> Scalar(DType type) { return TryAllocate(type, {}); }

absl::StatusOr<std::vector<Tensor>> EmptyLikes(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> made;
  for (const Tensor& tensor : tensors) {
    KILN_ASSIGN_OR_RETURN(made.emplace_back(), TryAllocate(tensor.dtype(), tensor.shape()));
  }
  return made;
}

std::vector<PortInfo> PortsOf(const Graph& graph, bool inputs) {
  std::vector<PortInfo> ports;
  const auto add = [&](const std::string& name, ValueId id) {
    ports.push_back({name, graph.value(id).type, graph.value(id).shape});
  };
  if (inputs) {
    for (const ValueId id : graph.inputs()) add(graph.value(id).name, id);
  } else {
    for (const Graph::Output& output : graph.outputs()) add(output.name, output.value);
  }
  return ports;
}

absl::StatusOr<Graph> ReadForTraining(absl::string_view path, OnnxImportOptions import) {
  if (absl::EndsWith(path, ".kiln"))
    return Invalid("trainer: \"", Printable(path),
                   "\" is a package, whose constants stay as they are; train the model that it was "
                   "made of");
  import.training = true;
  KILN_ASSIGN_OR_RETURN(const ModelSource source, ModelSource::Read(std::string(path), import));
  if (source.needs_inputs()) return ImportOnnx(path, import).status();  // says for what
  return source.graph();
}

}  // namespace

struct Trainer::Impl {
  Impl(std::shared_ptr<const Plan> made, Programs programs, training::State begin)
      : plan(std::move(made)),
        state(std::move(begin)),
        gradients(std::move(programs.gradients)),
        sum(std::move(programs.sum)),
        update(std::move(programs.update)) {}

  static absl::StatusOr<std::unique_ptr<Impl>> Create(Graph graph, const TrainerOptions& options);
  absl::Status Prepare();

  // In their order, for runs of so many parts; labels are checked.
  absl::StatusOr<std::vector<Tensor>> InputsOf(const NamedTensors& given, bool labels,
                                               int parts) const;
  // Runs one part of a batch; `first`: its gradients are the sum so far. Gives its loss.
  absl::StatusOr<double> RunPart(const std::vector<Tensor>& inputs, bool first, int64_t draws);
  absl::Status ApplyGradients();
  absl::StatusOr<double> Step(const NamedTensors& given);
  absl::StatusOr<std::vector<Tensor>> Infer(std::optional<Program>& program,
                                            const NamedTensors& given, bool with_loss);

  const std::shared_ptr<const Plan> plan;
  training::LearningRateSchedule schedule;
  training::State state;
  std::vector<PortInfo> inputs, model_inputs, outputs, parameters, statistics;
  // Of one step: gradients so far and those of a part; statistics after a part, by turns.
  std::vector<Tensor> sums, part, statistics_now, statistics_next;
  Tensor draws, scale, lr, t, share;
  std::optional<Program> gradients, sum, update, evaluation, inference;
  bool lost = false;  // an update failed while it wrote
};

absl::StatusOr<std::unique_ptr<Trainer::Impl>> Trainer::Impl::Create(
    Graph graph, const TrainerOptions& options) {
  KILN_RETURN_IF_ERROR(Verify(graph));
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<const Plan> plan,
                        training::MakePlan(std::move(graph), options));
  // Memory of several models is written while programs are compiled.
  const NoThreads scope(StartsNoThreads(plan->options.compile));
  absl::StatusOr<training::State> state = absl::UnknownError("not made");
  const auto create = [&] {
    state = CatchExceptions(kTraining, [&] {
      return training::State::Create(plan->choice, training::MomentNames(options.optimizer),
                                     options);
    });
  };
  absl::StatusOr<Thread> beside = Thread::Start(create);
  KILN_ASSIGN_OR_RETURN(Programs programs, Programs::Make(plan));
  if (beside.ok()) {
    beside->Join();
  } else {
    create();
  }
  KILN_RETURN_IF_ERROR(state.status());
  auto impl = std::make_unique<Impl>(std::move(plan), std::move(programs), *std::move(state));
  KILN_RETURN_IF_ERROR(impl->Prepare());
  return impl;
}

absl::Status Trainer::Impl::Prepare() {
  const TrainerOptions& options = plan->options;
  schedule = options.schedule;
  inputs = model_inputs = PortsOf(plan->model, true);
  if (plan->loss.labels) inputs.push_back(*plan->loss.labels);
  outputs = PortsOf(plan->model, false);
  parameters = training::PortsOf(plan->choice.parameters);
  statistics = training::PortsOf(plan->choice.statistics);
  KILN_ASSIGN_OR_RETURN(sums, EmptyLikes(state.parameters));
  KILN_ASSIGN_OR_RETURN(statistics_now, EmptyLikes(state.statistics));
  KILN_ASSIGN_OR_RETURN(statistics_next, EmptyLikes(state.statistics));
  KILN_ASSIGN_OR_RETURN(draws, Scalar(DType::kI64));
  KILN_ASSIGN_OR_RETURN(t, Scalar(DType::kI64));
  KILN_ASSIGN_OR_RETURN(lr, Scalar(DType::kF64));
  KILN_ASSIGN_OR_RETURN(scale, Scalar(DType::kF32));
  KILN_ASSIGN_OR_RETURN(share, Scalar(DType::kF32));
  if (options.micro_batches > 1) {
    KILN_ASSIGN_OR_RETURN(part, EmptyLikes(state.parameters));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> Trainer::Impl::InputsOf(const NamedTensors& given, bool labels,
                                                            int parts) const {
  KILN_ASSIGN_OR_RETURN(std::vector<Tensor> tensors,
                        training::InOrder(labels ? inputs : model_inputs, given));
  if (!labels || !plan->loss.labels) return tensors;
  KILN_ASSIGN_OR_RETURN(const std::vector<std::vector<Tensor>> cut,
                        training::Cut(inputs, tensors, parts));
  KILN_ASSIGN_OR_RETURN(const std::optional<int64_t> classes,
                        training::ClassesOf(plan->loss, plan->model, cut[0]));
  KILN_ASSIGN_OR_RETURN(
      tensors.back(), training::AsLabels(plan->options.loss, plan->loss, classes, tensors.back()));
  return tensors;
}

absl::StatusOr<double> Trainer::Impl::RunPart(const std::vector<Tensor>& given, bool first,
                                              int64_t draw) {
  WriteInt(draws, 0, draw);
  WriteFloat(scale, 0, state.counts.scale);
  const size_t own = model_inputs.size();
  const auto labels = given.begin() + static_cast<std::ptrdiff_t>(own);
  Program& run = *gradients;
  run.Rebind();
  KILN_RETURN_IF_ERROR(run.BindInputs(std::vector<Tensor>(given.begin(), labels)));
  KILN_RETURN_IF_ERROR(run.BindInputs(state.parameters));
  KILN_RETURN_IF_ERROR(run.BindInputs(first ? state.statistics : statistics_now));
  KILN_RETURN_IF_ERROR(run.BindInputs({draws, scale}));
  KILN_RETURN_IF_ERROR(run.BindInputs(std::vector<Tensor>(labels, given.end())));
  run.next_output = 1;  // the loss lies in the context
  KILN_RETURN_IF_ERROR(run.BindOutputs(first ? sums : part));
  KILN_RETURN_IF_ERROR(run.BindOutputs(statistics_next));
  KILN_RETURN_IF_ERROR(run.context.Run());
  std::swap(statistics_now, statistics_next);
  KILN_ASSIGN_OR_RETURN(const Tensor loss, run.context.Output(size_t{0}));
  if (first) return ReadFloat(loss, 0);
  sum->Rebind();
  for (size_t g = 0; g < sums.size(); ++g)
    KILN_RETURN_IF_ERROR(sum->BindInputs({sums[g], part[g]}));
  KILN_RETURN_IF_ERROR(sum->BindOutputs(sums));
  KILN_RETURN_IF_ERROR(sum->context.Run());
  return ReadFloat(loss, 0);
}

absl::Status Trainer::Impl::ApplyGradients() {
  training::Counts& counts = state.counts;
  const bool scaled = plan->options.precision == DType::kF16;
  WriteFloat(lr, 0, training::LearningRate(schedule, counts.step));
  WriteInt(t, 0, counts.updates + 1);
  WriteFloat(share, 0, 1 / (counts.scale * plan->options.micro_batches));
  Program& run = *update;
  run.Rebind();
  for (size_t g = 0; g < sums.size(); ++g) {
    KILN_RETURN_IF_ERROR(run.BindInputs({state.parameters[g], sums[g]}));
    KILN_RETURN_IF_ERROR(run.BindInputs(state.moments[g]));
    KILN_RETURN_IF_ERROR(run.BindOutputs({state.parameters[g]}));
    KILN_RETURN_IF_ERROR(run.BindOutputs(state.moments[g]));
  }
  KILN_RETURN_IF_ERROR(run.BindInputs({lr, t, share}));
  if (const absl::Status status = run.context.Run(); !status.ok()) {
    lost = true;
    return Annotate(status,
                    "trainer: the update failed, and parameters may be half written; load "
                    "a checkpoint");
  }
  bool finite = true;
  if (scaled) {
    KILN_ASSIGN_OR_RETURN(const Tensor flag, run.context.Output(run.next_output));
    finite = ReadInt(flag, 0) != 0;
  }
  ++counts.step;
  if (finite) ++counts.updates;
  if (!scaled) return absl::OkStatus();
  counts.steady = finite ? counts.steady + 1 : 0;
  if (!finite) counts.scale = std::max(counts.scale / 2, training::kLeastScale);
  if (counts.steady >= kGrowthInterval) {
    counts.steady = 0;
    counts.scale = std::min(counts.scale * 2, training::kLargestScale);
  }
  return absl::OkStatus();
}

absl::StatusOr<double> Trainer::Impl::Step(const NamedTensors& given) {
  if (lost)
    return absl::FailedPreconditionError(
        "trainer: an update failed while parameters were written; load a checkpoint");
  const int parts = plan->options.micro_batches;
  KILN_ASSIGN_OR_RETURN(const std::vector<Tensor> tensors, InputsOf(given, true, parts));
  KILN_ASSIGN_OR_RETURN(const std::vector<std::vector<Tensor>> cut,
                        training::Cut(inputs, tensors, parts));
  double loss = 0;
  int64_t draw = state.counts.draws;
  for (size_t p = 0; p < cut.size(); ++p) {
    KILN_ASSIGN_OR_RETURN(const double own, RunPart(cut[p], p == 0, draw));
    loss += own;
    draw = draw < INT64_MAX ? draw + 1 : 0;  // behind the largest seed's last
  }
  KILN_RETURN_IF_ERROR(ApplyGradients());
  std::swap(state.statistics, statistics_now);
  state.counts.draws = draw;
  return loss / parts;
}

absl::StatusOr<std::vector<Tensor>> Trainer::Impl::Infer(std::optional<Program>& program,
                                                         const NamedTensors& given,
                                                         bool with_loss) {
  KILN_ASSIGN_OR_RETURN(const std::vector<Tensor> tensors, InputsOf(given, with_loss, 1));
  if (!program) {
    KILN_ASSIGN_OR_RETURN(
        program, Program::Make(training::EvaluationGraph(plan, with_loss), plan->options.compile));
  }
  const auto labels = tensors.begin() + static_cast<std::ptrdiff_t>(model_inputs.size());
  program->Rebind();
  KILN_RETURN_IF_ERROR(program->BindInputs(std::vector<Tensor>(tensors.begin(), labels)));
  KILN_RETURN_IF_ERROR(program->BindInputs(state.parameters));
  KILN_RETURN_IF_ERROR(program->BindInputs(state.statistics));
  KILN_RETURN_IF_ERROR(program->BindInputs(std::vector<Tensor>(labels, tensors.end())));
  KILN_RETURN_IF_ERROR(program->context.Run());
  std::vector<Tensor> made;
  for (size_t k = 0; k < outputs.size() + (with_loss ? 1 : 0); ++k) {
    KILN_ASSIGN_OR_RETURN(const Tensor output, program->context.Output(k));
    made.push_back(output.Clone());
  }
  return made;
}

Trainer::Trainer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;
Trainer::~Trainer() = default;

absl::StatusOr<Trainer> Trainer::Create(Graph graph, const TrainerOptions& options) {
  return CatchExceptions(kTraining, [&]() -> absl::StatusOr<Trainer> {
    KILN_ASSIGN_OR_RETURN(auto impl, Impl::Create(std::move(graph), options));
    return Trainer(std::move(impl));
  });
}

absl::StatusOr<Trainer> Trainer::Create(GraphBuilder graph, const TrainerOptions& options) {
  return CatchExceptions(kTraining, [&]() -> absl::StatusOr<Trainer> {
    KILN_ASSIGN_OR_RETURN(Graph made, std::move(graph).Finish());
    return Create(std::move(made), options);
  });
}

absl::StatusOr<Trainer> Trainer::Create(absl::string_view path, const TrainerOptions& options) {
  return CatchExceptions(kTraining, [&]() -> absl::StatusOr<Trainer> {
    KILN_ASSIGN_OR_RETURN(Graph graph, ReadForTraining(path, ImportOptionsOf(options.compile)));
    return Create(std::move(graph), options);
  });
}

absl::StatusOr<Trainer> Trainer::Create(const ModelBytes& bytes, const TrainerOptions& options) {
  return CatchExceptions(kTraining, [&]() -> absl::StatusOr<Trainer> {
    OnnxImportOptions import = ImportOptionsOf(options.compile);
    KILN_ASSIGN_OR_RETURN(const ModelBytes own, OwnBytes(bytes));
    KILN_ASSIGN_OR_RETURN(import.memory, OpenInMemory(own, import));
    KILN_ASSIGN_OR_RETURN(Graph graph, ReadForTraining(own.name, std::move(import)));
    return Create(std::move(graph), options);
  });
}

const std::vector<PortInfo>& Trainer::inputs() const { return impl_->inputs; }
const std::vector<PortInfo>& Trainer::outputs() const { return impl_->outputs; }
const std::vector<PortInfo>& Trainer::parameters() const { return impl_->parameters; }
const std::vector<PortInfo>& Trainer::statistics() const { return impl_->statistics; }
int64_t Trainer::step() const { return impl_->state.counts.step; }

absl::StatusOr<double> Trainer::Step(const NamedTensors& inputs) {
  return CatchExceptions(kTraining, [&] { return impl_->Step(inputs); });
}

absl::StatusOr<Evaluation> Trainer::Evaluate(const NamedTensors& inputs) {
  return CatchExceptions(kTraining, [&]() -> absl::StatusOr<Evaluation> {
    Evaluation evaluation;
    KILN_ASSIGN_OR_RETURN(evaluation.outputs, impl_->Infer(impl_->evaluation, inputs, true));
    evaluation.loss = ReadFloat(evaluation.outputs.back(), 0);
    evaluation.outputs.pop_back();
    return evaluation;
  });
}

absl::StatusOr<std::vector<Tensor>> Trainer::Run(const NamedTensors& inputs) {
  return CatchExceptions(kTraining, [&] { return impl_->Infer(impl_->inference, inputs, false); });
}

double Trainer::learning_rate() const {
  return training::LearningRate(impl_->schedule, impl_->state.counts.step);
}
absl::Status Trainer::SetSchedule(const training::LearningRateSchedule& schedule) {
  KILN_RETURN_IF_ERROR(training::CheckSchedule(schedule));
  impl_->schedule = schedule;
  return absl::OkStatus();
}

absl::StatusOr<Tensor> Trainer::Parameter(absl::string_view name) const {
  return CatchExceptions(kTraining, [&]() -> absl::StatusOr<Tensor> {
    KILN_ASSIGN_OR_RETURN(const Tensor view, impl_->state.Find(name));
    return view.Clone();
  });
}

absl::Status Trainer::SetParameter(absl::string_view name, const Tensor& value) {
  return CatchExceptions(kTraining, [&] { return impl_->state.Set(name, value); });
}

absl::Status Trainer::Save(absl::string_view path,
                           const std::map<std::string, std::string>& metadata) const {
  return CatchExceptions(kTraining, [&]() -> absl::Status {
    if (impl_->lost)
      return absl::FailedPreconditionError(
          "trainer: an update failed while parameters were written; they are not saved");
    return impl_->state.Save(RealFileSystem(), path, metadata);
  });
}

absl::StatusOr<std::map<std::string, std::string>> Trainer::Load(absl::string_view path) {
  return CatchExceptions(kTraining, [&]() -> absl::StatusOr<std::map<std::string, std::string>> {
    KILN_ASSIGN_OR_RETURN(auto metadata, impl_->state.Load(RealFileSystem(), path));
    impl_->lost = false;
    return metadata;
  });
}

absl::Status Trainer::ExportOnnx(absl::string_view path) const {
  return CatchExceptions(kTraining, [&]() -> absl::Status {
    KILN_ASSIGN_OR_RETURN(const Graph graph,
                          training::WithValues(impl_->plan->model, impl_->state.Values()));
    KILN_ASSIGN_OR_RETURN(const std::string bytes, kiln::ExportOnnx(graph));
    return PublishFile(RealFileSystem(), path,
                       [&](WritableFile& file) { return file.Append(bytes); });
  });
}

}  // namespace kiln
