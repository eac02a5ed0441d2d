// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "exec/plan.h"
#include "exec/plan_verifier.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

}  // namespace

bool ExecutionPlan::ReadsEndBeforeWrites(size_t input, size_t output) const {
  const int32_t buffer = program_->inputs[input].buffer;
  return buffer < 0 || donations_.ReadsEndBeforeWrites(buffer, program_->outputs[output].buffer);
}

bool ExecutionPlan::WritesInPlace(size_t input, size_t output) const {
  const int32_t buffer = program_->inputs[input].buffer;
  return buffer >= 0 && donations_.WritesInPlace(buffer, program_->outputs[output].buffer);
}

absl::Status ExecutionPlan::VerifyPorts() const {
  if (problem_ == nullptr) return absl::OkStatus();
  std::vector<int64_t> addresses(problem_->buffers.size());
  const auto add = [&](const std::vector<CheckedPort>& ports, size_t first) {
    for (size_t i = 0; i < ports.size(); ++i) {
      if (ports[i].buffer < 0) continue;
      addresses[static_cast<size_t>(ports[i].buffer)] =
          static_cast<int64_t>(reinterpret_cast<intptr_t>(bases_[first + i].memory));
    }
  };
  add(program_->inputs, 1);
  add(program_->outputs, 1 + program_->inputs.size());
  return VerifyPlacement(*problem_, placement_, addresses);
}

absl::Status ExecutionPlan::Snapshot() {
  bool changed = false;
  for (KernelSlot& slot : slots_) {
    // Read before the function: a swap in between is seen by the next run.
    const uint64_t generation = slot.handle->generation();
    if (slot.function != nullptr && slot.generation == generation) continue;
    slot.function = slot.handle->Get();
    slot.generation = generation;
    changed = true;
    if (slot.function == nullptr || slot.function->run == nullptr) {
      slot.function = nullptr;
      return absl::InternalError("a kernel has no function");
    }
  }
  if (!changed) return absl::OkStatus();
  report_.vm_launches = 0;
  for (const PlanStep& step : steps_) report_.vm_launches += IsVm(step) ? step.times : 0;
  return absl::OkStatus();
}

absl::Status ExecutionPlan::RunStep(PlanStep& step, size_t lane, Launcher& launcher) {
  PlanLaunch& launch = lane == 0 ? step.launch : step.others[lane - 1];
  const auto name = [&] {
    return absl::StrCat("thunk ", step.thunk, " \"", program_->thunks[step.thunk].name, "\"");
  };
  if (auto* kernel = std::get_if<KernelLaunch>(&launch)) {
    const KernelFunction& function = *slots_[kernel->slot].function;
    void** const argv = kernel->argv.data();
    const bool non_temporal =
        kernel->exceeds_cache && MayStoreNonTemporal(kernel->buffers, kernel->inputs);
    const int error = kernel->pieces
                          ? launcher.Launch(function.run, function.self, argv, *kernel->pieces)
                          : launcher.Launch(function.run, function.self, argv, non_temporal);
    if (error != 0)
      return absl::InternalError(absl::StrCat(name(), ": the kernel failed with code ", error));
  } else if (auto* library = std::get_if<LibraryLaunch>(&launch)) {
    const absl::Status status = library->primitive->Run(
        {library->inputs.data(), library->outputs.data(), library->scratch, launcher.context()});
    if (!status.ok()) return Annotate(status, name());
  } else if (auto* copy = std::get_if<CopyLaunch>(&launch)) {
    copy->copy.Run(copy->from, copy->to);
  } else if (auto* dims = std::get_if<DimsLaunch>(&launch)) {
    dims->copy.Run(dims->bytes.data(), dims->to);
  }
  return absl::OkStatus();
}

absl::Status ExecutionPlan::RunSteps(size_t begin, size_t end, size_t lane, Launcher& launcher,
                                     std::vector<double>* ms) {
  if (ms == nullptr) {
    for (size_t i = begin; i < end; ++i) KILN_RETURN_IF_ERROR(RunStep(steps_[i], lane, launcher));
    return absl::OkStatus();
  }
  for (size_t i = begin; i < end; ++i) {
    const Clock::time_point start = Clock::now();
    KILN_RETURN_IF_ERROR(RunStep(steps_[i], lane, launcher));
    (*ms)[i] += MillisecondsSince(start);
  }
  return absl::OkStatus();
}

absl::Status ExecutionPlan::RunLane(const PlanTiling& tiling, size_t lane, Launcher& launcher,
                                    std::vector<double>* ms) {
  const auto move = [&](int64_t parts) {
    for (const PlanTiling::Moving& moving : tiling.lanes[lane].moving) {
      uint8_t* address = nullptr;
      std::memcpy(&address, moving.slot, sizeof address);
      address += parts * moving.step;
      std::memcpy(moving.slot, &address, sizeof address);
    }
  };
  absl::Status status;
  int64_t part = 0;
  for (; part < tiling.lanes[lane].parts && status.ok(); ++part) {
    status = RunSteps(tiling.begin, tiling.end, lane, launcher, ms);
    move(1);
  }
  move(-part);
  return status;
}

absl::Status ExecutionPlan::RunTiling(PlanTiling& tiling, Launcher& launcher,
                                      std::vector<double>* ms) {
  const size_t lanes = tiling.lanes.size();
  if (lanes == 1) return RunLane(tiling, 0, launcher, ms);
  // The last lane's times are the tiling's.
  launcher.Share(static_cast<int>(lanes), [&](int i) {
    const auto lane = static_cast<size_t>(i);
    tiling.lanes[lane].status = RunLane(tiling, lane, launcher, lane + 1 == lanes ? ms : nullptr);
  });
  for (const PlanTiling::Lane& lane : tiling.lanes) KILN_RETURN_IF_ERROR(lane.status);
  return absl::OkStatus();
}

absl::Status ExecutionPlan::Run(Launcher& launcher, std::vector<double>* ms) {
  KILN_RETURN_IF_ERROR(Snapshot());
  if (ms != nullptr) ms->resize(steps_.size());
  size_t done = 0;
  for (PlanTiling& tiling : tilings_) {
    KILN_RETURN_IF_ERROR(RunSteps(done, tiling.begin, 0, launcher, ms));
    KILN_RETURN_IF_ERROR(RunTiling(tiling, launcher, ms));
    done = tiling.end;
  }
  return RunSteps(done, steps_.size(), 0, launcher, ms);
}

bool ExecutionPlan::IsVm(const PlanStep& step) const {
  const auto* kernel = std::get_if<KernelLaunch>(&step.launch);
  return kernel != nullptr && slots_[kernel->slot].function != nullptr &&
         slots_[kernel->slot].function->vm;
}

void ExecutionPlan::MakeReport() {
  report_.arena = placement_.memory.peak;
  report_.lower_bound = placement_.memory.lower_bound;
  report_.sum = placement_.memory.sum;
  report_.constants = constant_bytes_;
  for (const PlanStep& step : steps_) {
    report_.bytes_moved += step.bytes;
    if (std::holds_alternative<KernelLaunch>(step.launch)) {
      report_.kernel_launches += step.times;
    } else if (std::holds_alternative<LibraryLaunch>(step.launch)) {
      report_.library_launches += step.times;
    } else {
      report_.other_launches += step.times;
    }
  }
}

}  // namespace kiln
