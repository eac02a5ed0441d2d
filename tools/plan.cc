// SPDX-License-Identifier: Apache-2.0
// kiln plan: the memory planner on a file of intervals.
#include <chrono>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/processors.h"
#include "base/status.h"
#include "base/thread.h"
#include "exec/memory_plan.h"
#include "nlohmann/json.hpp"
#include "persistent_cache/settings.h"
#include "tools/common.h"
#include "tools/exit_code.h"
#include "tools/flag_values.h"
#include "tools/flags.h"
#include "tools/interval_file.h"
#include "tools/memory_plan_page.h"
#include "tools/report.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;

struct PlanFlags {
  CommonOptions common;
  std::string file, capacity, output, page, time;
};

// milliseconds: of --time; 0: no limit.
PlanBudget BudgetOf(const PlanFlags& flags, Clock::time_point start, double milliseconds) {
  PlanBudget budget;
  budget.visits = kOfflineVisits;
  if (milliseconds > 0) {
    budget.stop = [start, milliseconds] {
      return std::chrono::duration<double, std::milli>(Clock::now() - start).count() >=
             milliseconds;
    };
  }
  const int threads = flags.common.threads > 0 ? flags.common.threads : Processors();
  if (threads > 1) {
    budget.for_each = [threads](size_t n, const std::function<void(size_t)>& task) {
      ForEachInParallel(n, task, threads);
    };
  }
  return budget;
}

// "0.79 %"
std::string Gap(int64_t peak, int64_t bound) {
  if (peak == bound) return "0 %";
  return absl::StrCat(Short(100 * (static_cast<double>(peak) / static_cast<double>(bound) - 1)),
                      " %");
}

void PrintPlan(const PlanFlags& flags, const MemoryPlan& plan, double seconds) {
  if (flags.common.json) {
    PrintJson("plan", flags.common,
              {{"peak", plan.peak},
               {"lower_bound", plan.lower_bound},
               {"best_bound", plan.best_bound},
               {"sum", plan.sum},
               {"optimal", plan.optimal},
               {"complete", plan.complete},
               {"intervals", plan.offsets.size()},
               {"order", plan.order},
               {"nodes", plan.nodes},
               {"seconds", seconds}});
    return;
  }
  std::cout << Table(
      {{"peak", "lower bound", "gap", "best bound", "sum", "order", "nodes", "s"},
       {absl::StrCat(plan.peak), absl::StrCat(plan.lower_bound), Gap(plan.peak, plan.lower_bound),
        absl::StrCat(plan.best_bound), absl::StrCat(plan.sum),
        plan.order.empty() ? "-" : plan.order, absl::StrCat(plan.nodes), Short(seconds)}});
}

std::string PageOf(const PlanFlags& flags, const IntervalFile& file, const MemoryPlan& plan) {
  MemoryPlanPage page{.title = absl::StrCat("Memory plan of ", flags.file),
                      .peak = plan.peak,
                      .lower_bound = plan.lower_bound,
                      .sum = plan.sum};
  for (size_t i = 0; i < file.ids.size(); ++i) {
    const Interval& interval = file.intervals[i];
    page.intervals.push_back(
        {file.ids[i], interval.lower, interval.upper, plan.offsets[i], interval.size});
  }
  return MemoryPlanHtml(page);
}

// Writes what --output and --page name.
absl::Status WriteFiles(const PlanFlags& flags, const IntervalFile& file, const MemoryPlan& plan) {
  if (!flags.output.empty()) {
    const absl::Status done = WriteFileDurably(flags.output, PrintIntervals(file, plan.offsets));
    if (!done.ok()) return Annotate(done, "--output");
  }
  if (flags.page.empty()) return absl::OkStatus();
  return Annotate(WriteFileDurably(flags.page, PageOf(flags, file, plan)), "--page");
}

// Why the plan is larger than --capacity.
std::string WhyNot(const PlanFlags& flags, int64_t capacity, const MemoryPlan& plan) {
  if (plan.best_bound > capacity) {
    return absl::StrCat("\"", flags.file, "\": no plan fits in ", capacity,
                        " bytes; every one needs ", plan.best_bound, ", and this one ", plan.peak);
  }
  return absl::StrCat("\"", flags.file, "\": no plan was found that fits in ", capacity,
                      " bytes; the best one needs ", plan.peak, ", and ", plan.best_bound,
                      " are not ruled out",
                      plan.complete ? "" : ", so that more time (--time) may find one");
}

int Plan(const PlanFlags& flags) {
  const auto start = Clock::now();
  const absl::StatusOr<double> time = ParseTime("--time", flags.time);
  if (!time.ok()) return Fail(time.status(), kExitUsage);
  PlanBudget budget = BudgetOf(flags, start, *time);
  if (!flags.capacity.empty()) {
    const absl::StatusOr<int64_t> capacity = ParseByteSize(flags.capacity);
    if (!capacity.ok()) return Fail(Annotate(capacity.status(), "--capacity"), kExitUsage);
    budget.capacity = *capacity;
  }
  const absl::StatusOr<IntervalFile> file = ReadIntervals(flags.file);
  if (!file.ok()) {
    const bool invalid =
        absl::IsInvalidArgument(file.status()) || absl::IsResourceExhausted(file.status());
    return Fail(file.status(), invalid ? kExitModel : kExitIo);
  }
  const absl::StatusOr<MemoryPlan> plan = PlanMemory(file->intervals, /*alignment=*/1, budget);
  if (!plan.ok()) {
    const absl::Status why = Annotate(plan.status(), absl::StrCat("\"", flags.file, "\""));
    return Fail(why, ModelExit(why));
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (const absl::Status sound = VerifyPlan(file->intervals, *plan, 1); !sound.ok())
    return Fail(sound, kExitBug);
  if (const absl::Status written = WriteFiles(flags, *file, *plan); !written.ok())
    return Fail(written, kExitIo);
  PrintPlan(flags, *plan, seconds);
  if (!budget.capacity || plan->peak <= *budget.capacity) return kExitOk;
  std::cout.flush();
  std::cerr << "kiln: " << WhyNot(flags, *budget.capacity, *plan) << "\n";
  return kExitDiffers;
}

}  // namespace

void AddPlan(Flags& command) {
  auto flags = std::make_shared<PlanFlags>();
  command.Option("FILE", flags->file, "Intervals: id,lower,upper,size; half-open lives")
      .File()
      .Required();
  command.Option("--capacity", flags->capacity,
                 "Stop at the first plan that fits in so many bytes, such as 1M; exit 1 where "
                 "none does (default: the least peak)");
  command.Option("--time", flags->time,
                 "Stop after this time, with the best plan so far: 5s, 200ms");
  command.Option("-o,--output", flags->output, "Write the intervals with their offsets").File();
  command.Option("--page", flags->page, "Write a page that shows the plan (HTML)").File();
  command
      .Option("--threads", flags->common.threads,
              "Hard cap; 0: the CPUs this process may use. The plan is the same")
      .Range(0, kMaxThreads)
      .Environment("KILN_THREADS")
      .ShowDefault();
  AddOutputFlags(command, flags->common);
  command.Runs([flags] { return Plan(*flags); });
}

}  // namespace kiln
