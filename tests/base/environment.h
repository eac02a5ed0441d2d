// SPDX-License-Identifier: Apache-2.0
// Numbers that a person asks of a test: seeds, how many random cases.
//
//   KILN_RANDOM_REDUCTIONS=20000 compiler_test    const uint64_t n = FromEnvironment("...", 400);
#ifndef KILN_TESTS_BASE_ENVIRONMENT_H_
#define KILN_TESTS_BASE_ENVIRONMENT_H_

#include <cstdint>
#include <cstdlib>

namespace kiln {

// The number in the environment variable, decimal or with 0x; `otherwise` if it is not set.
inline uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* const asked = std::getenv(name);
  return asked != nullptr ? std::strtoull(asked, nullptr, 0) : otherwise;
}

}  // namespace kiln

#endif  // KILN_TESTS_BASE_ENVIRONMENT_H_
