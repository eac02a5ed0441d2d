// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/device_kernel_check.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "halide_gen/cuda/emit.h"
#include "kernel/abi.h"
#include "kernel/naive.h"
#include "schedule/cuda/templates.h"
#include "tests/cuda/emulated_gpu.h"

namespace kiln {
namespace {

// An operand on the device, and its description for a launch.
class DeviceOperand {
 public:
  absl::Status Upload(const std::shared_ptr<cuda::Gpu>& gpu, RandomOperand& operand, bool shifted,
                      cuda::Stream stream) {
    bytes_ = operand.bytes.size() - 2 * RandomOperand::kPad;
    const size_t shift = shifted ? SizeOf(operand.type) : 0;
    KILN_ASSIGN_OR_RETURN(memory_, cuda::DeviceMemory::Allocate(gpu, bytes_ + shift));
    address_ = memory_->address() + shift;
    buffer_.host = reinterpret_cast<uint8_t*>(address_);  // on the device
    for (size_t axis = operand.shape.size(); axis-- > 0;)
      dims_.push_back({0, static_cast<int32_t>(operand.shape[axis]),
                       static_cast<int32_t>(operand.strides[axis]), 0});
    buffer_.dimensions = static_cast<int32_t>(dims_.size());
    buffer_.dim = dims_.data();
    return gpu->CopyIn(address_, operand.data(), bytes_, stream);
  }
  absl::Status Download(cuda::Gpu& gpu, RandomOperand& operand, cuda::Stream stream) const {
    return gpu.CopyOut(operand.data(), address_, bytes_, stream);
  }
  BufferArg* buffer() { return &buffer_; }

 private:
  std::shared_ptr<cuda::DeviceMemory> memory_;
  cuda::DevicePointer address_ = 0;
  size_t bytes_ = 0;
  std::vector<BufferDim> dims_;
  BufferArg buffer_;
};

}  // namespace

DeviceKernelCheck::DeviceKernelCheck(std::shared_ptr<cuda::Gpu> gpu, const Kernel& kernel,
                                     const Schedule& schedule)
    : gpu_(std::move(gpu)), kernel_(kernel) {
  const auto load = [&]() -> absl::Status {  // what Halide refuses is thrown, and fails the test
    KILN_ASSIGN_OR_RETURN(const DeviceCode code, EmitDeviceCode(kernel, schedule));
    ptx_ = code.ptx;
    recipe_ = code.recipe.ToString();
    KILN_ASSIGN_OR_RETURN(
        loaded_,
        cuda::DeviceKernel::Load(gpu_, ptx_, recipe_, cuda::DeviceKernel::Counts::Of(kernel)));
    KILN_ASSIGN_OR_RETURN(queue_, cuda::LaunchQueue::Make(gpu_));
    return absl::OkStatus();
  };
  if (const absl::Status status = load(); !status.ok()) error_ = std::string(status.message());
}

std::string DeviceKernelCheck::Run(RandomRun run, uint32_t shifted, kiln_ptx_counters* counters) {
  RandomRun want = run;
  if (const absl::Status naive =
          EvalKernel(kernel_, want.InputBuffers(), want.extents, want.params, want.OutputBuffers());
      !naive.ok())
    return naive.ToString();
  std::deque<DeviceOperand> operands;
  std::vector<int32_t> extents(run.extents.begin(), run.extents.end());
  std::vector<uint64_t> params = run.params;
  LaunchContext context;
  context.kernel = loaded_.get();
  context.stream = static_cast<DeviceQueue*>(queue_.get());
  LaunchContext* const pointer = &context;
  const auto launch = [&]() -> absl::Status {
    std::vector<void*> argv = {const_cast<LaunchContext**>(&pointer)};
    const auto upload = [&](std::vector<RandomOperand>& list) -> absl::Status {
      for (RandomOperand& operand : list) {
        const bool shift = ((shifted >> (operands.size() % 32)) & 1) != 0;
        KILN_RETURN_IF_ERROR(
            operands.emplace_back().Upload(gpu_, operand, shift, queue_->stream()));
        argv.push_back(operands.back().buffer());
      }
      return absl::OkStatus();
    };
    KILN_RETURN_IF_ERROR(upload(run.inputs));
    for (int32_t& extent : extents) argv.push_back(&extent);
    for (uint64_t& param : params) argv.push_back(&param);
    KILN_RETURN_IF_ERROR(upload(run.outputs));
    if (cuda::RunDeviceKernel(argv.data()) != 0) return queue_->TakeError();
    for (size_t k = 0; k < run.outputs.size(); ++k)
      KILN_RETURN_IF_ERROR(
          operands[run.inputs.size() + k].Download(*gpu_, run.outputs[k], queue_->stream()));
    return queue_->Wait();
  };
  const absl::Status status = launch();
  if (counters != nullptr) kiln_ptx_count(nullptr, counters);
  const std::string findings = TakeFindings();
  if (!status.ok() || !findings.empty()) return absl::StrCat(status.message(), "\n", findings);
  return FirstDifference(kernel_, run, want);
}

std::vector<Schedule> DeviceCandidates(const Kernel& kernel, std::vector<int64_t> at_most) {
#define KILN_POINTER(Name) &k##Name,
  static constexpr const Template* kTemplates[] = {KILN_CUDA_TEMPLATES(KILN_POINTER)};
#undef KILN_POINTER
  if (at_most.empty()) at_most.assign(kernel.dims.size(), kUnbounded);
  std::vector<Schedule> all;
  for (const Template* of : kTemplates) {
    if (!of->Accepts(kernel)) continue;
    for (Schedule& schedule : of->candidates(kernel, {at_most}, Machine()))
      all.push_back(std::move(schedule));
  }
  return all;
}

}  // namespace kiln
