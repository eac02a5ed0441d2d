// SPDX-License-Identifier: Apache-2.0
// ExecutionPlan: a Program for exact extents, flattened into launches whose arguments are all
// filled in but for base addresses.
//
//   auto plan = ExecutionPlan::Create(program, {{"n", 4}}, {true, true}, session);
//   plan->SetArena(memory);  plan->SetInput(0, x);  plan->SetOutput(0, y);  // cheap if unchanged
//   plan->Run(launcher);
//
// Making a plan evaluates every expression, checks every operand against its buffer, picks one form
// of each kernel, makes the library primitives and places all buffers. Running it allocates
// nothing.
//
// A launch of more elements than kernels can count (kMostElements) runs in pieces, each a launch
// with base addresses of its own; one that cannot be cut, as a row of more elements, runs on the VM
// with 64-bit indices.
//
// A plan with so little to do that waking threads would cost more than they gain is serial: all of
// it runs on its caller. If it has a little more, and threads are awake, those take part in kernels
// (Admission::Share::kOpportunistic).
#ifndef KILN_EXEC_PLAN_H_
#define KILN_EXEC_PLAN_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "exec/checked_program.h"
#include "exec/donation.h"
#include "exec/library/library.h"
#include "exec/library/measured.h"
#include "exec/placement.h"
#include "exec/plan_info.h"
#include "exec/provider.h"
#include "exec/strided_copy.h"
#include "exec/support/admission.h"
#include "exec/support/launch.h"
#include "exec/support/non_temporal.h"
#include "exec/vm/vm.h"
#include "kiln/model.h"

namespace kiln {

// One snapshot of a handle serves all launches of a run.
struct KernelSlot {
  std::shared_ptr<KernelHandle> handle;
  uint64_t generation = 0;
  std::shared_ptr<const KernelFunction> function;
};

struct KernelLaunch {
  size_t slot = 0;
  size_t inputs = 0;
  std::vector<BufferArg> buffers;  // inputs, then outputs
  std::vector<BufferDim> dims;     // of all buffers
  std::vector<int32_t> extents;
  std::vector<uint64_t> params;
  std::vector<void*> argv;
  bool exceeds_cache = false;  // what it writes does, beside what it reads
  std::optional<PartitionedLaunch>
      pieces;                        // run in these where there is more than kernels can count
  std::vector<LargeDim> large_dims;  // in place of `dims` and `extents` for RunLargeVm
  std::vector<int64_t> large_extents;
  bool large = false;  // runs by RunLargeVm
};
struct LibraryLaunch {
  std::unique_ptr<library::Primitive> primitive;
  std::vector<void*> inputs, outputs;
  void* scratch = nullptr;
};
struct CopyLaunch {
  StridedCopy copy;
  void *from = nullptr, *to = nullptr;
};
// Values written as they are; the copy spreads them over the output's strides.
struct DimsLaunch {
  std::vector<uint8_t> bytes;
  StridedCopy copy;
  void* to = nullptr;
};

using PlanLaunch = std::variant<KernelLaunch, LibraryLaunch, CopyLaunch, DimsLaunch>;

struct PlanStep {
  PlanLaunch launch;
  std::vector<PlanLaunch> others;  // of the further lanes of a tiling
  size_t thunk = 0;
  int64_t times = 1;
  int64_t bytes = 0;  // read and written, in all
};

// Steps that run once for each part of the batch (batch_tiling.h).
struct PlanTiling {
  struct Moving {
    void* slot;    // holds the address of the part
    int64_t step;  // to the next one
  };
  struct Lane {
    int64_t parts = 0;
    std::vector<Moving> moving;
    absl::Status status;  // of the last run
  };
  size_t begin = 0, end = 0;
  std::vector<Lane> lanes;  // the last one has the most parts
};

// Belongs to one caller at a time.
class ExecutionPlan {
 public:
  // `present` has one entry per input. Errors name the thunk: kInvalidArgument for operands that do
  // not fit, kOutOfRange for extents beyond any memory, kUnimplemented for what no library operator
  // does.
  static absl::StatusOr<std::unique_ptr<ExecutionPlan>> Create(
      std::shared_ptr<const CheckedProgram> program, const SymbolValues& symbols,
      const std::vector<bool>& present, const std::shared_ptr<library::Session>& session,
      const library::Choosing& choosing = {});

  const CheckedProgram& program() const { return *program_; }
  const std::vector<std::vector<int64_t>>& output_shapes() const { return output_shapes_; }
  int64_t arena_bytes() const { return placement_.memory.peak; }
  // How much of the pool a run takes.
  Admission::Share share() const { return share_; }

  // Memory of arena_bytes(), 64-byte aligned; dense inputs; dense outputs that overlap nothing
  // else but for the inputs that the next two functions allow.
  void SetArena(void* memory) { SetBase(0, memory); }
  void SetInput(size_t i, const void* data) { SetBase(1 + i, const_cast<void*>(data)); }
  void SetOutput(size_t i, void* data) { SetBase(1 + program_->inputs.size() + i, data); }
  // Whether the output may overlap the input in any way.
  bool ReadsEndBeforeWrites(size_t input, size_t output) const;
  // Whether the output may be the input's memory, from the first byte on; then no other input may
  // overlap it that is not read before all writes.
  bool WritesInPlace(size_t input, size_t output) const;
  // Whether a run is right with inputs and outputs where they have been set (plan_verifier.h). Does
  // nothing unless kVerifyPlans.
  absl::Status VerifyPorts() const;

  // Takes a snapshot of all kernels, then launches everything in order. With `ms`, the time of each
  // step is added to it.
  absl::Status Run(Launcher& launcher, std::vector<double>* ms = nullptr);

  // Of the last run where it depends on kernels.
  const PlanReport& report() const { return report_; }
  // Buffers with their places, then launches with what they read and write; for people.
  std::string ToString() const;
  std::vector<PlannedCall> LibraryCalls() const;
  const std::deque<PlanStep>& steps() const { return steps_; }
  bool IsVm(const PlanStep& step) const;

 private:
  friend class PlanBuilder;
  ExecutionPlan() = default;

  // A place that holds the address of byte `offset` of a base.
  struct Patch {
    void* slot;
    int64_t offset;
  };
  struct Base {
    void* memory = nullptr;
    std::vector<Patch> patches;
  };
  void SetBase(size_t base, void* memory);
  void MakeReport();
  absl::Status Snapshot();
  absl::Status RunStep(PlanStep& step, size_t lane, Launcher& launcher);
  absl::Status RunSteps(size_t begin, size_t end, size_t lane, Launcher& launcher,
                        std::vector<double>* ms);
  absl::Status RunLane(const PlanTiling& tiling, size_t lane, Launcher& launcher,
                       std::vector<double>* ms);
  absl::Status RunTiling(PlanTiling& tiling, Launcher& launcher, std::vector<double>* ms);

  std::shared_ptr<const CheckedProgram> program_;
  std::vector<std::vector<int64_t>> output_shapes_;
  std::vector<int64_t> buffer_bytes_;
  Placement placement_;
  Donations donations_;
  std::unique_ptr<const PlacementProblem> problem_;  // null unless kVerifyPlans
  Admission::Share share_ = Admission::Share::kExclusive;
  std::vector<Base> bases_;  // the arena, inputs, outputs, constants
  std::vector<KernelSlot> slots_;
  std::deque<PlanStep> steps_;  // addresses are stable: patches point into it
  std::vector<PlanTiling> tilings_;
  int64_t constant_bytes_ = 0;
  PlanReport report_;
};

}  // namespace kiln

#endif  // KILN_EXEC_PLAN_H_
