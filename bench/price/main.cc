// SPDX-License-Identifier: Apache-2.0
// kiln-bench-price: how well prices foretell times, over random kernels of every kind.
//
//   kiln-bench-price [--each N] [--seed S] [--kind KIND] [--machine FILE] [--list]
//   kiln-bench-price --regret [--grid] [--each N] [--seed S] [--kind KIND] [--json FILE]
//   kiln-bench-price --regret GRAPH...
//                    [--target TARGET] [--machine FILE]
//   kiln-bench-price --replay FILE [--list] [--machine FILE]
//   kiln-bench-price [--list] [--dim NAME=N]... [--seconds S] MODEL...
//
// Takes N random graphs of a kind (default 40) that become one kernel which runs for more than 20
// us, with one thread. Each is timed in three rounds over all of them, the least counts: states of
// the machine last for seconds. Prints for each kind and for all: kernels, their rank correlation,
// the share of predicted / measured within 0.6 ... 1.6, and the lowest and highest ratio. --list
// prints a line for each kernel too, with its operators. --kind takes graphs of one kind only.
//
// --regret: how much longer kernels run with the schedules chosen than with the best (regret.h).
// --replay: the same for the prices of today and the times in a file of --json.
//
// With models: which of their fused kernels take longer than their nodes one by one (gain.h), each
// timed for S seconds a run (default 0.02; 0 builds the kernels and times next to nothing).
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "bench/price/gain.h"
#include "bench/price/random_graph.h"
#include "bench/price/regret.h"
#include "compiler/compile.h"
#include "compiler/measure_machine.h"
#include "fusion/predict.h"
#include "graph/op.h"
#include "graph/text.h"
#include "schedule/device.h"

namespace kiln::bench {
namespace {

constexpr double kLeastUs = 20;
constexpr double kSeconds = 0.03;  // for each kernel in a round
constexpr int kRounds = 3;

struct Settings {
  int each = 40;
  uint64_t seed = 1, from = 0;
  std::string kind;  // all where empty
  bool list = false;
  std::vector<std::string> models;
  GainSettings gain;
  bool regret = false, grid = false;
  std::string json, replay;
  std::string write;  // a folder for the graphs drawn; nothing is timed then
  std::optional<Target> target;
  std::optional<Machine> named;
  Machine machine;  // the named one, or that of the target
};

struct Sample {
  Kind kind;
  uint64_t seed = 0;
  Graph graph;
  double predicted = 0, measured = 0;  // us
  double Ratio() const { return predicted / measured; }
};

CompileOptions OneThread() {
  CompileOptions options;
  options.threads = 1;
  return options;
}

// With a time of 0 if the graph is more than one kernel.
absl::StatusOr<Sample> Take(Kind kind, uint64_t seed, const Settings& settings) {
  KILN_ASSIGN_OR_RETURN(const Graph graph, RandomGraph(kind, seed));
  KILN_ASSIGN_OR_RETURN(const Compiled compiled, CompileGraph(graph, OneThread()));
  if (compiled.grouping.groups.size() != 1) return Sample{kind, seed, graph};
  KILN_ASSIGN_OR_RETURN(const std::vector<double> ns,
                        PredictNs(compiled.graph, compiled.grouping, settings.machine));
  KILN_ASSIGN_OR_RETURN(const double measured, RunNs(graph, OneThread(), kSeconds));
  return Sample{kind, seed, graph, ns[0] / 1000, measured / 1000};
}

// The shape of the first input and the operators of the graph, on one line.
std::string Operators(const Graph& graph) {
  std::string text = ToString(graph.value(graph.inputs()[0]).shape);
  for (const Node& node : graph.nodes()) absl::StrAppend(&text, " ", node.op->name);
  return text;
}

// Ranks of the values, 0 for the least.
std::vector<double> Ranks(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t i = 0; i < order.size(); ++i) ranks[order[i]] = static_cast<double>(i);
  return ranks;
}

double RankCorrelation(const std::vector<Sample>& samples) {
  std::vector<double> predicted, measured;
  for (const Sample& sample : samples) {
    predicted.push_back(sample.predicted);
    measured.push_back(sample.measured);
  }
  const std::vector<double> a = Ranks(predicted), b = Ranks(measured);
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  const auto n = static_cast<double>(a.size());
  return n < 2 ? 1 : 1 - 6 * sum / (n * (n * n - 1));
}

void Report(const char* name, const std::vector<Sample>& samples) {
  if (samples.empty()) return;
  const auto within = std::count_if(samples.begin(), samples.end(), [](const Sample& sample) {
    return sample.Ratio() >= 0.6 && sample.Ratio() <= 1.6;
  });
  const auto [least, most] =
      std::minmax_element(samples.begin(), samples.end(),
                          [](const Sample& a, const Sample& b) { return a.Ratio() < b.Ratio(); });
  std::printf(
      "%-7s %4zu kernels   rank correlation %.3f   within 0.6..1.6 %3.0f %%   ratio %.2f..%.2f\n",
      name, samples.size(), RankCorrelation(samples),
      100.0 * static_cast<double>(within) / static_cast<double>(samples.size()), least->Ratio(),
      most->Ratio());
}

void PrintSample(const Sample& sample) {
  std::printf("%-7s seed %-8llu predicted %9.1f us   measured %9.1f us   ratio %.2f   %s\n",
              Name(sample.kind), static_cast<unsigned long long>(sample.seed), sample.predicted,
              sample.measured, sample.Ratio(), Operators(sample.graph).c_str());
}

// Adds so many kernels of a kind as were asked for, or fewer if most seeds give short ones.
void AddKind(Kind kind, const Settings& settings, std::vector<Sample>& all) {
  const uint64_t first = settings.seed * 100'000;
  int taken = 0;
  for (uint64_t seed = first; seed < first + 10 * static_cast<uint64_t>(settings.each); ++seed) {
    if (taken == settings.each) return;
    absl::StatusOr<Sample> sample = Take(kind, seed, settings);
    if (!sample.ok()) {
      std::fprintf(stderr, "%s %llu: %s\n", Name(kind), static_cast<unsigned long long>(seed),
                   std::string(sample.status().message()).c_str());
    } else if (sample->measured >= kLeastUs) {
      all.push_back(*std::move(sample));
      ++taken;
    }
  }
}

// What would be timed, as files; whether it is one kernel is not looked at.
int WriteGraphs(const Settings& settings) {
  for (int k = 0; k < kNumKinds; ++k) {
    const auto kind = static_cast<Kind>(k);
    if (!settings.kind.empty() && settings.kind != Name(kind)) continue;
    for (int i = 0; i < settings.each; ++i) {
      const absl::StatusOr<Graph> graph =
          RandomGraph(kind, settings.seed * 100'000 + static_cast<uint64_t>(i));
      if (!graph.ok()) continue;
      const std::string path = absl::StrCat(settings.write, "/", Name(kind), i, ".graph");
      if (!(std::ofstream(path) << Print(*graph)).flush()) {
        std::fprintf(stderr, "%s: cannot be written\n", path.c_str());
        return 1;
      }
    }
  }
  return 0;
}

bool ParseArguments(int argc, char** argv, Settings& settings) {
  for (int i = 1; i < argc; ++i) {
    const absl::string_view flag = argv[i];
    if (flag == "--regret") {
      settings.regret = true;
    } else if (flag == "--grid") {
      settings.grid = true;
    } else if (flag == "--list") {
      settings.list = settings.gain.list = true;
    } else if (!flag.empty() && flag[0] != '-') {
      settings.models.emplace_back(flag);
    } else if (i + 1 == argc) {
      return false;
    } else if (flag == "--each") {
      if (!absl::SimpleAtoi(argv[++i], &settings.each) || settings.each < 1) return false;
    } else if (flag == "--seed") {
      if (!absl::SimpleAtoi(argv[++i], &settings.seed)) return false;
    } else if (flag == "--from") {
      if (!absl::SimpleAtoi(argv[++i], &settings.from)) return false;
    } else if (flag == "--json") {
      settings.json = argv[++i];
    } else if (flag == "--write") {
      settings.write = argv[++i];
    } else if (flag == "--replay") {
      settings.replay = argv[++i];
    } else if (flag == "--target") {
      settings.target = Target::Parse(argv[++i]);
      if (!settings.target) return false;
    } else if (flag == "--kind") {
      settings.kind = argv[++i];
    } else if (flag == "--seconds") {
      if (!absl::SimpleAtod(argv[++i], &settings.gain.seconds)) return false;
    } else if (flag == "--dim") {
      const std::pair<std::string, std::string> dim = absl::StrSplit(argv[++i], '=');
      if (!absl::SimpleAtoi(dim.second, &settings.gain.dims[dim.first])) return false;
    } else if (flag == "--machine") {
      std::ifstream in(argv[++i]);
      const absl::StatusOr<Machine> machine =
          ParseMachine(std::string(std::istreambuf_iterator<char>(in), {}));
      if (!machine.ok()) return false;
      settings.named = *machine;
    } else {
      return false;
    }
  }
  settings.machine =
      settings.named ? *settings.named : ShippedMachine(settings.target.value_or(HostTarget()));
  return true;
}

int Main(int argc, char** argv) {
  Settings settings;
  if (!ParseArguments(argc, argv, settings)) {
    std::fprintf(
        stderr,
        "usage: kiln-bench-price [--each N] [--seed S] [--kind KIND] [--machine FILE] "
        "[--list]\n"
        "       kiln-bench-price --regret [--grid] [--each N] [--seed S] [--from K] [--kind KIND] "
        "[--json FILE] [--target TARGET]\n"
        "       kiln-bench-price --regret [--grid] [--target TARGET] GRAPH...\n"
        "       kiln-bench-price --write DIR [--each N] [--seed S] [--kind KIND]\n"
        "       kiln-bench-price --replay FILE [--list] [--machine FILE]\n"
        "       kiln-bench-price [--list] [--dim NAME=N]... [--seconds S] MODEL...\n");
    return 2;
  }
  for (const std::string& path : settings.models) {
    if (settings.regret) break;
    const absl::Status done = PrintGains(path, settings.gain);
    if (!done.ok())
      std::fprintf(stderr, "%s: %s\n", path.c_str(), std::string(done.message()).c_str());
  }
  if (!settings.models.empty() && !settings.regret) return 0;
  if (!settings.write.empty()) return WriteGraphs(settings);
  if (settings.regret || !settings.replay.empty()) {
    const RegretSettings regret{.each = settings.each,
                                .seed = settings.seed,
                                .from = settings.from,
                                .kind = settings.kind,
                                .grid = settings.grid,
                                .json = settings.json,
                                .target = settings.target,
                                .machine = settings.machine};
    const absl::Status done =
        !settings.replay.empty()
            ? ReplayRegret(settings.replay, settings.machine, settings.list ? 1000 : 5)
        : !settings.models.empty() ? PrintRegretOf(settings.models, regret)
                                   : PrintRegret(regret);
    if (!done.ok()) std::fprintf(stderr, "%s\n", std::string(done.message()).c_str());
    return done.ok() ? 0 : 1;
  }
  std::vector<Sample> all;
  for (int k = 0; k < kNumKinds; ++k) {
    const auto kind = static_cast<Kind>(k);
    if (settings.kind.empty() || settings.kind == Name(kind)) AddKind(kind, settings, all);
  }
  for (int round = 1; round < kRounds; ++round) {
    for (Sample& sample : all) {
      const absl::StatusOr<double> ns = RunNs(sample.graph, OneThread(), kSeconds);
      if (ns.ok()) sample.measured = std::min(sample.measured, *ns / 1000);
    }
  }
  for (int k = 0; k < kNumKinds; ++k) {
    std::vector<Sample> of_kind;
    std::copy_if(all.begin(), all.end(), std::back_inserter(of_kind),
                 [&](const Sample& sample) { return sample.kind == static_cast<Kind>(k); });
    if (settings.list) std::for_each(of_kind.begin(), of_kind.end(), PrintSample);
    Report(Name(static_cast<Kind>(k)), of_kind);
  }
  Report("all", all);
  return 0;
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) { return kiln::bench::Main(argc, argv); }
