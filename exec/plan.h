// SPDX-License-Identifier: Apache-2.0
// ExecutionPlan: a Program for exact extents, flattened into launches whose arguments are all
// known but for base addresses. Immutable: contexts share it, each with a BoundPlan (bound_plan.h)
// that has the addresses.
//
//   auto plan = ExecutionPlan::Create(program, {{"n", 4}}, {true, true}, {true}, session);
//   BoundPlan bound(*std::move(plan));
//   bound.SetArena(memory);  bound.SetInput(0, x);  bound.SetOutput(0, y);  // cheap if unchanged
//   bound.Run(launcher);
//
// Making a plan evaluates every expression, checks every operand against its buffer, picks one form
// of each kernel, makes the library primitives and places all buffers.
#ifndef KILN_EXEC_PLAN_H_
#define KILN_EXEC_PLAN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "exec/arena_ranges.h"
#include "exec/argument_block.h"
#include "exec/checked_program.h"
#include "exec/device_constants.h"
#include "exec/donation.h"
#include "exec/library/library.h"
#include "exec/library/measured.h"
#include "exec/placement.h"
#include "exec/plan_info.h"
#include "exec/plan_step.h"
#include "exec/plan_verifier.h"
#include "exec/port_places.h"
#include "exec/provider.h"
#include "exec/support/admission.h"
#include "exec/support/device.h"
#include "kiln/model.h"

namespace kiln {

// How a plan is made, beside for speed.
struct PlanOptions {
  bool separate_buffers = false;       // as Temporaries::kSeparate
  bool by_samples = false;             // as RunOptions::batch_invariant
  bool watched = false;                // its runs may have a LaunchWatch
  bool verified = kVerifyPlans;        // by plan_verifier.h
  PlanMemoryFn plan_memory = nullptr;  // as `plan` of PlaceBuffers
  DeviceConstants* device = nullptr;   // where programs with buffers on a device run
  bool device_required = false;        // as RuntimeOptions::require_device
  PortPlaces places = {};              // of the memory that will be bound
};

// Thread-safe.
class ExecutionPlan {
 public:
  // `present` has one entry per input, `wanted` one per output: launches that no wanted output
  // needs are left out. Errors name the thunk: kInvalidArgument for operands that do not fit,
  // kOutOfRange for extents beyond any memory, kUnimplemented for what no library operator does;
  // kDataLoss for a damaged constant; NeedsHost (port_places.h).
  static absl::StatusOr<std::shared_ptr<const ExecutionPlan>> Create(
      std::shared_ptr<const CheckedProgram> program, const SymbolValues& symbols,
      const std::vector<bool>& present, const std::vector<bool>& wanted,
      const std::shared_ptr<library::Session>& session, const library::Choosing& choosing = {},
      const PlanOptions& options = {});

  const CheckedProgram& program() const { return *program_; }
  const std::vector<std::vector<int64_t>>& output_shapes() const { return output_shapes_; }
  // Whether its memory was planned anew (exec/memory/layouts.h).
  bool made_layout() const { return placement_.memory.made; }
  int64_t arena_bytes() const { return placement_.memory.peak; }
  // Whether it has steps on a device, and its arena there.
  bool uses_device() const { return !OnHost(program_->other); }
  int64_t device_arena_bytes() const { return placement_.device_memory.peak; }
  int64_t device_constant_bytes() const;  // of constants that are read there
  // How much of the pool a run takes.
  Admission::Share share() const { return share_; }

  // Whether the output may overlap the input in any way.
  bool ReadsEndBeforeWrites(size_t input, size_t output) const;
  // Whether the output may be the input's memory, from the first byte on; then no other input may
  // overlap it that is not read before all writes.
  bool WritesInPlace(size_t input, size_t output) const;

  // By address; empty unless buffers are separate.
  const std::vector<ArenaRange>& arena_ranges() const { return arena_ranges_; }
  const std::vector<ArenaRange>& device_ranges() const { return device_ranges_; }

  // What does not depend on kernels.
  const PlanReport& report() const { return report_; }
  // Buffers with their places, then launches with what they read and write; for people.
  std::string ToString() const;
  std::vector<PlannedCall> LibraryCalls() const;
  const std::vector<PlanStep>& steps() const { return steps_; }
  // Bytes that the plan itself takes, roughly; packed weights are not counted.
  int64_t bytes() const;

 private:
  friend class PlanSteps;
  friend class BoundPlan;
  ExecutionPlan() = default;

  void MakeReport();

  std::shared_ptr<const CheckedProgram> program_;
  std::vector<std::vector<int64_t>> output_shapes_;
  std::vector<int64_t> buffer_bytes_;
  std::vector<bool> on_device_;  // per buffer
  Placement placement_;
  Donations donations_;
  std::unique_ptr<const PlacementProblem> problem_;  // null unless it was verified
  std::vector<ArenaRange> arena_ranges_, device_ranges_;
  bool device_required_ = false;
  Admission::Share share_ = Admission::Share::kExclusive;
  std::vector<std::shared_ptr<KernelHandle>> kernels_;
  std::vector<PlanStep> steps_;
  std::vector<PlanTiling> tilings_;
  size_t states_ = 0;                           // of library launches
  std::vector<std::shared_ptr<void>> uploads_;  // per constant; null: no step reads it on a device
  ArgumentBlock arguments_;
  int64_t constant_bytes_ = 0;
  PlanReport report_;
};

}  // namespace kiln

#endif  // KILN_EXEC_PLAN_H_
