// SPDX-License-Identifier: Apache-2.0
// Probes: the runs by which compiled code is compared with the VM before anybody else may have it.
//
// Some two dozen per kernel, chosen by its text and schedule alone, so that two machines choose the
// same: one element; extents of zero where there is something to do all the same; the vector length
// and one more and less; rows longer than a block of the reduction tree; reduced outer dims beyond
// their blocks, and blocks of blocks; more work than one task; whole tiles of transposed operands,
// and vectors on both sides of where a row is cut; the same with rows of whole lines, for which
// code has stores of its own (kernel/abi.h); the greatest extents of the class if they are small.
// Operands end, or begin, at a guard page. Values: small numbers, all magnitudes, and NaN,
// infinities, -0, denormals.
//
// A probe has some ten thousand elements; one for each reduced dim has up to half a million, where
// an element takes few operations, for the levels of the tree that have blocks only then: 66 blocks
// of a row, 32801 rows. Levels beyond (rows of 2^24 elements, 2^20 rows) take no probe: operands of
// 64 MB, and as long as building the kernel. All of them together take some 5 to 30 ms.
//
// Example: over `dims a b` with lanes=16, unbounded:
//   (1, 1) (2, 15) (3, 16) (1, 17) (5, 35) ... (1, 4097) (0, 2)
#ifndef KILN_EXEC_VALIDATE_PROBE_H_
#define KILN_EXEC_VALIDATE_PROBE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernel/kernel.h"
#include "kernel/launch_info.h"

namespace kiln {

struct Probe {
  std::vector<int64_t> extents;  // of each dim, iterated then sizes
  std::vector<uint64_t> params;  // bits as kConst holds them
  uint64_t seed = 0;             // of the elements of inputs
  bool specials = false;         // elements include NaN and the like
  bool at_end = true;            // operands end at a guard page; else they begin at one
  bool in_place = false;         // outputs lie over the inputs that the schedule allows
  bool whole_lines = false;      // operands and their rows begin at lines of the cache
};

// `at_most` has one bound per dim, -1 for none (program::KernelChoice). All reads that are
// performed lie inside their operands (probe_reads.h). Empty if no such extents are found.
std::vector<Probe> ProbesFor(const Kernel& kernel, const LaunchInfo& launch,
                             const std::vector<int64_t>& at_most);

// Probes with the extents of a launch that some program makes, which need no search and are right
// for certain. None if they are no launch of this kernel, beyond `at_most`, or a long one; where
// these are the only probes, `alone`, it may take longer.
std::vector<Probe> ProbesOf(const Kernel& kernel, const LaunchInfo& launch,
                            const std::vector<int64_t>& at_most,
                            const std::vector<int64_t>& extents, bool alone);

// "a=3 b=17", for messages and the transcript.
std::string Describe(const Kernel& kernel, const Probe& probe);

// One element of an input of `type`, as kConst holds it; `state` is the generator's.
uint64_t ProbeValue(DType type, bool specials, uint64_t& state);

}  // namespace kiln

#endif  // KILN_EXEC_VALIDATE_PROBE_H_
