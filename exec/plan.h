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
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "exec/arena_ranges.h"
#include "exec/checked_program.h"
#include "exec/donation.h"
#include "exec/library/library.h"
#include "exec/library/measured.h"
#include "exec/placement.h"
#include "exec/plan_info.h"
#include "exec/plan_verifier.h"
#include "exec/provider.h"
#include "exec/strided_copy.h"
#include "exec/support/admission.h"
#include "exec/support/non_temporal.h"
#include "exec/support/subdomains.h"
#include "exec/vm/vm.h"
#include "kiln/model.h"

namespace kiln {

// A word of the block of arguments that each BoundPlan has a copy of.
using Word = size_t;

struct KernelLaunch {
  size_t slot = 0;                  // of the plan's kernels
  size_t inputs = 0, operands = 0;  // operands: inputs, then outputs
  Word buffers = 0;                 // BufferArg per operand
  Word argv = 0;
  std::vector<BufferDim> dims;  // of all buffers
  std::vector<int32_t> extents;
  std::vector<uint64_t> params;
  bool exceeds_cache = false;  // what it writes does, beside what it reads
  std::optional<PartitionedLaunch>
      pieces;                        // run in these where there is more than kernels can count
  std::vector<LargeDim> large_dims;  // in place of `dims` and `extents` for RunLargeVm
  std::vector<int64_t> large_extents;
  bool large = false;  // runs by RunLargeVm
};
struct LibraryLaunch {
  std::unique_ptr<const library::Primitive> primitive;
  size_t state = 0;  // of the BoundPlan's states
  Word inputs = 0, outputs = 0, scratch = 0;
};
struct CopyLaunch {
  StridedCopy copy;
  Word from = 0, to = 0;
};
// Values written as they are; the copy spreads them over the output's strides.
struct DimsLaunch {
  std::vector<uint8_t> bytes;
  StridedCopy copy;
  Word to = 0;
};

using PlanLaunch = std::variant<KernelLaunch, LibraryLaunch, CopyLaunch, DimsLaunch>;

// What a launch reads or writes, as it sees it: of one part where it runs in parts.
struct PlanOperand {
  int32_t buffer = -1;  // -1: an absent optional input of a library operator
  DType type = DType::kF32;
  std::vector<int64_t> shape, strides;
};

struct PlanStep {
  PlanLaunch launch;
  std::vector<PlanLaunch> others;  // of the further lanes of a tiling
  size_t thunk = 0;
  int64_t times = 1;
  int64_t bytes = 0;  // read and written, in all
  // Inputs, then outputs; of a plan that is watched.
  size_t inputs = 0;
  std::vector<PlanOperand> operands;
};

// How a plan is made, beside for speed.
struct PlanOptions {
  bool separate_buffers = false;       // as Temporaries::kSeparate
  bool by_samples = false;             // as RunOptions::batch_invariant
  bool watched = false;                // its runs may have a LaunchWatch
  bool verified = kVerifyPlans;        // by plan_verifier.h
  PlanMemoryFn plan_memory = nullptr;  // as `plan` of PlaceBuffers
};

// Steps that run once for each part of the batch (batch_tiling.h).
struct PlanTiling {
  struct Moving {
    Word word;     // holds the address of the part
    int64_t step;  // to the next one
  };
  struct Lane {
    int64_t parts = 0;
    std::vector<Moving> moving;
  };
  size_t begin = 0, end = 0;
  std::vector<Lane> lanes;  // the last one has the most parts
};

// Thread-safe.
class ExecutionPlan {
 public:
  // `present` has one entry per input, `wanted` one per output: launches that no wanted output
  // needs are left out. Errors name the thunk: kInvalidArgument for operands that do not fit,
  // kOutOfRange for extents beyond any memory, kUnimplemented for what no library operator does.
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
  // How much of the pool a run takes.
  Admission::Share share() const { return share_; }

  // Whether the output may overlap the input in any way.
  bool ReadsEndBeforeWrites(size_t input, size_t output) const;
  // Whether the output may be the input's memory, from the first byte on; then no other input may
  // overlap it that is not read before all writes.
  bool WritesInPlace(size_t input, size_t output) const;

  // By address; empty unless buffers are separate.
  const std::vector<ArenaRange>& arena_ranges() const { return arena_ranges_; }

  // What does not depend on kernels.
  const PlanReport& report() const { return report_; }
  // Buffers with their places, then launches with what they read and write; for people.
  std::string ToString() const;
  std::vector<PlannedCall> LibraryCalls() const;
  const std::vector<PlanStep>& steps() const { return steps_; }
  // Bytes that the plan itself takes, roughly; packed weights are not counted.
  int64_t bytes() const;

 private:
  friend class PlanBuilder;
  friend class BoundPlan;
  ExecutionPlan() = default;

  // A word that holds the address of byte `offset` of a base.
  struct Patch {
    Word word;
    int64_t offset;
  };
  // A word that holds the address of another word of its block.
  struct Link {
    Word word, to;
  };
  void MakeReport();

  std::shared_ptr<const CheckedProgram> program_;
  std::vector<std::vector<int64_t>> output_shapes_;
  std::vector<int64_t> buffer_bytes_;
  Placement placement_;
  Donations donations_;
  std::unique_ptr<const PlacementProblem> problem_;  // null unless it was verified
  std::vector<ArenaRange> arena_ranges_;
  Admission::Share share_ = Admission::Share::kExclusive;
  std::vector<std::shared_ptr<KernelHandle>> kernels_;
  std::vector<PlanStep> steps_;
  std::vector<PlanTiling> tilings_;
  size_t states_ = 0;  // of library launches
  // The block of arguments, and what of it depends on where it lies, and on base addresses: of the
  // arena, inputs and outputs. Addresses of constants are filled in.
  std::vector<uint64_t> words_;
  std::vector<Link> links_;
  std::vector<std::vector<Patch>> patches_;  // per base
  int64_t constant_bytes_ = 0;
  PlanReport report_;
};

}  // namespace kiln

#endif  // KILN_EXEC_PLAN_H_
