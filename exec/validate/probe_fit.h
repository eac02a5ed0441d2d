// SPDX-License-Identifier: Apache-2.0
// Extents under which a kernel may be called, near given ones.
//
// A kernel's text says which reads are performed (probe_reads.h); extents fit if all of them lie in
// their operands. Where they do not, the extents of a read that strays are mended: its axis grows,
// or what drives the index there shrinks or grows. Example:
//
//   out 0 f32 [a] = in0[a+2] + in1[|n1|-1-a]     in0 [n0], in1 [n1]
//
// Of wanted a=8 n0=4 n1=4, n0 becomes 10 and n1 8. Where what was mended breaks what was right,
// other ways are drawn at random, the same for equal text, extents and seed.
#ifndef KILN_EXEC_VALIDATE_PROBE_FIT_H_
#define KILN_EXEC_VALIDATE_PROBE_FIT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "exec/validate/probe_reads.h"
#include "kernel/kernel.h"

namespace kiln {

// Of the iteration space and of each operand of a probe.
inline constexpr int64_t kMostElements = 1 << 16;  // compile time

class ProbeFitter {
 public:
  // `at_most` has one bound per dim, -1 for none. The kernel must outlive the fitter.
  ProbeFitter(const Kernel& kernel, std::vector<int64_t> at_most);

  int64_t Limit(size_t dim) const;
  bool InClass(const std::vector<int64_t>& extents) const;

  // Extents near `wanted`; nothing if none are found, or if there would be nothing to do, or more
  // than `most` elements. Grows what is too short.
  std::optional<std::vector<int64_t>> Fit(std::vector<int64_t> wanted,
                                          int64_t most = kMostElements) const;
  // The same by any ways of mending, drawn from `seed`.
  std::optional<std::vector<int64_t>> FitFreely(std::vector<int64_t> wanted, uint64_t seed) const;

  // Whether compiled code is launched for such extents: where an input, or what is reduced, has no
  // elements, the VM is.
  bool Launched(const std::vector<int64_t>& extents) const;

  // Elements of the greatest operand or space.
  int64_t Most(const std::vector<int64_t>& extents) const;

 private:
  struct Move {
    size_t dim = 0;
    int64_t to = 0;
  };
  // Whether the reads can be followed at such extents in a time that probes are worth.
  bool IsSmall(const std::vector<int64_t>& extents, int64_t most) const;
  std::vector<StrayRead> Strays(const std::vector<int64_t>& extents) const;
  bool Grow(const StrayRead& stray, std::vector<int64_t>& extents) const;
  std::vector<Move> Moves(const StrayRead& stray, const std::vector<int64_t>& extents) const;
  int64_t Outputs(const std::vector<int64_t>& extents) const;

  const Kernel& kernel_;
  std::vector<int64_t> at_most_;
  std::vector<ReadFollower> reads_;
};

// splitmix64: the generator of all that probes draw.
uint64_t NextRandom(uint64_t& state);

}  // namespace kiln

#endif  // KILN_EXEC_VALIDATE_PROBE_FIT_H_
