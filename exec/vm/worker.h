// SPDX-License-Identifier: Apache-2.0
// What one thread of a launch works with: registers, its place, what it has asked the cache for.
#ifndef KILN_EXEC_VM_WORKER_H_
#define KILN_EXEC_VM_WORKER_H_

#include <cstddef>
#include <cstdint>

#include "exec/vm/launch_state.h"

namespace kiln::vm {

// Bytes to be fetched into the cache before they are needed. They are asked for a few at a time,
// between instructions: the processor waits when it is asked for too many at once.
class Fetches {
 public:
  void Add(const uint8_t* at, int64_t bytes, bool written) {
    if (next_ == size_) next_ = size_ = 0;
    if (size_ < kMost) ranges_[size_++] = {at, at + bytes, written};
  }
  void Some(int64_t lines) {
    for (; lines > 0 && next_ < size_; --lines) {
      Range& range = ranges_[next_];
      if (range.written) {
        __builtin_prefetch(range.at, 1);
      } else {
        __builtin_prefetch(range.at);
      }
      range.at += kLine;
      if (range.at >= range.end) ++next_;
    }
  }

 private:
  static constexpr int kMost = 32;  // correctness
  struct Range {
    const uint8_t *at, *end;
    bool written;
  };
  Range ranges_[kMost];
  int size_ = 0, next_ = 0;
};

// Registers of one pass for one worker.
struct Frame {
  uint8_t* storage = nullptr;
  // Where each register lies now: its own storage, or an operand. Slots, by their names, before.
  uint8_t** regs = nullptr;
  Step* steps = nullptr;            // of all strips
  int64_t* positions = nullptr;     // two blocks of them
  uint8_t* accumulators = nullptr;  // a block for each sink
  Fetches* fetches = nullptr;       // of the worker
  bool non_temporal = false;        // strips write the outputs of the block around the caches
  // What the instructions of `inner` last ran for.
  const Launch* inner_launch = nullptr;
  int64_t inner_at = 0;
  size_t inner_n = 0;
};

// Bytes up to the next line: what is laid out one behind the other begins at lines.
inline size_t RoundUp(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

// What one thread works with. `temps` is the memory of the cell it works in.
struct Worker {
  const Launch* launch = nullptr;
  int64_t coordinate[kMaxDims] = {};
  int64_t group_first = 0;  // where the cell starts along the program's group
  uint8_t* temps = nullptr;
  Fetches fetches;
};

}  // namespace kiln::vm

#endif  // KILN_EXEC_VM_WORKER_H_
