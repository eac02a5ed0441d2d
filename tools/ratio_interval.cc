// SPDX-License-Identifier: Apache-2.0
#include "tools/ratio_interval.h"

#include <algorithm>
#include <cstdint>
#include <random>

namespace kiln {
namespace {

// Resamples: enough for the 2.5th percentile, and less where there are so many rounds that all of
// it would take seconds.
constexpr size_t kMostResamples = 2000, kLeastResamples = 200, kDraws = 50'000'000;

}  // namespace

double Quantile(std::vector<double> values, double q) {
  const size_t at =
      std::min(values.size() - 1, static_cast<size_t>(q * static_cast<double>(values.size())));
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(at), values.end());
  return values[at];
}

Interval95 RatioInterval(const std::vector<double>& first, const std::vector<double>& other) {
  const size_t rounds = first.size();
  const size_t resamples = std::clamp(kDraws / rounds, kLeastResamples, kMostResamples);
  std::mt19937_64 random(rounds);
  std::vector<double> ratios;
  std::vector<double> a(rounds), b(rounds);
  for (size_t k = 0; k < resamples; ++k) {
    for (size_t i = 0; i < rounds; ++i) {
      const size_t round = random() % rounds;
      a[i] = first[round];
      b[i] = other[round];
    }
    ratios.push_back(Quantile(a, 0.5) / Quantile(b, 0.5));
  }
  return {Quantile(ratios, 0.025), Quantile(ratios, 0.975)};
}

}  // namespace kiln
