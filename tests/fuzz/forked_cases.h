// SPDX-License-Identifier: Apache-2.0
// ForEachCase runs numbered cases in a child process and says which of them end it, last too long
// or take too much memory. A child serves 1,000 cases; when it ends, another goes on.
//
//   for (const FailedCase& failed : ForEachCase(1, 1000, {}, Run)) ADD_FAILURE() << failed.what;
#ifndef KILN_TESTS_FUZZ_FORKED_CASES_H_
#define KILN_TESTS_FUZZ_FORKED_CASES_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace kiln {

struct CaseLimits {
  std::chrono::milliseconds time = std::chrono::milliseconds(1000);  // of a processor
  int64_t bytes = int64_t{256} << 20;  // of address space, over that of the child when it starts
  size_t failures = 20;                // the walk stops after so many
};

struct FailedCase {
  uint64_t number = 0;
  std::string what;  // "signal 11", "more than 1000 ms", "more memory than 268435456 bytes"
};

// `run` must not end the process, throw, or return after the limits. Under AddressSanitizer memory
// is limited by its options instead (`hard_rss_limit_mb`) and the time is ten times as long.
std::vector<FailedCase> ForEachCase(uint64_t first, uint64_t count, const CaseLimits& limits,
                                    const std::function<void(uint64_t number)>& run);

// Memory that is refused is no failure from here to the end of the case: for what is bounded by
// other limits, such as an evaluation.
void ForgiveRefusedMemory();

}  // namespace kiln

#endif  // KILN_TESTS_FUZZ_FORKED_CASES_H_
