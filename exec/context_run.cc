// SPDX-License-Identifier: Apache-2.0
// A run of a context, from what is bound to its results.
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "base/catch_exceptions.h"
#include "base/status_macros.h"
#include "base/thread_scope.h"
#include "exec/check_plan.h"
#include "exec/model_state.h"
#include "exec/script.h"
#include "exec/support/admission.h"
#include "kiln/model.h"

namespace kiln {
namespace {

// Kernels mean IEEE arithmetic; a caller may have set flush-to-zero or another rounding.
class DefaultFloatMode {
 public:
#if defined(__SSE__)
  DefaultFloatMode() { _mm_setcsr(0x1f80); }
  ~DefaultFloatMode() { _mm_setcsr(saved_); }

 private:
  unsigned saved_ = _mm_getcsr();
#endif
};

// Which tensors overlap an earlier one, by address; of those the first may stay.
std::vector<bool> SharedResults(const std::vector<Tensor>& results) {
  std::vector<std::pair<MemoryRange, size_t>> ranges;
  for (size_t i = 0; i < results.size(); ++i) {
    if (const MemoryRange range = RangeOf(results[i]); !range.empty())
      ranges.emplace_back(range, i);
  }
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first.begin, a.second) < std::pair(b.first.begin, b.second);
  });
  std::vector<bool> shared(results.size());
  uintptr_t end = 0;
  for (const auto& [range, i] : ranges) {
    shared[i] = range.begin < end;
    end = std::max(end, range.end);
  }
  return shared;
}

}  // namespace

Context::Impl::Bound Context::Impl::MakeBound(std::shared_ptr<const PreparedRun> prepared) {
  Bound bound;
  if (prepared->plan != nullptr) {
    bound.plan = std::make_unique<BoundPlan>(prepared->plan);
  } else {
    const std::shared_ptr<const Script>& script = prepared->variant->script;
    std::unique_ptr<ScriptRun>& run = scripts[script];
    if (run == nullptr) run = std::make_unique<ScriptRun>(script, *model);
    bound.script = run.get();
  }
  bound.prepared = std::move(prepared);
  return bound;
}

absl::StatusOr<Context::Impl::Bound*> Context::Impl::FindBound(const PortPlaces& places) {
  ++runs;
  for (Bound& bound : bounds) {
    if (!bound.prepared->Holds(bound_inputs, wanted, places)) continue;
    bound.last_used = runs;
    return &bound;
  }
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<const PreparedRun> prepared,
                        model->Prepared(bound_inputs, wanted, places));
  placed = nullptr;  // a new plan may have the address of an old one
  Bound made = MakeBound(std::move(prepared));
  made.last_used = runs;
  if (bounds.size() < kMaxPlans) {
    bounds.push_back(std::move(made));
    return &bounds.back();
  }
  const auto by_use = [](const Bound& a, const Bound& b) { return a.last_used < b.last_used; };
  Bound& oldest = *std::min_element(bounds.begin(), bounds.end(), by_use);
  oldest = std::move(made);
  return &oldest;
}

absl::Status Context::Impl::RunPlan(const RunControl& control, std::vector<double>* ms) {
  const ExecutionPlan& plan = current->plan();
  std::optional<LongMutexLock> alone;  // before the admission, in all models that share the arena
  std::optional<ThreadScope> within;
  if (SharedArena* const arena = model->options.shared_arena.get(); arena != nullptr) {
    if (ThreadScope::Within(arena)) {
      return absl::FailedPreconditionError(
          "shared_arena: a function that a run has called runs a model with the same one, which "
          "would overwrite that run's temporaries; give the models arenas of their own");
    }
    alone.emplace(arena->running);
    within.emplace(arena);
  }
  const Admission admission(model->pool, plan.share());
  launcher.set_limit(admission.exclusive() ? model->pool.threads() : 1);
  const RunOptions& options = model->options;
  std::vector<Memory> temporaries;
  KILN_RETURN_IF_ERROR(options.temporaries == Temporaries::kAllocated
                           ? AllocateTemporaries(*current, temporaries)
                           : PlaceArena(*current));
  KILN_RETURN_IF_ERROR(PlaceOnDevice(*current));
  // What fails, fails before anything is written.
  if (moved || placed != current || options.output_memory == OutputMemory::kFresh) {
    placed = nullptr;
    KILN_RETURN_IF_ERROR(PlaceOutputs(*current));
    KILN_RETURN_IF_ERROR(PlaceInputs(*current));
    if (shared) KILN_RETURN_IF_ERROR(current->VerifyPorts());
    placed = current;
    moved = false;
  }
  CopyInputs();
  states.BeginWriting();
  ThunkWatch watch(options.on_thunk);
  const absl::Status status =
      current->Run(launcher, control, ms, options.on_thunk ? &watch : nullptr);
  if (queue != nullptr) device_bytes.Set(queue->bytes());
  KILN_RETURN_IF_ERROR(status);
  report = current->report();
  return absl::OkStatus();
}

absl::Status Context::Impl::RunPlanOrInstead(Bound& bound, const RunControl& control) {
  const absl::Status status = RunPlan(control, nullptr);
  if (status.ok() || absl::IsCancelled(status) || absl::IsDeadlineExceeded(status)) return status;
  if (current->ended_by_watch() || current->refused()) return status;
  if (IsNeedsHost(status)) return status;
  // Where an output lies over an input, there may be nothing left to run again.
  if (placed == current && shared) return status;
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<const PreparedRun> prepared,
                        model->PreparedInstead(bound.prepared, bound_inputs, status));
  placed = nullptr;
  const uint64_t last_used = bound.last_used;
  bound = MakeBound(std::move(prepared));
  bound.last_used = last_used;
  current = bound.plan.get();
  return current != nullptr ? RunPlan(control, nullptr) : RunScript(bound, control, nullptr);
}

absl::Status Context::Impl::RunScript(const Bound& bound, const RunControl& control,
                                      std::vector<ThunkTime>* times) {
  placed = nullptr;
  KILN_RETURN_IF_ERROR(CheckBoundOutputs());
  std::vector<Tensor> inputs;
  for (const std::optional<Tensor>& bound : bound_inputs)
    inputs.push_back(!bound ? Tensor() : UsableAsIs(*bound) ? *bound : bound->Clone());
  KILN_ASSIGN_OR_RETURN(std::vector<Tensor> results,
                        bound.script->Run(inputs, bound.prepared->symbols, control, times));
  for (size_t i = 0; i < outputs.size(); ++i)
    if (wanted[i]) KILN_RETURN_IF_ERROR(CheckBoundShape(i, results[i].shape()));
  // A result may be an input's memory: it is not overwritten with another result, and what the
  // caller owns is not handed out as the context's. Nor is one memory handed out twice.
  taken.Clear();
  for (const Tensor& input : inputs) taken.Add(RangeOf(input), 0);
  taken.SortJoined();
  std::vector<bool> cloned = SharedResults(results);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const MemoryRange range = RangeOf(results[i]);
    if (cloned[i] || taken.Overlaps(range) || written.Overlaps(range))
      results[i] = results[i].Clone();
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& result = results[i];
    if (!wanted[i]) {
      outputs[i] = Tensor();
      continue;
    }
    outputs[i] = bound_outputs[i] ? *bound_outputs[i] : result;
    if (bound_outputs[i] && result.size_bytes() > 0)
      std::memcpy(outputs[i].data(), result.data(), static_cast<size_t>(result.size_bytes()));
  }
  report = bound.script->report();
  return absl::OkStatus();
}

absl::Status Context::Impl::RunProfiled(const RunControl& control, std::vector<ThunkTime>& times) {
  std::vector<double> ms;
  KILN_RETURN_IF_ERROR(RunPlan(control, &ms));
  const ExecutionPlan& plan = current->plan();
  for (const PlanStep& step : plan.steps()) {
    times.push_back({KindOf(step.launch), plan.program().thunks[step.thunk].name, ms[times.size()],
                     step.bytes, current->IsVm(step)});
  }
  return absl::OkStatus();
}

// Of a plan with ports on the device, the plan with all of them on the host: its launches are the
// same.
absl::Status Context::Impl::CheckFirst(const PreparedRun& prepared) {
  BoundTensors inputs = bound_inputs;
  if (!prepared.places.none()) {
    KILN_RETURN_IF_ERROR(NeedQueue());
    KILN_RETURN_IF_ERROR(CopyOutInputs(inputs));
  }
  KILN_ASSIGN_OR_RETURN(const std::shared_ptr<const ExecutionPlan> plan,
                        model->PlanAgain(prepared, inputs,
                                         {.separate_buffers = true,
                                          .by_samples = model->options.batch_invariant,
                                          .watched = true,
                                          .device = model->device.get()}));
  std::unique_ptr<DeviceQueue> own_queue;
  if (plan->uses_device()) {
    KILN_ASSIGN_OR_RETURN(own_queue, model->device->device().NewQueue());
  }
  const Admission admission(model->pool, plan->share());
  launcher.set_limit(admission.exclusive() ? model->pool.threads() : 1);
  return CheckPlan(plan, inputs, launcher, model->runtime, {model->counts, &model->counts->arenas},
                   own_queue.get());
}

absl::Status Context::Impl::RunOnce(const RunControl& control, std::vector<ThunkTime>* times) {
  KILN_RETURN_IF_ERROR(control.Check());
  KILN_RETURN_IF_ERROR(CompleteInputs());
  KILN_RETURN_IF_ERROR(CheckAllBound());
  if (!model->states.empty() && device() != nullptr && !states_land) {
    KILN_RETURN_IF_ERROR(NeedQueue());
    KILN_RETURN_IF_ERROR(states.MoveToDevice(*queue));
  }
  for (;;) {
    KILN_ASSIGN_OR_RETURN(DeviceQueue* const used, QueueOfStates());
    KILN_RETURN_IF_ERROR(states.Begin(bound_inputs, used));
    PortPlaces places = Places();
    states.AddPlaces(places);
    if (places.none()) return RunBound(control, times, {});
    if (!lands) {
      const absl::Status status = RunBound(control, times, places);
      if (!IsNeedsHost(status)) return status;
    }
    if (!states.on_device()) return RunLanded(control, times);
    // Perhaps it is a state that the host needs.
    KILN_RETURN_IF_ERROR(states.MoveToHost(*queue));
    for (const StatePorts& state : model->states) bound_outputs[state.output].reset();
    states_land = true;
    lands = false;
  }
}

absl::Status Context::Impl::RunBound(const RunControl& control, std::vector<ThunkTime>* times,
                                     const PortPlaces& places) {
  KILN_ASSIGN_OR_RETURN(DeviceQueue* const used, QueueOfStates());
  KILN_RETURN_IF_ERROR(states.Begin(bound_inputs, used));
  const absl::StatusOr<Bound*> found = FindBound(places);
  lands = lands || IsNeedsHost(found.status());
  KILN_ASSIGN_OR_RETURN(Bound* const bound, found);
  current = bound->plan.get();
  if (model->options.check_first_run && current != nullptr &&
      !bound->prepared->checked.exchange(true)) {
    const absl::Status checked = CheckFirst(*bound->prepared);
    bound->prepared->checked = checked.ok();  // one with a fault never runs
    KILN_RETURN_IF_ERROR(checked);
  }
  KILN_RETURN_IF_ERROR(states.Place(bound->prepared->plan.get(), bound_outputs));
  moved = moved || states.moved();
  const absl::Status status = current == nullptr ? RunScript(*bound, control, times)
                              : times == nullptr ? RunPlanOrInstead(*bound, control)
                                                 : RunProfiled(control, *times);
  states.End(status, outputs);
  if (status.ok()) model->Record(*bound->prepared);
  return status;
}

absl::Status Context::Impl::Run(const RunControl& control, std::vector<ThunkTime>* times) {
  const DefaultFloatMode float_mode;
  const RunOptions& options = model->options;
  Runtime::State& runtime = model->runtime->state();
  model->provider->ResumeAfterFork();
  if (control.stream != nullptr && model->device == nullptr) {
    return absl::InvalidArgumentError(
        "stream: the runtime has no device, and the CPU has no streams; leave it null, or name a "
        "device in RuntimeOptions::device (--device)");
  }
  has_run = false;  // what an output holds after a run that failed is nobody's
  if (options.on_start) options.on_start();
  const absl::Status status = CatchExceptions("running", [&] { return RunOnce(control, times); });
  has_run = status.ok();
  ++(status.ok() ? runtime.runs : runtime.failed_runs);
  if (status.ok() && report.vm_launches > 0) ++runtime.vm_runs;
  if (options.on_finish) options.on_finish(status);
  return status;
}

}  // namespace kiln
