// SPDX-License-Identifier: Apache-2.0
#include "tools/bench_trace.h"

#include <cmath>
#include <vector>

#include "base/status_macros.h"
#include "compiler/compile_graph.h"
#include "compiler/kernel_service.h"

namespace kiln {
namespace {

using Track = TraceFile::Track;

// Where the one kernel came from by which the counts differ; empty: it had been asked for before.
std::string SourceOf(const KernelCounts& before, const KernelCounts& after) {
  if (after.kernels == before.kernels) return "";
  if (after.cached > before.cached) return "cached";
  return after.built > before.built ? "built" : "vm";
}

class KernelTracer {
 public:
  KernelTracer(KernelService& service, TraceFile& trace) : service_(service), trace_(trace) {}

  absl::Status Get(const program::KernelDef& def) {
    for (const program::KernelChoice& choice : def.choices()) {
      const KernelCounts before = service_.counts();
      const int64_t begin = trace_.Now();
      KILN_RETURN_IF_ERROR(service_.Get(def, choice).status());
      const int64_t end = trace_.Now();
      const std::string source = SourceOf(before, service_.counts());
      if (source.empty()) continue;
      trace_.Slice(Track::kKernels, def.name(), begin, end,
                   {{"from", source}, {"schedule", choice.schedule()}});
      if (service_.store() != nullptr) Count(source == "cached", def.name(), end);
    }
    return absl::OkStatus();
  }

 private:
  void Count(bool hit, const std::string& kernel, int64_t at) {
    ++(hit ? hits_ : misses_);
    trace_.Instant(Track::kCache, hit ? "hit" : "miss", at, {{"kernel", kernel}});
    trace_.Counter(Track::kCache, "cache", at, {{"hits", hits_}, {"misses", misses_}});
  }

  KernelService& service_;
  TraceFile& trace_;
  int hits_ = 0, misses_ = 0;
};

}  // namespace

absl::Status TraceKernels(const Graph& graph, const CompileOptions& options, TraceFile& trace) {
  const int64_t begin = trace.Now();
  KILN_ASSIGN_OR_RETURN(const std::vector<Compiled> parts, CompileParts(graph, options));
  size_t groups = 0;
  for (const Compiled& part : parts) groups += part.grouping.groups.size();
  const int64_t lowered = trace.Now();
  trace.Slice(Track::kCompile, "passes, groups, lowering", begin, lowered,
              {{"programs", parts.size()}, {"groups", groups}});
  KernelTracer tracer(*options.kernels, trace);
  for (const Compiled& part : parts) {
    for (const program::KernelDef& def : part.variant.program.kernels())
      KILN_RETURN_IF_ERROR(tracer.Get(def));
  }
  const KernelCounts counts = options.kernels->counts();
  trace.Slice(Track::kCompile, "kernels", lowered, trace.Now(),
              {{"cached", counts.cached}, {"built", counts.built}, {"vm", counts.vm}});
  return absl::OkStatus();
}

absl::Status TraceLaunches(Context& context, const PlanText* plan, TraceFile& trace) {
  int64_t at = trace.Now();
  KILN_ASSIGN_OR_RETURN(const std::vector<ThunkTime> times, context.Profile());
  const bool known = plan != nullptr && plan->launches.size() == times.size();
  const std::vector<int64_t> live = known ? LiveBytes(*plan) : std::vector<int64_t>();
  for (size_t k = 0; k < times.size(); ++k) {
    const ThunkTime& time = times[k];
    const int64_t end = at + std::llround(time.ms * 1e6);
    trace.Slice(Track::kLaunches, time.name, at, end,
                {{"kind", time.kind}, {"bytes", time.bytes}, {"vm", time.vm}});
    if (known) trace.Counter(Track::kLaunches, "arena", at, {{"live bytes", live[k]}});
    at = end;
  }
  if (known) trace.Counter(Track::kLaunches, "arena", at, {{"live bytes", 0}});
  return absl::OkStatus();
}

}  // namespace kiln
