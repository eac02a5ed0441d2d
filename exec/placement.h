// SPDX-License-Identifier: Apache-2.0
// Where every buffer of a plan lies: which buffers share memory, and at which offset of the arena
// the rest goes.
//
// Buffers in one alias class lie in the memory of the class's root. A class forms by, in this
// order,
//   fixed aliases   a buffer is a range of another (views, parts of a concat)
//   views           the output is the input's memory; where the output is the caller's memory the
//                   temporary moves there
//   in-place pairs  the output takes the input's memory if the whole class of the input is a
//                   temporary that nothing touches later and nothing else in this step touches
// Buffers of two devices are never in one class.
// A view that cannot be one (an input that is also an output) becomes a copy. Classes of
// temporaries are intervals in steps and go into one arena. Example: x -> relu -> t -> exp -> y
// with in-place pairs: t lies in y, the arena is empty.
#ifndef KILN_EXEC_PLACEMENT_H_
#define KILN_EXEC_PLACEMENT_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
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
  };
  struct Access {
    int32_t buffer = 0;
    int64_t begin = 0,
            end = 0;    // bytes of the buffer, from the first to beyond the last; within it
    bool dense = true;  // all of them
    int64_t item = 1;   // bytes of an element
  };
  struct Step {
    // One read, one write: the write's buffer is the read's memory from `begin` on.
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
  std::vector<bool> copies;  // per step: a view that must be copied
  MemoryPlan memory;
};

// kInvalidArgument if a step reads what nothing wrote, writes an input or constant, or overlaps its
// own operands. Accesses and buffer numbers are the caller's to check. What lies in the arena is
// verified; plan_verifier.h has all of it.
// With `separate`, no two classes share memory, launches do not work in place, and kArenaAlignment
// bytes lie between a class and the next.
absl::StatusOr<Placement> PlaceBuffers(const PlacementProblem& problem, bool separate = false);

}  // namespace kiln

#endif  // KILN_EXEC_PLACEMENT_H_
