// SPDX-License-Identifier: Apache-2.0
// kiln bench: latency of a model, of several optimisation levels in turn, and per thunk.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <numeric>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "compiler/model_source.h"
#include "nlohmann/json.hpp"
#include "tools/common.h"
#include "tools/exit_code.h"
#include "tools/inputs.h"
#include "tools/report.h"
#include "tools/serve.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;

struct BenchFlags {
  CommonOptions common;
  std::string model;
  std::vector<std::string> inputs;
  int warmup = 2;
  int iters = 30;
  std::string time, compare;
  bool profile = false, serve = false;
};

double MsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// One setting under measurement.
struct Subject {
  std::string name;
  std::unique_ptr<Context> context;
  double compile_ms = 0, first_run_ms = 0;
  KernelCounts counts;
  std::vector<double> ms;
};

absl::StatusOr<Subject> Prepare(const Graph& graph, const std::vector<Tensor>& inputs,
                                const CommonOptions& common) {
  KILN_ASSIGN_OR_RETURN(CompileOptions options, ToCompileOptions(common));
  options.kernels = std::make_shared<KernelService>(options);
  Subject subject;
  subject.name = absl::StrCat("-O", common.level);
  const Clock::time_point start = Clock::now();
  KILN_ASSIGN_OR_RETURN(Model model, Compile(graph, options));
  subject.context = std::make_unique<Context>(model.NewContext());
  for (size_t k = 0; k < inputs.size(); ++k)
    KILN_RETURN_IF_ERROR(subject.context->Bind(graph.value(graph.inputs()[k]).name, inputs[k]));
  subject.compile_ms = MsSince(start);
  const Clock::time_point run = Clock::now();
  KILN_RETURN_IF_ERROR(subject.context->Run());
  subject.first_run_ms = MsSince(run);
  subject.counts = options.kernels->counts();
  return subject;
}

// Runs all subjects in turn, so that a machine that drifts drifts for all.
absl::Status Measure(std::vector<Subject>& subjects, const BenchFlags& flags, double budget_ms) {
  const Clock::time_point start = Clock::now();
  for (int i = -flags.warmup;
       i < 0 || (budget_ms > 0 ? MsSince(start) < budget_ms || i == 0 : i < flags.iters); ++i) {
    for (Subject& subject : subjects) {
      const Clock::time_point run = Clock::now();
      KILN_RETURN_IF_ERROR(subject.context->Run());
      if (i >= 0) subject.ms.push_back(MsSince(run));
    }
  }
  for (Subject& subject : subjects) std::sort(subject.ms.begin(), subject.ms.end());
  return absl::OkStatus();
}

double Quantile(const std::vector<double>& sorted, double q) {
  return sorted[std::min(sorted.size() - 1,
                         static_cast<size_t>(q * static_cast<double>(sorted.size())))];
}

double Mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

nlohmann::json ToJson(const Subject& s) {
  const PlanReport& plan = s.context->report();
  return {{"latency_ms",
           {{"min", s.ms.front()},
            {"p50", Quantile(s.ms, 0.5)},
            {"mean", Mean(s.ms)},
            {"p90", Quantile(s.ms, 0.9)},
            {"p99", Quantile(s.ms, 0.99)},
            {"max", s.ms.back()},
            {"n", s.ms.size()}}},
          {"compile_ms", s.compile_ms},
          {"first_run_ms", s.first_run_ms},
          {"compile", ToJson(s.counts)},
          {"memory",
           {{"arena", plan.arena},
            {"lower_bound", plan.lower_bound},
            {"sum", plan.sum},
            {"constants", plan.constants}}},
          {"groups", plan.kernel_launches + plan.library_launches + plan.other_launches},
          {"launches",
           {{"kernel", plan.kernel_launches},
            {"library", plan.library_launches},
            {"other", plan.other_launches}}},
          {"bytes_moved", plan.bytes_moved}};
}

void PrintText(const std::vector<Subject>& subjects) {
  std::vector<std::vector<std::string>> rows = {{"setting", "min ms", "p50 ms", "p99 ms",
                                                 "first ms", "kernels", "built", "cached", "vm",
                                                 "launches", "arena"}};
  for (const Subject& s : subjects) {
    const PlanReport& plan = s.context->report();
    rows.push_back(
        {s.name, Short(s.ms.front()), Short(Quantile(s.ms, 0.5)), Short(Quantile(s.ms, 0.99)),
         Short(s.first_run_ms), absl::StrCat(s.counts.kernels), absl::StrCat(s.counts.built),
         absl::StrCat(s.counts.cached), absl::StrCat(s.counts.vm),
         absl::StrCat(plan.kernel_launches, "+", plan.library_launches, "+", plan.other_launches),
         Bytes(plan.arena)});
  }
  std::cout << Table(rows);
  for (size_t k = 1; k < subjects.size(); ++k) {
    std::cout << subjects[0].name << " / " << subjects[k].name << ": "
              << absl::StrFormat("%.2f (minima), %.2f (medians)\n",
                                 subjects[0].ms.front() / subjects[k].ms.front(),
                                 Quantile(subjects[0].ms, 0.5) / Quantile(subjects[k].ms, 0.5));
  }
}

absl::StatusOr<nlohmann::json> Profile(Subject& subject, bool print) {
  KILN_ASSIGN_OR_RETURN(const std::vector<ThunkTime> times, subject.context->Profile());
  nlohmann::json list = nlohmann::json::array();
  std::vector<std::vector<std::string>> rows = {{"ms", "GB/s", "kind", "nodes"}};
  for (const ThunkTime& t : times) {
    list.push_back(
        {{"kind", t.kind}, {"name", t.name}, {"ms", t.ms}, {"bytes", t.bytes}, {"vm", t.vm}});
    rows.push_back(
        {absl::StrFormat("%.4f", t.ms),
         absl::StrFormat("%.1f", t.ms > 0 ? static_cast<double>(t.bytes) / t.ms / 1e6 : 0.0),
         t.vm ? "kernel (VM)" : t.kind, t.name});
  }
  if (print) std::cout << Table(rows);
  return list;
}

// "5s", "200ms"; 0 if empty.
absl::StatusOr<double> ParseTime(const std::string& text) {
  if (text.empty()) return 0.0;
  absl::string_view rest = text;
  const double unit = absl::ConsumeSuffix(&rest, "ms")  ? 1
                      : absl::ConsumeSuffix(&rest, "s") ? 1000
                                                        : 0;
  double value = 0;
  if (unit == 0 || !absl::SimpleAtod(rest, &value) || value <= 0) {
    return absl::InvalidArgumentError(absl::StrCat("--time \"", text, "\": expected 5s or 200ms"));
  }
  return value * unit;
}

// The settings of --compare ("-O0,-O3"), or the one of the flags.
absl::StatusOr<std::vector<CommonOptions>> Settings(const BenchFlags& flags) {
  if (flags.compare.empty()) return std::vector<CommonOptions>{flags.common};
  std::vector<CommonOptions> settings;
  for (absl::string_view text : absl::StrSplit(flags.compare, ',')) {
    CommonOptions common = flags.common;
    if (!absl::ConsumePrefix(&text, "-O") || !absl::SimpleAtoi(text, &common.level) ||
        common.level < 0 || common.level > 3) {
      return absl::InvalidArgumentError(
          absl::StrCat("--compare \"", flags.compare, "\": expected levels such as -O0,-O3"));
    }
    settings.push_back(common);
  }
  return settings;
}

int Run(const BenchFlags& flags) {
  if (flags.serve) return Serve(flags.common);
  if (flags.model.empty())
    return Fail(absl::InvalidArgumentError("bench: give a MODEL, or --serve"), kExitUsage);
  const absl::StatusOr<double> budget = ParseTime(flags.time);
  if (!budget.ok()) return Fail(budget.status(), kExitUsage);
  const absl::StatusOr<std::vector<CommonOptions>> settings = Settings(flags);
  if (!settings.ok()) return Fail(settings.status(), kExitUsage);
  if (flags.common.device == "reference") {
    return Fail(
        absl::InvalidArgumentError(
            "device \"reference\": the interpreter is not timed; use kiln run or kiln verify"),
        kExitUsage);
  }
  const absl::StatusOr<CompileOptions> options = ToCompileOptions(flags.common);
  if (!options.ok()) return Fail(options.status(), OptionsExit(options.status()));
  const absl::StatusOr<ModelSource> model =
      ModelSource::Read(flags.model, ImportOptionsOf(*options));
  if (!model.ok()) return Fail(model.status(), ModelExit(model.status()));
  const absl::StatusOr<std::vector<Tensor>> inputs =
      MakeInputs(model->graph(), flags.inputs, flags.common);
  if (!inputs.ok()) return Fail(inputs.status(), UsageExit(inputs.status()));
  const absl::StatusOr<Graph> graph = model->GraphFor(*inputs);
  if (!graph.ok()) return Fail(graph.status(), ModelExit(graph.status()));
  std::vector<Subject> subjects;
  for (const CommonOptions& common : *settings) {
    absl::StatusOr<Subject> subject = Prepare(*graph, *inputs, common);
    if (!subject.ok()) return Fail(subject.status(), ModelExit(subject.status()));
    subjects.push_back(*std::move(subject));
  }
  if (const absl::Status done = Measure(subjects, flags, *budget); !done.ok())
    return Fail(done, ModelExit(done));
  nlohmann::json results = ToJson(subjects.front());
  if (!flags.common.json) PrintText(subjects);
  if (flags.profile) {
    const absl::StatusOr<nlohmann::json> profile = Profile(subjects.front(), !flags.common.json);
    if (!profile.ok()) return Fail(profile.status(), ModelExit(profile.status()));
    results["profile"] = *profile;
  }
  for (size_t k = 0; subjects.size() > 1 && k < subjects.size(); ++k) {
    nlohmann::json row = ToJson(subjects[k]);
    row["setting"] = subjects[k].name;
    results["compare"].push_back(row);
  }
  if (flags.common.json) PrintJson("bench", flags.common, results);
  return kExitOk;
}

}  // namespace

std::function<int()> AddBench(CLI::App& command) {
  auto flags = std::make_shared<BenchFlags>();
  command.add_option("MODEL", flags->model, "ONNX file, or .graph text");
  Repeatable(command.add_option("--input", flags->inputs,
                                "n=@a.npy, n=random:SEED[:LO:HI], n=zeros or n=ones (repeatable)"));
  command.add_option("--warmup", flags->warmup, "Runs before timing")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  auto* const iters = command.add_option("--iters", flags->iters, "Timed runs")
                          ->check(CLI::Range(1, 100'000'000))
                          ->capture_default_str();
  command.add_option("--time", flags->time, "Time to measure for, instead of a number of runs: 5s")
      ->excludes(iters);
  command.add_option("--compare", flags->compare, "Levels measured in turn: -O0,-O3");
  command.add_flag("--profile", flags->profile, "Time of each thunk, in the order of the program");
  command.add_flag(
      "--serve", flags->serve,
      "Answer JSON lines on stdin, for a driver that measures several runtimes in turn");
  AddCommonFlags(command, flags->common);
  return [flags] { return Run(*flags); };
}

}  // namespace kiln
