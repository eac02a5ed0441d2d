// SPDX-License-Identifier: Apache-2.0
// Devices behind the driver's table, and what becomes of its errors.
#include "exec/cuda/gpu.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "exec/cuda/cuda_device.h"
#include "exec/cuda/device_kernel.h"
#include "exec/cuda/launch_queue.h"
#include "exec/cuda/measure.h"
#include "kernel/abi.h"
#include "tests/base/status_matchers.h"
#include "tests/cuda/emulated_gpu.h"

#if __has_include(<cuda.h>)
#include <cuda.h>
#endif

namespace kiln::cuda {
namespace {

using testing::HasSubstr;

// Adds 1 to each of n floats.
constexpr char kPtx[] = R"(.version 7.0
.target sm_80
.address_size 64
.visible .entry k0(
  .param .u64 k0_param_0,
  .param .u32 k0_param_1
)
{
  .reg .pred %p<2>;
  .reg .b32 %r<5>;
  .reg .f32 %f<3>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [k0_param_0];
  ld.param.u32 %r1, [k0_param_1];
  mov.u32 %r2, %ctaid.x;
  shl.b32 %r3, %r2, 5;
  mov.u32 %r4, %tid.x;
  add.s32 %r3, %r3, %r4;
  setp.ge.s32 %p1, %r3, %r1;
  @%p1 bra $end;
  cvta.to.global.u64 %rd1, %rd1;
  mul.wide.s32 %rd2, %r3, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.f32 %f1, [%rd3];
  add.rn.f32 %f2, %f1, 0f3F800000;
  st.global.f32 [%rd3], %f2;
$end:
  ret;
}
)";
constexpr char kRecipe[] =
    "kiln launch 1\nlaunch k0\ngrid (/ (+ extent0 31) 32) 1 1\nblock 32 1 1\nshared 0\n"
    "arg buffer out0\narg i32 extent0\n";

// Everything that a caller does with a device: the values that come back, or the first error.
absl::StatusOr<std::vector<float>> UseAll(const std::string& library) {
  KILN_ASSIGN_OR_RETURN(auto driver, Driver::Open(library));
  KILN_ASSIGN_OR_RETURN(auto gpu, Gpu::Open(std::move(driver), 0));
  const DeviceKernel::Counts counts{0, 1, 1, {}};
  KILN_ASSIGN_OR_RETURN(auto kernel, DeviceKernel::Load(gpu, kPtx, kRecipe, counts));
  KILN_ASSIGN_OR_RETURN(auto queue, LaunchQueue::Make(gpu));
  KILN_ASSIGN_OR_RETURN(auto memory, DeviceMemory::Allocate(gpu, 400));
  KILN_ASSIGN_OR_RETURN(auto pinned, PinnedMemory::Allocate(gpu, 400));
  auto* const values = static_cast<float*>(pinned->data());
  for (int i = 0; i < 100; ++i) values[i] = static_cast<float>(i);
  KILN_RETURN_IF_ERROR(gpu->CopyIn(memory->address(), values, 400, queue->stream()));
  BufferDim dim{0, 100, 1, 0};
  BufferArg buffer;
  buffer.host = reinterpret_cast<uint8_t*>(memory->address());
  buffer.dimensions = 1;
  buffer.dim = &dim;
  int32_t extent = 100;
  void* argv[] = {nullptr, &extent, &buffer};
  KILN_RETURN_IF_ERROR(queue->Launch(*kernel, argv));
  KILN_RETURN_IF_ERROR(gpu->CopyOut(values, memory->address(), 400, queue->stream()));
  KILN_RETURN_IF_ERROR(queue->Wait());
  return std::vector<float>(values, values + 100);
}

uint64_t Live() {
  kiln_ptx_objects live;
  kiln_ptx_live(&live);
  return live.contexts + live.allocations + live.pinned + live.modules + live.streams +
         live.events + live.graphs + live.graph_execs;
}

void Restart(const std::function<void(kiln_ptx_config&)>& change = [](kiln_ptx_config&) {}) {
  kiln_ptx_config config;
  kiln_ptx_default_config(&config);
  change(config);
  kiln_ptx_configure(&config);
}

TEST(GpuTest, RunsWhatIsLaunched) {
  Restart();
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<float> values, UseAll(EmulatedDriver()));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(values[static_cast<size_t>(i)], i + 1.0F);
  EXPECT_EQ(TakeFindings(), "");
  EXPECT_EQ(Live(), 0u);
}

// Every call may fail in every way: a status, nothing left behind, and the next use is right.
TEST(GpuTest, AnErrorAtAnyCallIsAStatus) {
  Restart();
  ASSERT_THAT(UseAll(EmulatedDriver()), IsOk());
  const uint64_t calls = kiln_ptx_calls(nullptr);
  ASSERT_GT(calls, 20u);
  for (const int result : {kOutOfMemory, kInvalidValue, kUnknown, kIllegalAddress}) {
    for (uint64_t k = 1; k <= calls; ++k) {
      SCOPED_TRACE(testing::Message() << "call " << k << " answers " << result);
      Restart();
      kiln_ptx_fail_at(k, result, 1);
      const auto used = UseAll(EmulatedDriver());
      if (!used.ok()) {
        EXPECT_THAT(std::string(used.status().message()), HasSubstr("cuda: "));
      }
      kiln_ptx_fail_at(0, 0, 0);
      Restart();
      EXPECT_THAT(UseAll(EmulatedDriver()), IsOk());
      EXPECT_EQ(Live(), 0u);
    }
  }
}

// Each thread stores its number at the end of the block's shared memory, and adds the one there.
constexpr char kSharedPtx[] = R"(.version 7.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 memory[];
.visible .entry k0(
  .param .u64 k0_param_0
)
.maxntid 32, 1, 1
{
  .reg .b32 %r<5>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [k0_param_0];
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, memory;
  add.s32 %r3, %r3, %r2;
  st.shared.u32 [%r3+59872], %r1;
  bar.sync 0;
  ld.shared.u32 %r4, [%r3+59872];
  mul.wide.s32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r4;
  ret;
}
)";

// What a launch of kSharedPtx with these bytes of shared memory, a term, has stored.
absl::StatusOr<std::vector<int32_t>> UseShared(const std::string& bytes, int32_t extent) {
  KILN_ASSIGN_OR_RETURN(auto driver, Driver::Open(EmulatedDriver()));
  KILN_ASSIGN_OR_RETURN(auto gpu, Gpu::Open(std::move(driver), 0));
  const std::string recipe =
      "kiln launch 1\nlaunch k0\ngrid 1 1 1\nblock 32 1 1\nshared " + bytes + "\narg buffer out0\n";
  const DeviceKernel::Counts counts{0, 1, 1, {}};
  KILN_ASSIGN_OR_RETURN(auto kernel, DeviceKernel::Load(gpu, kSharedPtx, recipe, counts));
  KILN_ASSIGN_OR_RETURN(auto queue, LaunchQueue::Make(gpu));
  KILN_ASSIGN_OR_RETURN(auto memory, DeviceMemory::Allocate(gpu, 128));
  BufferDim dim{0, 32, 1, 0};
  BufferArg buffer;
  buffer.host = reinterpret_cast<uint8_t*>(memory->address());
  buffer.dimensions = 1;
  buffer.dim = &dim;
  void* argv[] = {nullptr, &extent, &buffer};
  KILN_RETURN_IF_ERROR(queue->Launch(*kernel, argv));
  std::vector<int32_t> values(32);
  KILN_RETURN_IF_ERROR(gpu->CopyOut(values.data(), memory->address(), 128, queue->stream()));
  KILN_RETURN_IF_ERROR(queue->Wait());
  return values;
}

// The driver refuses a launch with more than 48 KiB of a function that has not asked for them.
TEST(GpuTest, FunctionsAskForTheSharedMemoryThatTheyTake) {
  for (const char* const bytes : {"60000", "(* 1 60000)", "(* extent0 600)"}) {
    SCOPED_TRACE(bytes);
    Restart();
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<int32_t> values, UseShared(bytes, 100));
    for (int i = 0; i < 32; ++i) EXPECT_EQ(values[static_cast<size_t>(i)], i);
    EXPECT_EQ(TakeFindings(), "");
    EXPECT_EQ(kiln_ptx_calls("cuFuncSetAttribute"), 1u);
  }
  Restart();
  EXPECT_EQ(kiln_ptx_calls("cuFuncSetAttribute"), 0u);
  EXPECT_THAT(UseShared("200000", 100).status(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("takes 200000 bytes of shared memory, a block has at most")));
}

// A whole file of machine code, of which the driver knows no function.
std::string EmptyCubin() {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_machine = 190;  // EM_CUDA
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shoff = sizeof header;
  header.e_shnum = 2;
  header.e_shstrndx = 1;
  Elf64_Shdr sections[2] = {};
  sections[1].sh_type = SHT_STRTAB;
  sections[1].sh_offset = sizeof header + sizeof sections;
  sections[1].sh_size = 1;
  std::string bytes(sizeof header + sizeof sections + 1, '\0');
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + sizeof header, sections, sizeof sections);
  return bytes;
}

// Machine code for another level, or none at all: the text beside it runs. The driver sees whole
// files alone.
TEST(GpuTest, TheTextRunsWhereTheMachineCodeDoesNot) {
  constexpr char kKernel[] =
      "kernel v1 math 1\ndims a\nin 0 f32 [a] dense\nout 0 f32 [a] dense = add(in0[a], 1)\n";
  const std::string whole = EmptyCubin();
  for (const std::string& cubin : {whole, whole.substr(0, 7), std::string("no code")}) {
    SCOPED_TRACE(cubin.size());
    Restart();
    KILN_ASSERT_OK_AND_ASSIGN(auto driver, Driver::Open(EmulatedDriver()));
    KILN_ASSERT_OK_AND_ASSIGN(auto gpu, Gpu::Open(std::move(driver), 0));
    KILN_ASSERT_OK_AND_ASSIGN(auto device, MakeCudaDevice(gpu, "cuda-emulated"));
    const std::string text(kPtx, sizeof(kPtx));
    CodeImage image = {text, cubin, kRecipe, kKernel};
    EXPECT_THAT(device->Load(image), IsOk());
    EXPECT_EQ(kiln_ptx_calls("cuModuleLoadDataEx"), cubin == whole ? 2u : 1u);
    image.code = "no code either";
    EXPECT_THAT(device->Load(image), StatusIs(absl::StatusCode::kDataLoss));
    kiln_ptx_fail_at(1, kOutOfMemory, 1);  // is no reason to try the text
    EXPECT_THAT(device->Load({text, cubin, kRecipe, kKernel}),
                StatusIs(absl::StatusCode::kResourceExhausted));
  }
}

TEST(GpuTest, OutOfMemoryNamesTheBytes) {
  Restart([](kiln_ptx_config& config) { config.memory[0] = 1 << 20; });
  KILN_ASSERT_OK_AND_ASSIGN(auto driver, Driver::Open(EmulatedDriver()));
  KILN_ASSERT_OK_AND_ASSIGN(auto gpu, Gpu::Open(std::move(driver), 0));
  const absl::Status status = DeviceMemory::Allocate(gpu, 2 << 20).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(std::string(status.message()), HasSubstr("2097152 bytes of device memory"));
  KILN_EXPECT_OK(DeviceMemory::Allocate(gpu, 1000).status());
}

TEST(GpuTest, ALostDeviceStaysLost) {
  Restart();
  KILN_ASSERT_OK_AND_ASSIGN(auto driver, Driver::Open(EmulatedDriver()));
  KILN_ASSERT_OK_AND_ASSIGN(auto gpu, Gpu::Open(std::move(driver), 0));
  KILN_ASSERT_OK_AND_ASSIGN(auto queue, LaunchQueue::Make(gpu));
  kiln_ptx_fail_at(1, kIllegalAddress, 1);
  const absl::Status first = queue->Wait();
  EXPECT_THAT(first, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(std::string(first.message()), HasSubstr("start it again"));
  EXPECT_EQ(DeviceMemory::Allocate(gpu, 16).status(), first);
  EXPECT_EQ(gpu->alive(), first);
}

TEST(GpuTest, SaysWhatThereIsNot) {
  EXPECT_THAT(Driver::Open("libno_such_driver.so").status(),
              StatusIs(absl::StatusCode::kUnavailable));
  Restart([](kiln_ptx_config& config) { config.devices = 0; });
  EXPECT_THAT(Driver::Open(EmulatedDriver()).status(), StatusIs(absl::StatusCode::kUnavailable));
  Restart([](kiln_ptx_config& config) { config.driver_version = 10020; });
  const absl::Status old = Driver::Open(EmulatedDriver()).status();
  EXPECT_THAT(old, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(std::string(old.message()), HasSubstr("of CUDA 10.2, at least 11.4"));
  Restart();
  KILN_ASSERT_OK_AND_ASSIGN(auto driver, Driver::Open(EmulatedDriver()));
  const absl::Status ninth = Gpu::Open(driver, 9).status();
  EXPECT_THAT(std::string(ninth.message()), HasSubstr("device 9: there are 1"));
}

// A host that has a context of its own finds it again.
TEST(GpuTest, TheCallersContextStays) {
  Restart([](kiln_ptx_config& config) {
    config.devices = 2;
    config.sm[1] = 90;
    config.memory[1] = 1 << 20;
    config.multiprocessors[1] = 132;
  });
  KILN_ASSERT_OK_AND_ASSIGN(auto driver, Driver::Open(EmulatedDriver()));
  KILN_ASSERT_OK_AND_ASSIGN(auto gpu, Gpu::Open(driver, 0));
  Context own = nullptr, now = nullptr;
  ASSERT_EQ(driver->cuDevicePrimaryCtxRetain(&own, 1), kSuccess);
  ASSERT_EQ(driver->cuCtxPushCurrent_v2(own), kSuccess);
  KILN_ASSERT_OK(DeviceMemory::Allocate(gpu, 16).status());
  ASSERT_EQ(driver->cuCtxGetCurrent(&now), kSuccess);
  EXPECT_EQ(now, own);
  EXPECT_EQ(driver->cuCtxPopCurrent_v2(&now), kSuccess);
  EXPECT_EQ(driver->cuDevicePrimaryCtxRelease_v2(1), kSuccess);
}

// Copies and launches are timed; whatever call fails, it is a status and nothing is left behind.
TEST(MeasureTest, AnErrorAtAnyCallIsAStatus) {
  const auto measure = []() -> absl::StatusOr<DeviceSpeed> {
    KILN_ASSIGN_OR_RETURN(auto driver, Driver::Open(EmulatedDriver()));
    KILN_ASSIGN_OR_RETURN(auto gpu, Gpu::Open(std::move(driver), 0));
    return MeasureGpu(gpu);
  };
  const auto small = [](kiln_ptx_config& config) {
    config.memory[0] = 64 << 20;
    config.multiprocessors[0] = 2;
    config.strict = 1;
  };
  Restart(small);
  KILN_ASSERT_OK_AND_ASSIGN(const DeviceSpeed speed, measure());
  EXPECT_EQ(TakeFindings(), "");
  EXPECT_EQ(speed.memory_set_bytes, 2 << 20);
  // A nanosecond for each instruction of a warp: some ten for two times 512 bytes.
  EXPECT_NEAR(speed.memory_gb_s, 2 * 512 / 10.0, 30);
  EXPECT_NEAR(speed.launch_ns, 16, 1);  // 16 warps that end
  const uint64_t calls = kiln_ptx_calls(nullptr);
  for (uint64_t k = 1; k <= calls; k += 1 + k / 4) {
    SCOPED_TRACE(testing::Message() << "call " << k << " of " << calls);
    Restart(small);
    kiln_ptx_fail_at(k, kUnknown, 1);
    const auto measured = measure();
    if (!measured.ok()) {
      EXPECT_THAT(std::string(measured.status().message()), HasSubstr("cuda: "));
    }
    EXPECT_LE(Live(), 1u);  // what the call was to free
    kiln_ptx_fail_at(0, 0, 0);
  }
}

#ifdef CUDA_VERSION
TEST(DriverApiTest, IsThatOfCudaH) {
  EXPECT_EQ(static_cast<int>(kOutOfMemory), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(static_cast<int>(kIllegalAddress), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(static_cast<int>(kNoBinaryForGpu), CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_EQ(static_cast<int>(kLaunchFailed), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_EQ(static_cast<int>(kSystemDriverMismatch), CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
  EXPECT_EQ(static_cast<int>(kComputeCapabilityMajor),
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  EXPECT_EQ(static_cast<int>(kSharedBytesPerBlockOptIn),
            CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  EXPECT_EQ(static_cast<int>(kL2Bytes), CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  EXPECT_EQ(static_cast<int>(kFunctionMaxDynamicSharedBytes),
            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  EXPECT_EQ(static_cast<int>(kPointerDeviceOrdinal), CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
  EXPECT_EQ(static_cast<unsigned>(kStreamNonBlocking), CU_STREAM_NON_BLOCKING);
  EXPECT_EQ(sizeof(KernelNodeParams), sizeof(CUDA_KERNEL_NODE_PARAMS));
  EXPECT_EQ(sizeof(DevicePointer), sizeof(CUdeviceptr));
}
#endif

}  // namespace
}  // namespace kiln::cuda
