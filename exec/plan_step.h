// SPDX-License-Identifier: Apache-2.0
// The steps of an ExecutionPlan: launches whose arguments lie in the plan's ArgumentBlock, and
// which steps run part by part.
#ifndef KILN_EXEC_PLAN_STEP_H_
#define KILN_EXEC_PLAN_STEP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "exec/argument_block.h"
#include "exec/library/library.h"
#include "exec/strided_copy.h"
#include "exec/support/subdomains.h"
#include "exec/vm/vm.h"
#include "kiln/tensor.h"

namespace kiln {

struct KernelLaunch {
  size_t slot = 0;                  // of the plan's kernels
  size_t inputs = 0, operands = 0;  // operands: inputs, then outputs
  Word buffers = 0;                 // BufferArg per operand
  Word argv = 0;
  std::vector<BufferDim> dims;  // of all buffers
  std::vector<int32_t> extents;
  std::vector<uint64_t> params;
  bool nothing = false;        // an input, or what is reduced, is empty: the VM fills outputs
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
  // Between the memory of the host and that of a device: to it, from it, or over there.
  enum class Way : uint8_t { kHost, kIn, kOut, kOver };
  Way way = Way::kHost;
  int64_t bytes = 0;  // of all but kHost
  StridedCopy copy;   // of kHost
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
  // Whether it goes to a device's queue; else it works in the host's memory, and what was copied
  // there has to have arrived.
  bool queued = false;
  int64_t times = 1;
  int64_t bytes = 0;  // read and written, in all
  // Inputs, then outputs; of a plan that is watched.
  size_t inputs = 0;
  std::vector<PlanOperand> operands;
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

}  // namespace kiln

#endif  // KILN_EXEC_PLAN_STEP_H_
