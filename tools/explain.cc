// SPDX-License-Identifier: Apache-2.0
// kiln explain: for every edge between two nodes, why they run in one kernel or why not, with the
// bytes that pass; for every group, the bytes that it walks.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "kiln/compiler/compile.h"
#include "kiln/compiler/variants.h"
#include "kiln/fusion/traffic.h"
#include "kiln/graph/op.h"
#include "kiln/tools/common.h"
#include "kiln/tools/exit_code.h"
#include "kiln/tools/explain_library.h"
#include "kiln/tools/report.h"
#include "nlohmann/json.hpp"

namespace kiln {
namespace {

struct ExplainFlags {
  CommonOptions common;
  std::string model, node, dot;
  bool library = false;
  std::vector<std::string> inputs;  // with --library
};

// "n_Add_3 (add)"
std::string Label(const Graph& graph, NodeId id) {
  return absl::StrCat(graph.node(id).name, " (", graph.node(id).op->name, ")");
}

// The groups with what passes through memory for each, and in sum.
nlohmann::json ReportGroups(const Compiled& compiled, bool print) {
  const Traffic traffic = TrafficOf(compiled.graph, compiled.grouping);
  std::vector<std::vector<std::string>> rows = {
      {"group", "kind", "nodes", "in", "out", "unfused", "members"}};
  nlohmann::json groups = nlohmann::json::array();
  for (size_t i = 0; i < compiled.grouping.groups.size(); ++i) {
    const Group& group = compiled.grouping.groups[i];
    const GroupTraffic& bytes = traffic.groups[i];
    std::vector<std::string> members;
    for (const NodeId id : group.nodes) members.push_back(Label(compiled.graph, id));
    rows.push_back({absl::StrCat(i), Name(group.kind), absl::StrCat(group.nodes.size()),
                    Bytes(bytes.in), Bytes(bytes.out), Bytes(bytes.unfused),
                    absl::StrCat(members[0], members.size() > 1 ? " ..." : "")});
    groups.push_back({{"group", i},
                      {"kind", Name(group.kind)},
                      {"nodes", members},
                      {"bytes_in", bytes.in},
                      {"bytes_out", bytes.out},
                      {"bytes_unfused", bytes.unfused}});
  }
  if (print) {
    std::cout << Table(rows) << traffic.launches << " launches walk " << Bytes(traffic.walked)
              << "; node by node " << Bytes(traffic.unfused) << "; inputs and outputs once "
              << Bytes(traffic.lower_bound) << "\n\n";
  }
  return {{"groups", groups},
          {"launches", traffic.launches},
          {"bytes_walked", traffic.walked},
          {"bytes_unfused", traffic.unfused},
          {"bytes_lower_bound", traffic.lower_bound}};
}

int Run(const ExplainFlags& flags) {
  if (flags.library) return ExplainLibrary(flags.model, flags.inputs, flags.common);
  const absl::StatusOr<CompileOptions> options = ToCompileOptions(flags.common);
  if (!options.ok()) return Fail(options.status(), OptionsExit(options.status()));
  const absl::StatusOr<Graph> graph = ReadModel(flags.model);
  if (!graph.ok()) return Fail(graph.status(), ModelExit(graph.status()));
  const absl::StatusOr<Compiled> compiled = CompileGraph(*graph, *options);
  if (!compiled.ok()) return Fail(compiled.status(), ModelExit(compiled.status()));

  if (!flags.dot.empty()) {
    const std::string text = ToDot(compiled->grouping, compiled->graph);
    if (!(std::ofstream(flags.dot) << text).flush()) {
      return Fail(absl::UnavailableError(absl::StrCat(
                      "--dot \"", flags.dot, "\": cannot be written; is the folder there?")),
                  kExitIo);
    }
  }
  std::vector<std::vector<std::string>> rows = {{"from", "to", "bytes", "decision"}};
  nlohmann::json edges = nlohmann::json::array();
  int fused = 0;
  for (const EdgeDecision& edge : compiled->grouping.edges) {
    fused += edge.fused ? 1 : 0;
    const std::string from = compiled->graph.node(edge.producer).name;
    const std::string to = compiled->graph.node(edge.consumer).name;
    if (!flags.node.empty() && flags.node != from && flags.node != to) continue;
    rows.push_back({Label(compiled->graph, edge.producer), Label(compiled->graph, edge.consumer),
                    Bytes(edge.bytes), edge.fused ? "one kernel" : edge.reason});
    edges.push_back({{"from", from},
                     {"to", to},
                     {"fused", edge.fused},
                     {"reason", edge.reason},
                     {"bytes", edge.bytes}});
  }
  if (!flags.node.empty() && edges.empty()) {
    return Fail(
        absl::InvalidArgumentError(absl::StrCat(
            "--node \"", flags.node, "\": no edge of the graph after passes has that node")),
        kExitUsage);
  }
  const nlohmann::json traffic = ReportGroups(*compiled, !flags.common.json && flags.node.empty());
  const auto& groups = compiled->grouping.groups;
  const auto kernels = std::count_if(groups.begin(), groups.end(),
                                     [](const Group& g) { return g.kind == Group::Kind::kKernel; });
  if (flags.common.json) {
    PrintJson("explain", flags.common,
              {{"edges", edges},
               {"groups", groups.size()},
               {"kernels", kernels},
               {"fused", fused},
               {"traffic", traffic}});
  } else {
    std::cout << Table(rows) << compiled->grouping.edges.size() << " edges, " << fused
              << " inside kernels; " << kernels << " kernels\n";
  }
  return kExitOk;
}

}  // namespace

std::function<int()> AddExplain(CLI::App& command) {
  auto flags = std::make_shared<ExplainFlags>();
  command.add_option("MODEL", flags->model, "ONNX file, or .graph text")->required();
  command.add_option("--node", flags->node, "Only edges of this node");
  auto* library = command.add_flag("--library", flags->library,
                                   "Who computes each library call, and why not others");
  command
      .add_option("--input", flags->inputs, "With --library: n=@a.npy, random:SEED, zeros, ones")
      ->needs(library);
  command.add_option("--dot", flags->dot, "Also write the groups as a Graphviz file");
  AddCommonFlags(command, flags->common);
  return [flags] { return Run(*flags); };
}

}  // namespace kiln
