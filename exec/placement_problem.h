// SPDX-License-Identifier: Apache-2.0
// What the placer (placement.h) places, and what it says of it: the steps of a plan with the bytes
// that each reads and writes, and where every buffer lies.
#ifndef KILN_EXEC_PLACEMENT_PROBLEM_H_
#define KILN_EXEC_PLACEMENT_PROBLEM_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/target.h"
#include "exec/memory_plan.h"

namespace kiln {

inline constexpr int64_t kArenaAlignment = 64;  // correctness

struct PlacementProblem {
  enum class Space : uint8_t { kTemporary, kInput, kOutput, kConstant };
  struct Buffer {
    Space space = Space::kTemporary;
    int64_t bytes = 0;
    DeviceKind device = DefaultDevice();
    bool on_device = false;  // in memory that is not the host's: temporaries in an arena there
    // Of those, one whose place is its own from the beginning on, or to the end.
    bool early = false, late = false;
  };
  struct Access {
    int32_t buffer = 0;
    int64_t begin = 0,
            end = 0;    // bytes of the buffer, from the first to beyond the last; within it
    bool dense = true;  // all of them
    int64_t item = 1;   // bytes of an element
  };
  struct Step {
    // One read, one write of as many bytes: the write's buffer is the read's memory from `begin`
    // on. If the write is a part of its buffer, the read's buffer lies there.
    bool view = false;
    std::vector<Access> reads, writes;
    std::vector<std::pair<int32_t, int32_t>> in_place;  // (read, write) that may share memory
    int64_t scratch = 0;
  };
  struct Fixed {
    int32_t buffer = 0, of = 0;
    int64_t offset = 0;
  };
  // Steps [begin, end) run several times before the next: what lives on entry or at the end lives
  // throughout. They may do so in several lanes at once: what lives within them then has a place
  // for each lane, which no other lane uses for anything.
  struct Repeat {
    size_t begin = 0, end = 0;
    int64_t lanes = 1;
  };
  std::vector<Buffer> buffers;
  std::vector<Fixed> fixed;
  std::vector<Step> steps;
  std::vector<Repeat> repeats;
};

struct Placement {
  struct Place {
    int32_t root = 0;    // a buffer that is its own root
    int64_t offset = 0;  // in the root
  };
  std::vector<Place> places;            // per buffer
  std::vector<int64_t> arena_offset;    // per buffer; -1 unless the root of a class in the arena
  std::vector<int64_t> scratch_offset;  // per step, in the arena; -1: none
  // The same places of the next lane lie so many bytes further; 0: all lanes share them.
  std::vector<int64_t> arena_step, scratch_step;
  std::vector<bool> copies;    // per step: a view that must be copied
  std::vector<int32_t> order;  // of the steps; what is above is by their numbers in the problem
  MemoryPlan memory;
  MemoryPlan device_memory;  // of what is on_device, whose arena_offset is in that arena
};

}  // namespace kiln

#endif  // KILN_EXEC_PLACEMENT_PROBLEM_H_
