// SPDX-License-Identifier: Apache-2.0
// The text of a plan (PlanInfo::text) taken apart again: buffers with their places, then launches
// with what they read and write.
//
//   input "x" [4, 64]
//   arena 2048 bytes, lower bound 2048, sum 3072; constants 0 bytes; serial
//   b0 input 0 "x" 1024 bytes
//   b1 temporary "t" 1024 bytes in the arena at 1024
//   b2 output 0 "y" 1024 bytes
//   0 kernel exp "t": b0 f32[4, 64] -> b1 f32[4, 64]; 2048 bytes
//   1 library matmul "y": b1 f32[4, 64], b3 f32[64, 64] -> b2 f32[4, 64]; 18432 bytes
//
// Names stand in the text as the model has them, quotes and line ends included. A name is taken to
// end where the rest of its line, and the beginning of the next, read as a plan's; a name made to
// look like that is cut short, or makes the text none, and does no other harm.
#ifndef KILN_TOOLS_PLAN_TEXT_H_
#define KILN_TOOLS_PLAN_TEXT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "kiln/dim.h"
#include "tools/memory_plan_page.h"

namespace kiln {

struct PlanText {
  struct Buffer {
    std::string kind, name;  // kind: input, output, constant, temporary
    int64_t bytes = 0;
    int64_t root = -1;          // the buffer in whose memory it lies; its own number: none
    int64_t arena_offset = -1;  // of a root in the arena; else -1
    int64_t lane_step = 0;      // the same place of the next lane is so many bytes further
  };
  struct Ref {
    int64_t buffer = -1;  // -1: an absent operand
    DType type = DType::kF32;
    Shape shape;  // may have symbols
  };
  struct Launch {
    std::string what, op, name;  // kernel softmax, library matmul, copy, dims; the user's nodes
    std::vector<Ref> inputs, outputs;
    int64_t bytes = 0;
    int64_t parts = 1, lanes = 1;  // of a part of the batch each (exec/batch_tiling.h)
    int64_t scratch_offset = -1;   // in the arena; how much there is the text does not say
  };
  int64_t arena = 0, lower_bound = 0, sum = 0, constants = 0;
  std::vector<Buffer> buffers;
  std::vector<Launch> launches;
};

// kInternal, with the byte where it stops to be one: no text of a plan. Never more than linear in
// text times names that look like line ends. Thread-safe.
absl::StatusOr<PlanText> ParsePlanText(absl::string_view text);

// What lies in the arena, one interval for each place and lane, in steps that are launches: from
// the first that touches it to the last. What is alive when a run of launches that are repeated for
// parts of a batch begins, or at its end, lives throughout. Scratch memory of launches is not
// there: the text has no size of it.
std::vector<PlannedInterval> ArenaIntervals(const PlanText& plan);

// Bytes of those intervals that live, for each launch.
std::vector<int64_t> LiveBytes(const PlanText& plan);

// That arena, for a page (memory_plan_page.h).
MemoryPlanPage ArenaPlan(const PlanText& plan, const std::string& title);

// Floating-point operations of a launch where its operands tell: a library's matmul, conv or
// conv_transpose of f32, two for each product and its sum. Nothing for all others.
std::optional<double> FlopsOf(const PlanText::Launch& launch, const SymbolValues& symbols);

}  // namespace kiln

#endif  // KILN_TOOLS_PLAN_TEXT_H_
