// SPDX-License-Identifier: Apache-2.0
// kiln explain: for every edge between two nodes, why they run in one kernel or why not, with the
// bytes that pass; for every group, the bytes that it walks and the time that it takes; for a
// device with memory of its own, what is copied, and what does not run there.
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "compiler/model_source.h"
#include "graph/op.h"
#include "nlohmann/json.hpp"
#include "tools/common.h"
#include "tools/exit_code.h"
#include "tools/explain_copies.h"
#include "tools/explain_library.h"
#include "tools/explain_plan.h"
#include "tools/explain_schedule.h"
#include "tools/flags.h"
#include "tools/inputs.h"
#include "tools/nearest_name.h"
#include "tools/report.h"

namespace kiln {
namespace {

struct ExplainFlags {
  CommonOptions common;
  std::string model, node, dot, what_if;
  bool measure = false, library = false, schedule = false;
  std::vector<std::string> inputs;
};

// "n_Add_3 (add)"
std::string Label(const Graph& graph, NodeId id) {
  return absl::StrCat(graph.node(id).name, " (", graph.node(id).op->name, ")");
}

// What is told of all parts of a model.
struct Report {
  nlohmann::json edges = nlohmann::json::array(), groups = nlohmann::json::array(),
                 copies = nlohmann::json::array(), on_cpu = nlohmann::json::array();
  std::vector<std::vector<std::string>> rows = {{"from", "to", "bytes", "decision"}};
  size_t all_edges = 0;
  int fused = 0;
  int64_t kernels = 0;
};

// The groups with what passes through memory and the time of each, and in sum.
void AddGroups(const PlannedPart& part, bool print, Report& report) {
  const bool measured = !part.measured_us.empty();
  std::vector<std::vector<std::string>> rows = {
      {"group", "kind", "nodes", "in", "out", "unfused", "predicted us"}};
  if (measured) rows[0].emplace_back("measured us");
  rows[0].emplace_back("members");
  for (size_t i = 0; i < part.compiled.grouping.groups.size(); ++i) {
    const Group& group = part.compiled.grouping.groups[i];
    const GroupBytesAccessed& bytes = part.traffic.groups[i];
    std::vector<std::string> members;
    for (const NodeId id : group.nodes) members.push_back(Label(part.compiled.graph, id));
    const size_t number = report.groups.size();
    std::vector<std::string>& row = rows.emplace_back();
    row = {absl::StrCat(number),
           Name(group.kind),
           absl::StrCat(group.nodes.size()),
           Bytes(bytes.in),
           Bytes(bytes.out),
           Bytes(bytes.unfused),
           Short(part.predicted_us[i])};
    if (measured) row.push_back(Short(part.measured_us[i]));
    const std::string& large = part.large[i];
    row.push_back(absl::StrCat(members[0], members.size() > 1 ? " ..." : "",
                               large.empty() ? "" : absl::StrCat(" (", large, ")")));
    nlohmann::json& json = report.groups.emplace_back();
    json = {{"group", number},
            {"kind", Name(group.kind)},
            {"nodes", members},
            {"bytes_in", bytes.in},
            {"bytes_out", bytes.out},
            {"bytes_unfused", bytes.unfused},
            {"predicted_us", part.predicted_us[i]}};
    if (measured) json["measured_us"] = part.measured_us[i];
    if (!large.empty()) json["large"] = large;
    report.kernels += group.kind == Group::Kind::kKernel ? 1 : 0;
  }
  if (print) {
    const PlanSums sums = SumOf({part});
    std::cout << Table(rows) << sums.launches << " launches walk " << Bytes(sums.walked)
              << "; node by node " << Bytes(sums.unfused) << "; inputs and outputs once "
              << Bytes(sums.lower_bound) << "; predicted " << Short(sums.predicted_us)
              << " us with one thread\n\n";
  }
}

void AddEdges(const Compiled& compiled, const std::string& node, Report& report) {
  for (const EdgeDecision& edge : compiled.grouping.edges) {
    ++report.all_edges;
    report.fused += edge.fused ? 1 : 0;
    const std::string from = compiled.graph.node(edge.producer).name;
    const std::string to = compiled.graph.node(edge.consumer).name;
    if (!node.empty() && node != from && node != to) continue;
    report.rows.push_back({Label(compiled.graph, edge.producer),
                           Label(compiled.graph, edge.consumer), Bytes(edge.bytes),
                           edge.reason.empty() ? "one kernel" : edge.reason});
    report.edges.push_back({{"from", from},
                            {"to", to},
                            {"fused", edge.fused},
                            {"reason", edge.reason},
                            {"bytes", edge.bytes}});
  }
}

// "1.5 KiB", or the formula.
std::string BytesOf(const DeviceCopy& copy) {
  const absl::StatusOr<Dim> bytes = Dim::Parse(copy.bytes);
  const std::optional<int64_t> known = bytes.ok() ? bytes->constant() : std::nullopt;
  return known ? Bytes(*known) : copy.bytes;
}

// What goes between the host and a device with memory of its own.
void AddCopies(const Compiled& compiled, bool print, Report& report) {
  const std::vector<DeviceCopy> copies = CopiesOf(compiled.variant.program);
  std::vector<std::vector<std::string>> rows = {{"copied", "to", "bytes", "for", "why"}};
  for (const DeviceCopy& copy : copies) {
    const char* const to = copy.to_device ? "device" : "host";
    const std::string reader = copy.reader.empty() ? "the caller" : copy.reader;
    rows.push_back({copy.value, to, BytesOf(copy), reader, copy.why});
    report.copies.push_back({{"value", copy.value},
                             {"to", to},
                             {"bytes", copy.bytes},
                             {"for", reader},
                             {"why", copy.why}});
  }
  if (print && !copies.empty())
    std::cout << Table(rows) << copies.size() << " copies in each run\n\n";
}

// What a model for a device does not run there.
void AddHostLaunches(const Compiled& compiled, Target target, bool print, Report& report) {
  if (OnHost(target.device)) return;
  const HostLaunches launches = HostLaunchesOf(compiled.variant.program);
  std::vector<std::vector<std::string>> rows = {{"on the CPU", "why"}};
  for (const HostLaunch& launch : launches.on_cpu) {
    rows.push_back({launch.nodes, launch.why});
    report.on_cpu.push_back({{"nodes", launch.nodes}, {"why", launch.why}});
  }
  if (print && !launches.on_cpu.empty())
    std::cout << Table(rows) << launches.on_cpu.size() << " of " << launches.all
              << " launches on the CPU, not on " << target.name() << "\n\n";
}

struct NamedEdge {
  std::string from, to;
  EdgeDecision decision;
};

// The edge "FROM:TO", if a part has it.
std::optional<NamedEdge> FindEdge(const std::vector<PlannedPart>& parts, const std::string& name) {
  for (const PlannedPart& part : parts) {
    for (const EdgeDecision& edge : part.compiled.grouping.edges) {
      const std::string& from = part.compiled.graph.node(edge.producer).name;
      const std::string& to = part.compiled.graph.node(edge.consumer).name;
      if (absl::StrCat(from, ":", to) == name) return NamedEdge{from, to, edge};
    }
  }
  return std::nullopt;
}

// Of the producers and consumers of all edges: what flags may name.
std::vector<std::string> NamesOnEdges(const std::vector<PlannedPart>& parts) {
  std::vector<std::string> names;
  for (const PlannedPart& part : parts) {
    for (const EdgeDecision& edge : part.compiled.grouping.edges) {
      for (const NodeId node : {edge.producer, edge.consumer})
        names.push_back(part.compiled.graph.node(node).name);
    }
  }
  return names;
}

nlohmann::json SumsToJson(const PlanSums& sums) {
  return {{"launches", sums.launches},
          {"bytes_walked", sums.walked},
          {"predicted_us", sums.predicted_us}};
}

// What fusing the edge --what-if all the same would do.
int WhatIf(const Graph& graph, const ExplainFlags& flags, CompileOptions options,
           const std::vector<PlannedPart>& parts) {
  const std::optional<NamedEdge> asked = FindEdge(parts, flags.what_if);
  if (!asked) {
    return Fail(
        absl::InvalidArgumentError(absl::StrCat(
            "--what-if \"", flags.what_if,
            "\": no edge of the graph after passes; expected FROM:TO as explain names them")),
        kExitUsage);
  }
  options.forced_fusion.emplace_back(asked->from, asked->to);
  const absl::StatusOr<std::vector<PlannedPart>> forced = PlanParts(graph, options);
  if (!forced.ok()) return Fail(forced.status(), ModelExit(forced.status()));
  const std::optional<NamedEdge> after = FindEdge(*forced, flags.what_if);
  const bool fused = after && after->decision.fused;
  const std::string& reason = (fused || !after ? asked : after)->decision.reason;
  const PlanSums as_it_is = SumOf(parts), with_it = SumOf(*forced);
  if (flags.common.json) {
    PrintJson("explain", flags.common,
              {{"what_if",
                {{"edge", flags.what_if},
                 {"possible", fused},
                 {"reason", reason},
                 {"as_it_is", SumsToJson(as_it_is)},
                 {"with_it", SumsToJson(with_it)}}}});
    return kExitOk;
  }
  const auto row = [](const char* name, const PlanSums& sums) {
    return std::vector<std::string>{name, absl::StrCat(sums.launches), Bytes(sums.walked),
                                    Short(sums.predicted_us)};
  };
  const std::string could = asked->decision.fused ? "it is" : "it could be";
  std::cout << "if " << flags.what_if
            << " were one kernel: " << (fused ? could : "it cannot, " + reason) << "\n"
            << Table({{"", "launches", "walked", "predicted us"},
                      row("as it is", as_it_is),
                      row("with it", with_it)});
  return kExitOk;
}

absl::Status WriteDot(const std::string& path, const std::vector<PlannedPart>& parts) {
  std::ofstream file(path);
  for (const PlannedPart& part : parts) file << ToDot(part.compiled.grouping, part.compiled.graph);
  if (file.flush()) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("--dot \"", path, "\": cannot be written; is the folder there?"));
}

int PrintParts(const std::vector<PlannedPart>& parts, Target target, const ExplainFlags& flags) {
  Report report;
  for (const PlannedPart& part : parts) {
    const bool print = !flags.common.json && flags.node.empty();
    if (print && parts.size() > 1) std::cout << part.compiled.graph.name << "\n";
    AddEdges(part.compiled, flags.node, report);
    AddGroups(part, print, report);
    AddCopies(part.compiled, print, report);
    AddHostLaunches(part.compiled, target, print, report);
  }
  if (!flags.node.empty() && report.edges.empty()) {
    return Fail(absl::InvalidArgumentError(absl::StrCat(
                    "--node \"", flags.node, "\": no edge of the graph after passes has that node",
                    DidYouMean(flags.node, NamesOnEdges(parts)))),
                kExitUsage);
  }
  if (!flags.common.json) {
    std::cout << Table(report.rows) << report.all_edges << " edges, " << report.fused
              << " inside groups; " << report.kernels << " kernels\n";
    return kExitOk;
  }
  const PlanSums sums = SumOf(parts);
  PrintJson("explain", flags.common,
            {{"edges", report.edges},
             {"groups", report.groups.size()},
             {"kernels", report.kernels},
             {"fused", report.fused},
             {"copies", report.copies},
             {"on_cpu", report.on_cpu},
             {"traffic",
              {{"groups", report.groups},
               {"launches", sums.launches},
               {"bytes_walked", sums.walked},
               {"bytes_unfused", sums.unfused},
               {"bytes_lower_bound", sums.lower_bound},
               {"predicted_us", sums.predicted_us}}}});
  return kExitOk;
}

// Inputs and then the parts' times by them.
absl::Status MeasureParts(const Graph& graph, const ExplainFlags& flags,
                          const CompileOptions& options, std::vector<PlannedPart>& parts) {
  KILN_ASSIGN_OR_RETURN(const std::vector<Tensor> inputs,
                        MakeInputs(graph, flags.inputs, flags.common));
  return MeasureParts(graph, inputs, options, parts);
}

int RunExplain(const ExplainFlags& flags) {
  if (flags.library) return ExplainLibrary(flags.model, flags.inputs, flags.common);
  const absl::StatusOr<CompileOptions> options = ToCompileOptions(flags.common);
  if (!options.ok()) return Fail(options.status(), OptionsExit(options.status()));
  const absl::StatusOr<ModelSource> model =
      ModelSource::Read(flags.model, ImportOptionsOf(*options));
  if (!model.ok()) return Fail(model.status(), ModelExit(model.status()));
  int exit = kExitOk;
  const absl::StatusOr<Graph> graph = GraphToLookAt(*model, flags.inputs, flags.common, &exit);
  if (!graph.ok()) return Fail(graph.status(), exit);
  absl::StatusOr<std::vector<PlannedPart>> parts = PlanParts(*graph, *options);
  if (!parts.ok()) return Fail(parts.status(), ModelExit(parts.status()));
  if (flags.schedule) return ExplainSchedules(*parts, *options, flags.common);
  if (!flags.what_if.empty()) return WhatIf(*graph, flags, *options, *parts);
  if (!flags.dot.empty()) {
    const absl::Status written = WriteDot(flags.dot, *parts);
    if (!written.ok()) return Fail(written, kExitIo);
  }
  if (flags.measure) {
    const absl::Status measured = MeasureParts(*graph, flags, *options, *parts);
    if (!measured.ok()) return Fail(measured, ModelExit(measured));
  }
  return PrintParts(*parts, TargetOf(*options), flags);
}

}  // namespace

void AddExplain(Flags& command) {
  auto flags = std::make_shared<ExplainFlags>();
  command.Option("MODEL", flags->model, "ONNX file, or .graph text").File().Required();
  command.Option("--node", flags->node, "Only edges of this node");
  command.Switch("--library", flags->library, "Who computes each library call, and why not others");
  command.Switch("--schedule", flags->schedule,
                 "The schedules that each kernel could run with, cheapest first");
  command
      .Option("--input", flags->inputs,
              "With --library or --measure, and where values decide the structure: n=@a.npy, "
              "random:SEED, zeros, ones")
      .Repeatable();
  command.Option("--dot", flags->dot, "Also write the groups as a Graphviz file").File();
  command.Option("--what-if", flags->what_if,
                 "FROM:TO: what fusing that edge would change, whether it pays or not");
  command.Switch("--measure", flags->measure, "Also run the model, and time every group");
  AddCommonFlags(command, flags->common);
  command.Runs([flags] { return RunExplain(*flags); });
}

}  // namespace kiln
