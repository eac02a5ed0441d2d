// SPDX-License-Identifier: Apache-2.0
#include "tools/bench_profile.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "exec/runtime_state.h"
#include "nlohmann/json.hpp"
#include "tools/machine_probe.h"
#include "tools/report.h"

namespace kiln {
namespace {

constexpr int kRuns = 5;
constexpr double kGiga = 1e9;

absl::StatusOr<std::vector<ThunkTime>> LeastTimes(Context& context) {
  std::vector<ThunkTime> least;
  for (int run = 0; run < kRuns; ++run) {
    KILN_ASSIGN_OR_RETURN(std::vector<ThunkTime> times, context.Profile());
    // Loops and branches may run other launches from one time to the next.
    if (least.size() != times.size()) least = times;
    for (size_t k = 0; k < times.size(); ++k) least[k].ms = std::min(least[k].ms, times[k].ms);
  }
  return least;
}

// Bytes per second of the memory that kernels have their operands in.
absl::StatusOr<double> Bandwidth(const CompileOptions& options, int threads) {
  const std::shared_ptr<ComputeDevice> device = DeviceOf(options.runtime);
  if (device == nullptr) return ProbeBandwidth(threads);
  KILN_ASSIGN_OR_RETURN(const DeviceSpeed speed, device->Measure());
  return speed.memory_gb_s * kGiga;
}

std::string Percent(const std::optional<double>& value) {
  return value ? absl::StrFormat("%.0f", *value) : "-";
}

}  // namespace

absl::StatusOr<Profile> ProfileOf(Context& context, const CompileOptions& options, int threads,
                                  const PlanText* plan, const SymbolValues& symbols) {
  Profile profile;
  profile.threads = threads;
  KILN_ASSIGN_OR_RETURN(std::vector<ThunkTime> times, LeastTimes(context));
  const bool known = plan != nullptr && plan->launches.size() == times.size();
  bool ask = false;
  for (size_t k = 0; k < times.size(); ++k) {
    ProfileRow& row = profile.rows.emplace_back();
    row.time = std::move(times[k]);
    if (known) row.flops = FlopsOf(plan->launches[k], symbols);
    ask = ask || row.flops.has_value();
  }
  KILN_ASSIGN_OR_RETURN(profile.bandwidth, Bandwidth(options, threads));
  if (ask) {
    KILN_ASSIGN_OR_RETURN(profile.matmul, ProbeMatmul(options));
  }
  for (ProfileRow& row : profile.rows) {
    const double seconds = row.time.ms / 1000;
    if (seconds <= 0 || row.time.kind == "host") continue;
    row.bandwidth_percent = 100 * static_cast<double>(row.time.bytes) / seconds / profile.bandwidth;
    if (row.flops) row.matmul_percent = 100 * *row.flops / seconds / *profile.matmul;
  }
  return profile;
}

nlohmann::json RowsToJson(const Profile& profile) {
  nlohmann::json rows = nlohmann::json::array();
  for (const ProfileRow& row : profile.rows) {
    nlohmann::json& json = rows.emplace_back();
    json = {{"kind", row.time.kind},
            {"name", row.time.name},
            {"ms", row.time.ms},
            {"bytes", row.time.bytes},
            {"vm", row.time.vm}};
    if (row.bandwidth_percent) json["bandwidth_percent"] = *row.bandwidth_percent;
    if (row.flops) json["flops"] = *row.flops;
    if (row.matmul_percent) json["matmul_percent"] = *row.matmul_percent;
  }
  return rows;
}

nlohmann::json ProbesToJson(const Profile& profile) {
  nlohmann::json probes = {{"threads", profile.threads},
                           {"bandwidth_gb_s", profile.bandwidth / kGiga}};
  if (profile.matmul) probes["matmul_gflop_s"] = *profile.matmul / kGiga;
  return probes;
}

std::string ToText(const Profile& profile) {
  std::vector<std::vector<std::string>> rows = {
      {"ms", "GB/s", "% of memory", "% of matmul", "kind", "nodes"}};
  for (const ProfileRow& row : profile.rows) {
    const ThunkTime& t = row.time;
    rows.push_back(
        {absl::StrFormat("%.4f", t.ms),
         absl::StrFormat("%.1f", t.ms > 0 ? static_cast<double>(t.bytes) / t.ms / 1e6 : 0.0),
         Percent(row.bandwidth_percent), Percent(row.matmul_percent), t.vm ? "kernel (VM)" : t.kind,
         t.name});
  }
  return absl::StrCat(
      Table(rows), "measured in this run, threads ", profile.threads, ": memory ",
      absl::StrFormat("%.1f GB/s", profile.bandwidth / kGiga),
      profile.matmul ? absl::StrFormat(", matmul %.1f GFLOP/s", *profile.matmul / kGiga) : "",
      "\n");
}

}  // namespace kiln
