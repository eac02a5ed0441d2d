// SPDX-License-Identifier: Apache-2.0
// kiln explain: for every edge between two nodes, why they run in one kernel or why not, with the
// bytes that pass.
#include <algorithm>
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "kiln/compiler/compile.h"
#include "kiln/compiler/variants.h"
#include "kiln/graph/op.h"
#include "kiln/tools/common.h"
#include "kiln/tools/exit_code.h"
#include "kiln/tools/report.h"
#include "nlohmann/json.hpp"

namespace kiln {
namespace {

struct ExplainFlags {
  CommonOptions common;
  std::string model, node;
};

// "n_Add_3 (add)"
std::string Label(const Graph& graph, NodeId id) {
  return absl::StrCat(graph.node(id).name, " (", graph.node(id).op->name, ")");
}

int Run(const ExplainFlags& flags) {
  const absl::StatusOr<CompileOptions> options = ToCompileOptions(flags.common);
  if (!options.ok()) return Fail(options.status(), OptionsExit(options.status()));
  const absl::StatusOr<Graph> graph = ReadModel(flags.model);
  if (!graph.ok()) return Fail(graph.status(), ModelExit(graph.status()));
  const absl::StatusOr<Compiled> compiled = CompileGraph(*graph, *options);
  if (!compiled.ok()) return Fail(compiled.status(), ModelExit(compiled.status()));

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
  const auto& groups = compiled->grouping.groups;
  const auto kernels = std::count_if(groups.begin(), groups.end(),
                                     [](const Group& g) { return g.kind == Group::Kind::kKernel; });
  if (flags.common.json) {
    PrintJson(
        "explain", flags.common,
        {{"edges", edges}, {"groups", groups.size()}, {"kernels", kernels}, {"fused", fused}});
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
  AddCommonFlags(command, flags->common);
  return [flags] { return Run(*flags); };
}

}  // namespace kiln
