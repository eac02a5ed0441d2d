// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/kernel_sequence.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace kiln::cuda {
namespace {

constexpr size_t kLeastInGraph = 2;  // speed: one launch is one call anyway

}  // namespace

absl::StatusOr<std::unique_ptr<KernelSequence>> KernelSequence::Make(
    std::shared_ptr<Gpu> gpu, std::span<const DeviceCall> calls) {
  std::unique_ptr<KernelSequence> made(new KernelSequence(std::move(gpu)));
  for (const DeviceCall& call : calls) {
    made->kernels_.emplace_back(*static_cast<const DeviceKernel*>(call.self), call.argv);
    KILN_ASSIGN_OR_RETURN(const size_t bytes, made->kernels_.back().ScratchBytes());
    made->scratch_bytes_ = std::max(made->scratch_bytes_, bytes);
  }
  return made;
}

absl::Status KernelSequence::Refresh(DevicePointer scratch, size_t& failed) {
  bool others = false;
  fresh_ = false;
  for (failed = 0; failed < kernels_.size(); ++failed) {
    KILN_ASSIGN_OR_RETURN(const bool changed, kernels_[failed].Refresh(scratch));
    others = others || changed;
  }
  scratch_ = scratch;
  if (others) graph_ = nullptr;
  launches_.clear();  // those of a kernel that was evaluated anew lie elsewhere
  for (PreparedKernel& kernel : kernels_)
    for (PreparedLaunch& launch : kernel.launches()) launches_.push_back(&launch);
  fresh_ = true;
  return absl::OkStatus();
}

absl::Status KernelSequence::UpdateGraph() {
  for (size_t k = 0; k < launches_.size(); ++k) {
    if (!launches_[k]->changed) continue;
    KILN_RETURN_IF_ERROR(graph_->Update(k, *launches_[k]));
    launches_[k]->changed = false;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> KernelSequence::ReadyGraph() {
  if (refused_ || !repeated_ || launches_.size() < kLeastInGraph) return false;
  absl::Status status;
  if (graph_ == nullptr) {
    auto made = LaunchGraph::Make(gpu_, launches_);
    status = made.status();
    if (made.ok()) graph_ = *std::move(made);
    for (PreparedLaunch* launch : launches_) launch->changed = false;
  } else {
    status = UpdateGraph();
  }
  if (status.ok()) return true;
  graph_ = nullptr;
  refused_ = true;
  KILN_RETURN_IF_ERROR(gpu_->alive());
  return false;
}

absl::Status KernelSequence::LaunchEach(Stream stream, size_t& failed) {
  for (failed = 0; failed < kernels_.size(); ++failed) {
    for (PreparedLaunch& launch : kernels_[failed].launches()) {
      KILN_RETURN_IF_ERROR(gpu_->Check(launch.Launch(gpu_->driver(), stream), *launch.name));
    }
  }
  return absl::OkStatus();
}

absl::Status KernelSequence::Run(bool moved, DevicePointer scratch, Stream stream, size_t& failed) {
  if (moved || !fresh_ || scratch != scratch_) KILN_RETURN_IF_ERROR(Refresh(scratch, failed));
  failed = 0;
  KILN_ASSIGN_OR_RETURN(const bool graph, ReadyGraph());
  repeated_ = true;
  if (!graph) return LaunchEach(stream, failed);
  const absl::Status status = graph_->Launch(stream);
  // What was launched of it is not known: the next run begins anew, one by one.
  if (!status.ok()) {
    graph_ = nullptr;
    refused_ = true;
  }
  return status;
}

}  // namespace kiln::cuda
