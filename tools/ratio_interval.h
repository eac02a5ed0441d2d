// SPDX-License-Identifier: Apache-2.0
// How sure a ratio of two settings' times is.
//
//   RatioInterval({10, 11, 12, ...}, {5, 5.4, 6, ...})   // {1.93, 2.06}
#ifndef KILN_TOOLS_RATIO_INTERVAL_H_
#define KILN_TOOLS_RATIO_INTERVAL_H_

#include <vector>

namespace kiln {

struct Interval95 {
  double low = 0, high = 0;
  bool Contains(double value) const { return low <= value && value <= high; }
};

// The element at place floor(q * n) of the sorted values, n their number, which is not 0.
double Quantile(std::vector<double> values, double q);

// The 95 % interval of median(first) / median(other), by the percentile bootstrap: rounds are drawn
// again with replacement, and both settings keep their times of a round together, so that what
// slowed both down counts for neither (Efron and Tibshirani, An Introduction to the Bootstrap, 13).
// Both have one time for each round, above 0, and there is one at least. Deterministic.
Interval95 RatioInterval(const std::vector<double>& first, const std::vector<double>& other);

}  // namespace kiln

#endif  // KILN_TOOLS_RATIO_INTERVAL_H_
