// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/gpu.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace kiln::cuda {

absl::StatusOr<std::shared_ptr<Gpu>> Gpu::Open(std::shared_ptr<const Driver> driver, int ordinal) {
  std::shared_ptr<Gpu> gpu(new Gpu(std::move(driver), ordinal));
  KILN_RETURN_IF_ERROR(gpu->Init());
  return gpu;
}

absl::Status Gpu::Init() {
  int count = 0;
  KILN_RETURN_IF_ERROR(driver_->Check(driver_->cuDeviceGetCount(&count), "cuDeviceGetCount"));
  if (ordinal_ < 0 || ordinal_ >= count) {
    return absl::UnavailableError(absl::StrCat("cuda: device ", ordinal_, ": there are ", count,
                                               count == 0 ? "" : "; the first is 0"));
  }
  KILN_RETURN_IF_ERROR(driver_->Check(driver_->cuDeviceGet(&device_, ordinal_), "cuDeviceGet"));
  KILN_RETURN_IF_ERROR(ReadFacts());
  return driver_->Check(driver_->cuDevicePrimaryCtxRetain(&context_, device_),
                        absl::StrCat("device ", ordinal_));
}

absl::Status Gpu::ReadFacts() {
  char name[256] = {};
  KILN_RETURN_IF_ERROR(
      driver_->Check(driver_->cuDeviceGetName(name, sizeof name - 1, device_), "cuDeviceGetName"));
  facts_.name = name;
  size_t bytes = 0;
  KILN_RETURN_IF_ERROR(
      driver_->Check(driver_->cuDeviceTotalMem_v2(&bytes, device_), "cuDeviceTotalMem"));
  facts_.memory_bytes = static_cast<int64_t>(bytes);
  int l2 = 0;
  const std::pair<DeviceAttribute, int*> attributes[] = {
      {kComputeCapabilityMajor, &facts_.major},
      {kComputeCapabilityMinor, &facts_.minor},
      {kMultiprocessors, &facts_.multiprocessors},
      {kL2Bytes, &l2},
      {kSharedBytesPerBlock, &facts_.shared_bytes},
      {kSharedBytesPerBlockOptIn, &facts_.most_shared_bytes},
      {kClockKhz, &facts_.clock_khz},
      {kRegistersPerMultiprocessor, &facts_.registers},
      {kSharedBytesPerMultiprocessor, &facts_.multiprocessor_shared_bytes},
      {kThreadsPerMultiprocessor, &facts_.threads},
  };
  for (const auto& [attribute, value] : attributes) {
    KILN_RETURN_IF_ERROR(driver_->Check(driver_->cuDeviceGetAttribute(value, attribute, device_),
                                        "cuDeviceGetAttribute"));
  }
  facts_.l2_bytes = l2;
  return absl::OkStatus();
}

Gpu::~Gpu() {
  if (context_ != nullptr && process_ == ForkGeneration())
    driver_->cuDevicePrimaryCtxRelease_v2(device_);
}

absl::Status Gpu::alive() const {
  if (process_ != ForkGeneration()) {
    return absl::FailedPreconditionError(
        absl::StrCat("cuda: device ", ordinal_,
                     ": it was opened before this process was forked, and CUDA does not go on in a "
                     "child; open it in the child"));
  }
  const MutexLock lock(mutex_);
  return lost_;
}

absl::Status Gpu::Check(Result result, absl::string_view what) {
  if (result == kSuccess) return absl::OkStatus();
  absl::Status status = driver_->Check(result, what);
  if (IsLost(result)) {
    const MutexLock lock(mutex_);
    if (lost_.ok()) lost_ = status;
  }
  return status;
}

absl::Status Gpu::Enter() {
  KILN_RETURN_IF_ERROR(alive());
  return Check(driver_->cuCtxPushCurrent_v2(context_), "the context of the device");
}

void Gpu::Leave() {
  Context popped = nullptr;
  driver_->cuCtxPopCurrent_v2(&popped);
}

absl::Status Gpu::Call(absl::string_view what, absl::FunctionRef<Result()> call) {
  KILN_RETURN_IF_ERROR(alive());
  Result result = driver_->cuCtxPushCurrent_v2(context_);
  if (result == kSuccess) {
    result = call();
    Leave();
  }
  return Check(result, what);
}

absl::StatusOr<bool> Gpu::Owns(Stream stream) {
  Context context = nullptr;
  KILN_RETURN_IF_ERROR(Call("the stream", [&] {
    const Result result = driver_->cuStreamGetCtx(stream, &context);
    const bool none =
        result == kInvalidHandle || result == kInvalidContext || result == kInvalidValue;
    return none ? kSuccess : result;
  }));
  return context == context_;
}

absl::Status Gpu::CopyIn(DevicePointer to, const void* from, size_t bytes, Stream stream) {
  if (bytes == 0) return absl::OkStatus();
  return Call("a copy to the device",
              [&] { return driver_->cuMemcpyHtoDAsync_v2(to, from, bytes, stream); });
}

absl::Status Gpu::CopyOut(void* to, DevicePointer from, size_t bytes, Stream stream) {
  if (bytes == 0) return absl::OkStatus();
  return Call("a copy from the device",
              [&] { return driver_->cuMemcpyDtoHAsync_v2(to, from, bytes, stream); });
}

absl::Status Gpu::CopyOver(DevicePointer to, DevicePointer from, size_t bytes, Stream stream) {
  if (bytes == 0) return absl::OkStatus();
  return Call("a copy on the device",
              [&] { return driver_->cuMemcpyDtoDAsync_v2(to, from, bytes, stream); });
}

absl::StatusOr<std::shared_ptr<DeviceMemory>> DeviceMemory::Allocate(std::shared_ptr<Gpu> gpu,
                                                                     size_t bytes) {
  DevicePointer address = 0;
  size_t free_bytes = 0, total_bytes = 0;
  const Driver& driver = gpu->driver();
  const absl::Status status = gpu->Call(absl::StrCat(bytes, " bytes of device memory"), [&] {
    const Result result = driver.cuMemAlloc_v2(&address, bytes == 0 ? 1 : bytes);
    if (result == kOutOfMemory) driver.cuMemGetInfo_v2(&free_bytes, &total_bytes);
    return result;
  });
  if (absl::IsResourceExhausted(status)) {
    return absl::ResourceExhaustedError(
        absl::StrCat(status.message(), "; ", free_bytes, " of ", total_bytes, " are free"));
  }
  KILN_RETURN_IF_ERROR(status);
  return std::shared_ptr<DeviceMemory>(new DeviceMemory(std::move(gpu), address, bytes));
}

DeviceMemory::~DeviceMemory() {
  gpu_->Call("cuMemFree", [&] { return gpu_->driver().cuMemFree_v2(address_); }).IgnoreError();
}

absl::StatusOr<std::shared_ptr<PinnedMemory>> PinnedMemory::Allocate(std::shared_ptr<Gpu> gpu,
                                                                     size_t bytes) {
  void* data = nullptr;
  KILN_RETURN_IF_ERROR(gpu->Call(absl::StrCat(bytes, " bytes of pinned memory"), [&] {
    return gpu->driver().cuMemHostAlloc(&data, bytes == 0 ? 1 : bytes, kHostPortable);
  }));
  return std::shared_ptr<PinnedMemory>(new PinnedMemory(std::move(gpu), data, bytes));
}

PinnedMemory::~PinnedMemory() {
  gpu_->Call("cuMemFreeHost", [&] { return gpu_->driver().cuMemFreeHost(data_); }).IgnoreError();
}

absl::StatusOr<std::shared_ptr<DeviceStream>> DeviceStream::Make(std::shared_ptr<Gpu> gpu) {
  Stream stream = nullptr;
  KILN_RETURN_IF_ERROR(gpu->Call(
      "a stream", [&] { return gpu->driver().cuStreamCreate(&stream, kStreamNonBlocking); }));
  return std::shared_ptr<DeviceStream>(new DeviceStream(std::move(gpu), stream));
}

DeviceStream::~DeviceStream() {
  gpu_->Call("cuStreamDestroy", [&] { return gpu_->driver().cuStreamDestroy_v2(stream_); })
      .IgnoreError();
}

absl::Status DeviceStream::Wait() {
  return gpu_->Call("the work of a stream",
                    [&] { return gpu_->driver().cuStreamSynchronize(stream_); });
}

absl::StatusOr<std::shared_ptr<DeviceEvent>> DeviceEvent::Make(std::shared_ptr<Gpu> gpu,
                                                               bool timed) {
  Event event = nullptr;
  KILN_RETURN_IF_ERROR(gpu->Call("an event", [&] {
    return gpu->driver().cuEventCreate(&event, timed ? 0 : kEventDisableTiming);
  }));
  return std::shared_ptr<DeviceEvent>(new DeviceEvent(std::move(gpu), event));
}

DeviceEvent::~DeviceEvent() {
  gpu_->Call("cuEventDestroy", [&] { return gpu_->driver().cuEventDestroy_v2(event_); })
      .IgnoreError();
}

absl::StatusOr<std::shared_ptr<DeviceModule>> DeviceModule::Load(std::shared_ptr<Gpu> gpu,
                                                                 const std::string& image) {
  Module module = nullptr;
  KILN_RETURN_IF_ERROR(gpu->Call("code for the device", [&] {
    return gpu->driver().cuModuleLoadDataEx(&module, image.c_str(), 0, nullptr, nullptr);
  }));
  return std::shared_ptr<DeviceModule>(new DeviceModule(std::move(gpu), module));
}

DeviceModule::~DeviceModule() {
  gpu_->Call("cuModuleUnload", [&] { return gpu_->driver().cuModuleUnload(module_); })
      .IgnoreError();
}

absl::StatusOr<Function> DeviceModule::Find(const std::string& name, int64_t shared_bytes) {
  if (shared_bytes > gpu_->facts().most_shared_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "cuda: function \"", name, "\" takes ", shared_bytes,
        " bytes of shared memory, a block has at most ", gpu_->facts().most_shared_bytes));
  }
  Function function = nullptr;
  Result found = kSuccess;
  KILN_RETURN_IF_ERROR(gpu_->Call(absl::StrCat("function \"", name, "\""), [&] {
    found = gpu_->driver().cuModuleGetFunction(&function, module_, name.c_str());
    if (found != kSuccess || shared_bytes <= gpu_->facts().shared_bytes)
      return found == kNotFound ? kSuccess : found;
    return gpu_->driver().cuFuncSetAttribute(function, kFunctionMaxDynamicSharedBytes,
                                             static_cast<int>(shared_bytes));
  }));
  if (found == kNotFound)
    return absl::NotFoundError(absl::StrCat("cuda: the code has no function \"", name, "\""));
  return function;
}

}  // namespace kiln::cuda
