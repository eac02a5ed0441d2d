// SPDX-License-Identifier: Apache-2.0
// kiln bench --profile: the time of each launch, beside what the machine could do in it.
#ifndef KILN_TOOLS_BENCH_PROFILE_H_
#define KILN_TOOLS_BENCH_PROFILE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kiln/model.h"
#include "kiln/options.h"
#include "nlohmann/json_fwd.hpp"
#include "tools/plan_text.h"

namespace kiln {

struct ProfileRow {
  ThunkTime time;
  std::optional<double> flops;  // of library calls whose work is known
  // Of a probe in this run. `bandwidth` is above 100 where operands come from caches. Nothing for
  // work on the host, and where a launch took no time that the clock shows.
  std::optional<double> bandwidth_percent, matmul_percent;
};

struct Profile {
  std::vector<ProfileRow> rows;  // in the order of the program
  int threads = 0;
  double bandwidth = 0;          // bytes per second
  std::optional<double> matmul;  // operations per second; nothing where no launch asks for it
};

// Runs the model some times with clocks, and takes the least time of each launch; then the probes
// (machine_probe.h), with `threads`. `plan` is the plan that runs; null where there is none that
// has all launches.
absl::StatusOr<Profile> ProfileOf(Context& context, const CompileOptions& options, int threads,
                                  const PlanText* plan, const SymbolValues& symbols);

nlohmann::json RowsToJson(const Profile& profile);
nlohmann::json ProbesToJson(const Profile& profile);
// The table and a line of the probes.
std::string ToText(const Profile& profile);

}  // namespace kiln

#endif  // KILN_TOOLS_BENCH_PROFILE_H_
