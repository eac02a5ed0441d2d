// SPDX-License-Identifier: Apache-2.0
// LaunchGraph: launches one after the other as a CUDA graph, which the driver is told of once and
// launches with one call.
//
//   KILN_ASSIGN_OR_RETURN(auto graph, LaunchGraph::Make(gpu, launches));   // PreparedLaunch*
//   launches[3]->values[0] = elsewhere;
//   KILN_RETURN_IF_ERROR(graph->Update(3, *launches[3]));
//   KILN_RETURN_IF_ERROR(graph->Launch(stream));
//
// Its nodes are made one by one, not captured from a stream: each waits for the one before. One
// caller at a time, with the device's context current but for the end of its life.
#ifndef KILN_EXEC_CUDA_LAUNCH_GRAPH_H_
#define KILN_EXEC_CUDA_LAUNCH_GRAPH_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "exec/cuda/device_kernel.h"
#include "exec/cuda/gpu.h"

namespace kiln::cuda {

class LaunchGraph {
 public:
  // Any error but kUnavailable: the driver makes no graph of these, and may launch them one by one.
  static absl::StatusOr<std::unique_ptr<LaunchGraph>> Make(
      std::shared_ptr<Gpu> gpu, std::span<PreparedLaunch* const> launches);
  ~LaunchGraph();
  LaunchGraph(const LaunchGraph&) = delete;
  LaunchGraph& operator=(const LaunchGraph&) = delete;

  // The k-th launch has other arguments, and the same function. Launches of the graph that have not
  // ended keep theirs.
  absl::Status Update(size_t k, const PreparedLaunch& launch);
  absl::Status Launch(Stream stream);

 private:
  explicit LaunchGraph(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {}

  const std::shared_ptr<Gpu> gpu_;
  Graph graph_ = nullptr;
  std::vector<GraphNode> nodes_;
  GraphExec instance_ = nullptr;
};

}  // namespace kiln::cuda

#endif  // KILN_EXEC_CUDA_LAUNCH_GRAPH_H_
