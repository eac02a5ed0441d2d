// SPDX-License-Identifier: Apache-2.0
// Graphs of kernel nodes. In an instance each node is a stream of its own to the clocks, so two
// nodes that share memory and have no path between them are a race.
#include <algorithm>

#include "ptx_emulator/driver.h"

// NOLINTBEGIN(readability-identifier-naming): the names are the driver's.
namespace kiln::cuda {
namespace {

using ptx::Call;
using ptx::Clock;
using ptx::DeviceState;
using ptx::Driver;
using ptx::GraphState;
using ptx::Needs;
using ptx::NodeState;
using ptx::StreamState;

// The node's place, or the number of nodes.
size_t FindNode(const GraphState& graph, GraphNode node) {
  const auto found = std::find_if(
      graph.nodes.begin(), graph.nodes.end(),
      [&](const NodeState& state) { return state.handle == reinterpret_cast<uintptr_t>(node); });
  return static_cast<size_t>(found - graph.nodes.begin());
}

Result SetNode(Driver& driver, const DeviceState& device, const KernelNodeParams& params,
               NodeState& node) {
  if (const Result valid = CheckNode(driver, device, params); valid != kSuccess) return valid;
  const ptx::Kernel& kernel = *driver.functions.Find(params.function)->kernel;
  std::vector<uint8_t> parameters;
  if (!ptx::CopyParameters(kernel, params.params, parameters)) return kInvalidValue;
  node.launch = params;
  node.launch.params = nullptr;  // they are copied
  node.parameters = std::move(parameters);
  return kSuccess;
}

}  // namespace

Result cuGraphCreate(Graph* graph, unsigned flags) {
  return Call(__func__, Needs::kContext, [&](Driver& driver, DeviceState& device) {
    if (graph == nullptr || flags != 0) return kInvalidValue;
    GraphState made;
    made.device = device.ordinal;
    *graph = driver.graphs.Add(driver.NewHandle(), std::move(made));
    return kSuccess;
  });
}

Result cuGraphDestroy(Graph graph) {
  return Call(__func__, Needs::kContext, [&](Driver& driver, DeviceState&) {
    return driver.graphs.Erase(graph) ? kSuccess : kInvalidHandle;
  });
}

Result cuGraphAddKernelNode_v2(GraphNode* node, Graph graph, const GraphNode* after, size_t count,
                               const KernelNodeParams* params) {
  return Call(__func__, Needs::kContext, [&](Driver& driver, DeviceState& device) -> Result {
    GraphState* found = driver.graphs.Find(graph);
    if (found == nullptr) return kInvalidHandle;
    if (node == nullptr || params == nullptr || (count != 0 && after == nullptr)) {
      return kInvalidValue;
    }
    NodeState made;
    for (size_t i = 0; i < count; ++i) {
      made.after.push_back(FindNode(*found, after[i]));
      if (made.after.back() == found->nodes.size()) return kInvalidValue;
    }
    if (const Result set = SetNode(driver, device, *params, made); set != kSuccess) return set;
    made.handle = driver.NewHandle();
    *node = reinterpret_cast<GraphNode>(made.handle);
    found->nodes.push_back(std::move(made));
    return kSuccess;
  });
}

Result cuGraphInstantiateWithFlags(GraphExec* exec, Graph graph, unsigned long long flags) {
  return Call(__func__, Needs::kContext, [&](Driver& driver, DeviceState&) {
    const GraphState* found = driver.graphs.Find(graph);
    if (found == nullptr) return kInvalidHandle;
    if (exec == nullptr || flags > 15) return kInvalidValue;
    GraphState instance = *found;
    for (NodeState& node : instance.nodes) node.number = driver.next_stream++;
    *exec = driver.execs.Add(driver.NewHandle(), std::move(instance));
    return kSuccess;
  });
}

Result cuGraphExecDestroy(GraphExec exec) {
  return Call(__func__, Needs::kContext, [&](Driver& driver, DeviceState&) {
    return driver.execs.Erase(exec) ? kSuccess : kInvalidHandle;
  });
}

Result cuGraphExecKernelNodeSetParams_v2(GraphExec exec, GraphNode node,
                                         const KernelNodeParams* params) {
  return Call(__func__, Needs::kContext, [&](Driver& driver, DeviceState& device) -> Result {
    GraphState* found = driver.execs.Find(exec);
    if (found == nullptr) return kInvalidHandle;
    const size_t at = FindNode(*found, node);
    if (params == nullptr || at == found->nodes.size()) return kInvalidValue;
    return SetNode(driver, device, *params, found->nodes[at]);
  });
}

Result cuGraphLaunch(GraphExec exec, Stream stream) {
  return Call(__func__, Needs::kContext, [&](Driver& driver, DeviceState& device) -> Result {
    GraphState* found = driver.execs.Find(exec);
    StreamState* on = driver.FindStream(stream, device);
    if (found == nullptr || on == nullptr) return kInvalidHandle;
    if (found->device != device.ordinal) return kInvalidContext;
    driver.BeginStep(*on);
    ++found->launches;
    const Clock start = on->clock;
    std::vector<Clock> clocks;
    for (const NodeState& node : found->nodes) {
      Clock clock = start;
      for (const size_t before : node.after) ptx::JoinClock(clock, clocks[before]);
      clock[node.number] = found->launches;
      const Result result = ptx::RunNode(driver, device, node, node.number, clock);
      if (result != kSuccess) return result;
      ptx::JoinClock(on->clock, clock);
      clocks.push_back(std::move(clock));
    }
    return kSuccess;
  });
}

}  // namespace kiln::cuda
// NOLINTEND(readability-identifier-naming)
