// SPDX-License-Identifier: Apache-2.0
#include "tools/common.h"

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "base/processors.h"
#include "base/publish_file.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "exec/runtime_state.h"
#include "fusion/pass.h"
#include "kiln/model.h"
#include "nlohmann/json.hpp"
#include "persistent_cache/layout.h"
#include "persistent_cache/settings.h"
#include "schedule/machine.h"
#include "tools/flags.h"
#include "tools/nearest_name.h"

namespace kiln {
namespace {

constexpr absl::string_view kStages[] = {"graph", "groups", "kernel", "ir",
                                         "stmt",  "asm",    "ptx",    "plan"};

// Writes the stages named in KILN_DUMP to KILN_DUMP_DIR (default: the working directory), or
// nothing if the variable is unset.
absl::Status DumpAsTheEnvironmentSays(CompileOptions& options) {
  const char* const wanted = secure_getenv("KILN_DUMP");
  if (wanted == nullptr || wanted[0] == '\0') return absl::OkStatus();
  const std::set<std::string> stages = absl::StrSplit(wanted, ',');
  for (const std::string& stage : stages) {
    if (std::find(std::begin(kStages), std::end(kStages), stage) != std::end(kStages)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("KILN_DUMP: unknown stage \"", stage,
                     "\"; there are graph, groups, kernel, ir, stmt, asm, ptx, plan",
                     DidYouMean(stage, {std::begin(kStages), std::end(kStages)})));
  }
  const char* const dir = secure_getenv("KILN_DUMP_DIR");
  const std::filesystem::path folder = dir != nullptr ? dir : ".";
  auto count = std::make_shared<std::atomic<int>>(0);  // plans are made on any thread
  options.dump_code = stages.count("ir") + stages.count("stmt") + stages.count("asm") > 0;
  options.dump = [=](const std::string& stage, const std::string& name, const std::string& text) {
    if (stages.count(stage) == 0) return;
    std::error_code ignored;
    std::filesystem::create_directories(folder, ignored);
    std::ofstream(folder / absl::StrCat((*count)++, ".", stage, ".", name, ".txt")) << text;
  };
  return absl::OkStatus();
}

// "name=value" at the first '='.
absl::StatusOr<std::pair<std::string, std::string>> SplitAssignment(const std::string& flag,
                                                                    const std::string& text) {
  const size_t at = text.find('=');
  if (at == std::string::npos || at == 0) {
    return absl::InvalidArgumentError(absl::StrCat(flag, " \"", text, "\": expected NAME=VALUE"));
  }
  return std::make_pair(text.substr(0, at), text.substr(at + 1));
}

absl::StatusOr<Machine> ReadMachine(const std::string& path) {
  constexpr int64_t kMaxMachineBytes = 1 << 20;
  const absl::StatusOr<std::string> text = RealFileSystem().ReadFile(path, kMaxMachineBytes);
  if (!text.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--machine \"", path, "\": cannot be read, ",
                                                   text.status().message(), "; is it there?"));
  }
  absl::StatusOr<Machine> machine = ParseMachine(*text);
  if (!machine.ok()) return Annotate(machine.status(), absl::StrCat("--machine \"", path, "\""));
  return machine;
}

}  // namespace

void AddOutputFlags(Flags& command, CommonOptions& options) {
  command.Switch("--json", options.json, "Print one JSON object on stdout (docs/json.md)");
  command.Switch("-q,--quiet", options.quiet, "No notices");
  command.Switch("-v,--verbose", options.verbose, "More detail");
}

void AddReadingFlags(Flags& command, CommonOptions& options) {
  command
      .Option("--max-weights", options.max_weights,
              "Bytes that all constants of a model may have together, such as 8GiB (default: "
              "4GiB)")
      .Environment("KILN_MAX_WEIGHTS");
  command
      .Option("--external-data-links", options.external_data_links,
              "Links on the way to a model's external data: refuse or follow")
      .OneOf({"refuse", "follow"})
      .Environment("KILN_EXTERNAL_DATA_LINKS")
      .ShowDefault();
}

void AddConstShapeFlag(Flags& command, CommonOptions& options) {
  command
      .Option("--const-shape", options.const_shapes,
              "Shape that an input always has, known to all passes: "
              "n=1x3x224x224 (repeatable)")
      .Repeatable();
}

void AddRunningFlags(Flags& command, CommonOptions& options) {
  command.Switch("--batch-invariant", options.batch_invariant,
                 "Each sample of a batch has the bits that it has alone (docs/lite.md)");
  command.Switch("--check-first-run", options.check_first_run,
                 "Before the first run: no launch writes beside its outputs");
  command
      .Option("--record-level", options.record_level,
              "1: the first inputs fix the shapes; 2: and what compiles for others is given up")
      .Range(0, 2)
      .ShowDefault();
}

void AddCommonFlags(Flags& command, CommonOptions& options) {
  command.Option("-O", options.level, "Graph optimisation level")
      .Range(0, 3)
      .Environment("KILN_GRAPH_OPT_LEVEL")
      .ShowDefault();
  command.Option("--jit", options.jit, "Fusion: 0 none, 1 element-wise, 2 and reductions")
      .Range(0, 2)
      .Environment("KILN_JIT_LEVEL")
      .ShowDefault();
  command
      .Option("--device", options.device,
              "cpu, cuda[:i], cuda-emulated (a GPU played by the CPU) or reference (the float64 "
              "interpreter)")
      .ShowDefault();
  command.Switch("--require-device", options.require_device,
                 "What has no code for the device is an error, and does not run on the CPU");
  command.Option("--threads", options.threads, "Hard cap; 0: the CPUs this process may use")
      .Range(0, kMaxThreads)
      .Environment("KILN_THREADS")
      .ShowDefault();
  command.Option("--shape", options.shapes, "Shape of an input: n=1x3x224x224 (repeatable)")
      .Repeatable();
  command.Option("--dim", options.dims, "Value of a symbolic dim: batch=8 (repeatable)")
      .Repeatable();
  command
      .Option("--disable-pass", options.disabled_passes,
              "A pass that does not run; kiln opt --list-passes names them (repeatable)")
      .Repeatable();
  command.Option("--no-fuse", options.no_fuse, "A node that shares a kernel with none (repeatable)")
      .Repeatable();
  command
      .Option("--rules", options.rules,
              "priced: merges that pay; greedy: one output, no broadcast inside (to compare)")
      .OneOf({"priced", "greedy"})
      .ShowDefault();
  command
      .Option("--machine", options.machine,
              "File of kiln devices --measure to price kernels by (default: that of the level)")
      .File();
  command.Option("--math", options.math, "strict or fast").OneOf({"strict", "fast"}).ShowDefault();
  command
      .Option("--compile-mode", options.compile_mode,
              "When kernels are built: block, background or never")
      .OneOf({"block", "background", "never"})
      .ShowDefault();
  command
      .Option("--choose", options.choose,
              "Schedules and library code by what was measured here, else by price (heuristic); "
              "measured first (profile); by price alone (reproducible)")
      .OneOf({"heuristic", "profile", "reproducible"})
      .Environment("KILN_CHOOSE")
      .ShowDefault();
  command.Switch("--tune", options.tune, "The same as --choose profile");
  command
      .Option("--workspace-limit", options.workspace_limit,
              "Memory that a kernel or library call may take beside its operands, such as 16M")
      .Environment("KILN_WORKSPACE_LIMIT");
  command
      .Option("--device-library", options.device_library,
              "Calls of cuBLASLt and cuDNN in models for a GPU: auto (where found), on or off")
      .OneOf({"auto", "on", "off"})
      .Environment("KILN_DEVICE_LIBRARY")
      .ShowDefault();
  AddReadingFlags(command, options);
  command
      .Option("--cache-dir", options.cache_dir,
              "Directory of the kernel cache (default: KILN_CACHE_DIR, else XDG)")
      .Directory();
  command.Switch("--no-cache", options.no_cache, "Neither read nor write the kernel cache");
  command.Switch("--cache-readonly", options.cache_readonly,
                 "Read the kernel cache, never write it");
  AddOutputFlags(command, options);
}

std::string DidYouMeanPass(absl::string_view name) {
  std::vector<std::string> names;
  for (const Pass& pass : AllPasses()) names.emplace_back(pass.name);
  return DidYouMean(name, names);
}

absl::StatusOr<CompileOptions> ToReadingOptions(const CommonOptions& options) {
  CompileOptions out;
  if (!options.max_weights.empty()) {
    const absl::StatusOr<int64_t> most = ParseByteSize(options.max_weights);
    if (!most.ok()) return Annotate(most.status(), "--max-weights");
    out.max_weight_bytes = *most;
  }
  if (options.external_data_links == "follow") out.external_data_links = ExternalDataLinks::kFollow;
  return out;
}

namespace {

absl::Status OpenDevice(const CommonOptions& common, CompileOptions& options) {
  auto runtime =
      Runtime::Create({.device = common.device, .require_device = common.require_device});
  if (absl::IsUnavailable(runtime.status()))  // to a command line it is what it asked for
    return absl::FailedPreconditionError(runtime.status().message());
  KILN_RETURN_IF_ERROR(runtime.status());
  options.runtime = *std::move(runtime);
  options.target = options.runtime->state().device->device().target();
  return absl::OkStatus();
}

absl::Status CheckDescribes(const Machine& machine, const std::string& path,
                            const std::vector<Target>& targets) {
  std::vector<absl::string_view> names;
  for (const Target target : targets) {
    if (target == machine.target) return absl::OkStatus();
    names.push_back(target.name());
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--machine \"", path, "\": describes ", machine.target.name(), ", code is made for ",
      absl::StrJoin(names, ", "), "; give a file of that level (kiln devices --measure)"));
}

}  // namespace

absl::StatusOr<CompileOptions> ToCompileOptions(const CommonOptions& options,
                                                const std::vector<Target>& targets) {
  KILN_ASSIGN_OR_RETURN(CompileOptions out, ToReadingOptions(options));
  const std::string family = options.device.substr(0, options.device.find(':'));
  if (family == "cuda" || family == "cuda-emulated") {
    KILN_RETURN_IF_ERROR(OpenDevice(options, out));
  } else if (options.device != "cpu" && options.device != "reference") {
    return absl::InvalidArgumentError(absl::StrCat(
        "device \"", options.device, "\": is none of cpu, cuda[:i], cuda-emulated, reference",
        DidYouMean(options.device, {"cpu", "cuda", "cuda-emulated", "reference"})));
  } else if (options.require_device) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--require-device: --device is \"", options.device, "\"; name a GPU, as --device cuda"));
  }
  out.graph_opt_level = options.level;
  out.jit_level = options.jit;
  out.threads = options.threads;
  out.build_jobs = Processors();  // of this process; a library would start no threads for one
  for (const std::string& name : options.disabled_passes) {
    if (FindPass(name) == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--disable-pass \"", name, "\": there is none of that name; see kiln opt --list-passes",
          DidYouMeanPass(name)));
    }
  }
  out.disabled_passes = options.disabled_passes;
  out.no_fuse = options.no_fuse;
  out.fusion_rules = options.rules == "greedy" ? FusionRules::kGreedy : FusionRules::kPriced;
  if (!options.machine.empty()) {
    KILN_ASSIGN_OR_RETURN(Machine machine, ReadMachine(options.machine));
    KILN_RETURN_IF_ERROR(CheckDescribes(machine, options.machine,
                                        targets.empty() ? std::vector{TargetOf(out)} : targets));
    out.machine = std::make_shared<const Machine>(std::move(machine));
  }
  out.math = options.math == "fast" ? MathMode::kFast : MathMode::kStrict;
  out.compile_mode = options.compile_mode == "never"        ? CompileMode::kNever
                     : options.compile_mode == "background" ? CompileMode::kBackground
                                                            : CompileMode::kBlock;
  out.schedule_choice = options.tune || options.choose == "profile" ? ScheduleChoice::kProfile
                        : options.choose == "reproducible"          ? ScheduleChoice::kReproducible
                                                                    : ScheduleChoice::kHeuristic;
  out.device_library = options.device_library == "on"    ? DeviceLibrary::kAlways
                       : options.device_library == "off" ? DeviceLibrary::kNever
                                                         : DeviceLibrary::kFound;
  if (!options.workspace_limit.empty()) {
    const absl::StatusOr<int64_t> limit = ParseByteSize(options.workspace_limit);
    if (!limit.ok()) return Annotate(limit.status(), "--workspace-limit");
    out.workspace_limit = *limit;
  }
  KILN_ASSIGN_OR_RETURN(out.tune_at, ParseDims(options.dims));
  KILN_ASSIGN_OR_RETURN(const auto shapes, ParseShapes(options.const_shapes, "--const-shape"));
  out.const_shapes.assign(shapes.begin(), shapes.end());
  out.batch_invariant = options.batch_invariant;
  out.check_first_run = options.check_first_run;
  out.record_level = options.record_level;
  out.cache = {!options.no_cache, options.cache_dir, options.cache_readonly};
  KILN_RETURN_IF_ERROR(DumpAsTheEnvironmentSays(out));
  return out;
}

std::vector<std::string> TargetNames() {
  std::vector<std::string> names;
  for (const TargetRow& row : AllTargets())
    if (row.target.compiles()) names.emplace_back(row.name);
  return names;
}

absl::StatusOr<SymbolValues> ParseDims(const std::vector<std::string>& dims) {
  SymbolValues values;
  for (const std::string& text : dims) {
    KILN_ASSIGN_OR_RETURN(const auto assignment, SplitAssignment("--dim", text));
    int64_t value = 0;
    if (!absl::SimpleAtoi(assignment.second, &value) || value < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--dim \"", text, "\": expected a number >= 0"));
    }
    values[assignment.first] = value;
  }
  return values;
}

absl::StatusOr<std::map<std::string, std::vector<int64_t>>> ParseShapes(
    const std::vector<std::string>& shapes, const std::string& flag) {
  std::map<std::string, std::vector<int64_t>> out;
  for (const std::string& text : shapes) {
    KILN_ASSIGN_OR_RETURN(const auto assignment, SplitAssignment(flag, text));
    std::vector<int64_t>& shape = out[assignment.first];
    for (absl::string_view part : absl::StrSplit(assignment.second, 'x', absl::SkipEmpty())) {
      int64_t extent = 0;
      if (!absl::SimpleAtoi(part, &extent) || extent < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat(flag, " \"", text, "\": expected extents such as 1x3x224x224"));
      }
      shape.push_back(extent);
    }
  }
  return out;
}

absl::StatusOr<std::map<std::string, std::vector<int64_t>>> ShapesGiven(
    const CommonOptions& options) {
  KILN_ASSIGN_OR_RETURN(auto shapes, ParseShapes(options.shapes));
  KILN_ASSIGN_OR_RETURN(auto constant, ParseShapes(options.const_shapes, "--const-shape"));
  shapes.merge(constant);  // what --shape says otherwise is an error of the model
  return shapes;
}

void PrintJson(const std::string& verb, const CommonOptions& options, nlohmann::json results) {
  const nlohmann::json object = {{"schema", absl::StrCat("kiln.", verb, "/1")},
                                 {"kiln", KILN_VERSION},
                                 {"config",
                                  {{"level", options.level},
                                   {"jit", options.jit},
                                   {"device", options.device},
                                   {"threads", options.threads},
                                   {"math", options.math},
                                   {"compile_mode", options.compile_mode}}},
                                 {"results", std::move(results)}};
  std::cout << object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
}

absl::Status WriteFileDurably(const std::string& path, const std::string& bytes) {
  return PublishFile(RealFileSystem(), path,
                     [&](WritableFile& file) { return file.Append(bytes); });
}

void Note(const CommonOptions& options, const std::string& line) {
  if (!options.quiet) std::cerr << "kiln: " << line << "\n";
}

}  // namespace kiln
