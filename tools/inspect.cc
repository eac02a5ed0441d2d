// SPDX-License-Identifier: Apache-2.0
// kiln inspect: what a model is made of; its groups, and the kernel, Halide statement or assembly
// of one.
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file_system.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "compiler/kernel_choice.h"
#include "compiler/kernel_service.h"
#include "compiler/model_source.h"
#include "compiler/segments.h"
#include "compiler/tuner.h"
#include "fusion/lower.h"
#include "graph/onnx/import.h"
#include "graph/op.h"
#include "graph/text.h"
#include "kernel/canonical.h"
#include "kernel/text.h"
#include "nlohmann/json.hpp"
#include "schedule/choose.h"
#include "schedule/picture.h"
#include "tools/common.h"
#include "tools/emit_onnx.h"
#include "tools/entry_section.h"
#include "tools/exit_code.h"
#include "tools/flag_values.h"
#include "tools/flags.h"
#include "tools/inputs.h"
#include "tools/inspect_package.h"
#include "tools/report.h"

namespace kiln {
namespace {

struct InspectFlags {
  CommonOptions common;
  std::string model, emit = "kernel", target, emit_onnx, kernel;
  std::vector<std::string> inputs;
  bool flat = false;
  int group = -1;
};

absl::StatusOr<CompileOptions> Options(const InspectFlags& flags) {
  if (flags.target.empty()) return ToCompileOptions(flags.common);
  const std::optional<Target> target = Target::Parse(flags.target);
  if (!target.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--target \"", flags.target, "\": expected one of ", absl::StrJoin(TargetNames(), ", ")));
  }
  KILN_ASSIGN_OR_RETURN(CompileOptions options, ToCompileOptions(flags.common, {*target}));
  options.target = target;
  return options;
}

// What of a kernel is printed.
struct Emitted {
  std::string text, schedule;
  std::vector<int64_t> extents;  // at which a schedule is priced
};

// The middle one of the extents that a class is priced for.
std::vector<int64_t> MiddleOf(const SizeClass& sizes) {
  const std::vector<std::vector<int64_t>> at = RepresentativeExtents(sizes);
  return at[at.size() / 2];
}

int EmitSchedule(const CompileOptions& options, const Emitted& emitted) {
  const absl::StatusOr<Kernel> kernel = ParseKernel(emitted.text);
  const absl::StatusOr<Schedule> parsed =
      Schedule::Parse(emitted.schedule, TargetOf(options).device);
  if (!kernel.ok()) return Fail(kernel.status(), kExitModel);
  if (!parsed.ok()) return Fail(parsed.status(), kExitBug);
  std::cout << Picture(*kernel, emitted.extents, *parsed, MachineOf(options));
  return kExitOk;
}

// Prints the kernel's text, or what the worker makes of it.
int Emit(const InspectFlags& flags, const CompileOptions& options, const Emitted& emitted) {
  if (flags.emit == "kernel") {
    std::cout << emitted.text;
    return kExitOk;
  }
  if (flags.emit == "schedule") return EmitSchedule(options, emitted);
  KernelService service(options);
  const absl::StatusOr<CodegenAnswer> answer =
      service.Emit(service.Identify(emitted.text, emitted.schedule), {flags.emit});
  if (!answer.ok())
    return Fail(answer.status(),
                absl::IsNotFound(answer.status()) ? kExitDevice : kExitUnsupported);
  for (const auto& [tag, bytes] : answer->sections) {
    if (tag == flags.emit) std::cout << bytes;
  }
  return kExitOk;
}

int InspectKernel(const InspectFlags& flags, const CompileOptions& options) {
  const absl::StatusOr<std::string> text = RealFileSystem().ReadFile(flags.model, 16 << 20);
  if (!text.ok()) return Fail(text.status(), kExitIo);
  const absl::StatusOr<Kernel> kernel = ParseKernel(*text);
  if (!kernel.ok()) return Fail(kernel.status(), kExitModel);
  const Decision accepted = AcceptsKernel(*kernel, TargetOf(options));
  if (!accepted) return Fail(absl::UnimplementedError(accepted.reason()), kExitUnsupported);
  const SizeClass known{std::vector<int64_t>(kernel->dims.size(), kUnbounded)};
  const SizeClass sizes = SizeClassesFor(*kernel, known).back();
  const Schedule schedule = ChooseSchedule(*kernel, sizes, MachineOf(options));
  return Emit(flags, options, {Print(*kernel), schedule.ToString(), MiddleOf(sizes)});
}

nlohmann::json PortsJson(const Graph& graph, bool inputs) {
  nlohmann::json list = nlohmann::json::array();
  for (const PortInfo& port : PortInfosOf(graph, inputs)) list.push_back(ToJson(port));
  return list;
}

// Groups in running order, numbered over all segments as --group counts them.
nlohmann::json PrintGroups(const std::vector<Compiled>& parts, bool print) {
  nlohmann::json list = nlohmann::json::array();
  int number = 0;
  for (const Compiled& compiled : parts) {
    std::vector<std::vector<std::string>> rows = {{"group", "kind", "nodes"}};
    for (const Group& group : compiled.grouping.groups) {
      std::vector<std::string> ops;
      for (NodeId id : group.nodes) ops.push_back(compiled.graph.node(id).op->name);
      rows.push_back({absl::StrCat(number), Name(group.kind), absl::StrJoin(ops, " ")});
      list.push_back({{"group", number++}, {"kind", Name(group.kind)}, {"ops", ops}});
      if (parts.size() > 1) list.back()["segment"] = compiled.graph.name;
    }
    if (print && parts.size() > 1) std::cout << compiled.graph.name << "\n";
    if (print) std::cout << Table(rows);
  }
  return list;
}

// The extents of a kernel for the values of --dim; nothing where they leave one open.
absl::StatusOr<std::optional<std::vector<int64_t>>> ExtentsOf(const InspectFlags& flags,
                                                              const Compiled& part,
                                                              const Group& group) {
  KILN_ASSIGN_OR_RETURN(const SymbolValues values, ParseDims(flags.common.dims));
  KILN_ASSIGN_OR_RETURN(const LoweredGroup lowered, LowerGroup(part.graph, group));
  std::vector<int64_t> extents;
  for (const Dim& dim : lowered.dims) {
    const absl::StatusOr<int64_t> extent = dim.Evaluate(values);
    if (!extent.ok()) return std::nullopt;
    extents.push_back(*extent);
  }
  return extents;
}

int InspectGroup(const InspectFlags& flags, const CompileOptions& options,
                 const std::vector<Compiled>& parts) {
  int group = flags.group;
  size_t part = 0;
  const auto groups = [&](size_t k) { return static_cast<int>(parts[k].grouping.groups.size()); };
  while (part < parts.size() && group >= groups(part)) group -= groups(part++);
  if (part == parts.size()) {
    return Fail(absl::InvalidArgumentError(absl::StrCat(
                    "--group ", flags.group, ": there are groups 0 to ", flags.group - group - 1)),
                kExitUsage);
  }
  const program::Program& program = parts[part].variant.program;
  const int at = parts[part].thunk_of[static_cast<size_t>(group)];
  if (at < 0 || !program.regions(0).thunks(at).has_kernel()) {
    return Fail(absl::InvalidArgumentError(absl::StrCat(
                    "--group ", flags.group, ": is no kernel but ",
                    Name(parts[part].grouping.groups[static_cast<size_t>(group)].kind))),
                kExitUsage);
  }
  const program::KernelDef& def = program.kernels(program.regions(0).thunks(at).kernel().kernel());
  const absl::StatusOr<std::optional<std::vector<int64_t>>> extents =
      ExtentsOf(flags, parts[part], parts[part].grouping.groups[static_cast<size_t>(group)]);
  if (!extents.ok()) return Fail(extents.status(), kExitUsage);
  int chosen = def.choices_size() - 1;  // the widest class, or the first that has the extents
  for (int i = chosen; i >= 0 && extents->has_value(); --i)
    if (ClassOf(def.choices(i)).Contains(**extents)) chosen = i;
  const program::KernelChoice& choice = def.choices(chosen);
  return Emit(flags, options,
              {def.text(), choice.schedule(),
               extents->has_value() ? **extents : MiddleOf(ClassOf(choice))});
}

struct Imported {
  ModelSource model;
  nlohmann::json opset = nullptr;
  nlohmann::json unsupported = nlohmann::json::array();
};

absl::StatusOr<Imported> Import(const std::string& path, OnnxImportOptions options) {
  if (absl::EndsWith(path, ".graph")) {
    KILN_ASSIGN_OR_RETURN(ModelSource model, ModelSource::Read(path));
    return Imported{std::move(model)};
  }
  options.allow_unsupported = true;
  KILN_ASSIGN_OR_RETURN(OnnxImport import, ImportOnnx(path, options));
  options.allow_unsupported = false;
  nlohmann::json opset, unsupported = nlohmann::json::array();
  if (const auto own = import.opsets.find(""); own != import.opsets.end()) opset = own->second;
  for (const UnsupportedNode& node : import.unsupported) {
    unsupported.push_back(
        {{"node", node.node}, {"op", node.op}, {"opset", node.opset}, {"reason", node.reason}});
  }
  ModelSource model = ModelSource::Of(path, std::move(import), options);
  return Imported{std::move(model), std::move(opset), std::move(unsupported)};
}

void PrintModel(const nlohmann::json& results) {
  PrintPorts(results["inputs"], "input ");
  PrintPorts(results["outputs"], "output");
  std::cout << "opset   " << results["opset"].dump() << "\nnodes   " << results["nodes"].dump()
            << "\n";
  for (const nlohmann::json& node : results["unsupported"]) {
    std::cout << "unsupported  " << node["node"].get<std::string>() << " ("
              << node["op"].get<std::string>() << ", opset " << node["opset"].dump() << ") "
              << node["reason"].get<std::string>() << "\n";
  }
}

int EmitModel(const InspectFlags& flags, const Graph& graph, const std::vector<Compiled>& parts) {
  absl::Status written;
  if (HasDynamicNodes(graph)) {  // its segments are no one graph
    written = EmitOnnx(graph, flags.emit_onnx);
  } else if (flags.flat) {
    written = EmitOnnx(parts[0].graph, flags.emit_onnx);
  } else {
    written = EmitOnnx(parts[0], flags.emit_onnx);
  }
  return written.ok() ? kExitOk : Fail(written, ModelExit(written));
}

int InspectModel(const InspectFlags& flags, const CompileOptions& options) {
  absl::StatusOr<Imported> imported = Import(flags.model, ImportOptionsOf(options));
  if (!imported.ok()) return Fail(imported.status(), ModelExit(imported.status()));
  const bool needs_inputs = imported->model.needs_inputs();
  bool supported = imported->unsupported.empty() || needs_inputs;
  int exit = kExitOk;
  absl::StatusOr<Graph> graph = imported->model.graph();
  if (supported) graph = GraphToLookAt(imported->model, flags.inputs, flags.common, &exit);
  const bool any_inputs = needs_inputs && flags.inputs.empty();
  if (any_inputs && (exit == kExitUnsupported || exit == kExitModel)) {  // others may do
    Note(flags.common, std::string(graph.status().message()));
    supported = false;
    graph = imported->model.graph();
  }
  if (!graph.ok()) return Fail(graph.status(), exit);
  if (supported) imported->unsupported.clear();
  nlohmann::json results = {{"inputs", PortsJson(imported->model.graph(), true)},
                            {"outputs", PortsJson(*graph, false)},
                            {"opset", imported->opset},
                            {"nodes", graph->nodes().size()},
                            {"unsupported", imported->unsupported}};
  absl::StatusOr<std::vector<Compiled>> parts = std::vector<Compiled>();
  if (supported) {
    // What was measured chooses here, too; nothing is measured.
    CompileOptions records = options;
    if (records.schedule_choice == ScheduleChoice::kProfile)
      records.schedule_choice = ScheduleChoice::kHeuristic;
    const KernelService service(options);
    parts = CompileParts(*graph, WithTuner(records, service.store()));
    if (!parts.ok()) return Fail(parts.status(), ModelExit(parts.status()));
    if (flags.group >= 0) return InspectGroup(flags, options, *parts);
    if (!flags.emit_onnx.empty()) exit = EmitModel(flags, *graph, *parts);
    if (exit != kExitOk) return exit;
  }
  const bool text = !flags.common.json;
  if (text) PrintModel(results);
  if (supported) results["groups"] = PrintGroups(*parts, text);
  if (!text) PrintJson("inspect", flags.common, results);
  return supported ? kExitOk : kExitUnsupported;
}

int RunInspect(const InspectFlags& flags) {
  const bool package = absl::EndsWith(flags.model, ".kiln");
  if (!flags.kernel.empty() && package) return EmitOfPackage(flags.model, flags.kernel, flags.emit);
  if (!flags.kernel.empty() || (package && flags.emit != "kernel")) {
    return Fail(absl::InvalidArgumentError(
                    package ? "--emit: name a kernel of the package, as --kernel KEY"
                            : "--kernel: names one of a package; --group N one of a model"),
                kExitUsage);
  }
  if (package) return InspectPackage(flags.model, flags.common);
  const absl::StatusOr<CompileOptions> options = Options(flags);
  if (!options.ok()) return Fail(options.status(), OptionsExit(options.status()));
  if (const absl::Status known = CheckEmit(flags.emit, TargetOf(*options)); !known.ok())
    return Fail(known, kExitUsage);
  if (absl::EndsWith(flags.model, ".kernel")) return InspectKernel(flags, *options);
  if (flags.emit != "kernel" && flags.group < 0) {
    return Fail(absl::InvalidArgumentError(
                    absl::StrCat("--emit ", flags.emit, ": name a group, as --group N")),
                kExitUsage);
  }
  return InspectModel(flags, *options);
}

}  // namespace

void AddInspect(Flags& command) {
  auto flags = std::make_shared<InspectFlags>();
  command.Option("MODEL", flags->model, "ONNX file, .graph or .kernel text, or a .kiln package")
      .File()
      .Required();
  command.Option("--group", flags->group, "Show this group").NotNegative();
  command.Option("--kernel", flags->kernel,
                 "Of a package: show the kernel whose key begins so, as --emit says");
  command
      .Option(
          "--emit", flags->emit,
          "Of a group, .kernel file or kernel of a package: kernel, schedule, ir (after each "
          "pass), stmt or asm; of "
          "CUDA kernel, schedule, ptx, launch (how it is launched), ptxas (registers, spills) or "
          "sass")
      .OneOf({"kernel", "schedule", "ir", "stmt", "asm", "ptx", "launch", "ptxas", "sass"})
      .ShowDefault();
  command.Option("--target", flags->target, "What the code is for (default: this CPU)")
      .OneOf(TargetNames());
  command
      .Option("--emit-onnx", flags->emit_onnx,
              "Write the graph after passes as an ONNX file, groups as functions")
      .File();
  command.Switch("--flat", flags->flat, "With --emit-onnx: no functions");
  command
      .Option("--input", flags->inputs,
              "Where values of inputs decide the structure: n=@a.npy (repeatable)")
      .Repeatable();
  AddCommonFlags(command, flags->common);
  command.Runs([flags] { return RunInspect(*flags); });
}

}  // namespace kiln
