// SPDX-License-Identifier: Apache-2.0
// What generators of random programs draw: numbers, one of a list, one in so many times.
#ifndef KILN_TESTS_COMPILER_DRAW_H_
#define KILN_TESTS_COMPILER_DRAW_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <vector>

namespace kiln {

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}
  int64_t Below(int64_t high) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(std::max<int64_t>(high, 1)));
  }
  bool OneIn(int64_t n) { return Below(n) == 0; }
  template <typename T>
  const T& Of(const std::vector<T>& values) {
    return values[static_cast<size_t>(Below(static_cast<int64_t>(values.size())))];
  }
  template <typename T>
  T Pick(std::initializer_list<T> of) {
    return of.begin()[Below(static_cast<int64_t>(of.size()))];
  }
  std::mt19937_64& bits() { return random_; }

 private:
  std::mt19937_64 random_;
};

}  // namespace kiln

#endif  // KILN_TESTS_COMPILER_DRAW_H_
