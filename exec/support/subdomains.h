// SPDX-License-Identifier: Apache-2.0
// How a launch may be cut into subdomains: ranges of its outer dims that are computed by launches
// of their own.
//
// A subdomain fixes the first dims to one coordinate each and takes a range of the next one,
// `dims[k]`. Its operands are sub-ranges of those of the launch, dense where those are; its extents
// are those of the launch but for the cut dims. Example: a kernel over [a, b, c] of which a and b
// may be cut computes coordinates (3, 10..20, all) as a launch with extents (1, 10, c) and
// addresses moved to (3, 10).
//
// So run launches that have more elements than kernels can count.
#ifndef KILN_EXEC_SUPPORT_SUBDOMAINS_H_
#define KILN_EXEC_SUPPORT_SUBDOMAINS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernel/kernel.h"

namespace kiln {

// Kernels compute with 32 bits: extents, the product of the iterated ones and the offsets of an
// operand's elements stay below this. Vectors, blocks and tasks are rounded up beyond it.
inline constexpr int64_t kMostElements = (int64_t{1} << 31) - (int64_t{1} << 21);  // correctness

// Where an operand's elements lie; axes outermost first.
struct OperandShape {
  std::span<const int64_t> shape, strides;  // in elements
  int64_t item = 0;                         // bytes of one
};

// How many of the outermost dims may be cut: no reduction is over one of them, no value depends on
// their coordinates or extents, and every operand or stage that has one is read at the reader's own
// coordinate of it and has them first, in order, without gaps; so have all outputs. Never all dims:
// the innermost of several is whole. 0: the launch cannot be cut.
int CuttableDims(const Kernel& kernel);

// A launch run subdomain by subdomain: one after the other, each by all threads.
//
// Bits do not change: subdomains compute what the whole launch computes at their coordinates.
struct PartitionedLaunch {
  int dim = 0;             // the dim whose range is cut; those before it are fixed
  int64_t range = 1;       // steps of it in a subdomain; the last has what is left
  int64_t along = 1;       // subdomains along it
  int64_t subdomains = 1;  // in all
  size_t inputs = 0;
  size_t skipped = 0;            // arguments (extents, parameters) between inputs and outputs
  std::vector<int64_t> extents;  // of the cut dims
  std::vector<std::vector<int64_t>> steps;  // [operand][cut dim]: bytes
};

// Whether a launch with these extents (one per dim) and operands (inputs, then outputs) stays below
// `most`.
bool FitsAtOnce(const Kernel& kernel, std::span<const int64_t> extents,
                std::span<const OperandShape> operands, int64_t most = kMostElements);

// Subdomains as large as they can be below `most`. Nothing if the launch cannot be cut so finely,
// as where one row has more elements.
std::optional<PartitionedLaunch> PlanPieces(const Kernel& kernel, std::span<const int64_t> extents,
                                            std::span<const OperandShape> operands,
                                            int64_t most = kMostElements);

}  // namespace kiln

#endif  // KILN_EXEC_SUPPORT_SUBDOMAINS_H_
