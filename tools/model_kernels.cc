// SPDX-License-Identifier: Apache-2.0
#include "tools/model_kernels.h"

#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file_system.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "compiler/compile_script.h"
#include "compiler/model_source.h"
#include "compiler/program_cache.h"
#include "compiler/segments.h"
#include "tools/inputs.h"

namespace kiln {
namespace {

// How a script is packed.
struct ScriptFor {
  const CompileOptions& options;
  const std::vector<Target>& targets;
  const CommonOptions& common;
  absl::Span<const InputLine> lines;
};

// Puts a model with branches, loops or sizes that data decide into the package, and its kernels
// among the jobs. Its parts have the variants that a run on each line asks for.
absl::Status PackScript(const Graph& graph, const ScriptFor& how, TuneUse& tune,
                        PackageWriter& package, std::set<CacheKey>& known,
                        std::vector<KernelJob>& jobs) {
  std::vector<std::vector<Tensor>> samples;
  for (const InputLine& line : how.lines) {
    auto inputs = MakeInputs(graph, line.values, line.common);
    if (!inputs.ok()) return line.At(inputs.status());
    samples.push_back(*std::move(inputs));
  }
  for (const Target target : how.targets) {
    CompileOptions own = how.options;
    own.target = target;
    own = WithTuner(std::move(own), tune.store);
    absl::Status ran;
    KILN_ASSIGN_OR_RETURN(const auto model, CompileScript(graph, own, samples, &ran));
    if (!ran.ok()) {
      Note(how.common, absl::StrCat("the model does not run on the inputs that it is packed for: ",
                                    ran.message(),
                                    "; parts of it may lack a variant, give values with --input"));
    }
    for (const std::shared_ptr<const Variant>& variant : VariantsOf(*model))
      KILN_RETURN_IF_ERROR(package.Add(target, *variant));
    AddKernels(*model, own, known, jobs);
    if (own.tuner != nullptr) tune.Add(own.tuner->records());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<KernelJob>> KernelsOfModel(const ModelFlags& flags,
                                                      const CommonOptions& common, TuneUse& tune,
                                                      bool keep,
                                                      std::unique_ptr<PackageWriter>* package) {
  KILN_ASSIGN_OR_RETURN(CompileOptions options, ToCompileOptions(common, TargetsNamed(flags)));
  if (!keep &&
      options.schedule_choice == ScheduleChoice::kProfile)  // who only looks measures nothing
    options.schedule_choice = ScheduleChoice::kHeuristic;
  KILN_ASSIGN_OR_RETURN(const ModelSource source,
                        ModelSource::Read(flags.model, ImportOptionsOf(options)));
  KILN_ASSIGN_OR_RETURN(const ModelPorts ports, PortsOf(source, options));
  if (package != nullptr)
    *package = std::make_unique<PackageWriter>(ports.inputs, ports.outputs, options.math);
  std::vector<KernelJob> jobs;
  std::set<CacheKey> known;
  const std::vector<Target> targets = TargetsOf(flags, options);
  const auto add = [&](const GraphForInputs& made) -> absl::Status {
    if (package != nullptr && HasDynamicNodes(made.import->graph)) {
      return PackScript(made.graph, {options, targets, common, made.lines}, tune, **package, known,
                        jobs);
    }
    absl::Status packed;
    const auto keep_variant = [&](const CompileOptions& own, const Variant& variant) {
      if (package != nullptr) packed.Update((*package)->Add(TargetOf(own), variant));
      const auto cache = ProgramCache::Open(flags.model, own, *tune.store, [] {});
      if (!cache.ok()) return;  // text graphs have no Programs in the cache
      (*cache)->Keep(variant, ports.inputs, ports.outputs, *made.import);
    };
    OnVariantFn on_variant;
    if (keep) on_variant = keep_variant;
    KILN_ASSIGN_OR_RETURN(std::vector<KernelJob> more,
                          KernelsOf(made.graph, options, targets, made.inputs, on_variant, &tune));
    KILN_RETURN_IF_ERROR(packed);
    for (KernelJob& job : more) {
      if (known.insert(KernelPreimage(job.identity).Key()).second) jobs.push_back(std::move(job));
    }
    return absl::OkStatus();
  };
  KILN_RETURN_IF_ERROR(ForEachGraph(flags, common, source, options, package != nullptr, add));
  return jobs;
}

absl::StatusOr<std::vector<std::string>> FilesNamed(const ModelFlags& flags) {
  std::vector<std::string> files;
  const auto add = [&](absl::string_view spec) {  // NAME=@FILE
    const std::pair<absl::string_view, absl::string_view> named =
        absl::StrSplit(spec, absl::MaxSplits('=', 1));
    if (absl::StartsWith(named.second, "@")) files.emplace_back(named.second.substr(1));
  };
  for (const std::string& value : flags.inputs) add(value);
  if (flags.shapes.empty()) return files;
  files.push_back(flags.shapes);
  KILN_ASSIGN_OR_RETURN(const std::string text,
                        RealFileSystem().ReadFile(flags.shapes, kMaxShapesBytes));
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = line.substr(0, line.find('#'));
    for (absl::string_view word : absl::StrSplit(line, absl::ByAnyChar(" \t\r"))) add(word);
  }
  return files;
}

absl::Status PlanForInputs(const ModelFlags& flags, const CommonOptions& common,
                           const std::shared_ptr<KernelService>& service, TuneUse& tune) {
  KILN_ASSIGN_OR_RETURN(const CompileOptions options,
                        ToCompileOptions(common, TargetsNamed(flags)));
  KILN_ASSIGN_OR_RETURN(const std::shared_ptr<WarmModel> opened,
                        WarmModel::Open(flags.model, options, service));
  KILN_ASSIGN_OR_RETURN(Model model, Compile(opened, options));
  KILN_ASSIGN_OR_RETURN(const Graph* const graph, opened->graph());
  KILN_ASSIGN_OR_RETURN(const std::vector<InputLine> lines, InputLines(flags, *graph, common));
  for (const InputLine& line : lines) {
    KILN_ASSIGN_OR_RETURN(const std::vector<Tensor> tensors,
                          MakeInputs(*opened, line.values, line.common));
    const absl::Status run = model.Run(Named(opened->inputs(), tensors)).status();
    if (!run.ok()) return line.At(run);
  }
  opened->WaitUntilKept();
  if (opened->tuner() != nullptr) tune.Add(opened->tuner()->records());
  return absl::OkStatus();
}

}  // namespace kiln
