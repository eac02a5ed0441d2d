// SPDX-License-Identifier: Apache-2.0
// Makes the k-th operator new, or the k-th pthread_create, of this process fail. A test that links
// it has both replaced.
//
//   FailAt(Resource::kMemory, 17);
//   ...                                // the 17th from here on throws std::bad_alloc
//   const int64_t asked = FailNone();  // how many there were
#ifndef KILN_TESTS_FAULT_FAILING_RESOURCES_H_
#define KILN_TESTS_FAULT_FAILING_RESOURCES_H_

#include <cstdint>

namespace kiln {

enum class Resource { kMemory, kThread };

// Counts from here on, on all threads; k = 0: none fails.
void FailAt(Resource resource, int64_t k);
int64_t FailNone();

}  // namespace kiln

#endif  // KILN_TESTS_FAULT_FAILING_RESOURCES_H_
