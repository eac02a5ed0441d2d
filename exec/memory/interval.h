// SPDX-License-Identifier: Apache-2.0
// What is to be placed.
#ifndef KILN_EXEC_MEMORY_INTERVAL_H_
#define KILN_EXEC_MEMORY_INTERVAL_H_

#include <cstdint>

namespace kiln {

struct Interval {
  int64_t lower = 0, upper = 0;  // lives in the steps [lower, upper), lower < upper
  int64_t size = 0;              // bytes, >= 0
};

}  // namespace kiln

#endif  // KILN_EXEC_MEMORY_INTERVAL_H_
