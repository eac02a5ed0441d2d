// SPDX-License-Identifier: Apache-2.0
// KernelSequence: kernels that a step launches one after the other, prepared to be launched again.
//
//   KILN_ASSIGN_OR_RETURN(auto sequence, KernelSequence::Make(gpu, calls));    // DeviceCall
//   sequence->Run(/*moved=*/true, scratch, stream, failed);
//
// The first run launches them one by one. The second makes a graph of them, and from then on a run
// is one call of the driver, with one more for each launch whose operands lie elsewhere than the
// last time. Where operands are aligned otherwise, so that other functions are to be launched, the
// graph is made anew; where the driver refuses a graph, they are launched one by one for good.
#ifndef KILN_EXEC_CUDA_KERNEL_SEQUENCE_H_
#define KILN_EXEC_CUDA_KERNEL_SEQUENCE_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "exec/cuda/device_kernel.h"
#include "exec/cuda/gpu.h"
#include "exec/cuda/launch_graph.h"
#include "exec/support/compute_device.h"

namespace kiln::cuda {

// One caller at a time, with the device's context current.
class KernelSequence {
 public:
  static absl::StatusOr<std::unique_ptr<KernelSequence>> Make(std::shared_ptr<Gpu> gpu,
                                                              std::span<const DeviceCall> calls);

  // Of the memory that a run is given.
  size_t scratch_bytes() const { return scratch_bytes_; }
  // As LaunchSequence::Run.
  absl::Status Run(bool moved, DevicePointer scratch, Stream stream, size_t& failed);

 private:
  explicit KernelSequence(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {}
  absl::Status Refresh(DevicePointer scratch, size_t& failed);
  // Whether there is a graph with the arguments as they are now.
  absl::StatusOr<bool> ReadyGraph();
  absl::Status UpdateGraph();
  absl::Status LaunchEach(Stream stream, size_t& failed);

  const std::shared_ptr<Gpu> gpu_;
  std::vector<PreparedKernel> kernels_;
  std::vector<PreparedLaunch*> launches_;  // of all kernels
  size_t scratch_bytes_ = 0;
  DevicePointer scratch_ = 0;
  bool fresh_ = false;     // the launches are right for the addresses of the last run
  bool repeated_ = false;  // it has run before
  bool refused_ = false;   // the driver makes no graph
  std::unique_ptr<LaunchGraph> graph_;
};

}  // namespace kiln::cuda

#endif  // KILN_EXEC_CUDA_KERNEL_SEQUENCE_H_
