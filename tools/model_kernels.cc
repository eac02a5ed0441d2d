// SPDX-License-Identifier: Apache-2.0
#include "tools/model_kernels.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "base/file_system.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "compiler/compile_script.h"
#include "compiler/const_shapes.h"
#include "compiler/model_source.h"
#include "compiler/program_cache.h"
#include "compiler/segments.h"
#include "tools/flags.h"
#include "tools/inputs.h"

namespace kiln {
namespace {

constexpr int64_t kMaxShapesBytes = int64_t{16} << 20;

// What the user says about one set of inputs.
struct Line {
  CommonOptions common;
  std::vector<std::string> values;  // as --input
  std::string where;                // for errors
};

absl::Status At(const Line& line, const absl::Status& status) {
  return line.where.empty()
             ? status
             : absl::Status(status.code(), absl::StrCat(line.where, ": ", status.message()));
}

// The flags that a line of the file stands for.
void AddWords(absl::string_view text, const Graph& graph, Line& line) {
  std::set<std::string> inputs;
  for (const ValueId id : graph.inputs()) inputs.insert(graph.value(id).name);
  for (absl::string_view word : absl::StrSplit(text, absl::ByAnyChar(" \t\r"), absl::SkipEmpty())) {
    const std::pair<std::string, std::string> named = absl::StrSplit(word, absl::MaxSplits('=', 1));
    const bool value = !named.second.empty() && !absl::ascii_isdigit(named.second[0]);
    const bool input = inputs.count(named.first) != 0;
    (!input ? line.common.dims : value ? line.values : line.common.shapes).emplace_back(word);
  }
}

absl::StatusOr<std::vector<Line>> LinesOf(const ModelFlags& flags, const Graph& graph,
                                          const CommonOptions& common) {
  if (flags.shapes.empty()) return std::vector<Line>{{common, flags.inputs, ""}};
  KILN_ASSIGN_OR_RETURN(const std::string text,
                        RealFileSystem().ReadFile(flags.shapes, kMaxShapesBytes));
  std::vector<Line> lines;
  int number = 0;
  for (absl::string_view words : absl::StrSplit(text, '\n')) {
    ++number;
    words = words.substr(0, words.find('#'));
    if (absl::StripAsciiWhitespace(words).empty()) continue;
    lines.push_back({common, flags.inputs, absl::StrCat("\"", flags.shapes, "\" line ", number)});
    AddWords(words, graph, lines.back());
  }
  return lines;
}

absl::StatusOr<std::vector<InputInfo>> InfoOf(const Line& line, const Graph& graph) {
  KILN_ASSIGN_OR_RETURN(std::vector<Tensor> tensors, MakeShapes(graph, line.values, line.common));
  std::vector<InputInfo> info;
  for (size_t k = 0; k < tensors.size(); ++k)
    info.push_back({graph.value(graph.inputs()[k]).name, true, std::move(tensors[k])});
  return info;
}

// What a run with these inputs imports: for their shapes, if these are needed; where `closed`, for
// them if all are given. No dim that is needed is made up.
absl::StatusOr<std::shared_ptr<const OnnxImport>> ImportFor(const Line& line,
                                                            const ModelSource& source,
                                                            bool closed) {
  if (!source.needs_inputs() && !closed) return source.import();
  const absl::Status all_given = AllShapesGiven(source.graph(), line.values, line.common);
  if (all_given.ok()) {
    KILN_ASSIGN_OR_RETURN(const std::vector<InputInfo> info, InfoOf(line, source.graph()));
    std::map<std::string, Tensor> named;
    for (const InputInfo& input : info) named.emplace(input.name, input.tensor);
    return closed ? source.ForShapes(named) : source.For(named);
  }
  if (!absl::IsUnimplemented(all_given)) return all_given;
  KILN_ASSIGN_OR_RETURN(const auto values, MakeValues(source.graph(), line.values, line.common));
  auto import = source.For(values);
  if (!absl::IsUnimplemented(import.status())) return import;
  const std::vector<std::string>& needed = source.import()->value_inputs;
  const bool lacks_value = std::any_of(needed.begin(), needed.end(), [&](const std::string& name) {
    return values.count(name) == 0;
  });
  return lacks_value ? import.status() : all_given;
}

// An import, and the sets of inputs that it is compiled for.
struct ForInputs {
  std::shared_ptr<const OnnxImport> import;
  std::vector<std::vector<InputInfo>> inputs;
};

absl::StatusOr<ForInputs> ImportFor(absl::Span<const Line> lines, const ModelSource& source,
                                    bool closed) {
  ForInputs made{source.import(), {}};
  for (const Line& line : lines) {
    auto import = ImportFor(line, source, closed);
    if (!import.ok()) return At(line, import.status());
    auto info = InfoOf(line, source.graph());
    if (!info.ok()) return At(line, info.status());
    made.import = *std::move(import);
    made.inputs.push_back(*std::move(info));
  }
  return made;
}

// How a script is packed.
struct ScriptFor {
  const CompileOptions& options;
  const std::vector<Target>& targets;
  const CommonOptions& common;
  absl::Span<const Line> lines;
};

// Puts a model with branches, loops or sizes that data decide into the package, and its kernels
// among the jobs. Its parts have the variants that a run on each line asks for.
absl::Status PackScript(const Graph& graph, const ScriptFor& how, TuneUse& tune,
                        PackageWriter& package, std::set<CacheKey>& known,
                        std::vector<KernelJob>& jobs) {
  std::vector<std::vector<Tensor>> samples;
  for (const Line& line : how.lines) {
    auto inputs = MakeInputs(graph, line.values, line.common);
    if (!inputs.ok()) return At(line, inputs.status());
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

void AddInputFlags(Flags& command, ModelFlags& flags) {
  command
      .Option("--shapes", flags.shapes,
              "File with one set of inputs a line: NAME=1x3x224x224, DIM=8, NAME=@a.npy")
      .File();
  command
      .Option("--input", flags.inputs,
              "Value of an input that decides the model's structure, as for run "
              "(repeatable)")
      .Repeatable();
}

void AddModelFlags(Flags& command, ModelFlags& flags) {
  command
      .Option("--target", flags.targets, "x86-64-v3 or x86-64-v4 (repeatable; default: this CPU's)")
      .OneOf({"x86-64-v3", "x86-64-v4"})
      .Repeatable();
  AddInputFlags(command, flags);
}

absl::StatusOr<std::vector<KernelJob>> KernelsOfModel(const ModelFlags& flags,
                                                      const CommonOptions& common, TuneUse& tune,
                                                      bool keep,
                                                      std::unique_ptr<PackageWriter>* package) {
  KILN_ASSIGN_OR_RETURN(CompileOptions options, ToCompileOptions(common));
  if (!keep &&
      options.schedule_choice == ScheduleChoice::kProfile)  // who only looks measures nothing
    options.schedule_choice = ScheduleChoice::kHeuristic;
  std::vector<Target> targets;
  for (const std::string& name : flags.targets)
    targets.push_back(Target::Parse(name).value_or(HostTarget()));
  if (targets.empty()) targets.push_back(HostTarget());
  KILN_ASSIGN_OR_RETURN(const ModelSource source,
                        ModelSource::Read(flags.model, ImportOptionsOf(options)));
  KILN_ASSIGN_OR_RETURN(const std::vector<Line> lines, LinesOf(flags, source.graph(), common));
  KILN_ASSIGN_OR_RETURN(const std::vector<PortInfo> inputs,
                        WithConstShapes(source.inputs(), options.const_shapes));
  std::vector<PortInfo> outputs = source.outputs();
  if (!options.const_shapes.empty() && !source.needs_inputs()) {
    KILN_ASSIGN_OR_RETURN(const Graph graph, WithConstShapes(source.graph(), options.const_shapes));
    outputs = PortInfosOf(graph, /*inputs=*/false);
  }
  if (package != nullptr) *package = std::make_unique<PackageWriter>(inputs, outputs, options.math);
  std::vector<KernelJob> jobs;
  std::set<CacheKey> known;
  // Where lines need imports of their own, one is there at a time.
  std::vector<absl::Span<const Line>> rounds;
  // Of fixed shapes, the loops of recurrent networks are none.
  const bool closed = package != nullptr && HasDynamicNodes(source.graph());
  const bool apart = source.needs_inputs() || closed;
  if (!apart) rounds.push_back(lines);
  for (const Line& line : lines) {
    if (apart) rounds.push_back(absl::MakeConstSpan(&line, 1));
  }
  for (const absl::Span<const Line> round : rounds) {
    KILN_ASSIGN_OR_RETURN(const ForInputs made, ImportFor(round, source, closed));
    if (package != nullptr && HasDynamicNodes(made.import->graph)) {
      KILN_ASSIGN_OR_RETURN(const Graph graph,
                            WithConstShapes(made.import->graph, options.const_shapes));
      KILN_RETURN_IF_ERROR(
          PackScript(graph, {options, targets, common, round}, tune, **package, known, jobs));
      continue;
    }
    absl::Status packed;
    const auto keep_variant = [&](const CompileOptions& own, const Variant& variant) {
      if (package != nullptr) packed.Update((*package)->Add(TargetOf(own), variant));
      const auto cache = ProgramCache::Open(flags.model, own, *tune.store, [] {});
      if (!cache.ok()) return;  // text graphs have no Programs in the cache
      (*cache)->Keep(variant, inputs, outputs, *made.import);
    };
    OnVariantFn on_variant;
    if (keep) on_variant = keep_variant;
    KILN_ASSIGN_OR_RETURN(const Graph graph,
                          WithConstShapes(made.import->graph, options.const_shapes));
    KILN_ASSIGN_OR_RETURN(std::vector<KernelJob> more,
                          KernelsOf(graph, options, targets, made.inputs, on_variant, &tune));
    KILN_RETURN_IF_ERROR(packed);
    for (KernelJob& job : more) {
      if (known.insert(KernelPreimage(job.identity).Key()).second) jobs.push_back(std::move(job));
    }
  }
  return jobs;
}

absl::Status PlanForInputs(const ModelFlags& flags, const CommonOptions& common,
                           const std::shared_ptr<KernelService>& service, TuneUse& tune) {
  KILN_ASSIGN_OR_RETURN(const CompileOptions options, ToCompileOptions(common));
  KILN_ASSIGN_OR_RETURN(const std::shared_ptr<WarmModel> opened,
                        WarmModel::Open(flags.model, options, service));
  KILN_ASSIGN_OR_RETURN(Model model, Compile(opened, options));
  KILN_ASSIGN_OR_RETURN(const Graph* const graph, opened->graph());
  KILN_ASSIGN_OR_RETURN(const std::vector<Line> lines, LinesOf(flags, *graph, common));
  for (const Line& line : lines) {
    KILN_ASSIGN_OR_RETURN(std::vector<Tensor> tensors,
                          MakeInputs(*opened, line.values, line.common));
    std::vector<std::pair<std::string, Tensor>> inputs;
    for (size_t k = 0; k < tensors.size(); ++k)
      inputs.emplace_back(opened->inputs()[k].name, std::move(tensors[k]));
    const absl::Status run = model.Run(inputs).status();
    if (!run.ok()) return At(line, run);
  }
  opened->WaitUntilKept();
  if (opened->tuner() != nullptr) tune.Add(opened->tuner()->records());
  return absl::OkStatus();
}

}  // namespace kiln
