// SPDX-License-Identifier: Apache-2.0
#include "exec/plan.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "exec/batch_tiling.h"
#include "exec/copy_order.h"
#include "exec/plan_arguments.h"
#include "exec/plan_calls.h"
#include "exec/plan_draft.h"
#include "exec/plan_launches.h"
#include "exec/plan_threads.h"
#include "exec/plan_verifier.h"

namespace kiln {
namespace {

// For who watches the launches.
void AddOperands(const Operands& operands, PlanStep& step) {
  step.inputs = operands.inputs.size();
  for (const auto* refs : {&operands.inputs, &operands.outputs}) {
    for (const ResolvedRef& ref : *refs)
      step.operands.push_back({ref.buffer, ref.type, ref.shape, ref.strides});
  }
}

// Whether a run reads operand k of the thunk itself, not what a primitive has made of it.
bool Reads(const PlanDraft& draft, size_t t, size_t k) {
  const std::vector<PlanLaunch>& launches = draft.launches[t];
  return launches.empty() ||
         std::any_of(launches.begin(), launches.end(), [&](const PlanLaunch& launch) {
           const auto* const library = std::get_if<LibraryLaunch>(&launch);
           return library == nullptr || library->primitive->ReadsInput(k);
         });
}

// Constants that the runs read are whole. A watched run shows all operands.
absl::Status CheckConstants(const PlanDraft& draft, library::Session& session, bool watched) {
  for (size_t t = 0; t < draft.operands.size(); ++t) {
    if (!draft.needed[t]) continue;
    const std::vector<ResolvedRef>& inputs = draft.operands[t].inputs;
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (inputs[k].buffer < 0) continue;
      const CheckedBuffer& buffer = draft.program.buffers[static_cast<size_t>(inputs[k].buffer)];
      if (buffer.kind != program::Buffer::CONSTANT || (!watched && !Reads(draft, t, k))) continue;
      const Tensor& constant = draft.program.variant->constants[static_cast<size_t>(buffer.index)];
      KILN_RETURN_IF_ERROR(session.CheckConstant(constant.data(), constant.size_bytes()));
    }
  }
  return absl::OkStatus();
}

// That the program's device is the runtime's.
absl::Status CheckDevice(const CheckedProgram& program, const PlanOptions& options) {
  if (OnHost(program.other)) return absl::OkStatus();
  if (options.device == nullptr || options.device->device().target().device != program.other) {
    return absl::FailedPreconditionError(
        absl::StrCat("device \"", Name(program.other),
                     "\": the model is made for it, and the runtime has none; name one in "
                     "RuntimeOptions::device (--device)"));
  }
  return absl::OkStatus();
}

// Copies of constants that steps read on a device.
absl::Status UploadConstants(const PlanDraft& draft, const PlanOptions& options,
                             std::vector<std::shared_ptr<void>>& uploads) {
  const CheckedProgram& program = draft.program;
  if (OnHost(program.other)) return absl::OkStatus();
  uploads.resize(program.variant->constants.size());
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    const CheckedBuffer& buffer = program.buffers[b];
    if (buffer.kind != program::Buffer::CONSTANT || !draft.problem.buffers[b].on_device) continue;
    const auto index = static_cast<size_t>(buffer.index);
    if (uploads[index] != nullptr) continue;
    KILN_ASSIGN_OR_RETURN(uploads[index],
                          options.device->Upload(program.variant->constants[index]));
  }
  return absl::OkStatus();
}

// Ports in memory of the device.
absl::Status PlacePorts(PlanDraft& draft, const PortPlaces& places) {
  KILN_RETURN_IF_ERROR(CheckPlaces(draft.program, places, draft.needed));
  const auto place = [&](const std::vector<CheckedPort>& ports,
                         const std::vector<bool>& on_device) {
    for (size_t i = 0; i < on_device.size(); ++i) {
      if (!on_device[i] || ports[i].buffer < 0) continue;
      PlacementProblem::Buffer& buffer =
          draft.problem.buffers[static_cast<size_t>(ports[i].buffer)];
      buffer.device = draft.program.other;
      buffer.on_device = true;
    }
  };
  place(draft.program.inputs, places.inputs);
  place(draft.program.outputs, places.outputs);
  return absl::OkStatus();
}

absl::Status PrepareLaunches(PlanDraft& draft, PlanThreads& threads,
                             const library::Choosing& choosing, const PlanOptions& options) {
  std::vector<std::shared_ptr<library::Session>> sessions(draft.launches.size());
  for (size_t t = 0; t < draft.launches.size(); ++t) {
    if (!draft.needed[t]) continue;
    if (draft.program.thunks[t].kind == CheckedThunk::Kind::kLibrary) {
      sessions[t] = threads.SessionOf(draft, t);
    } else {
      KILN_RETURN_IF_ERROR(OfThunk(draft.program, t, PrepareLaunch(draft, t)));
    }
  }
  ComputeDevice* const device = options.device != nullptr ? &options.device->device() : nullptr;
  return PrepareCalls(draft, sessions, choosing, device);
}

}  // namespace

// The steps of a plan, in the order of its placement.
class PlanSteps {
 public:
  PlanSteps(PlanDraft& draft, bool watched, ExecutionPlan& plan)
      : draft_(draft),
        watched_(watched),
        plan_(plan),
        arguments_(draft.program, draft.problem, plan.placement_, plan.uploads_, plan.arguments_) {}

  void AddAll() {
    size_t at = 0;
    const auto add = [&](const BatchTiling& tiling, PlanTiling* made) {
      AddStep(static_cast<size_t>(plan_.placement_.order[at++]), tiling, made);
    };
    for (const BatchTiling& tiling : draft_.tilings) {
      while (at < tiling.begin) add({}, nullptr);
      PlanTiling& made = plan_.tilings_.emplace_back();
      made.begin = plan_.steps_.size();
      for (int64_t lane = 0; lane < tiling.lanes; ++lane)
        made.lanes.push_back({FirstPart(tiling, lane + 1) - FirstPart(tiling, lane), {}});
      while (at < tiling.end) add(tiling, &made);
      made.end = plan_.steps_.size();
    }
    while (at < draft_.program.thunks.size()) add({}, nullptr);
  }

 private:
  // `made`: null outside tilings.
  void AddStep(size_t t, const BatchTiling& tiling, PlanTiling* made) {
    Operands& operands = draft_.operands[t];
    if (plan_.placement_.copies[t]) AddViewCopy(t);
    if (draft_.launches[t].empty()) return;
    PlanStep& step = plan_.steps_.emplace_back();
    step.launch = std::move(draft_.launches[t].front());
    std::move(draft_.launches[t].begin() + 1, draft_.launches[t].end(),
              std::back_inserter(step.others));
    step.thunk = t;
    const auto* const copy = std::get_if<CopyLaunch>(&step.launch);
    step.queued = copy != nullptr ? copy->way != CopyLaunch::Way::kHost
                                  : !OnHost(draft_.program.thunks[t].device);
    step.times = tiling.parts;
    for (const ResolvedRef& ref : operands.inputs) step.bytes += ref.bytes() * step.times;
    for (const ResolvedRef& ref : operands.outputs) step.bytes += ref.bytes() * step.times;
    if (watched_) AddOperands(operands, step);
    const auto fill = [&](PlanLaunch& launch, int64_t lane) {
      auto* const moving =
          made == nullptr ? nullptr : &made->lanes[static_cast<size_t>(lane)].moving;
      arguments_.Fill(launch, operands, t, {lane, FirstPart(tiling, lane), moving});
    };
    fill(step.launch, 0);
    for (size_t i = 0; i < step.others.size(); ++i)
      fill(step.others[i], static_cast<int64_t>(i) + 1);
  }

  void AddViewCopy(size_t t) {
    const PlacementProblem::Access &from = draft_.problem.steps[t].reads[0],
                                   &to = draft_.problem.steps[t].writes[0];
    CopyLaunch launch;
    launch.bytes = to.end - to.begin;
    const bool over = draft_.problem.buffers[static_cast<size_t>(to.buffer)].on_device;
    if (over) launch.way = CopyLaunch::Way::kOver;
    launch.copy = StridedCopy({launch.bytes}, {1}, {1}, 1);
    PlanStep& step = plan_.steps_.emplace_back();
    step.launch = std::move(launch);
    step.thunk = t;
    step.queued = over;
    step.bytes = 2 * (to.end - to.begin);
    arguments_.FillCopy(std::get<CopyLaunch>(step.launch), from, to);
    if (!watched_) return;
    const std::vector<int64_t> bytes = {to.end - to.begin};
    step.inputs = 1;
    step.operands = {{from.buffer, DType::kU8, bytes, {1}}, {to.buffer, DType::kU8, bytes, {1}}};
  }

  PlanDraft& draft_;
  const bool watched_;
  ExecutionPlan& plan_;
  PlanArguments arguments_;
};

absl::StatusOr<std::shared_ptr<const ExecutionPlan>> ExecutionPlan::Create(
    std::shared_ptr<const CheckedProgram> program, const SymbolValues& symbols,
    const std::vector<bool>& present, const std::vector<bool>& wanted,
    const std::shared_ptr<library::Session>& session, const library::Choosing& choosing,
    const PlanOptions& options) {
  KILN_ASSIGN_OR_RETURN(PlanDraft draft, SizeProgram(*program, symbols, present, wanted));
  KILN_RETURN_IF_ERROR(PlacePorts(draft, options.places));
  PlanThreads threads(draft, session);
  KILN_RETURN_IF_ERROR(threads.Tile(draft, options.by_samples));
  KILN_RETURN_IF_ERROR(CheckDevice(*program, options));
  KILN_RETURN_IF_ERROR(PrepareLaunches(draft, threads, choosing, options));
  KILN_RETURN_IF_ERROR(CheckConstants(draft, *session, options.watched));

  std::shared_ptr<ExecutionPlan> plan(new ExecutionPlan());
  KILN_RETURN_IF_ERROR(UploadConstants(draft, options, plan->uploads_));
  plan->program_ = std::move(program);
  plan->share_ = threads.share();
  plan->device_required_ = options.device_required;
  PlacementProblem& problem = draft.problem;
  ReservePlacesOfCopies(draft);
  KILN_ASSIGN_OR_RETURN(plan->placement_,
                        PlaceBuffers(problem, options.separate_buffers, options.plan_memory));
  OrderCopies(draft, plan->placement_);
  if (options.verified) KILN_RETURN_IF_ERROR(VerifyPlacement(problem, plan->placement_));
  plan->donations_ = Donations(problem, plan->placement_);
  PlanSteps(draft, options.watched, *plan).AddAll();
  plan->kernels_ = std::move(draft.kernels);
  plan->states_ = draft.states;
  plan->output_shapes_ = std::move(draft.output_shapes);
  plan->constant_bytes_ = draft.packed_bytes;
  for (const Tensor& constant : plan->program_->variant->constants)
    plan->constant_bytes_ += constant.size_bytes();
  for (const PlacementProblem::Buffer& buffer : problem.buffers) {
    plan->buffer_bytes_.push_back(buffer.bytes);
    plan->on_device_.push_back(buffer.on_device);
  }
  plan->MakeReport();
  if (options.separate_buffers) {
    plan->arena_ranges_ = ArenaRangesOf(problem, plan->placement_, draft.lanes, false);
    plan->device_ranges_ = ArenaRangesOf(problem, plan->placement_, draft.lanes, true);
  }
  if (options.verified)
    plan->problem_ = std::make_unique<const PlacementProblem>(std::move(problem));
  return plan;
}

}  // namespace kiln
