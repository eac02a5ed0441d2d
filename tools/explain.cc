// SPDX-License-Identifier: Apache-2.0
// kiln explain: for every edge between two nodes, why they run in one kernel or why not, with the
// bytes that pass; for every group, the bytes that it walks.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "kiln/compiler/parts.h"
#include "kiln/fusion/traffic.h"
#include "kiln/graph/op.h"
#include "kiln/tools/common.h"
#include "kiln/tools/exit_code.h"
#include "kiln/tools/explain_library.h"
#include "kiln/tools/loaded_model.h"
#include "kiln/tools/report.h"
#include "nlohmann/json.hpp"

namespace kiln {
namespace {

struct ExplainFlags {
  CommonOptions common;
  std::string model, node, dot;
  bool library = false;
  std::vector<std::string> inputs;
};

// "n_Add_3 (add)"
std::string Label(const Graph& graph, NodeId id) {
  return absl::StrCat(graph.node(id).name, " (", graph.node(id).op->name, ")");
}

// What is told of all segments of a model.
struct Report {
  nlohmann::json edges = nlohmann::json::array(), groups = nlohmann::json::array();
  std::vector<std::vector<std::string>> rows = {{"from", "to", "bytes", "decision"}};
  size_t all_edges = 0;
  int fused = 0;
  int64_t kernels = 0, launches = 0, walked = 0, unfused = 0, lower_bound = 0;
};

// The groups with what passes through memory for each, and in sum.
void AddGroups(const Compiled& compiled, bool print, Report& report) {
  const Traffic traffic = TrafficOf(compiled.graph, compiled.grouping);
  std::vector<std::vector<std::string>> rows = {
      {"group", "kind", "nodes", "in", "out", "unfused", "members"}};
  for (size_t i = 0; i < compiled.grouping.groups.size(); ++i) {
    const Group& group = compiled.grouping.groups[i];
    const GroupTraffic& bytes = traffic.groups[i];
    std::vector<std::string> members;
    for (const NodeId id : group.nodes) members.push_back(Label(compiled.graph, id));
    const size_t number = report.groups.size();
    rows.push_back({absl::StrCat(number), Name(group.kind), absl::StrCat(group.nodes.size()),
                    Bytes(bytes.in), Bytes(bytes.out), Bytes(bytes.unfused),
                    absl::StrCat(members[0], members.size() > 1 ? " ..." : "")});
    report.groups.push_back({{"group", number},
                             {"kind", Name(group.kind)},
                             {"nodes", members},
                             {"bytes_in", bytes.in},
                             {"bytes_out", bytes.out},
                             {"bytes_unfused", bytes.unfused}});
    report.kernels += group.kind == Group::Kind::kKernel ? 1 : 0;
  }
  report.launches += traffic.launches;
  report.walked += traffic.walked;
  report.unfused += traffic.unfused;
  report.lower_bound += traffic.lower_bound;
  if (print) {
    std::cout << Table(rows) << traffic.launches << " launches walk " << Bytes(traffic.walked)
              << "; node by node " << Bytes(traffic.unfused) << "; inputs and outputs once "
              << Bytes(traffic.lower_bound) << "\n\n";
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
                           edge.fused ? "one kernel" : edge.reason});
    report.edges.push_back({{"from", from},
                            {"to", to},
                            {"fused", edge.fused},
                            {"reason", edge.reason},
                            {"bytes", edge.bytes}});
  }
}

absl::Status WriteDot(const std::string& path, const std::vector<Compiled>& parts) {
  std::ofstream file(path);
  for (const Compiled& part : parts) file << ToDot(part.grouping, part.graph);
  if (file.flush()) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("--dot \"", path, "\": cannot be written; is the folder there?"));
}

int Run(const ExplainFlags& flags) {
  if (flags.library) return ExplainLibrary(flags.model, flags.inputs, flags.common);
  const absl::StatusOr<CompileOptions> options = ToCompileOptions(flags.common);
  if (!options.ok()) return Fail(options.status(), OptionsExit(options.status()));
  const absl::StatusOr<LoadedModel> model = LoadedModel::Read(flags.model);
  if (!model.ok()) return Fail(model.status(), ModelExit(model.status()));
  int exit = kExitOk;
  const absl::StatusOr<Graph> graph = GraphToLookAt(*model, flags.inputs, flags.common, &exit);
  if (!graph.ok()) return Fail(graph.status(), exit);
  const absl::StatusOr<std::vector<Compiled>> parts = CompileParts(*graph, *options);
  if (!parts.ok()) return Fail(parts.status(), ModelExit(parts.status()));
  if (!flags.dot.empty()) {
    const absl::Status written = WriteDot(flags.dot, *parts);
    if (!written.ok()) return Fail(written, kExitIo);
  }
  Report report;
  for (const Compiled& part : *parts) {
    const bool print = !flags.common.json && flags.node.empty();
    if (print && parts->size() > 1) std::cout << part.graph.name << "\n";
    AddEdges(part, flags.node, report);
    AddGroups(part, print, report);
  }
  if (!flags.node.empty() && report.edges.empty()) {
    return Fail(
        absl::InvalidArgumentError(absl::StrCat(
            "--node \"", flags.node, "\": no edge of the graph after passes has that node")),
        kExitUsage);
  }
  if (flags.common.json) {
    PrintJson("explain", flags.common,
              {{"edges", report.edges},
               {"groups", report.groups.size()},
               {"kernels", report.kernels},
               {"fused", report.fused},
               {"traffic",
                {{"groups", report.groups},
                 {"launches", report.launches},
                 {"bytes_walked", report.walked},
                 {"bytes_unfused", report.unfused},
                 {"bytes_lower_bound", report.lower_bound}}}});
  } else {
    std::cout << Table(report.rows) << report.all_edges << " edges, " << report.fused
              << " inside kernels; " << report.kernels << " kernels\n";
  }
  return kExitOk;
}

}  // namespace

std::function<int()> AddExplain(CLI::App& command) {
  auto flags = std::make_shared<ExplainFlags>();
  command.add_option("MODEL", flags->model, "ONNX file, or .graph text")->required();
  command.add_option("--node", flags->node, "Only edges of this node");
  command.add_flag("--library", flags->library,
                   "Who computes each library call, and why not others");
  command
      .add_option("--input", flags->inputs,
                  "With --library, and where values decide the structure: n=@a.npy, random:SEED, "
                  "zeros, ones")
      ->take_all();
  command.add_option("--dot", flags->dot, "Also write the groups as a Graphviz file");
  AddCommonFlags(command, flags->common);
  return [flags] { return Run(*flags); };
}

}  // namespace kiln
