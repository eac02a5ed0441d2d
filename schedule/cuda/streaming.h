// SPDX-License-Identifier: Apache-2.0
// Element-wise kernels on a GPU: a thread for each element, or for each few that lie side by side.
//
// A block is `columns` threads along the innermost dim by `rows` threads along the others, which
// are collapsed into one; blocks are counted along both by one grid index, for only the first has
// place for more than 65,535. Where rows are a multiple of `vector` elements and operands are
// aligned, a thread takes that many with one access; other launches have a form with one element a
// thread. Where an operand is the same for all rows (a bias), a thread may walk down several rows,
// `rows` apart, with the elements that it needs of it in registers.
//
// Example: `streaming vector=4 columns=128 walked=16`
#ifndef KILN_SCHEDULE_CUDA_STREAMING_H_
#define KILN_SCHEDULE_CUDA_STREAMING_H_

#include <cstdint>

#include "schedule/schedule.h"

namespace kiln {

inline constexpr int64_t kWarp = 32;            // correctness: threads
inline constexpr Range kThreadsRange{1, 1024};  // correctness: of a block
inline constexpr int64_t kBlockThreads = 128;   // speed: of most blocks

// Elements of the narrowest operand along the innermost dim that the widest access of a thread, of
// 16 bytes, takes.
int64_t WidestVector(const Kernel& kernel);

// Shared memory of a block that every device has without asking.
inline constexpr int64_t kMostSharedBytes = 48 << 10;  // correctness

// Whether all rows of a kernel with outer dims read the same elements of `input`.
bool IsRowOfAll(const Kernel& kernel, const KernelInput& input);

struct Streaming : FieldsOf<Streaming> {
  int64_t vector = 4;     // elements of a thread, side by side
  int64_t columns = 128;  // threads of a block along the innermost dim
  int64_t rows = 1;       // and along the others
  int64_t walked = 1;     // rows of a thread, one after the other

  void Visit(FieldVisitor& fields) override {
    fields.Int("vector", vector, {1, 16});
    fields.Int("columns", columns, kThreadsRange);
    fields.Int("rows", rows, kThreadsRange);
    fields.Int("walked", walked, {1, 64});
  }
  absl::Status CheckFor(const Kernel& kernel) const override;
  LoopSummary Loops(const Kernel&) const override {
    return {.step = vector,
            .grid = {.columns = columns, .rows = rows, .vector = vector, .steps = walked}};
  }
  LaunchInfo Info() const override {
    return {.step = vector * columns, .columns = vector * columns, .in_place = {}};
  }
};
extern const Template kStreaming;

}  // namespace kiln

#endif  // KILN_SCHEDULE_CUDA_STREAMING_H_
