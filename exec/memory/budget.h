// SPDX-License-Identifier: Apache-2.0
// What planning may cost.
#ifndef KILN_EXEC_MEMORY_BUDGET_H_
#define KILN_EXEC_MEMORY_BUDGET_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

namespace kiln {

// For plans that a run waits for: 500 intervals take some milliseconds of one core.
inline constexpr int64_t kRuntimeVisits = int64_t{1} << 18;  // compile time
// For plans that Runtime::Maintain improves: some seconds.
inline constexpr int64_t kMaintenanceVisits = int64_t{1} << 27;  // compile time
// For plans that are made ahead of time: some two minutes of one core, a visit being 20 to 30 ns.
inline constexpr int64_t kOfflineVisits = int64_t{1} << 32;  // compile time

struct PlanBudget {
  // Of the exact search. Each of its nodes visits the intervals of its subproblem, so that equal
  // budgets take about equal times whatever the number of intervals. 0: no search.
  int64_t visits = kRuntimeVisits;
  // The first plan whose peak is no larger will do.
  std::optional<int64_t> capacity = std::nullopt;
  // Asked now and then, on any thread that searches; true ends the search.
  std::function<bool()> stop = nullptr;
  // Calls task(0) ... task(n - 1), at once or in turn, and returns when all have returned. None: in
  // turn, on the caller's thread.
  using ForEach = std::function<void(size_t n, const std::function<void(size_t)>& task)>;
  ForEach for_each = nullptr;
};

}  // namespace kiln

#endif  // KILN_EXEC_MEMORY_BUDGET_H_
