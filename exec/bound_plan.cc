// SPDX-License-Identifier: Apache-2.0
#include "exec/bound_plan.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/catch_exceptions.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "exec/binding.h"
#include "exec/plan_verifier.h"
#include "exec/support/non_temporal.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

}  // namespace

struct BoundPlan::Clocked {
  Launcher& launcher;
  const RunControl& control;
  std::vector<double>* ms = nullptr;  // null: no clock
  LaunchWatch* watch = nullptr;       // null: nobody looks
  bool plain() const { return ms == nullptr && watch == nullptr; }
};

BoundPlan::BoundPlan(std::shared_ptr<const ExecutionPlan> plan)
    : plan_(std::move(plan)),
      words_(plan_->arguments_.words),
      bases_(plan_->arguments_.patches.size()),
      kernels_(plan_->kernels_.size()),
      states_(plan_->states_),
      report_(plan_->report_) {
  for (const ArgumentBlock::Link& link : plan_->arguments_.links)
    words_[link.word] = reinterpret_cast<uintptr_t>(&words_[link.to]);
  const auto add_state = [this](const PlanLaunch& launch) {
    if (const auto* library = std::get_if<LibraryLaunch>(&launch))
      states_[library->state] = library->primitive->NewState();
  };
  size_t lanes = 0;
  for (const PlanStep& step : plan_->steps_) {
    add_state(step.launch);
    for (const PlanLaunch& other : step.others) add_state(other);
  }
  for (const PlanTiling& tiling : plan_->tilings_) lanes = std::max(lanes, tiling.lanes.size());
  lanes_.resize(lanes);
}

void BoundPlan::SetBase(size_t base, void* memory) {
  if (bases_[base] == memory) return;
  bases_[base] = memory;
  moved_ = true;
  const auto address = reinterpret_cast<uintptr_t>(memory);
  for (const ArgumentBlock::Patch& patch : plan_->arguments_.patches[base])
    words_[patch.word] = address + static_cast<uintptr_t>(patch.offset);
}

void BoundPlan::SetTemporaries(const std::vector<void*>& memory) {
  const std::vector<ArenaRange>& ranges = plan_->arena_ranges();
  bases_[0] = nullptr;  // SetArena is to set all words again
  for (const ArgumentBlock::Patch& patch : plan_->arguments_.patches[0]) {
    // Of an empty range at the place, the last one: it has the operand.
    const auto after = std::upper_bound(
        ranges.begin(), ranges.end(), patch.offset,
        [](int64_t offset, const ArenaRange& range) { return offset < range.begin; });
    if (after == ranges.begin()) continue;
    const auto k = static_cast<size_t>(after - ranges.begin()) - 1;
    words_[patch.word] = reinterpret_cast<uintptr_t>(memory[k]) +
                         static_cast<uintptr_t>(patch.offset - ranges[k].begin);
  }
}

absl::Status BoundPlan::VerifyPorts() const {
  if (plan_->problem_ == nullptr) return absl::OkStatus();
  const CheckedProgram& program = plan_->program();
  std::vector<int64_t> addresses(plan_->problem_->buffers.size());
  const auto add = [&](const std::vector<CheckedPort>& ports, size_t first) {
    for (size_t i = 0; i < ports.size(); ++i) {
      if (ports[i].buffer < 0) continue;
      addresses[static_cast<size_t>(ports[i].buffer)] =
          static_cast<int64_t>(reinterpret_cast<intptr_t>(bases_[first + i]));
    }
  };
  add(program.inputs, 1);
  add(program.outputs, 1 + program.inputs.size());
  return VerifyPlacement(*plan_->problem_, plan_->placement_, addresses);
}

absl::Status BoundPlan::Snapshot() {
  bool changed = false;
  for (size_t k = 0; k < kernels_.size(); ++k) {
    const KernelHandle& handle = *plan_->kernels_[k];
    Kernel& kernel = kernels_[k];
    // Read before the function: a swap in between is seen by the next run.
    const uint64_t generation = handle.generation();
    if (kernel.function != nullptr && kernel.generation == generation) continue;
    if (queue_ != nullptr && kernel.function != nullptr)
      KILN_RETURN_IF_ERROR(queue_->Wait());  // the code may still run
    stretches_.clear();
    stretched_ = false;
    kernel.function = handle.Get();
    kernel.generation = generation;
    changed = true;
    if (kernel.function == nullptr || kernel.function->run == nullptr) {
      kernel.function = nullptr;
      return absl::InternalError("a kernel has no function");
    }
  }
  if (!changed) return refused_;
  report_.vm_launches = 0;
  for (const PlanStep& step : plan_->steps_) report_.vm_launches += IsVm(step) ? step.times : 0;
  return refused_ = CheckRequired();
}

absl::Status BoundPlan::CheckRequired() const {
  if (!plan_->device_required_) return absl::OkStatus();
  for (const PlanStep& step : plan_->steps_) {
    if (!IsVm(step) || std::get<KernelLaunch>(step.launch).nothing) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(NameOf(step.thunk),
                     ": the kernel is on the VM of the CPU, without code for the device that "
                     "RuntimeOptions::require_device (--require-device) asks for; the log says "
                     "why, or compile it again"));
  }
  return absl::OkStatus();
}

std::string BoundPlan::NameOf(size_t thunk) const {
  return absl::StrCat("thunk ", thunk, " \"", plan_->program().thunks[thunk].name, "\"");
}

absl::Status BoundPlan::RunCopy(const CopyLaunch& copy) {
  void *const from = *At<void*>(copy.from), *const to = *At<void*>(copy.to);
  const auto bytes = static_cast<size_t>(copy.bytes);
  switch (copy.way) {
    case CopyLaunch::Way::kHost:
      copy.copy.Run(from, to);
      return absl::OkStatus();
    case CopyLaunch::Way::kIn:
      return queue_->CopyIn(to, from, bytes);
    case CopyLaunch::Way::kOut:
      return queue_->CopyOut(to, from, bytes);
    case CopyLaunch::Way::kOver:
      return queue_->CopyOver(to, from, bytes);
  }
  return absl::InternalError("no way of a copy");
}

absl::Status BoundPlan::RunKernel(const KernelLaunch& kernel, Launcher& launcher) {
  const KernelFunction& function = *kernels_[kernel.slot].function;
  void** const argv = At<void*>(kernel.argv);
  const bool non_temporal =
      kernel.exceeds_cache &&
      MayStoreNonTemporal({At<BufferArg>(kernel.buffers), kernel.operands}, kernel.inputs);
  const int error = kernel.pieces
                        ? launcher.Launch(function.run, function.self, argv, *kernel.pieces)
                        : launcher.Launch(function.run, function.self, argv, non_temporal);
  if (error == 0) return absl::OkStatus();
  KILN_RETURN_IF_ERROR(queue_ != nullptr ? queue_->TakeError() : absl::OkStatus());
  return absl::InternalError(absl::StrCat("the kernel failed with code ", error));
}

absl::Status BoundPlan::RunLaunch(const PlanStep& step, const PlanLaunch& launch,
                                  Launcher& launcher) {
  absl::Status status;
  if (queue_ != nullptr && !step.queued) status = queue_->WaitForCopies();
  if (!status.ok()) return Annotate(status, NameOf(step.thunk));
  if (const auto* kernel = std::get_if<KernelLaunch>(&launch)) {
    status = RunKernel(*kernel, launcher);
  } else if (const auto* library = std::get_if<LibraryLaunch>(&launch)) {
    status = library->primitive->Run({At<void*>(library->inputs), At<void*>(library->outputs),
                                      *At<void*>(library->scratch), launcher.context(),
                                      states_[library->state].get()});
  } else if (const auto* copy = std::get_if<CopyLaunch>(&launch)) {
    status = RunCopy(*copy);
  } else if (const auto* dims = std::get_if<DimsLaunch>(&launch)) {
    dims->copy.Run(dims->bytes.data(), *At<void*>(dims->to));
  }
  return status.ok() ? status : Annotate(status, NameOf(step.thunk));
}

bool BoundPlan::IsDeviceCode(const PlanStep& step) const {
  const auto* const kernel = std::get_if<KernelLaunch>(&step.launch);
  return kernel != nullptr && step.queued && step.times == 1 && step.others.empty() &&
         !kernel->pieces && !IsVm(step);
}

absl::Status BoundPlan::PrepareStretches() {
  stretches_.clear();
  const std::vector<PlanStep>& steps = plan_->steps_;
  std::vector<DeviceCall> calls;
  for (size_t i = 0; i < steps.size(); ++i) {
    const size_t begin = i;
    calls.clear();
    for (; i < steps.size() && IsDeviceCode(steps[i]); ++i) {
      const auto& kernel = std::get<KernelLaunch>(steps[i].launch);
      calls.push_back({kernels_[kernel.slot].function->self, At<void*>(kernel.argv)});
    }
    if (calls.empty()) continue;
    auto sequence = queue_->Prepare(calls);
    if (!sequence.ok()) return Annotate(sequence.status(), NameOf(steps[begin].thunk));
    stretches_.push_back({begin, i, *std::move(sequence)});
  }
  stretched_ = true;
  return absl::OkStatus();
}

absl::Status BoundPlan::RunStretch(Stretch& stretch) {
  size_t failed = 0;
  const absl::Status status = stretch.sequence->Run(moved_, failed);
  if (status.ok()) return status;
  const size_t step = std::min(stretch.begin + failed, stretch.end - 1);
  return Annotate(status, NameOf(plan_->steps_[step].thunk));
}

WatchedLaunch BoundPlan::Seen(const PlanStep& step, const PlanLaunch& launch, size_t lane) {
  WatchedLaunch seen{step, lane, KindOf(launch), plan_->program().thunks[step.thunk].name, {}, {}};
  for (size_t i = 0; i < step.operands.size(); ++i) {
    const PlanOperand& operand = step.operands[i];
    const bool input = i < step.inputs;
    const size_t k = input ? i : i - step.inputs;
    void* data = nullptr;
    if (const auto* kernel = std::get_if<KernelLaunch>(&launch)) {
      data = At<BufferArg>(kernel->buffers)[i].host;
    } else if (const auto* library = std::get_if<LibraryLaunch>(&launch)) {
      data = At<void*>(input ? library->inputs : library->outputs)[k];
    } else if (const auto* copy = std::get_if<CopyLaunch>(&launch)) {
      data = *At<void*>(input ? copy->from : copy->to);
    } else if (const auto* dims = std::get_if<DimsLaunch>(&launch)) {
      data = *At<void*>(dims->to);
    }
    Device device;
    if (operand.buffer >= 0 && plan_->on_device_[static_cast<size_t>(operand.buffer)])
      device.kind = plan_->program_->other;
    (input ? seen.inputs : seen.outputs)
        .push_back(operand.buffer < 0 ? Tensor()
                                      : Tensor::View(data, operand.type, operand.shape,
                                                     operand.strides, nullptr, device));
  }
  return seen;
}

// Operands on the device become copies, gaps included.
absl::Status BoundPlan::CopyToHost(std::vector<Tensor>& operands) {
  for (Tensor& operand : operands) {
    if (operand.device() == Device()) continue;
    const MemoryRange range = RangeOf(operand);
    const size_t bytes = range.end - range.begin;
    auto copy = std::make_shared<std::vector<uint64_t>>(bytes / sizeof(uint64_t) + 1);
    auto* const begin = reinterpret_cast<uint8_t*>(copy->data());
    const auto* const source = reinterpret_cast<const uint8_t*>(range.begin);
    KILN_RETURN_IF_ERROR(queue_->CopyOut(begin, source, bytes));
    uint8_t* const first = begin + (static_cast<const uint8_t*>(operand.data()) - source);
    operand = Tensor::View(first, operand.dtype(), operand.shape(), operand.strides(), copy);
  }
  return queue_->WaitForCopies();
}

absl::Status BoundPlan::RunWatched(const PlanStep& step, const PlanLaunch& launch, size_t lane,
                                   const Clocked& run) {
  WatchedLaunch seen = Seen(step, launch, lane);
  const auto noted = [&](absl::Status status) {
    ended_by_watch_ = !status.ok();
    return status;
  };
  KILN_RETURN_IF_ERROR(noted(run.watch->Before(seen)));
  KILN_RETURN_IF_ERROR(RunLaunch(step, launch, run.launcher));
  if (queue_ != nullptr && !run.watch->sees_device()) {
    KILN_RETURN_IF_ERROR(CopyToHost(seen.inputs));
    KILN_RETURN_IF_ERROR(CopyToHost(seen.outputs));
  }
  return noted(run.watch->After(seen));
}

absl::Status BoundPlan::RunClocked(size_t i, const PlanLaunch& launch, size_t lane,
                                   const Clocked& run) {
  const PlanStep& step = plan_->steps_[i];
  const auto body = [&] {
    return run.watch != nullptr ? RunWatched(step, launch, lane, run)
                                : RunLaunch(step, launch, run.launcher);
  };
  if (run.ms == nullptr) return body();
  // A copy from or to the host is the host's work too; what it takes ends when it has arrived.
  const auto* const copy = std::get_if<CopyLaunch>(&launch);
  const bool crosses =
      copy != nullptr && (copy->way == CopyLaunch::Way::kIn || copy->way == CopyLaunch::Way::kOut);
  if (queue_ != nullptr && step.queued && !crosses && !IsVm(step)) {
    KILN_RETURN_IF_ERROR(queue_->FlushCache());
    KILN_RETURN_IF_ERROR(queue_->Mark(2 * marked_.size()));
    KILN_RETURN_IF_ERROR(body());
    KILN_RETURN_IF_ERROR(queue_->Mark(2 * marked_.size() + 1));
    marked_.push_back(i);
    return absl::OkStatus();
  }
  if (queue_ != nullptr) KILN_RETURN_IF_ERROR(crosses ? queue_->Wait() : queue_->WaitForCopies());
  const Clock::time_point start = Clock::now();
  KILN_RETURN_IF_ERROR(body());
  if (crosses) KILN_RETURN_IF_ERROR(queue_->Wait());
  (*run.ms)[i] += MillisecondsSince(start);
  return absl::OkStatus();
}

absl::Status BoundPlan::AddDeviceTimes(std::vector<double>& ms) {
  KILN_RETURN_IF_ERROR(queue_->Wait());
  for (size_t k = 0; k < marked_.size(); ++k) {
    KILN_ASSIGN_OR_RETURN(const double time, queue_->MillisecondsBetween(2 * k, 2 * k + 1));
    ms[marked_[k]] += time;
  }
  return absl::OkStatus();
}

absl::Status BoundPlan::RunSteps(size_t begin, size_t end, size_t lane, const Clocked& run) {
  auto stretch = std::lower_bound(stretches_.begin(), stretches_.end(), begin,
                                  [](const Stretch& one, size_t step) { return one.begin < step; });
  for (size_t i = begin; i < end; ++i) {
    KILN_RETURN_IF_ERROR(run.control.Check());
    const PlanStep& step = plan_->steps_[i];
    const PlanLaunch& launch = lane == 0 ? step.launch : step.others[lane - 1];
    if (!run.plain()) {
      KILN_RETURN_IF_ERROR(RunClocked(i, launch, lane, run));
    } else if (stretch != stretches_.end() && stretch->begin == i) {
      KILN_RETURN_IF_ERROR(RunStretch(*stretch));
      i = (stretch++)->end - 1;
    } else {
      KILN_RETURN_IF_ERROR(RunLaunch(step, launch, run.launcher));
    }
  }
  return absl::OkStatus();
}

absl::Status BoundPlan::RunLane(const PlanTiling& tiling, size_t lane, const Clocked& run) {
  const auto move = [&](int64_t parts) {
    for (const PlanTiling::Moving& moving : tiling.lanes[lane].moving)
      words_[moving.word] += static_cast<uint64_t>(parts * moving.step);
  };
  int64_t part = 0;
  const absl::Cleanup back = [&] { move(-part); };  // also where something throws
  for (; part < tiling.lanes[lane].parts; ++part) {
    KILN_RETURN_IF_ERROR(RunSteps(tiling.begin, tiling.end, lane, run));
    move(1);
  }
  return absl::OkStatus();
}

absl::Status BoundPlan::RunTiling(const PlanTiling& tiling, const Clocked& run) {
  const size_t lanes = tiling.lanes.size();
  // All of its steps are the host's; in the lanes nobody waits any more.
  if (queue_ != nullptr) KILN_RETURN_IF_ERROR(queue_->WaitForCopies());
  if (lanes == 1) return RunLane(tiling, 0, run);
  if (run.watch != nullptr) {
    for (size_t lane = 0; lane < lanes; ++lane) KILN_RETURN_IF_ERROR(RunLane(tiling, lane, run));
    return absl::OkStatus();
  }
  // The last lane's times are the tiling's.
  run.launcher.Share(static_cast<int>(lanes), [&](int i) {
    const auto lane = static_cast<size_t>(i);
    std::vector<double>* const ms = lane + 1 == lanes ? run.ms : nullptr;
    lanes_[lane] = CatchExceptions("running", [&] {
      return RunLane(tiling, lane, {run.launcher, run.control, ms, nullptr});
    });
  });
  for (size_t lane = 0; lane < lanes; ++lane) KILN_RETURN_IF_ERROR(lanes_[lane]);
  return absl::OkStatus();
}

absl::Status BoundPlan::RunAll(const Clocked& run) {
  if (queue_ != nullptr && run.plain() && !stretched_) KILN_RETURN_IF_ERROR(PrepareStretches());
  size_t done = 0;
  for (const PlanTiling& tiling : plan_->tilings_) {
    KILN_RETURN_IF_ERROR(RunSteps(done, tiling.begin, 0, run));
    KILN_RETURN_IF_ERROR(RunTiling(tiling, run));
    done = tiling.end;
  }
  KILN_RETURN_IF_ERROR(RunSteps(done, plan_->steps_.size(), 0, run));
  return marked_.empty() ? absl::OkStatus() : AddDeviceTimes(*run.ms);
}

absl::Status BoundPlan::Run(Launcher& launcher, const RunControl& control, std::vector<double>* ms,
                            LaunchWatch* watch) {
  ended_by_watch_ = false;
  marked_.clear();
  KILN_RETURN_IF_ERROR(Snapshot());
  if (ms != nullptr) ms->resize(plan_->steps_.size());
  const Clocked run{launcher, control, ms, watch};
  launcher.context()->stream = queue_;
  if (!plan_->uses_device()) return RunAll(run);
  if (queue_ == nullptr) return absl::InternalError("a plan with steps on a device has no queue");
  KILN_RETURN_IF_ERROR(queue_->Begin(control.stream, /*alone=*/watch == nullptr));
  absl::Cleanup abandon = [this] { queue_->Abandon(); };  // also where something throws
  KILN_RETURN_IF_ERROR(RunAll(run));
  std::move(abandon).Cancel();
  KILN_RETURN_IF_ERROR(queue_->End());  // what failed on the device after the last copy from there
  moved_ = moved_ && !run.plain();
  return absl::OkStatus();
}

bool BoundPlan::IsVm(const PlanStep& step) const {
  const auto* kernel = std::get_if<KernelLaunch>(&step.launch);
  return kernel != nullptr && kernels_[kernel->slot].function != nullptr &&
         kernels_[kernel->slot].function->vm;
}

}  // namespace kiln
