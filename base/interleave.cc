// SPDX-License-Identifier: Apache-2.0
#include "base/interleave.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace kiln {
namespace {

constexpr double kClear = 0.97;         // of the time of way 0, for a win
constexpr double kShort = 2'000;        // ns: the call itself is too much of it
constexpr double kBatch = 20'000;       // ns that are timed at once
constexpr double kFinalNs = 30e6;       // for the rounds that decide, about
constexpr int kFirst = 5;               // rounds of all ways
constexpr int kFewest = 9, kMost = 50;  // rounds that decide
constexpr size_t kFinalists = 3;        // with way 0

double Now() {
  return std::chrono::duration<double, std::nano>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

using Times = std::vector<std::vector<double>>;  // by point, by way

// The geometric mean of the ratios to way 0; infinity if it is slower by far at some point.
double Score(const Times& times, size_t way) {
  double log_ratio = 0;
  for (const std::vector<double>& ns : times) {
    const double ratio = std::isinf(ns[0]) ? 1 : ns[way] / ns[0];
    if (ratio > 1 / kClear) return INFINITY;
    log_ratio += std::log(ratio);
  }
  return std::exp(log_ratio / static_cast<double>(times.size()));
}

void TakeLeast(const std::vector<double>& measured, const std::vector<size_t>& ways,
               std::vector<double>& least) {
  for (size_t k = 0; k < ways.size(); ++k) least[ways[k]] = std::min(least[ways[k]], measured[k]);
}

}  // namespace

std::vector<double> LeastNs(const std::vector<size_t>& ways, size_t point, int rounds,
                            RunWayFn run) {
  std::vector<double> least(ways.size(), INFINITY);
  std::vector<int> batch(ways.size(), 1);
  std::vector<bool> fails(ways.size(), false);
  for (int round = -1; round < rounds; ++round) {  // the first one warms up
    for (size_t k = 0; k < ways.size(); ++k) {
      if (fails[k]) continue;
      const double start = Now();
      for (int i = 0; i < batch[k] && !fails[k]; ++i) fails[k] = !run(ways[k], point).ok();
      const double ns = (Now() - start) / batch[k];
      if (round >= 0) least[k] = std::min(least[k], ns);
      if (round <= 0) batch[k] = static_cast<int>(std::clamp(kBatch / ns, 1.0, 1000.0));
    }
  }
  for (size_t k = 0; k < ways.size(); ++k) least[k] = fails[k] ? INFINITY : least[k];
  return least;
}

Race RaceWays(size_t ways, size_t points, RunWayFn run) {
  std::vector<size_t> all(ways);
  for (size_t k = 0; k < ways; ++k) all[k] = k;
  Times times;
  double shortest = INFINITY, sum = 0;
  for (size_t p = 0; p < points; ++p) {
    times.push_back(LeastNs(all, p, kFirst, run));
    const double least = *std::min_element(times[p].begin(), times[p].end());
    shortest = std::min(shortest, least);
    sum += std::isinf(least) ? 0 : least;
  }
  Race race;
  // Where the call is most of the time at every point, nothing can be told.
  const bool too_short = std::all_of(times.begin(), times.end(), [](const auto& ns) {
    return *std::min_element(ns.begin(), ns.end()) < kShort;
  });
  std::vector<double> scores(ways);
  for (size_t k = 0; k < ways; ++k) scores[k] = Score(times, k);
  std::vector<size_t> order = all;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return scores[a] < scores[b]; });
  const bool first_fails = std::isinf(times[0][0]);
  if (first_fails) {
    race.winner = static_cast<size_t>(std::min_element(times.back().begin(), times.back().end()) -
                                      times.back().begin());
  } else if (!too_short && scores[order[0]] < kClear) {
    std::vector<size_t> finalists = {0};
    for (size_t k = 0; k < order.size() && finalists.size() < kFinalists; ++k)
      if (scores[order[k]] < kClear) finalists.push_back(order[k]);
    const double each = std::max(1.0, sum * static_cast<double>(finalists.size()));
    race.rounds = static_cast<int>(std::clamp(kFinalNs / each, 1.0 * kFewest, 1.0 * kMost));
    Times finals;
    for (size_t p = 0; p < points; ++p) {
      finals.push_back(LeastNs(finalists, p, race.rounds, run));
      TakeLeast(finals[p], finalists, times[p]);
    }
    double best = kClear;
    for (size_t k = 1; k < finalists.size(); ++k) {
      const double score = Score(finals, k);
      if (score >= best) continue;
      best = score;
      race.winner = finalists[k];
    }
  } else if (!too_short) {
    race.rounds = kFirst;
  }
  for (size_t k = 0; k < ways; ++k) {
    double log_ns = 0;
    for (const std::vector<double>& ns : times) log_ns += std::log(ns[k]);
    race.ns.push_back(std::exp(log_ns / static_cast<double>(points)));
  }
  return race;
}

}  // namespace kiln
