// SPDX-License-Identifier: Apache-2.0
// Regret: how much longer a kernel runs with the schedule that was chosen than with the best one.
#ifndef KILN_BENCH_PRICE_REGRET_H_
#define KILN_BENCH_PRICE_REGRET_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "base/target.h"
#include "schedule/machine.h"

namespace kiln::bench {

struct RegretSettings {
  int each = 20;  // kernels of each kind
  uint64_t seed = 1;
  uint64_t from = 0;             // the first of the seed's kernels that is drawn
  std::string kind;              // all where empty
  double seconds = 0.005;        // for each schedule in a round
  bool grid = false;             // also schedules that differ from the chosen one in one number
  std::string json;              // a file to write the samples to; none where empty
  std::optional<Target> target;  // that of the host where none is given
  Machine machine;               // whose prices choose
};

// Draws kernels that run for 20 us and more, and times each with all its candidates, with one
// thread, three rounds in turn; the chosen and the best are then timed again, interleaved. Prints,
// for each template chosen and for all, chosen / best: median, 90th percentile and worst; and the
// five worst kernels.
absl::Status PrintRegret(const RegretSettings& settings);

// The same of graphs in text files that are one kernel each, with all their candidates.
absl::Status PrintRegretOf(const std::vector<std::string>& graphs, const RegretSettings& settings);

// The same of the times in a file that PrintRegret has written, for the choice and the candidates
// of today; the `worst` kernels. Nothing is timed.
absl::Status ReplayRegret(const std::string& path, const Machine& machine, size_t worst);

}  // namespace kiln::bench

#endif  // KILN_BENCH_PRICE_REGRET_H_
