// SPDX-License-Identifier: Apache-2.0
// Machine: the description of what kernels run on, in numbers, for the choice of groups and of
// schedules.
//
// One file is shipped per target level (schedule/<device>/*.machine): of CPUs measured offline by
// `kiln devices --measure`, of GPUs from data sheets. Compilation uses the one of the target level
// unless the user names a file, so that two machines of one level make the same kernels and the
// same keys.
//
// Text form, one fact a line, `#` starts a comment; the target says which facts follow:
//   kiln machine 4
//   target x86-64-v3
//   vector 32            # bytes of a vector register
//   registers 16         # of vectors
//   l1 32768             # bytes of the first-level cache
//   l2 1048576           # and of the second-level one, of one core
//   l3 4194304           # and of the share of one core in the third-level one
//   grain 32768          # elements of an addition that are worth a task
//   launch 180           # ns for a kernel to start and end
//   loop 6               # ns for a loop over a row to start and end
//   gather 0.9           # ns for an element read at a place that is computed or far away
//   transpose 0.3        # ns for an element of an operand that runs along another dim
//   mask 0.5             # ns for a vector that is stored under a mask, beyond an ordinary one
//   gflops 55            # of library products and convolutions
//   latency 1            # ns from an addition to one that needs its result
//   window 400           # instructions that a core looks ahead
//   jump 8               # ns for a line of memory that is not next to the one before
//   add 0.03             # ns an f32 element, of every op that is not named and no function
//   div 0.15
//   sqrt 0.2
//   extreme 0.09         # of the greatest or least of two floats, which lets NaN through
//   integer_div 1.5
//   set 32768 90         # GB/s, read and written together, of operands that have so many bytes
//   set 1073741824 11
// Functions cost what their expansions (kernel/math.h) are made of.
//
// A GPU has launch, gflops and sets too, of the whole device, and facts of its own:
//   kiln machine 4
//   target cuda-sm90
//   multiprocessors 132
//   clock 1.98           # GHz
//   lanes 128            # instructions for 32-bit numbers that a multiprocessor starts in a clock
//   lanes64 64           # and for f64
//   registers 65536      # of 32 bits, of a multiprocessor
//   shared 233472        # bytes of shared memory of a multiprocessor
//   threads 2048         # that a multiprocessor has at once
//   latency 600          # ns from a load to its value in memory
//   launch 2000          # ns of a kernel behind another on a stream
//   gflops 66900
//   set 37748736 10000   # GB/s of what the second-level cache holds
//   set 104857600 3350   # and of memory
#ifndef KILN_SCHEDULE_MACHINE_H_
#define KILN_SCHEDULE_MACHINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/target.h"

namespace kiln {

// Doubles, since prices divide by them.
struct Gpu {
  double multiprocessors = 1, clock_ghz = 1;
  double lanes = 32, lanes64 = 32;                          // of a multiprocessor, as are:
  double registers = 65536, shared_bytes = 0, threads = 0;  // at once
  double latency_ns = 1;
};

struct Machine {
  struct Set {
    int64_t bytes = 0;
    double gb_per_s = 1;
  };
  Target target;
  int64_t vector_bytes = 32, registers = 16;
  int64_t l1_bytes = 32 << 10, l2_bytes = 1 << 20, l3_bytes = 4 << 20;
  int64_t parallel_grain = 1 << 15;
  double launch_ns = 0, loop_ns = 0, gather_ns = 0, transpose_ns = 0, mask_ns = 0;
  double latency_ns = 1, jump_ns = 5, window = 400;
  double add_ns = 0, div_ns = 0, sqrt_ns = 0, integer_div_ns = 0, extreme_ns = 0;
  double gflops = 1;
  Gpu gpu;                // of a target of one; the costs of operations above follow from it
  std::vector<Set> sets;  // ascending, at least one

  // The bandwidth for operands of `bytes` in all: linear between two sets.
  double GbPerS(double bytes) const;
};

// kInvalidArgument names the line. Everything but comments must be there, numbers positive.
absl::StatusOr<Machine> ParseMachine(absl::string_view text);
std::string ToString(const Machine& machine);

}  // namespace kiln

#endif  // KILN_SCHEDULE_MACHINE_H_
