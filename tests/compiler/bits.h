// SPDX-License-Identifier: Apache-2.0
// One kernel on several executors and numbers of threads, which must all give the same bits.
#ifndef KILN_TESTS_COMPILER_BITS_H_
#define KILN_TESTS_COMPILER_BITS_H_

#include <string>
#include <vector>

#include "compiler/kernel_service.h"
#include "kernel/kernel.h"
#include "tests/kernel/random.h"

namespace kiln {

// Runs kernels compiled for every level this machine has, and on the VM.
class BitComparer {
 public:
  BitComparer();

  // "" if all executors, on 1, 2, 3 and 8 threads, agree with the VM on one thread for these
  // operands; else what differs.
  std::string Difference(const Kernel& kernel, const RandomRun& run);

  const std::vector<Target>& levels() const { return levels_; }

 private:
  std::vector<Target> levels_;
  std::vector<std::shared_ptr<KernelService>> services_;  // one per level
};

// Operands with random elements for the given extents (one per dim).
RandomRun RunFor(const Kernel& kernel, std::vector<int64_t> extents, uint64_t seed);

}  // namespace kiln

#endif  // KILN_TESTS_COMPILER_BITS_H_
