// SPDX-License-Identifier: Apache-2.0
// Counts allocations of the whole process, by who asks: oneDNN, or anybody else. For executables
// that link counted_malloc.cc. Sanitizers have a malloc of their own: with one nothing is counted.
//
//   const Allocations before = CountedAllocations();
//   ...
//   EXPECT_EQ((CountedAllocations() - before).others, 0);
#ifndef KILN_TESTS_COMPILER_COUNTED_MALLOC_H_
#define KILN_TESTS_COMPILER_COUNTED_MALLOC_H_

#include <cstdint>

namespace kiln {

struct Allocations {
  int64_t onednn = 0;  // asked for by code of libkdnn
  int64_t others = 0;
  friend Allocations operator-(const Allocations& a, const Allocations& b) {
    return {a.onednn - b.onednn, a.others - b.others};
  }
};

// Since the process began. Thread-safe.
Allocations CountedAllocations();

// Bytes of what was allocated since TrackLiveBytes and is not freed, by who asked for it. For one
// window at a time, of fewer than 100,000 allocations.
void TrackLiveBytes();
Allocations LiveBytes();

}  // namespace kiln

#endif  // KILN_TESTS_COMPILER_COUNTED_MALLOC_H_
