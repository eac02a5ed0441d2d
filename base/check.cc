// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace kiln::internal {

void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: check failed: %s; this is a bug of Kiln, please report it\n", file,
               line, condition);
  std::abort();
}

}  // namespace kiln::internal
