// SPDX-License-Identifier: Apache-2.0
// Numbers at which functions are smooth enough for differences.
#ifndef KILN_TESTS_GRADIENT_DISTINCT_NUMBERS_H_
#define KILN_TESTS_GRADIENT_DISTINCT_NUMBERS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace kiln {

// Numbers between `lo` and `hi`, no two closer than a few steps of a stencil, none as close to a
// multiple of 1/2, where kinks are. `slots` is how many are drawn in all.
class DistinctNumbers {
 public:
  DistinctNumbers(double lo, double hi, int64_t slots, uint64_t seed) {
    std::mt19937_64 random(seed);
    const double width = (hi - lo) / static_cast<double>(std::max<int64_t>(slots, 1));
    for (int64_t i = 0; i < slots; ++i) {
      const double jitter = std::uniform_real_distribution<double>(0.3, 0.7)(random);
      double number = lo + (static_cast<double>(i) + jitter) * width;
      const double kink = std::round(number * 2) / 2;
      if (std::abs(number - kink) < 5e-3) number = kink + (number < kink ? -5e-3 : 5e-3);
      numbers_.push_back(number);
    }
    std::shuffle(numbers_.begin(), numbers_.end(), random);
  }

  double Next() {
    const double number = numbers_.back();
    numbers_.pop_back();
    return number;
  }

 private:
  std::vector<double> numbers_;
};

}  // namespace kiln

#endif  // KILN_TESTS_GRADIENT_DISTINCT_NUMBERS_H_
