// SPDX-License-Identifier: Apache-2.0
// Cases that may end or exhaust their process, run in forked children that serve many cases each.
//
//   ChildLimits limits;
//   for (const ChildFailure& failure : RunInChildren(first, count, limits, [](uint64_t seed) {
//          return Judge(seed);  // "" or what is wrong
//        }))
//     ADD_FAILURE() << failure.seed << ": " << failure.what;
//
// A failure is what the case returns, a signal, an exit, more processor time than a case may take,
// or an hour-glass that ran out. Memory beyond the limit cannot be had in the child: whoever asks
// for it has to live with that. The parent must have no other thread.
#ifndef KILN_TESTS_FUZZ_PACKAGES_FUZZ_CHILDREN_H_
#define KILN_TESTS_FUZZ_PACKAGES_FUZZ_CHILDREN_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace kiln {

struct ChildLimits {
  double cpu_seconds = 1;                     // of one case
  int64_t memory_bytes = int64_t{256} << 20;  // of address space, over what the child begins with
  uint64_t cases_per_child = 500;
  size_t most_failures = 20;  // then no further case is run
};

// Sanitizers need time and address space of their own.
ChildLimits FuzzLimits();

struct ChildFailure {
  uint64_t seed = 0;
  std::string what;
};

std::vector<ChildFailure> RunInChildren(uint64_t first, uint64_t count, const ChildLimits& limits,
                                        const std::function<std::string(uint64_t seed)>& run);

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

#endif  // KILN_TESTS_FUZZ_PACKAGES_FUZZ_CHILDREN_H_
