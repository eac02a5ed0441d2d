// SPDX-License-Identifier: Apache-2.0
// ForEachCase runs numbered cases in child processes and says which of them are wrong, end the
// process, last too long or take too much memory. A child serves up to 1,000 cases; when it ends,
// another goes on.
//
//   for (const FailedCase& failed : ForEachCase(1, 1000, {}, [](uint64_t number) {
//          return Judge(number);  // "" or what is wrong
//        }))
//     ADD_FAILURE() << failed.number << ": " << failed.what;
//
// The parent must have no other thread.
#ifndef KILN_TESTS_FUZZ_FORKED_CASES_H_
#define KILN_TESTS_FUZZ_FORKED_CASES_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace kiln {

struct CaseLimits {
  std::chrono::milliseconds time = std::chrono::milliseconds(1000);  // of a processor
  int64_t bytes = int64_t{256} << 20;  // of address space, over that of the child when it starts
  bool memory_may_be_refused = false;  // to operator new: then the case goes on; else it fails
  size_t failures = 20;                // the walk stops after so many
};

struct FailedCase {
  uint64_t number = 0;
  std::string what;  // what `run` said, "signal 11", "more than 1000 ms", ...
};

// `run` returns "" or what is wrong, and must not end the process, throw, or return after the
// limits. Under AddressSanitizer its options limit memory instead (`hard_rss_limit_mb`), and a case
// has 30 times as long.
std::vector<FailedCase> ForEachCase(uint64_t first, uint64_t count, const CaseLimits& limits,
                                    const std::function<std::string(uint64_t number)>& run);

// Memory that is refused is no failure from here to the end of the case: for what is bounded by
// other limits, such as an evaluation.
void ForgiveRefusedMemory();

// A count that children and parent share.
class SharedCount {
 public:
  SharedCount();
  SharedCount(const SharedCount&) = delete;
  SharedCount& operator=(const SharedCount&) = delete;
  ~SharedCount();
  void Add() { ++*count_; }
  uint64_t value() const { return *count_; }

 private:
  std::atomic<uint64_t>* const count_;
};

// A number from the environment.
uint64_t FuzzNumber(const char* variable, uint64_t otherwise);

}  // namespace kiln

#endif  // KILN_TESTS_FUZZ_FORKED_CASES_H_
