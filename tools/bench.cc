// SPDX-License-Identifier: Apache-2.0
// kiln bench: latency of a model, of several optimisation levels in turn, and per thunk; its memory
// plan and its trace.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "compiler/model_source.h"
#include "exec/package/package.h"
#include "exec/plan_info.h"
#include "exec/runtime_state.h"
#include "graph/reference/interpreter.h"
#include "nlohmann/json.hpp"
#include "tools/bench_profile.h"
#include "tools/bench_trace.h"
#include "tools/common.h"
#include "tools/exit_code.h"
#include "tools/flag_values.h"
#include "tools/flags.h"
#include "tools/inputs.h"
#include "tools/plan_text.h"
#include "tools/ratio_interval.h"
#include "tools/report.h"
#include "tools/serve.h"
#include "tools/trace_file.h"
#include "tools/watch.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;

struct BenchFlags {
  CommonOptions common;
  std::string model;
  std::vector<std::string> inputs;
  int warmup = 2;
  int iters = 30;
  std::string time, compare, trace, memory_plan;
  bool profile = false, serve = false;
  WatchFlags watch;

  bool WantsPlans() const { return profile || !trace.empty() || !memory_plan.empty(); }
};

double MsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// What is measured: a graph, compiled with a setting's options, or a package, which has been.
class BenchModel {
 public:
  explicit BenchModel(Graph graph) : graph_(std::move(graph)) {}
  // Of a package that was opened for the device of `runtime`.
  BenchModel(std::shared_ptr<Package> package, std::shared_ptr<Runtime> runtime)
      : graph_(GraphOfPorts(package->inputs())),
        package_(std::move(package)),
        runtime_(std::move(runtime)) {}

  // Of a package its inputs alone.
  const Graph& graph() const { return graph_; }
  bool is_package() const { return package_ != nullptr; }
  absl::StatusOr<Model> Make(const CompileOptions& options) const {
    if (package_ == nullptr) return Compile(graph_, options);
    RunOptions run = options;
    run.runtime = runtime_;
    return Model::Create(package_, run);
  }
  std::string NameOf(const CommonOptions& setting) const {
    return is_package() ? "package" : absl::StrCat("-O", setting.level);
  }
  KernelCounts CountsOf(const CompileOptions& options) const {
    return is_package() ? CountsOfPackage(*package_) : options.kernels->counts();
  }

 private:
  Graph graph_;
  std::shared_ptr<Package> package_;  // null: it is a graph
  std::shared_ptr<Runtime> runtime_;
};

// One setting under measurement.
struct BenchSubject {
  std::string name;
  CompileOptions options;
  std::unique_ptr<Context> context;
  std::shared_ptr<std::vector<std::string>> plans;  // their texts, where flags ask for them
  int threads = 0;
  double compile_ms = 0, first_run_ms = 0;
  KernelCounts counts;
  std::vector<double> rounds;  // ms
  std::vector<double> ms;      // the same, sorted
};

// `trace`: null, or what compiling and the first run are noted in.
absl::StatusOr<BenchSubject> Prepare(const BenchModel& made, const std::vector<Tensor>& inputs,
                                     const CommonOptions& common, bool plans, TraceFile* trace) {
  BenchSubject subject;
  KILN_ASSIGN_OR_RETURN(subject.options, ToCompileOptions(common));
  CompileOptions& options = subject.options;
  options.kernels = std::make_shared<KernelService>(options);
  subject.plans = std::make_shared<std::vector<std::string>>();
  if (plans) {
    options.on_plan = [texts = subject.plans, trace](const PlanInfo& plan) {
      texts->push_back(plan.text);
      if (trace != nullptr)
        trace->Instant(TraceFile::Track::kCompile, "plan", trace->Now(), nlohmann::json::object());
    };
  }
  subject.name = made.NameOf(common);
  const Graph& graph = made.graph();
  if (trace != nullptr && !made.is_package())
    KILN_RETURN_IF_ERROR(TraceKernels(graph, options, *trace));
  const int64_t compiling = trace != nullptr ? trace->Now() : 0;
  const Clock::time_point start = Clock::now();
  KILN_ASSIGN_OR_RETURN(Model model, made.Make(options));
  subject.threads = model.threads();
  subject.context = std::make_unique<Context>(model.NewContext());
  for (size_t k = 0; k < inputs.size(); ++k)
    KILN_RETURN_IF_ERROR(subject.context->Bind(graph.value(graph.inputs()[k]).name, inputs[k]));
  subject.compile_ms = MsSince(start);
  const int64_t running = trace != nullptr ? trace->Now() : 0;
  const Clock::time_point run = Clock::now();
  absl::Status ran = subject.context->Run();
  if (made.is_package() && absl::IsNotFound(ran))  // no variant for these shapes
    ran = absl::UnimplementedError(ran.message());
  KILN_RETURN_IF_ERROR(ran);
  subject.first_run_ms = MsSince(run);
  subject.counts = made.CountsOf(options);
  if (trace != nullptr) {
    const nlohmann::json setting = {{"setting", subject.name}};
    trace->Slice(TraceFile::Track::kCompile, "model", compiling, running, setting);
    trace->Slice(TraceFile::Track::kCompile, "first run", running, trace->Now(), setting);
  }
  return subject;
}

// Runs all subjects in turn, so that a machine that drifts drifts for all.
absl::Status MeasureSubjects(std::vector<BenchSubject>& subjects, const BenchFlags& flags,
                             double budget_ms) {
  const Clock::time_point start = Clock::now();
  for (int i = -flags.warmup;
       i < 0 || (budget_ms > 0 ? MsSince(start) < budget_ms || i == 0 : i < flags.iters); ++i) {
    for (BenchSubject& subject : subjects) {
      const Clock::time_point run = Clock::now();
      KILN_RETURN_IF_ERROR(subject.context->Run());
      if (i >= 0) subject.rounds.push_back(MsSince(run));
    }
  }
  for (BenchSubject& subject : subjects) {
    subject.ms = subject.rounds;
    std::sort(subject.ms.begin(), subject.ms.end());
  }
  return absl::OkStatus();
}

double Mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

nlohmann::json SubjectToJson(const BenchSubject& s) {
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

// The first setting's ratio to another.
struct Ratio {
  double minima = 0, medians = 0;
  Interval95 interval;  // of the medians
};

Ratio RatioOf(const BenchSubject& first, const BenchSubject& other) {
  return {first.ms.front() / other.ms.front(), Quantile(first.ms, 0.5) / Quantile(other.ms, 0.5),
          RatioInterval(first.rounds, other.rounds)};
}

void PrintRatios(const std::vector<BenchSubject>& subjects) {
  for (size_t k = 1; k < subjects.size(); ++k) {
    const Ratio ratio = RatioOf(subjects[0], subjects[k]);
    std::cout << subjects[0].name << " / " << subjects[k].name << ": "
              << absl::StrFormat("%.2f (minima), %.2f (medians)\n", ratio.minima, ratio.medians)
              << absl::StrFormat("95 %% interval of the medians' ratio: %.3f to %.3f",
                                 ratio.interval.low, ratio.interval.high)
              << (ratio.interval.Contains(1) ? "; it contains 1: no difference is shown" : "")
              << "\n";
  }
}

nlohmann::json CompareToJson(const std::vector<BenchSubject>& subjects) {
  nlohmann::json list = nlohmann::json::array();
  for (const BenchSubject& subject : subjects) {
    nlohmann::json row = SubjectToJson(subject);
    row["setting"] = subject.name;
    const Ratio ratio = RatioOf(subjects.front(), subject);
    row["ratio"] = {{"minima", ratio.minima},
                    {"medians", ratio.medians},
                    {"low", ratio.interval.low},
                    {"high", ratio.interval.high},
                    {"contains_1", ratio.interval.Contains(1)}};
    list.push_back(row);
  }
  return list;
}

void PrintText(const std::vector<BenchSubject>& subjects) {
  std::vector<std::vector<std::string>> rows = {{"setting", "min ms", "p50 ms", "p99 ms",
                                                 "first ms", "kernels", "built", "cached", "vm",
                                                 "launches", "arena"}};
  for (const BenchSubject& s : subjects) {
    const PlanReport& plan = s.context->report();
    rows.push_back(
        {s.name, Short(s.ms.front()), Short(Quantile(s.ms, 0.5)), Short(Quantile(s.ms, 0.99)),
         Short(s.first_run_ms), absl::StrCat(s.counts.kernels), absl::StrCat(s.counts.built),
         absl::StrCat(s.counts.cached), absl::StrCat(s.counts.vm),
         absl::StrCat(plan.kernel_launches, "+", plan.library_launches, "+", plan.other_launches),
         Bytes(plan.arena)});
  }
  std::cout << Table(rows);
  PrintRatios(subjects);
}

// The plan with the largest arena: where a model is several programs it has several.
absl::StatusOr<PlanText> LargestPlan(const BenchSubject& subject) {
  if (subject.plans->empty()) {
    return absl::InternalError("no plan was made; please report it with the model");
  }
  std::optional<PlanText> largest;
  for (const std::string& text : *subject.plans) {
    KILN_ASSIGN_OR_RETURN(PlanText plan, ParsePlanText(text));
    if (!largest || plan.arena > largest->arena) largest = std::move(plan);
  }
  return *std::move(largest);
}

// Writes the page of --memory-plan and the trace; `plan` as LargestPlan.
absl::Status WriteFiles(const BenchFlags& flags, BenchSubject& subject,
                        const absl::StatusOr<PlanText>& plan, TraceFile& trace) {
  if (!flags.memory_plan.empty()) {
    const size_t plans = subject.plans->size();
    if (!plan.ok()) return plan.status();
    const std::string title =
        absl::StrCat("Arena of ", flags.model, ", ", subject.name,
                     plans > 1 ? absl::StrCat(" (the largest of ", plans, " plans)") : "");
    KILN_RETURN_IF_ERROR(
        Annotate(WriteFileDurably(flags.memory_plan, MemoryPlanHtml(ArenaPlan(*plan, title))),
                 "--memory-plan"));
  }
  if (flags.trace.empty()) return absl::OkStatus();
  const bool whole = plan.ok() && subject.plans->size() == 1;
  KILN_RETURN_IF_ERROR(TraceLaunches(*subject.context, whole ? &*plan : nullptr, trace));
  return Annotate(WriteFileDurably(flags.trace, trace.Write()), "--trace");
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

// What was measured of the first setting, with --profile its launches, and all settings.
absl::StatusOr<nlohmann::json> Results(const BenchFlags& flags, std::vector<BenchSubject>& subjects,
                                       const absl::StatusOr<PlanText>& plan,
                                       const SymbolValues& symbols) {
  BenchSubject& first = subjects.front();
  nlohmann::json results = SubjectToJson(first);
  if (flags.profile) {
    const bool whole = plan.ok() && first.plans->size() == 1;
    KILN_ASSIGN_OR_RETURN(
        const Profile profile,
        ProfileOf(*first.context, first.options, first.threads, whole ? &*plan : nullptr, symbols));
    if (!flags.common.json) std::cout << ToText(profile);
    results["profile"] = RowsToJson(profile);
    results["probes"] = ProbesToJson(profile);
  }
  if (subjects.size() > 1) results["compare"] = CompareToJson(subjects);
  return results;
}

// One run of the first setting that is watched and not timed. The exit code, if it ends all.
std::optional<int> RunWatched(const BenchFlags& flags, const CommonOptions& common,
                              const BenchModel& made, const std::vector<Tensor>& inputs) {
  const absl::StatusOr<std::shared_ptr<Watch>> watch = Watch::Create(flags.watch);
  if (!watch.ok()) return Fail(watch.status(), kExitIo);
  if (*watch == nullptr) return std::nullopt;
  const auto run = [&]() -> absl::Status {
    KILN_ASSIGN_OR_RETURN(CompileOptions options, ToCompileOptions(common));
    (*watch)->Attach(options);
    KILN_ASSIGN_OR_RETURN(Model model, made.Make(options));
    return model.Run(Named(model.inputs(), inputs)).status();
  };
  const absl::Status done = run();
  if (const absl::Status written = (*watch)->Finish(); !written.ok()) return Fail(written, kExitIo);
  if (!(*watch)->fault() && !done.ok()) return Fail(done, ModelExit(done));
  if (!(*watch)->checks_numerics()) return std::nullopt;
  const bool fault = (*watch)->fault().has_value();
  if (!flags.common.json) {
    std::cout << (*watch)->NumericsText() << "\n";
  } else if (fault) {
    PrintJson("bench", flags.common, {{"numerics", (*watch)->NumericsJson()}});
  }
  return fault ? std::optional(kExitDiffers) : std::nullopt;
}

// Settings prepared and measured on one model, and what is to be told of them.
int Bench(const BenchFlags& flags, const std::vector<CommonOptions>& settings, double budget,
          const BenchModel& made, const std::vector<Tensor>& inputs, TraceFile& trace) {
  if (const auto exit = RunWatched(flags, settings.front(), made, inputs)) return *exit;
  std::vector<BenchSubject> subjects;
  for (const CommonOptions& common : settings) {
    TraceFile* const noted = flags.trace.empty() || !subjects.empty() ? nullptr : &trace;
    absl::StatusOr<BenchSubject> subject =
        Prepare(made, inputs, common, flags.WantsPlans() && subjects.empty(), noted);
    if (!subject.ok()) return Fail(subject.status(), ModelExit(subject.status()));
    subjects.push_back(*std::move(subject));
  }
  if (const absl::Status done = MeasureSubjects(subjects, flags, budget); !done.ok())
    return Fail(done, ModelExit(done));
  if (!flags.common.json) PrintText(subjects);
  const absl::StatusOr<PlanText> plan = LargestPlan(subjects.front());
  const absl::StatusOr<SymbolValues> symbols = BindSymbols(made.graph(), inputs);
  const absl::StatusOr<nlohmann::json> results =
      Results(flags, subjects, plan, symbols.ok() ? *symbols : SymbolValues());
  if (!results.ok()) return Fail(results.status(), ModelExit(results.status()));
  if (const absl::Status written = WriteFiles(flags, subjects.front(), plan, trace); !written.ok())
    return Fail(written, absl::IsInternal(written) ? kExitBug : kExitIo);
  if (flags.common.json) PrintJson("bench", flags.common, *results);
  return kExitOk;
}

// A package has its levels, and the code for them, already.
int BenchPackage(const BenchFlags& flags, const std::vector<CommonOptions>& settings,
                 const CompileOptions& options, double budget) {
  if (!flags.compare.empty()) {
    return Fail(absl::InvalidArgumentError(absl::StrCat(
                    "--compare: \"", flags.model,
                    "\" is a package, which was compiled at one level; give the model")),
                kExitUsage);
  }
  absl::StatusOr<std::shared_ptr<Package>> package = Package::Open(
      PackageSource::File(flags.model), {}, /*validator=*/"", DeviceUseOf(options.runtime));
  if (!package.ok()) return Fail(package.status(), ModelExit(package.status()));
  TraceFile trace;
  const BenchModel made(*std::move(package), options.runtime);
  const absl::StatusOr<std::vector<Tensor>> inputs =
      MakeInputs(made.graph(), flags.inputs, flags.common);
  if (!inputs.ok()) return Fail(inputs.status(), UsageExit(inputs.status()));
  return Bench(flags, settings, budget, made, *inputs, trace);
}

int RunBench(const BenchFlags& flags) {
  if (flags.serve && !flags.model.empty())
    return Fail(
        absl::InvalidArgumentError(absl::StrCat("--serve: takes no MODEL, and there is \"",
                                                flags.model, "\"; requests on stdin name models")),
        kExitUsage);
  if (flags.serve) return Serve(flags.common);
  if (flags.model.empty())
    return Fail(absl::InvalidArgumentError("bench: give a MODEL, or --serve"), kExitUsage);
  const absl::StatusOr<double> budget = ParseTime("--time", flags.time);
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
  if (absl::EndsWith(flags.model, ".kiln"))
    return BenchPackage(flags, *settings, *options, *budget);
  TraceFile trace;
  const absl::StatusOr<ModelSource> model =
      ModelSource::Read(flags.model, ImportOptionsOf(*options));
  if (!model.ok()) return Fail(model.status(), ModelExit(model.status()));
  const int64_t imported = trace.Now();
  const absl::StatusOr<std::vector<Tensor>> inputs =
      MakeInputs(model->graph(), flags.inputs, flags.common);
  if (!inputs.ok()) return Fail(inputs.status(), UsageExit(inputs.status()));
  absl::StatusOr<Graph> graph = model->GraphFor(*inputs);
  if (!graph.ok()) return Fail(graph.status(), ModelExit(graph.status()));
  trace.Slice(TraceFile::Track::kCompile, "import", 0, imported, {{"model", flags.model}});
  trace.Slice(TraceFile::Track::kCompile, "inputs", imported, trace.Now(),
              {{"nodes", graph->nodes().size()}});
  return Bench(flags, *settings, *budget, BenchModel(*std::move(graph)), *inputs, trace);
}

}  // namespace

void AddBench(Flags& command) {
  auto flags = std::make_shared<BenchFlags>();
  command.Option("MODEL", flags->model, "ONNX file, .graph text, or a .kiln package").File();
  command
      .Option("--input", flags->inputs,
              "n=@a.npy, n=random:SEED[:LO:HI], n=zeros or n=ones (repeatable)")
      .Repeatable();
  command.Option("--warmup", flags->warmup, "Runs before timing").Range(0, 1'000'000).ShowDefault();
  const Flag iters =
      command.Option("--iters", flags->iters, "Timed runs").Range(1, 100'000'000).ShowDefault();
  command
      .Option("--time", flags->time, "Time to measure for, instead of a number of runs: 5s, 200ms")
      .Excludes(iters);
  command.Option("--compare", flags->compare, "Levels measured in turn: -O0,-O3");
  command.Switch("--profile", flags->profile,
                 "Time of each thunk, in the order of the program, and how much of the machine's "
                 "bandwidth and matrix products that is");
  command
      .Option("--trace", flags->trace,
              "Write compiling, the cache, the arena and the launches of a run as Chrome "
              "trace events (JSON)")
      .File();
  command
      .Option("--memory-plan", flags->memory_plan,
              "Write a page that shows what lies where in the arena (HTML)")
      .File();
  command.Switch("--serve", flags->serve,
                 "Answer JSON lines on stdin, for a driver that measures several runtimes in turn");
  AddCommonFlags(command, flags->common);
  AddConstShapeFlag(command, flags->common);
  AddRunningFlags(command, flags->common);
  AddWatchFlags(command, flags->watch);
  command.Runs([flags] { return RunBench(*flags); });
}

}  // namespace kiln
