// SPDX-License-Identifier: Apache-2.0
#include "tools/emit_onnx.h"

#include <fstream>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "graph/onnx/export.h"
#include "tools/group_kernel.h"

namespace kiln {
namespace {

absl::Status Write(const Graph& graph, const std::vector<OnnxFunction>& functions,
                   const std::string& path) {
  KILN_ASSIGN_OR_RETURN(const std::string bytes, ExportOnnx(graph, functions));
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  if (file.flush()) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("--emit-onnx \"", path, "\": cannot be written; is the folder there?"));
}

// Nodes outside of the group on a way from one of its nodes to another: a group is convex but for
// views, which its kernel looks through.
std::vector<NodeId> Between(const Graph& graph, const std::set<NodeId>& group) {
  std::set<NodeId> found, above;  // above: behind a node of the group
  // Nodes are in topological order, so one walk up from the first node finds what lies behind.
  for (int32_t i = group.begin()->v; i <= group.rbegin()->v; ++i) {
    const NodeId id{i};
    for (const ValueId input : graph.node(id).inputs) {
      if (!input.valid()) continue;
      const NodeId producer = graph.value(input).producer;
      if (group.contains(producer) || above.contains(producer)) above.insert(id);
    }
  }
  std::set<NodeId> needed = group;
  for (int32_t i = group.rbegin()->v; i >= group.begin()->v; --i) {
    const NodeId id{i};
    if (!needed.contains(id)) continue;
    for (const ValueId input : graph.node(id).inputs) {
      if (!input.valid()) continue;
      const NodeId producer = graph.value(input).producer;
      if (producer.v < 0 || group.contains(producer) || !above.contains(producer)) continue;
      needed.insert(producer);
      found.insert(producer);
    }
  }
  return {found.begin(), found.end()};
}

}  // namespace

absl::Status EmitOnnx(const Graph& graph, const std::string& path) {
  return Write(graph, {}, path);
}

absl::Status EmitOnnx(const Compiled& compiled, const std::string& path) {
  std::vector<OnnxFunction> functions;
  const std::vector<Group>& groups = compiled.grouping.groups;
  for (size_t i = 0; i < groups.size(); ++i) {
    const Group& group = groups[i];
    if (group.nodes.size() < 2) continue;
    OnnxFunction& function = functions.emplace_back();
    function.name = absl::StrCat(Name(group.kind), "_", i);
    function.nodes = group.nodes;
    function.copies = Between(compiled.graph, {group.nodes.begin(), group.nodes.end()});
    function.outputs = group.outputs;
    std::vector<std::string> names;
    for (const NodeId id : group.nodes) names.push_back(compiled.graph.node(id).name);
    function.metadata = {{"kiln.group", absl::StrCat(i)},
                         {"kiln.kind", Name(group.kind)},
                         {"kiln.nodes", absl::StrJoin(names, "\n")}};
    const program::Program& program = compiled.variant.program;
    if (const program::Thunk* const thunk = KernelThunkOf(compiled, i); thunk != nullptr)
      function.metadata.emplace_back("kiln.kernel",
                                     program.kernels(thunk->kernel().kernel()).text());
  }
  return Write(compiled.graph, functions, path);
}

}  // namespace kiln
