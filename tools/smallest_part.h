// SPDX-License-Identifier: Apache-2.0
// Delta debugging: a small part of some items for which a test still fails (Zeller and Hildebrandt,
// Simplifying and Isolating Failure-Inducing Input, 2002: ddmin).
//
//   FindSmallestPart(6, [](const std::vector<size_t>& items) { return /* 1 and 4 are there */; },
//                    100);                                     // {1, 4}
#ifndef KILN_TOOLS_SMALLEST_PART_H_
#define KILN_TOOLS_SMALLEST_PART_H_

#include <cstddef>
#include <functional>
#include <vector>

namespace kiln {

struct SmallestPart {
  std::vector<size_t> items;  // ascending; not empty
  int tries = 0;              // calls of `fails`
  bool minimal = false;       // no item can be left out; false: `most_tries` were not enough
};

// `fails` is called with some of the items 0 ... count - 1, ascending, none of them twice, and
// never with none or with all; all of them together are known to fail. count > 0. Where it fails
// for every set that has a part in it, the result is such a part. At most about count^2 calls.
SmallestPart FindSmallestPart(size_t count,
                              const std::function<bool(const std::vector<size_t>&)>& fails,
                              int most_tries);

}  // namespace kiln

#endif  // KILN_TOOLS_SMALLEST_PART_H_
