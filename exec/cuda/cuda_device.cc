// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/cuda_device.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/child_process.h"
#include "base/cuda_device.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "exec/cuda/device_kernel.h"
#include "exec/cuda/driver.h"
#include "exec/cuda/launch_queue.h"
#include "exec/cuda/libraries.h"
#include "exec/cuda/measure.h"
#include "kernel/text.h"

namespace kiln::cuda {
namespace {

constexpr char kEmulated[] = "cuda-emulated";

DeviceFacts FactsOf(const Gpu& gpu) {
  const Gpu::Facts& facts = gpu.facts();
  return {.driver = gpu.driver().version(),
          .memory_bytes = facts.memory_bytes,
          .cache_bytes = facts.l2_bytes,
          .multiprocessors = facts.multiprocessors,
          .clock_ghz = facts.clock_khz * 1e-6,
          .registers = facts.registers,
          .shared_bytes = facts.multiprocessor_shared_bytes,
          .threads = facts.threads};
}

uint8_t LevelOf(const Gpu& gpu) { return CudaLevelOf(gpu.facts().major, gpu.facts().minor); }

class CudaDevice final : public ComputeDevice {
 public:
  CudaDevice(std::shared_ptr<Gpu> gpu, std::string name)
      : gpu_(std::move(gpu)),
        name_(std::move(name)),
        target_{DeviceKind::kCuda, LevelOf(*gpu_)},
        facts_(FactsOf(*gpu_)),
        libraries_(gpu_, LibraryPaths::FromEnvironment(absl::StartsWith(name_, kEmulated))) {}

  const std::string& name() const override { return name_; }
  const std::string& model() const override { return gpu_->facts().name; }
  Target target() const override { return target_; }
  const DeviceFacts& facts() const override { return facts_; }
  absl::StatusOr<DeviceSpeed> Measure() override { return MeasureGpu(gpu_); }
  bool Runs(absl::string_view isa) const override {
    const std::vector<std::string> features = CudaFeaturesOf(target_.level);
    return std::count(features.begin(), features.end(), isa) > 0;
  }

  int ordinal() const override { return gpu_->ordinal(); }

  absl::Status CheckMemory(const void* data, int64_t bytes) override {
    KILN_RETURN_IF_ERROR(gpu_->alive());
    if (bytes == 0) return absl::OkStatus();
    for (const DevicePointer at :
         {AddressOf(data), AddressOf(data) + static_cast<size_t>(bytes) - 1}) {
      int ordinal = -1;
      unsigned type = kHostMemory;
      const Driver& driver = gpu_->driver();
      const Result found = driver.cuPointerGetAttribute(&type, kPointerMemoryType, at);
      if (found == kSuccess && type == kDeviceMemory)
        KILN_RETURN_IF_ERROR(gpu_->Check(
            driver.cuPointerGetAttribute(&ordinal, kPointerDeviceOrdinal, at), "a pointer"));
      if (IsLost(found)) return gpu_->Check(found, "a pointer");
      if (ordinal == gpu_->ordinal()) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "the memory is ",
          ordinal < 0 ? "none of a device" : absl::StrCat("device ", ordinal, "'s"),
          ", expected that of device ", gpu_->ordinal(), "; give ", bytes, " bytes there"));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<DeviceQueue>> NewQueue() override {
    KILN_ASSIGN_OR_RETURN(std::unique_ptr<LaunchQueue> queue, LaunchQueue::Make(gpu_));
    return queue;
  }

  absl::StatusOr<std::shared_ptr<void>> Upload(const void* data, int64_t bytes) override {
    const auto size = static_cast<size_t>(bytes);
    KILN_ASSIGN_OR_RETURN(std::shared_ptr<DeviceMemory> memory, DeviceMemory::Allocate(gpu_, size));
    KILN_ASSIGN_OR_RETURN(const std::shared_ptr<DeviceStream> stream, DeviceStream::Make(gpu_));
    KILN_RETURN_IF_ERROR(gpu_->CopyIn(memory->address(), data, size, stream->handle()));
    KILN_RETURN_IF_ERROR(stream->Wait());
    void* const address = AsPointer(memory->address());
    return std::shared_ptr<void>(std::move(memory), address);
  }

  absl::StatusOr<LoadedKernel> Load(const CodeImage& code) override {
    absl::StatusOr<Kernel> kernel = ParseKernel(code.kernel);
    if (!kernel.ok()) return absl::DataLossError(kernel.status().message());
    const auto load = [&](absl::string_view machine_code) {
      return DeviceKernel::Load(gpu_, code.code, code.recipe, DeviceKernel::Counts::Of(*kernel),
                                machine_code);
    };
    absl::StatusOr<std::unique_ptr<DeviceKernel>> loaded =
        absl::FailedPreconditionError("no machine code");
    if (!code.machine_code.empty()) loaded = load(code.machine_code);
    // Damaged, or made for another level or for a newer driver: this one assembles the text.
    if (absl::IsFailedPrecondition(loaded.status()) || absl::IsDataLoss(loaded.status())) {
      LogDebug("device \"", name_,
               "\": kernels are assembled as they are loaded: ", loaded.status().message());
      loaded = load("");
    }
    KILN_RETURN_IF_ERROR(loaded.status());
    std::shared_ptr<DeviceKernel> object = *std::move(loaded);
    const void* const self = object.get();
    return LoadedKernel(std::move(object), &RunDeviceKernel, self);
  }

  std::vector<DeviceLibraryInfo> libraries() override { return libraries_.Infos(); }
  absl::StatusOr<std::unique_ptr<library::Primitive>> MakeCall(
      const char* op, const library::Request& request) override {
    return libraries_.MakeCall(op, request);
  }

 private:
  const std::shared_ptr<Gpu> gpu_;
  const std::string name_;
  const Target target_;
  const DeviceFacts facts_;
  Libraries libraries_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<ComputeDevice>> MakeCudaDevice(std::shared_ptr<Gpu> gpu,
                                                              const std::string& name) {
  auto device = std::make_shared<CudaDevice>(std::move(gpu), name);
  if (device->target().compiles()) return device;
  return absl::UnavailableError(absl::StrCat(
      "device \"", name, "\": ", device->model(), " is older than ",
      LowestTarget(DeviceKind::kCuda).name(), ", the least that kernels are made for"));
}

absl::StatusOr<std::shared_ptr<ComputeDevice>> OpenCudaDevice(const std::string& name) {
  absl::string_view rest = name;
  int ordinal = 0;
  std::string library = kDriverLibrary;
  const bool emulated = absl::ConsumePrefix(&rest, kEmulated);
  if ((!emulated && !absl::ConsumePrefix(&rest, "cuda")) ||
      (!rest.empty() &&
       (!absl::ConsumePrefix(&rest, ":") || !absl::SimpleAtoi(rest, &ordinal) || ordinal < 0))) {
    return absl::InvalidArgumentError(
        absl::StrCat("device \"", name, "\": is none of cuda, cuda:0, cuda:1, ..., ", kEmulated));
  }
  if (emulated) {
    KILN_ASSIGN_OR_RETURN(library, FindModule("libkiln_ptx_driver.so", "KILN_PTX_DRIVER"));
  }
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<const Driver> driver, Driver::Open(library));
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<Gpu> gpu, Gpu::Open(std::move(driver), ordinal));
  return MakeCudaDevice(std::move(gpu), name);
}

}  // namespace kiln::cuda
