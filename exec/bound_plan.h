// SPDX-License-Identifier: Apache-2.0
// BoundPlan: what one caller has of a plan: the addresses of its memory in the arguments of all
// launches, and a snapshot of the kernels.
//
//   BoundPlan bound(plan);
//   bound.SetArena(memory);  bound.SetInput(0, x);  bound.SetOutput(0, y);
//   absl::Status status = bound.Run(launcher);
//
// It has a copy of the plan's block of arguments, some 100 bytes per operand of a launch; setting a
// base writes the words that depend on it. Running allocates nothing. Launches of a device's code
// that follow each other are a LaunchSequence, which is prepared when the code is first seen.
#ifndef KILN_EXEC_BOUND_PLAN_H_
#define KILN_EXEC_BOUND_PLAN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "exec/launch_watch.h"
#include "exec/plan.h"
#include "exec/support/compute_device.h"
#include "exec/support/launch.h"
#include "kiln/model.h"

namespace kiln {

// Belongs to one caller at a time.
class BoundPlan {
 public:
  explicit BoundPlan(std::shared_ptr<const ExecutionPlan> plan);
  BoundPlan(const BoundPlan&) = delete;
  BoundPlan& operator=(const BoundPlan&) = delete;

  const ExecutionPlan& plan() const { return *plan_; }

  // Memory of arena_bytes(), 64-byte aligned; dense inputs; dense outputs that overlap nothing
  // else but for the inputs that the plan allows.
  void SetArena(void* memory) { SetBase(0, memory); }
  void SetInput(size_t i, const void* data) { SetBase(1 + i, const_cast<void*>(data)); }
  void SetOutput(size_t i, void* data) { SetBase(1 + plan_->program().inputs.size() + i, data); }
  // Of a plan that uses a device: the queue that its steps go to, and its arena there. The queue
  // outlives the runs.
  void SetDevice(DeviceQueue* queue, void* arena) {
    if (queue_ != queue) stretches_.clear(), stretched_ = false;
    queue_ = queue;
    SetBase(bases_.size() - 1, arena);
  }
  // In place of SetArena: the address of each of the plan's arena_ranges, in that order.
  void SetTemporaries(const std::vector<void*>& memory);
  // Whether a run is right with inputs and outputs where they have been set (plan_verifier.h). Does
  // nothing unless the plan was verified.
  absl::Status VerifyPorts() const;

  // Takes a snapshot of all kernels, then launches everything in order, until `control` says stop.
  // With `ms`, the time of each step is added to it, of one on a device by the device's clock.
  // `watch`: null, or who looks at every launch of a plan that may be watched. On a device it
  // returns when all has ended, but for what RunControl::stream says.
  absl::Status Run(Launcher& launcher, const RunControl& control = {},
                   std::vector<double>* ms = nullptr, LaunchWatch* watch = nullptr);
  // Whether the last run ended because its watch said so.
  bool ended_by_watch() const { return ended_by_watch_; }
  // Whether runs fail because a kernel has no code for the device that is required.
  bool refused() const { return !refused_.ok(); }

  // Of the last run where it depends on kernels.
  const PlanReport& report() const { return report_; }
  bool IsVm(const PlanStep& step) const;

 private:
  // One snapshot of a handle serves all launches of a run.
  struct Kernel {
    uint64_t generation = 0;
    std::shared_ptr<const KernelFunction> function;
  };
  // Steps that are one LaunchSequence.
  struct Stretch {
    size_t begin = 0, end = 0;
    std::unique_ptr<LaunchSequence> sequence;
  };
  struct Clocked;  // a run with what it is given
  void SetBase(size_t base, void* memory);
  template <typename T>
  T* At(Word word) {
    return reinterpret_cast<T*>(&words_[word]);
  }
  absl::Status Snapshot();
  // kFailedPrecondition: a kernel is on the VM where the device is required.
  absl::Status CheckRequired() const;
  absl::Status RunLaunch(const PlanStep& step, const PlanLaunch& launch, Launcher& launcher);
  absl::Status RunKernel(const KernelLaunch& kernel, Launcher& launcher);
  absl::Status RunCopy(const CopyLaunch& copy);
  // Whether it launches code of a device, once and whole.
  bool IsDeviceCode(const PlanStep& step) const;
  absl::Status PrepareStretches();
  absl::Status RunStretch(Stretch& stretch);
  // RunLaunch, before and after which the watch has looked.
  absl::Status RunWatched(const PlanStep& step, const PlanLaunch& launch, size_t lane,
                          const Clocked& run);
  WatchedLaunch Seen(const PlanStep& step, const PlanLaunch& launch, size_t lane);
  absl::Status CopyToHost(std::vector<Tensor>& operands);
  // The step, with its time.
  absl::Status RunClocked(size_t step, const PlanLaunch& launch, size_t lane, const Clocked& run);
  absl::Status AddDeviceTimes(std::vector<double>& ms);
  absl::Status RunSteps(size_t begin, size_t end, size_t lane, const Clocked& run);
  absl::Status RunLane(const PlanTiling& tiling, size_t lane, const Clocked& run);
  absl::Status RunTiling(const PlanTiling& tiling, const Clocked& run);
  absl::Status RunAll(const Clocked& run);
  std::string NameOf(size_t thunk) const;

  const std::shared_ptr<const ExecutionPlan> plan_;
  std::vector<uint64_t> words_;
  std::vector<void*> bases_;
  std::vector<Kernel> kernels_;
  std::vector<std::unique_ptr<library::CallState>> states_;
  std::vector<absl::Status> lanes_;  // of the tiling that runs
  PlanReport report_;
  DeviceQueue* queue_ = nullptr;
  std::vector<Stretch> stretches_;  // in order
  bool stretched_ = false;          // they are those of kernels_
  bool moved_ = true;               // a base, since the last run that went well
  std::vector<size_t> marked_;      // steps between two marks of the queue each
  bool ended_by_watch_ = false;
  absl::Status refused_;
};

}  // namespace kiln

#endif  // KILN_EXEC_BOUND_PLAN_H_
