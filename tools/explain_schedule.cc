// SPDX-License-Identifier: Apache-2.0
#include "tools/explain_schedule.h"

#include <cmath>
#include <iostream>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "compiler/kernel_service.h"
#include "compiler/tune_records.h"
#include "fusion/lower.h"
#include "graph/op.h"
#include "kernel/text.h"
#include "nlohmann/json.hpp"
#include "schedule/choose.h"
#include "tools/exit_code.h"
#include "tools/report.h"

namespace kiln {
namespace {

// "a <= 4096, b = 768"; dims that may be anything are left out.
std::string Text(const Kernel& kernel, const SizeClass& sizes) {
  std::vector<std::string> bounds;
  for (size_t d = 0; d < sizes.at_most.size(); ++d) {
    if (sizes.at_most[d] == kUnbounded) continue;
    bounds.push_back(
        absl::StrCat(kernel.dims[d].name, sizes.IsExtent(d) ? " = " : " <= ", sizes.at_most[d]));
  }
  return bounds.empty() ? "any extents" : absl::StrJoin(bounds, ", ");
}

nlohmann::json BoundsOf(const SizeClass& sizes) {
  nlohmann::json bounds = nlohmann::json::array();
  for (const int64_t bound : sizes.at_most)
    bounds.push_back(bound == kUnbounded ? nlohmann::json(nullptr) : nlohmann::json(bound));
  return bounds;
}

// ns of a candidate in a record; negative where it has none.
double MeasuredNs(const Measured& measured, const std::string& schedule) {
  for (const Measured::Time& time : measured.times) {
    if (time.way == schedule && std::isfinite(time.ns)) return time.ns;
  }
  return -1;
}

// What chooses among the candidates of kernels.
struct Choices {
  const CompileOptions& options;
  TuneRecords* records;  // null: the price alone
  bool print;
};

// The candidates of one kernel.
nlohmann::json Schedules(const Kernel& kernel, const SizeClass& known, const Choices& choices) {
  nlohmann::json classes = nlohmann::json::array();
  for (const SizeClass& sizes : SizeClassesFor(kernel, known)) {
    const std::optional<Measured> measured = choices.records != nullptr
                                                 ? choices.records->FindKernel(Print(kernel), sizes)
                                                 : std::nullopt;
    std::vector<std::vector<std::string>> rows = {
        {"predicted us", absl::StrCat("schedule for ", Text(kernel, sizes))}};
    if (measured.has_value()) rows[0].insert(rows[0].begin() + 1, {"measured us", "won"});
    nlohmann::json candidates = nlohmann::json::array();
    for (const Candidate& candidate : CandidatesFor(kernel, sizes, MachineOf(choices.options),
                                                    choices.options.workspace_limit)) {
      const std::string text = candidate.schedule.ToString();
      rows.push_back({Short(candidate.ns / 1000), text});
      candidates.push_back({{"schedule", text}, {"predicted_us", candidate.ns / 1000}});
      if (!measured.has_value()) continue;
      const double ns = MeasuredNs(*measured, text);
      const bool won = text == measured->winner;
      rows.back().insert(rows.back().begin() + 1,
                         {ns < 0 ? "-" : Short(ns / 1000), won ? "*" : ""});
      candidates.back()["measured_us"] =
          ns < 0 ? nlohmann::json(nullptr) : nlohmann::json(ns / 1000);
      candidates.back()["won"] = won;
    }
    if (choices.print) std::cout << Table(rows);
    classes.push_back({{"at_most", BoundsOf(sizes)}, {"candidates", candidates}});
  }
  return classes;
}

absl::Status Explain(const std::vector<PlannedPart>& parts, const CompileOptions& options,
                     const CommonOptions& common) {
  const KernelService service(options);
  TuneRecords records(options, service.store(), /*measures=*/false);
  const bool reproducible = options.schedule_choice == ScheduleChoice::kReproducible;
  const Choices choices{options, !reproducible && records.Any() ? &records : nullptr, !common.json};
  nlohmann::json groups = nlohmann::json::array();
  int number = 0;
  for (const PlannedPart& part : parts) {
    for (const Group& group : part.compiled.grouping.groups) {
      const int own = number++;
      if (group.kind != Group::Kind::kKernel) continue;
      KILN_ASSIGN_OR_RETURN(const LoweredGroup lowered, LowerGroup(part.compiled.graph, group));
      SizeClass known;
      for (const Dim& extent : lowered.dims)
        known.at_most.push_back(extent.constant().value_or(kUnbounded));
      std::vector<std::string> ops;
      for (const NodeId id : group.nodes) ops.push_back(part.compiled.graph.node(id).op->name);
      if (!common.json) std::cout << "group " << own << ": " << absl::StrJoin(ops, " ") << "\n";
      groups.push_back(
          {{"group", own}, {"classes", Schedules(lowered.canonical.kernel, known, choices)}});
    }
  }
  if (common.json) PrintJson("explain", common, {{"schedules", groups}});
  return absl::OkStatus();
}

}  // namespace

int ExplainSchedules(const std::vector<PlannedPart>& parts, const CompileOptions& options,
                     const CommonOptions& common) {
  const absl::Status explained = Explain(parts, options, common);
  return explained.ok() ? kExitOk : Fail(explained, ModelExit(explained));
}

}  // namespace kiln
