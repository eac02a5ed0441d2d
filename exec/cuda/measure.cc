// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/measure.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>

#include "absl/functional/function_ref.h"
#include "base/status_macros.h"
#include "exec/cuda/device_clock.h"

namespace kiln::cuda {
namespace {

constexpr int kPasses = 5;                           // speed: the best counts
constexpr double kMostSeconds = 0.1;                 // speed: after which there is no other pass
constexpr unsigned kThreads = 512;                   // speed: of a block
constexpr int kBlocks = 4;                           // speed: of a multiprocessor
constexpr size_t kCaches = 8;                        // speed: an array of so many is in memory
constexpr size_t kShare = 64;                        // correctness: of the memory, for an array
constexpr size_t kLeastArray = size_t{1} << 20;      // speed: else launches are what is timed
constexpr size_t kHostArray = size_t{32} << 20;      // speed: some ms of copying
constexpr int64_t kDefaultCache = int64_t{4} << 20;  // speed: where the driver names none
constexpr size_t kAccess = 16;                       // correctness: bytes that a thread moves
constexpr int kLaunches = 200;                       // speed: in a row
constexpr unsigned kRepeats = 8;                     // speed: over what the cache holds

// copy(from, to, n, r): n times 16 bytes, r times over. empty(): nothing.
constexpr char kKernels[] = R"(.version 7.0
.target sm_80
.address_size 64
.visible .entry empty()
{
  ret;
}
.visible .entry copy(
  .param .u64 copy_param_0,
  .param .u64 copy_param_1,
  .param .u32 copy_param_2,
  .param .u32 copy_param_3
)
{
  .reg .pred %p<4>;
  .reg .b32 %r<13>;
  .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [copy_param_0];
  ld.param.u64 %rd2, [copy_param_1];
  ld.param.u32 %r1, [copy_param_2];
  ld.param.u32 %r2, [copy_param_3];
  cvta.to.global.u64 %rd1, %rd1;
  cvta.to.global.u64 %rd2, %rd2;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %ctaid.x;
  mov.u32 %r5, %tid.x;
  mad.lo.s32 %r6, %r4, %r3, %r5;
  mov.u32 %r7, %nctaid.x;
  mul.lo.s32 %r7, %r7, %r3;
$again:
  mov.u32 %r8, %r6;
  setp.ge.u32 %p1, %r8, %r1;
  @%p1 bra $next;
$loop:
  mul.wide.u32 %rd3, %r8, 16;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  ld.global.v4.u32 {%r9, %r10, %r11, %r12}, [%rd4];
  st.global.v4.u32 [%rd5], {%r9, %r10, %r11, %r12};
  add.s32 %r8, %r8, %r7;
  setp.lt.u32 %p2, %r8, %r1;
  @%p2 bra $loop;
$next:
  add.s32 %r2, %r2, -1;
  setp.ne.s32 %p3, %r2, 0;
  @%p3 bra $again;
  ret;
}
)";

using Clock = std::chrono::steady_clock;

// Whether there is another pass after the first `passes`, since `start`.
bool GoesOn(int passes, Clock::time_point start) {
  return passes < kPasses &&
         std::chrono::duration<double>(Clock::now() - start).count() < kMostSeconds;
}

// 1e9 bytes per second; 0 where no time has passed.
double Rate(double bytes, double ms) { return ms > 0 ? bytes / ms * 1e-6 : 0; }

class GpuMeasurer {
 public:
  explicit GpuMeasurer(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {}

  absl::StatusOr<DeviceSpeed> Run() {
    KILN_RETURN_IF_ERROR(Prepare());
    DeviceSpeed speed;
    const size_t cache = CacheBytes() / 4 / kAccess * kAccess;  // both arrays are half of it
    speed.memory_set_bytes = static_cast<int64_t>(2 * array_);
    speed.cache_set_bytes = static_cast<int64_t>(2 * std::min(cache, array_));
    KILN_ASSIGN_OR_RETURN(speed.memory_gb_s, CopyRate(array_, 1));
    KILN_ASSIGN_OR_RETURN(speed.cache_gb_s, CopyRate(std::min(cache, array_), kRepeats));
    KILN_ASSIGN_OR_RETURN(speed.launch_ns, LaunchNs());
    KILN_RETURN_IF_ERROR(HostCopies(speed));
    return speed;
  }

 private:
  size_t CacheBytes() const {
    const int64_t cache = gpu_->facts().l2_bytes;
    return static_cast<size_t>(cache > 0 ? cache : kDefaultCache);
  }

  absl::Status Prepare() {
    const size_t most = static_cast<size_t>(gpu_->facts().memory_bytes) / kShare;
    array_ = std::max(std::min(kCaches * CacheBytes(), most), kLeastArray) / kAccess * kAccess;
    KILN_ASSIGN_OR_RETURN(stream_, DeviceStream::Make(gpu_));
    KILN_ASSIGN_OR_RETURN(clock_, DeviceClock::Make(gpu_));
    KILN_ASSIGN_OR_RETURN(from_, DeviceMemory::Allocate(gpu_, array_));
    KILN_ASSIGN_OR_RETURN(to_, DeviceMemory::Allocate(gpu_, array_));
    KILN_ASSIGN_OR_RETURN(module_, DeviceModule::Load(gpu_, kKernels));
    KILN_ASSIGN_OR_RETURN(copy_, module_->Find("copy", 0));
    KILN_ASSIGN_OR_RETURN(empty_, module_->Find("empty", 0));
    return gpu_->Call("a memset", [&] {
      return gpu_->driver().cuMemsetD8Async(from_->address(), 0, array_, stream_->handle());
    });
  }

  // The least time of some passes, by the device's clock.
  absl::StatusOr<double> LeastMs(absl::FunctionRef<absl::Status()> work) {
    double least = 0;
    const Clock::time_point start = Clock::now();
    for (int pass = 0; pass == 0 || GoesOn(pass, start); ++pass) {
      KILN_RETURN_IF_ERROR(clock_->Start(stream_->handle()));
      KILN_RETURN_IF_ERROR(work());
      KILN_ASSIGN_OR_RETURN(const double ms, clock_->Stop(stream_->handle()));
      least = pass == 0 ? ms : std::min(least, ms);
    }
    return least;
  }

  absl::Status Launch(Function function, unsigned blocks, void** arguments) {
    return gpu_->Call("a launch", [&] {
      return gpu_->driver().cuLaunchKernel(function, blocks, 1, 1, kThreads, 1, 1, 0,
                                           stream_->handle(), arguments, nullptr);
    });
  }

  // Of a kernel, or of the driver's copy where the data are in memory.
  absl::StatusOr<double> CopyRate(size_t bytes, unsigned repeats) {
    DevicePointer from = from_->address(), to = to_->address();
    auto count = static_cast<uint32_t>(bytes / kAccess);
    void* arguments[] = {&from, &to, &count, &repeats};
    const auto blocks = static_cast<unsigned>(gpu_->facts().multiprocessors * kBlocks);
    KILN_ASSIGN_OR_RETURN(const double by_kernel,
                          LeastMs([&] { return Launch(copy_, blocks, arguments); }));
    const double moved = 2.0 * static_cast<double>(bytes);
    const double rate = Rate(moved * repeats, by_kernel);
    if (repeats > 1) return rate;
    KILN_ASSIGN_OR_RETURN(const double by_driver, LeastMs([&] {
                            return gpu_->CopyOver(to, from, bytes, stream_->handle());
                          }));
    return std::max(rate, Rate(moved, by_driver));
  }

  absl::StatusOr<double> LaunchNs() {
    KILN_ASSIGN_OR_RETURN(const double ms, LeastMs([&] {
                            absl::Status status;
                            for (int k = 0; k < kLaunches && status.ok(); ++k)
                              status = Launch(empty_, 1, nullptr);
                            return status;
                          }));
    return ms * 1e6 / kLaunches;
  }

  // Of one copy and the wait for it, by the host's clock.
  absl::StatusOr<double> HostRate(size_t bytes, absl::FunctionRef<absl::Status()> copy) {
    double best = 0;
    const Clock::time_point first = Clock::now();
    for (int pass = 0; pass == 0 || GoesOn(pass, first); ++pass) {
      const Clock::time_point start = Clock::now();
      KILN_RETURN_IF_ERROR(copy());
      KILN_RETURN_IF_ERROR(stream_->Wait());
      const std::chrono::duration<double, std::milli> ms = Clock::now() - start;
      best = std::max(best, Rate(static_cast<double>(bytes), ms.count()));
    }
    return best;
  }

  absl::Status HostCopies(DeviceSpeed& speed) {
    const size_t bytes = std::min(kHostArray, array_);
    KILN_ASSIGN_OR_RETURN(const auto pinned, PinnedMemory::Allocate(gpu_, bytes));
    const std::unique_ptr<char[]> pageable(new (std::nothrow) char[bytes]);
    if (pageable == nullptr) return absl::ResourceExhaustedError("no memory for a copy");
    std::memset(pinned->data(), 0, bytes);
    std::memset(pageable.get(), 0, bytes);
    const auto in = [&](const void* from) {
      return HostRate(bytes,
                      [&] { return gpu_->CopyIn(to_->address(), from, bytes, stream_->handle()); });
    };
    const auto out = [&](void* to) {
      return HostRate(bytes,
                      [&] { return gpu_->CopyOut(to, to_->address(), bytes, stream_->handle()); });
    };
    KILN_ASSIGN_OR_RETURN(speed.to_device_pinned_gb_s, in(pinned->data()));
    KILN_ASSIGN_OR_RETURN(speed.from_device_pinned_gb_s, out(pinned->data()));
    KILN_ASSIGN_OR_RETURN(speed.to_device_pageable_gb_s, in(pageable.get()));
    KILN_ASSIGN_OR_RETURN(speed.from_device_pageable_gb_s, out(pageable.get()));
    return absl::OkStatus();
  }

  const std::shared_ptr<Gpu> gpu_;
  size_t array_ = 0;  // bytes
  std::shared_ptr<DeviceStream> stream_;
  std::unique_ptr<DeviceClock> clock_;
  std::shared_ptr<DeviceMemory> from_, to_;
  std::shared_ptr<DeviceModule> module_;
  Function copy_ = nullptr, empty_ = nullptr;
};

}  // namespace

absl::StatusOr<DeviceSpeed> MeasureGpu(const std::shared_ptr<Gpu>& gpu) {
  return GpuMeasurer(gpu).Run();
}

}  // namespace kiln::cuda
