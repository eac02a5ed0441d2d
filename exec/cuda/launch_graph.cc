// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/launch_graph.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace kiln::cuda {
namespace {

KernelNodeParams ParamsOf(const PreparedLaunch& launch) {
  KernelNodeParams params = {};
  params.function = launch.function;
  std::copy(launch.grid.begin(), launch.grid.end(), params.grid);
  std::copy(launch.block.begin(), launch.block.end(), params.block);
  params.shared_bytes = launch.shared_bytes;
  params.params = const_cast<void**>(launch.params.data());  // which the driver copies
  return params;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LaunchGraph>> LaunchGraph::Make(
    std::shared_ptr<Gpu> gpu, std::span<PreparedLaunch* const> launches) {
  const Driver& driver = gpu->driver();
  std::unique_ptr<LaunchGraph> made(new LaunchGraph(gpu));
  KILN_RETURN_IF_ERROR(gpu->Check(driver.cuGraphCreate(&made->graph_, 0), "cuGraphCreate"));
  for (const PreparedLaunch* launch : launches) {
    const KernelNodeParams params = ParamsOf(*launch);
    const bool first = made->nodes_.empty();
    const GraphNode before = first ? nullptr : made->nodes_.back();
    GraphNode node = nullptr;
    KILN_RETURN_IF_ERROR(gpu->Check(
        driver.cuGraphAddKernelNode_v2(&node, made->graph_, &before, first ? 0 : 1, &params),
        *launch->name));
    made->nodes_.push_back(node);
  }
  KILN_RETURN_IF_ERROR(gpu->Check(
      driver.cuGraphInstantiateWithFlags(&made->instance_, made->graph_, 0), "cuGraphInstantiate"));
  return made;
}

// Also of a device that is lost, or in a child of a fork: there the driver is not asked.
LaunchGraph::~LaunchGraph() {
  gpu_->Call("cuGraphDestroy",
             [&] {
               const Driver& driver = gpu_->driver();
               if (instance_ != nullptr) driver.cuGraphExecDestroy(instance_);
               return graph_ != nullptr ? driver.cuGraphDestroy(graph_) : kSuccess;
             })
      .IgnoreError();
}

absl::Status LaunchGraph::Update(size_t k, const PreparedLaunch& launch) {
  const KernelNodeParams params = ParamsOf(launch);
  return gpu_->Check(
      gpu_->driver().cuGraphExecKernelNodeSetParams_v2(instance_, nodes_[k], &params),
      *launch.name);
}

absl::Status LaunchGraph::Launch(Stream stream) {
  return gpu_->Check(gpu_->driver().cuGraphLaunch(instance_, stream), "cuGraphLaunch");
}

}  // namespace kiln::cuda
