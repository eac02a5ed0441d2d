// SPDX-License-Identifier: Apache-2.0
#include "bench/price/regret.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "bench/price/random_graph.h"
#include "compiler/compile.h"
#include "compiler/kernel_service.h"
#include "compiler/measure_machine.h"
#include "fusion/lower.h"
#include "graph/op.h"
#include "graph/text.h"
#include "kernel/text.h"
#include "nlohmann/json.hpp"
#include "schedule/choose.h"
#include "schedule/device.h"

namespace kiln::bench {
namespace {

constexpr double kLeastNs = 20'000;
constexpr int kRounds = 9;

struct Timed {
  Schedule schedule;
  double predicted_ns = 0;
  double least_ns = 0;  // 0: cannot be built
};

struct Sample {
  Kind kind;
  uint64_t seed = 0;
  std::string shape;
  std::string kernel;  // its text
  std::vector<int64_t> extents;
  std::vector<Timed> tried;  // the first is the chosen one
  size_t best = 0;
  double regret = 1;
  size_t offered = 0;  // candidates; what follows them is of the grid
};

class RegretMeter {
 public:
  explicit RegretMeter(const RegretSettings& settings) : settings_(settings) {
    options_.threads = 1;
    options_.target = settings.target;
    options_.kernels = std::make_shared<KernelService>(options_);
  }

  // Nothing where the graph is more than one kernel, or a short one.
  absl::StatusOr<std::optional<Sample>> Measure(Kind kind, uint64_t seed) {
    KILN_ASSIGN_OR_RETURN(const Graph graph, RandomGraph(kind, seed));
    return Measure(graph, kind, seed);
  }
  absl::StatusOr<std::optional<Sample>> Measure(const Graph& graph, Kind kind, uint64_t seed) {
    KILN_ASSIGN_OR_RETURN(const Compiled compiled, CompileGraph(graph, options_));
    if (compiled.grouping.groups.size() != 1) return std::nullopt;
    KILN_ASSIGN_OR_RETURN(const LoweredGroup lowered,
                          LowerGroup(compiled.graph, compiled.grouping.groups.front()));
    SizeClass sizes;
    for (const Dim& extent : lowered.dims) sizes.at_most.push_back(extent.constant().value_or(1));
    const Kernel& kernel = lowered.canonical.kernel;
    Sample sample{kind, seed, ShapeOf(graph), Print(kernel), sizes.at_most, {}, 0, 1};
    for (Candidate& candidate : CandidatesFor(kernel, sizes, settings_.machine))
      Add(sample, std::move(candidate.schedule), candidate.ns);
    sample.offered = sample.tried.size();
    if (settings_.grid) {
      for (const Schedule& near : sample.tried.front().schedule.Neighbours()) Add(sample, near, 0);
    }
    for (int round = 0; round < kRounds; ++round) {
      for (Timed& timed : sample.tried) Time(graph, timed);
      if (sample.tried.front().least_ns < kLeastNs) return std::nullopt;
    }
    Compare(graph, sample);
    return sample;
  }

 private:
  static std::string ShapeOf(const Graph& graph) {
    std::string text = ToString(graph.value(graph.inputs()[0]).shape);
    for (const Node& node : graph.nodes()) absl::StrAppend(&text, " ", node.op->name);
    return text;
  }

  static void Add(Sample& sample, Schedule schedule, double predicted) {
    for (const Timed& timed : sample.tried)
      if (timed.schedule == schedule) return;
    sample.tried.push_back({std::move(schedule), predicted, 0});
  }

  // The least of what was timed so far. A schedule that cannot be built takes no time and is out.
  void Time(const Graph& graph, Timed& timed) {
    CompileOptions options = options_;
    options.choose = [&](const Kernel&, const SizeClass&) { return timed.schedule; };
    const absl::StatusOr<double> ns = RunNs(graph, options, settings_.seconds);
    if (!ns.ok()) return;
    timed.least_ns = timed.least_ns == 0 ? *ns : std::min(timed.least_ns, *ns);
  }

  // The chosen and the best once more, in turn.
  void Compare(const Graph& graph, Sample& sample) {
    for (size_t i = 1; i < sample.tried.size(); ++i) {
      const double ns = sample.tried[i].least_ns;
      if (ns > 0 && ns < sample.tried[sample.best].least_ns) sample.best = i;
    }
    if (sample.best == 0) return;
    Timed chosen = sample.tried.front(), best = sample.tried[sample.best];
    chosen.least_ns = best.least_ns = 0;
    for (int round = 0; round < kRounds; ++round) {
      Time(graph, chosen);
      Time(graph, best);
    }
    sample.regret = std::max(1.0, chosen.least_ns / best.least_ns);
  }

  const RegretSettings settings_;
  CompileOptions options_;
};

void Report(const std::string& name, std::vector<double> regrets) {
  std::sort(regrets.begin(), regrets.end());
  const auto at = [&](double part) {
    return regrets[std::min(regrets.size() - 1,
                            static_cast<size_t>(part * static_cast<double>(regrets.size())))];
  };
  std::printf("%-18s %4zu kernels   regret median %.2f   p90 %.2f   worst %.2f\n", name.c_str(),
              regrets.size(), at(0.5), at(0.9), regrets.back());
}

// The two schedules; or the kernel and all of them.
void PrintSample(const Sample& sample, bool all) {
  const Timed &chosen = sample.tried.front(), &best = sample.tried[sample.best];
  std::printf(
      "%.2f  %s %llu  %s\n      chosen %8.1f us (predicted %8.1f)  %s\n"
      "      best   %8.1f us (predicted %8.1f)  %s\n",
      sample.regret, Name(sample.kind), static_cast<unsigned long long>(sample.seed),
      sample.shape.c_str(), chosen.least_ns / 1000, chosen.predicted_ns / 1000,
      chosen.schedule.ToString().c_str(), best.least_ns / 1000, best.predicted_ns / 1000,
      best.schedule.ToString().c_str());
  if (all) {
    std::printf("      [%s]\n%s\n", absl::StrJoin(sample.extents, ",").c_str(),
                sample.kernel.substr(sample.kernel.find('\n')).c_str());
    for (const Timed& t : sample.tried)
      std::printf("      %9.1f %9.1f %s\n", t.least_ns / 1e3, t.predicted_ns / 1e3,
                  t.schedule.ToString().c_str());
  }
}

nlohmann::json ToJson(const Sample& sample) {
  nlohmann::json tried = nlohmann::json::array();
  for (const Timed& timed : sample.tried)
    tried.push_back({{"schedule", timed.schedule.ToString()},
                     {"predicted_ns", timed.predicted_ns},
                     {"ns", timed.least_ns}});
  return {{"kind", Name(sample.kind)}, {"seed", sample.seed},       {"shape", sample.shape},
          {"kernel", sample.kernel},   {"extents", sample.extents}, {"regret", sample.regret},
          {"best", sample.best},       {"offered", sample.offered}, {"tried", tried}};
}

void ReportAll(std::vector<Sample> samples, size_t worst = 5) {
  std::map<std::string, std::vector<double>> by_template;
  std::vector<double> all;
  double tried = 0;
  for (const Sample& sample : samples) {
    by_template[sample.tried.front().schedule.name()].push_back(sample.regret);
    all.push_back(sample.regret);
    tried += static_cast<double>(sample.offered);
  }
  for (const auto& [name, regrets] : by_template) Report(name, regrets);
  if (all.empty()) return;
  Report("all", all);
  std::printf("candidates, on average: %.1f\n", tried / static_cast<double>(samples.size()));
  std::sort(samples.begin(), samples.end(),
            [](const Sample& a, const Sample& b) { return a.regret > b.regret; });
  for (size_t i = 0; i < std::min(worst, samples.size()); ++i) PrintSample(samples[i], worst > 5);
}

Kind KindNamed(const std::string& name) {
  for (int k = 0; k < kNumKinds; ++k)
    if (name == Name(static_cast<Kind>(k))) return static_cast<Kind>(k);
  return Kind::kMap;
}

// A sample with the times that `json` has, and the choice of today. Schedules that were not timed
// are out; nothing if the chosen one is.
absl::StatusOr<std::optional<Sample>> Replayed(const nlohmann::json& json, const Machine& machine) {
  Sample sample{KindNamed(json["kind"]),
                json["seed"],
                json["shape"],
                json["kernel"],
                json["extents"].get<std::vector<int64_t>>(),
                {},
                0,
                1};
  std::map<std::string, double> times;
  for (const nlohmann::json& timed : json["tried"]) times[timed["schedule"]] = timed["ns"];
  KILN_ASSIGN_OR_RETURN(const Kernel kernel, ParseKernel(sample.kernel));
  for (Candidate& candidate : CandidatesFor(kernel, {sample.extents}, machine)) {
    const auto time = times.find(candidate.schedule.ToString());
    const bool known = time != times.end() && time->second > 0;
    if (!known && sample.tried.empty()) {
      std::printf("not timed: %s  %s %llu\n", candidate.schedule.ToString().c_str(),
                  Name(sample.kind), static_cast<unsigned long long>(sample.seed));
      return std::nullopt;
    }
    if (known) sample.tried.push_back({std::move(candidate.schedule), candidate.ns, time->second});
  }
  for (size_t i = 1; i < sample.tried.size(); ++i)
    if (sample.tried[i].least_ns < sample.tried[sample.best].least_ns) sample.best = i;
  sample.regret = sample.tried.front().least_ns / sample.tried[sample.best].least_ns;
  sample.offered = sample.tried.size();
  return sample;
}

}  // namespace

absl::Status ReplayRegret(const std::string& path, const Machine& machine, size_t worst) {
  std::ifstream file(path);
  const nlohmann::json all = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!all.is_array()) return absl::InvalidArgumentError(absl::StrCat(path, ": is no list"));
  std::vector<Sample> samples;
  for (const nlohmann::json& json : all) {
    KILN_ASSIGN_OR_RETURN(std::optional<Sample> sample, Replayed(json, machine));
    if (sample) samples.push_back(*std::move(sample));
  }
  ReportAll(std::move(samples), worst);
  return absl::OkStatus();
}

absl::Status PrintRegretOf(const std::vector<std::string>& graphs, const RegretSettings& settings) {
  RegretMeter meter(settings);
  for (const std::string& path : graphs) {
    std::ifstream file(path);
    KILN_ASSIGN_OR_RETURN(const Graph graph,
                          ParseGraph(std::string(std::istreambuf_iterator<char>(file), {})));
    KILN_ASSIGN_OR_RETURN(const std::optional<Sample> sample, meter.Measure(graph, Kind::kMap, 0));
    std::printf("%s%s\n", path.c_str(), sample ? "" : ": not one kernel of 20 us or more");
    if (sample) PrintSample(*sample, /*all=*/true);
  }
  return absl::OkStatus();
}

absl::Status PrintRegret(const RegretSettings& settings) {
  RegretMeter meter(settings);
  std::vector<Sample> samples;
  nlohmann::json json = nlohmann::json::array();
  for (int k = 0; k < kNumKinds; ++k) {
    const auto kind = static_cast<Kind>(k);
    if (!settings.kind.empty() && settings.kind != Name(kind)) continue;
    const uint64_t first = settings.seed * 100'000 + settings.from;
    int taken = 0;
    for (uint64_t seed = first; taken < settings.each && seed < first + 10'000; ++seed) {
      auto sample = meter.Measure(kind, seed);
      if (!sample.ok()) {
        std::fprintf(stderr, "%s %llu: %s\n", Name(kind), static_cast<unsigned long long>(seed),
                     std::string(sample.status().message()).c_str());
        continue;
      }
      if (!sample->has_value()) continue;
      ++taken;
      json.push_back(ToJson(**sample));
      samples.push_back(**std::move(sample));
      if (!settings.json.empty()) std::ofstream(settings.json) << json.dump(1) << "\n";
    }
  }
  ReportAll(std::move(samples));
  return absl::OkStatus();
}

}  // namespace kiln::bench
