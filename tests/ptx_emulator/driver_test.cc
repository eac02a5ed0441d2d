// SPDX-License-Identifier: Apache-2.0
// The emulated driver through its exported functions: what a runtime relies on, and what it gets
// wrong when it is wrong.
#include <dlfcn.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "ptx_emulator/driver_functions.h"

namespace kiln::cuda {
namespace {

using testing::HasSubstr;

// k: p[i] += 1 for the n first; fault: reads at p; other: p[i] = 7.
constexpr char kPtx[] = R"(.version 7.8
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n)
{
.reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<4>;
ld.param.u64 %rd1, [p];
ld.param.u32 %r1, [n];
mov.u32 %r2, %ctaid.x;
mov.u32 %r3, %ntid.x;
mov.u32 %r4, %tid.x;
mad.lo.u32 %r5, %r2, %r3, %r4;
setp.ge.u32 %p1, %r5, %r1;
@%p1 bra $E;
mad.wide.u32 %rd2, %r5, 4, %rd1;
ld.global.u32 %r6, [%rd2];
add.u32 %r6, %r6, 1;
st.global.u32 [%rd2], %r6;
$E:
ret;
}
.visible .entry shared_kernel() .maxntid 64, 1, 1 { .reg .b32 %r<2>; st.shared.u32 [60000], %r1; ret; }
)";

std::string Findings() {
  std::string text(kiln_ptx_findings(nullptr, 0) + 1, '\0');
  text.resize(kiln_ptx_findings(text.data(), text.size()));
  return text;
}

class DriverTest : public testing::Test {
 protected:
  void SetUp() override {
    kiln_ptx_config config;
    kiln_ptx_default_config(&config);
    config.devices = 2;
    config.sm[1] = 90;
    config.memory[0] = 1 << 20;
    kiln_ptx_configure(&config);
    ASSERT_EQ(cuInit(0), kSuccess);
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), kSuccess);
    ASSERT_EQ(cuCtxPushCurrent_v2(context), kSuccess);
  }

  void Load() {
    ASSERT_EQ(cuModuleLoadDataEx(&module, kPtx, 0, nullptr, nullptr), kSuccess);
    ASSERT_EQ(cuModuleGetFunction(&function, module, "k"), kSuccess);
    ASSERT_EQ(cuMemAlloc_v2(&memory, 4096), kSuccess);
    ASSERT_EQ(cuMemsetD8Async(memory, 0, 4096, nullptr), kSuccess);
    ASSERT_EQ(cuStreamSynchronize(nullptr), kSuccess);
  }
  Result Launch(DevicePointer at, uint32_t n, Stream stream) {
    void* params[] = {&at, &n};
    return cuLaunchKernel(function, (n + 63) / 64, 1, 1, 64, 1, 1, 0, stream, params, nullptr);
  }
  uint32_t Read(uint64_t index) {
    uint32_t value = 0;
    EXPECT_EQ(cuMemcpyDtoHAsync_v2(&value, memory + 4 * index, 4, nullptr), kSuccess);
    return value;
  }
  Stream NewStream() {
    Stream stream = nullptr;
    EXPECT_EQ(cuStreamCreate(&stream, kStreamNonBlocking), kSuccess);
    return stream;
  }

  Context context = nullptr;
  Module module = nullptr;
  Function function = nullptr;
  DevicePointer memory = 0;
};

TEST_F(DriverTest, ExportsTheWholeListAndNothingElse) {
  Dl_info info;
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&cuInit), &info), 0);
  void* library = dlopen(info.dli_fname, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr);
#define KILN_EXPECT_EXPORTED(name, parameters) EXPECT_NE(dlsym(library, #name), nullptr) << #name;
  KILN_CUDA_FUNCTIONS(KILN_EXPECT_EXPORTED)
#undef KILN_EXPECT_EXPORTED
  EXPECT_EQ(dlsym(library, "_ZN4kiln3ptx5ParseEN4absl7debian311string_viewE"), nullptr);
  dlclose(library);
}

TEST_F(DriverTest, RunsAKernel) {
  Load();
  EXPECT_EQ(Launch(memory, 100, nullptr), kSuccess);
  EXPECT_EQ(Read(0), 1u);
  EXPECT_EQ(Read(99), 1u);
  EXPECT_EQ(Read(100), 0u);
  EXPECT_EQ(Findings(), "");
  kiln_ptx_counters counters;
  EXPECT_EQ(kiln_ptx_count("k", &counters), 1);
  EXPECT_EQ(counters.launches, 1u);
  EXPECT_EQ(counters.store_bytes, 400u);
  EXPECT_EQ(kiln_ptx_count("none", &counters), 0);
  char names[8];
  EXPECT_EQ(kiln_ptx_kernels(names, sizeof names), 2u);
  EXPECT_STREQ(names, "k\n");
}

TEST_F(DriverTest, AnswersForDevices) {
  int value = 0;
  EXPECT_EQ(cuDeviceGetCount(&value), kSuccess);
  EXPECT_EQ(value, 2);
  EXPECT_EQ(cuDeviceGetAttribute(&value, kComputeCapabilityMajor, 1), kSuccess);
  EXPECT_EQ(value, 9);
  EXPECT_EQ(cuDeviceGetAttribute(&value, kSharedBytesPerBlockOptIn, 0), kSuccess);
  EXPECT_EQ(value, 163 * 1024);
  EXPECT_EQ(cuDeviceGetAttribute(&value, static_cast<DeviceAttribute>(12345), 0), kInvalidValue);
  EXPECT_EQ(cuDeviceGetAttribute(&value, kWarpSize, 2), kInvalidDevice);
  char name[64];
  EXPECT_EQ(cuDeviceGetName(name, sizeof name, 1), kSuccess);
  EXPECT_STREQ(name, "Emulated sm_90");
  kiln_ptx_config none = {};
  kiln_ptx_configure(&none);
  EXPECT_EQ(cuDeviceGetCount(&value), kNotInitialized);
  EXPECT_EQ(cuInit(0), kNoDevice);
}

TEST_F(DriverTest, KeepsAStackOfContextsForEachThread) {
  Context second = nullptr, current = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&second, 1), kSuccess);
  ASSERT_EQ(cuCtxPushCurrent_v2(second), kSuccess);
  Stream stream = NewStream();
  EXPECT_EQ(cuCtxPopCurrent_v2(&current), kSuccess);
  EXPECT_EQ(current, second);
  EXPECT_EQ(cuCtxGetCurrent(&current), kSuccess);
  EXPECT_EQ(current, context);
  EXPECT_EQ(cuStreamSynchronize(stream), kInvalidHandle);  // of the other device
  EXPECT_EQ(cuStreamGetCtx(stream, &current), kSuccess);
  EXPECT_EQ(current, second);
  std::thread([] {
    DevicePointer pointer = 0;
    EXPECT_EQ(cuMemAlloc_v2(&pointer, 4), kInvalidContext);
  }).join();
  EXPECT_EQ(cuCtxPopCurrent_v2(nullptr), kSuccess);
  EXPECT_EQ(cuCtxPopCurrent_v2(nullptr), kInvalidContext);
  EXPECT_EQ(cuMemAlloc_v2(&memory, 4), kInvalidContext);
}

TEST_F(DriverTest, ReleasingTheContextFreesWhatItOwns) {
  Load();
  NewStream();
  kiln_ptx_objects live;
  kiln_ptx_live(&live);
  EXPECT_EQ(live.contexts, 1u);
  EXPECT_EQ(live.allocations, 1u);
  EXPECT_EQ(live.allocated_bytes, 4096u);
  EXPECT_EQ(live.modules, 1u);
  EXPECT_EQ(live.streams, 1u);
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(0), kSuccess);
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(0), kInvalidContext);
  kiln_ptx_live(&live);
  EXPECT_EQ(live.contexts + live.allocations + live.modules + live.streams, 0u);
  EXPECT_EQ(cuMemAlloc_v2(&memory, 4), kInvalidContext);
}

TEST_F(DriverTest, RefusesImages) {
  const auto load = [&](const std::string& text) {
    return cuModuleLoadDataEx(&module, text.c_str(), 0, nullptr, nullptr);
  };
  EXPECT_EQ(load("\x7f"
                 "ELF and so on"),
            kNoBinaryForGpu);
  EXPECT_EQ(load("\x50\xed\x55\xba"), kNoBinaryForGpu);
  EXPECT_EQ(load(".version 8.0\n.target sm_90\n"), kNoBinaryForGpu);
  EXPECT_EQ(load(".version 8.0\n.target sm_80a\n"), kSuccess);
  EXPECT_EQ(load(".version 9.9\n.target sm_80\n"), kUnsupportedPtxVersion);
  EXPECT_EQ(load(""), kInvalidPtx);
  char log[64];
  int names[] = {6, 5};
  void* values[] = {reinterpret_cast<void*>(sizeof log), log};
  EXPECT_EQ(cuModuleLoadDataEx(&module, ".version 8.0\n.target sm_80\n.nonsense", 2, names, values),
            kInvalidPtx);
  EXPECT_THAT(log, HasSubstr("line 3"));
}

TEST_F(DriverTest, RefusesHandlesThatAreNone) {
  Load();
  const auto bad = [](auto handle) { return reinterpret_cast<decltype(handle)>(0xdeadbeef); };
  EXPECT_EQ(cuModuleUnload(bad(Module())), kInvalidHandle);
  EXPECT_EQ(cuStreamSynchronize(bad(Stream())), kInvalidHandle);
  EXPECT_EQ(cuEventRecord(bad(Event()), nullptr), kInvalidHandle);
  EXPECT_EQ(cuGraphLaunch(bad(GraphExec()), nullptr), kInvalidHandle);
  EXPECT_EQ(cuGraphDestroy(bad(Graph())), kInvalidHandle);
  EXPECT_EQ(cuMemFree_v2(memory + 4), kInvalidValue);
  EXPECT_EQ(cuMemFreeHost(&memory), kInvalidValue);
  EXPECT_EQ(cuModuleGetFunction(&function, module, "none"), kNotFound);
  EXPECT_EQ(cuCtxPushCurrent_v2(bad(Context())), kInvalidContext);
  Stream stream = NewStream();
  EXPECT_EQ(cuStreamDestroy_v2(stream), kSuccess);
  EXPECT_EQ(cuStreamDestroy_v2(stream), kInvalidHandle);
  EXPECT_EQ(Launch(memory, 4, stream), kInvalidHandle);
  EXPECT_EQ(cuModuleUnload(module), kSuccess);
  EXPECT_EQ(Launch(memory, 4, nullptr), kInvalidHandle);
  EXPECT_EQ(cuMemcpyHtoDAsync_v2(memory + 4000, &stream, 200, nullptr), kInvalidValue);
}

TEST_F(DriverTest, RefusesLaunchesBeyondTheLimits) {
  Load();
  Function shared = nullptr;
  ASSERT_EQ(cuModuleGetFunction(&shared, module, "shared_kernel"), kSuccess);
  const auto launch = [&](unsigned grid, unsigned block, unsigned bytes) {
    return cuLaunchKernel(shared, grid, 1, 1, block, 1, 1, bytes, nullptr, nullptr, nullptr);
  };
  EXPECT_EQ(launch(0, 1, 0), kInvalidValue);
  EXPECT_EQ(launch(1, 1025, 0), kInvalidValue);
  EXPECT_EQ(launch(1, 128, 0), kLaunchOutOfResources);  // .maxntid 64
  EXPECT_EQ(launch(1, 1, 60004), kInvalidValue);
  EXPECT_EQ(cuFuncSetAttribute(shared, kFunctionMaxDynamicSharedBytes, 200000), kInvalidValue);
  EXPECT_EQ(cuFuncSetAttribute(shared, kFunctionMaxDynamicSharedBytes, 60004), kSuccess);
  EXPECT_EQ(launch(1, 1, 60004), kSuccess);
  EXPECT_EQ(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
            kInvalidValue);  // no parameters
  int blocks = 0;
  EXPECT_EQ(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, shared, 64, 60004), kSuccess);
  EXPECT_EQ(blocks, 2);
}

TEST_F(DriverTest, RunsOutOfMemory) {
  size_t free_bytes = 0, total = 0;
  ASSERT_EQ(cuMemAlloc_v2(&memory, 1 << 19), kSuccess);
  EXPECT_EQ(cuMemGetInfo_v2(&free_bytes, &total), kSuccess);
  EXPECT_EQ(free_bytes, size_t{1} << 19);
  DevicePointer more = 0;
  EXPECT_EQ(cuMemAlloc_v2(&more, (1 << 19) + 1), kOutOfMemory);
  EXPECT_EQ(cuMemAlloc_v2(&more, 0), kInvalidValue);
  EXPECT_EQ(cuMemFree_v2(memory), kSuccess);
  EXPECT_EQ(cuMemAlloc_v2(&more, (1 << 19) + 1), kSuccess);
  EXPECT_NE(more, memory);
}

TEST_F(DriverTest, FailsAtTheCallThatIsAskedFor) {
  Load();
  kiln_ptx_fail_at(2, kOutOfMemory, 1);
  EXPECT_EQ(Launch(memory, 4, nullptr), kSuccess);
  EXPECT_EQ(Launch(memory, 4, nullptr), kOutOfMemory);
  EXPECT_EQ(Launch(memory, 4, nullptr), kSuccess);
  EXPECT_EQ(Read(0), 2u);
  kiln_ptx_fail_at(1, kUnknown, 0);  // from now on
  EXPECT_EQ(cuStreamSynchronize(nullptr), kUnknown);
  EXPECT_EQ(cuMemFree_v2(memory), kUnknown);
  kiln_ptx_fail_at(0, 0, 0);
  EXPECT_EQ(cuMemFree_v2(memory), kSuccess);
  EXPECT_EQ(kiln_ptx_calls("cuLaunchKernel"), 3u);
  EXPECT_EQ(kiln_ptx_calls("cuNothing"), 0u);
  EXPECT_GT(kiln_ptx_calls(nullptr), 10u);
}

TEST_F(DriverTest, AnErrorOfAKernelStays) {
  Load();
  EXPECT_EQ(Launch(memory + 4096 - 8, 4, nullptr), kIllegalAddress);
  EXPECT_THAT(Findings(), HasSubstr("access out of bounds: kernel k, line 16: ld.global.u32"));
  EXPECT_EQ(cuStreamSynchronize(nullptr), kIllegalAddress);
  DevicePointer pointer = 0;
  EXPECT_EQ(cuMemAlloc_v2(&pointer, 4), kIllegalAddress);
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(0), kSuccess);
  EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, 0), kSuccess);
  EXPECT_EQ(cuMemAlloc_v2(&pointer, 4), kSuccess);
}

TEST_F(DriverTest, FindsUseAfterFree) {
  Load();
  ASSERT_EQ(cuMemFree_v2(memory), kSuccess);
  EXPECT_EQ(Launch(memory, 4, nullptr), kIllegalAddress);
  EXPECT_THAT(Findings(), HasSubstr("use after free"));
}

TEST_F(DriverTest, StrictLaunchesFailWithAFinding) {
  kiln_ptx_config config;
  kiln_ptx_default_config(&config);
  config.strict = 1;
  kiln_ptx_configure(&config);
  ASSERT_EQ(cuInit(0), kSuccess);
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), kSuccess);
  ASSERT_EQ(cuCtxPushCurrent_v2(context), kSuccess);
  Load();
  DevicePointer fresh = 0;
  ASSERT_EQ(cuMemAlloc_v2(&fresh, 64), kSuccess);
  EXPECT_EQ(Launch(memory, 4, nullptr), kSuccess);
  EXPECT_EQ(Launch(fresh, 4, nullptr), kLaunchFailed);  // reads what nobody wrote
  EXPECT_EQ(cuStreamSynchronize(nullptr), kLaunchFailed);
}

TEST_F(DriverTest, FindsRacesBetweenStreams) {
  Load();
  Stream a = NewStream(), b = NewStream();
  EXPECT_EQ(Launch(memory, 64, a), kSuccess);
  EXPECT_EQ(Launch(memory + 2048, 64, b), kSuccess);  // another part
  EXPECT_EQ(Findings(), "");
  EXPECT_EQ(Launch(memory, 64, b), kSuccess);
  EXPECT_THAT(Findings(), HasSubstr("stream race: kernel k writes bytes that an unordered stream"));
}

TEST_F(DriverTest, EventsOrderStreams) {
  Load();
  Stream a = NewStream(), b = NewStream();
  Event event = nullptr;
  ASSERT_EQ(cuEventCreate(&event, kEventDisableTiming), kSuccess);
  EXPECT_EQ(Launch(memory, 64, a), kSuccess);
  EXPECT_EQ(cuEventRecord(event, a), kSuccess);
  EXPECT_EQ(cuStreamWaitEvent(b, event, 0), kSuccess);
  EXPECT_EQ(Launch(memory, 64, b), kSuccess);
  EXPECT_EQ(Findings(), "");
  EXPECT_EQ(Launch(memory, 64, a), kSuccess);  // a does not know b
  EXPECT_NE(Findings(), "");
  kiln_ptx_clear();
  EXPECT_EQ(cuStreamSynchronize(b), kSuccess);
  EXPECT_EQ(cuStreamSynchronize(a), kSuccess);
  EXPECT_EQ(Launch(memory, 64, NewStream()), kSuccess);
  EXPECT_EQ(Findings(), "");
}

TEST_F(DriverTest, TheDefaultStreamWaitsForBlockingStreams) {
  Load();
  Stream blocking = nullptr;
  ASSERT_EQ(cuStreamCreate(&blocking, 0), kSuccess);
  EXPECT_EQ(Launch(memory, 64, blocking), kSuccess);
  EXPECT_EQ(Launch(memory, 64, nullptr), kSuccess);
  EXPECT_EQ(Launch(memory, 64, blocking), kSuccess);
  EXPECT_EQ(Findings(), "");
  EXPECT_EQ(Launch(memory, 64, NewStream()), kSuccess);
  EXPECT_NE(Findings(), "");
}

TEST_F(DriverTest, CopiesOfPinnedMemoryGoOnWhilePageableOnesWait) {
  Load();
  void* pinned = nullptr;
  ASSERT_EQ(cuMemHostAlloc(&pinned, 64, kHostPortable), kSuccess);
  Stream a = NewStream(), b = NewStream();
  EXPECT_EQ(cuMemcpyDtoHAsync_v2(pinned, memory, 64, a), kSuccess);
  EXPECT_EQ(cuMemcpyHtoDAsync_v2(memory + 1024, pinned, 64, b), kSuccess);
  EXPECT_THAT(Findings(), HasSubstr("stream race: a copy from the host reads"));
  kiln_ptx_clear();
  char pageable[64];
  EXPECT_EQ(cuMemcpyDtoHAsync_v2(pageable, memory, 64, a), kSuccess);
  EXPECT_EQ(cuMemcpyHtoDAsync_v2(memory, pageable, 64, b), kSuccess);
  EXPECT_EQ(Findings(), "");
  unsigned type = 0;
  EXPECT_EQ(
      cuPointerGetAttribute(&type, kPointerMemoryType, reinterpret_cast<DevicePointer>(pinned)),
      kSuccess);
  EXPECT_EQ(type, kHostMemory);
  EXPECT_EQ(cuPointerGetAttribute(&type, kPointerMemoryType, memory), kSuccess);
  EXPECT_EQ(type, kDeviceMemory);
  EXPECT_EQ(cuMemFreeHost(pinned), kSuccess);
}

TEST_F(DriverTest, CopiesToTheHostOfUnwrittenBytesAreFound) {
  Load();
  DevicePointer fresh = 0, copy = 0;
  uint32_t value = 0;
  ASSERT_EQ(cuMemAlloc_v2(&fresh, 64), kSuccess);
  ASSERT_EQ(cuMemAlloc_v2(&copy, 64), kSuccess);
  EXPECT_EQ(cuMemcpyDtoDAsync_v2(copy, fresh, 64, nullptr), kSuccess);
  EXPECT_EQ(Findings(), "");
  EXPECT_EQ(cuMemcpyDtoHAsync_v2(&value, copy, 4, nullptr), kSuccess);
  EXPECT_THAT(Findings(), HasSubstr("read of global memory that nobody wrote: a copy of 4 bytes"));
}

TEST_F(DriverTest, GraphsCopyParametersAndKeepEdges) {
  Load();
  Graph graph = nullptr;
  GraphExec exec = nullptr;
  GraphNode first = nullptr, second = nullptr;
  DevicePointer at = memory;
  uint32_t n = 32;
  void* values[] = {&at, &n};
  const KernelNodeParams params = {function, {1, 1, 1}, {32, 1, 1}, 0,
                                   values,   nullptr,   nullptr,    nullptr};
  ASSERT_EQ(cuGraphCreate(&graph, 0), kSuccess);
  ASSERT_EQ(cuGraphAddKernelNode_v2(&first, graph, nullptr, 0, &params), kSuccess);
  ASSERT_EQ(cuGraphAddKernelNode_v2(&second, graph, &first, 1, &params), kSuccess);
  ASSERT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), kSuccess);
  ASSERT_EQ(cuGraphDestroy(graph), kSuccess);
  at = 0;  // was copied
  EXPECT_EQ(cuGraphLaunch(exec, nullptr), kSuccess);
  EXPECT_EQ(Read(0), 2u);
  at = memory + 128;
  EXPECT_EQ(cuGraphExecKernelNodeSetParams_v2(exec, second, &params), kSuccess);
  EXPECT_EQ(cuGraphLaunch(exec, nullptr), kSuccess);
  EXPECT_EQ(Read(0), 3u);
  EXPECT_EQ(Read(32), 1u);
  EXPECT_EQ(Findings(), "");
  EXPECT_EQ(cuGraphExecDestroy(exec), kSuccess);
  EXPECT_EQ(cuGraphExecKernelNodeSetParams_v2(exec, second, &params), kInvalidHandle);
}

TEST_F(DriverTest, NodesOfAGraphWithoutAnEdgeRace) {
  Load();
  Graph graph = nullptr;
  GraphExec exec = nullptr;
  GraphNode node = nullptr;
  uint32_t n = 32;
  void* values[] = {&memory, &n};
  const KernelNodeParams params = {function, {1, 1, 1}, {32, 1, 1}, 0,
                                   values,   nullptr,   nullptr,    nullptr};
  ASSERT_EQ(cuGraphCreate(&graph, 0), kSuccess);
  ASSERT_EQ(cuGraphAddKernelNode_v2(&node, graph, nullptr, 0, &params), kSuccess);
  ASSERT_EQ(cuGraphAddKernelNode_v2(&node, graph, nullptr, 0, &params), kSuccess);
  ASSERT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), kSuccess);
  EXPECT_EQ(cuGraphLaunch(exec, nullptr), kSuccess);
  EXPECT_THAT(Findings(), HasSubstr("stream race"));
}

TEST_F(DriverTest, TimesEventsByInstructions) {
  Load();
  Event from = nullptr, to = nullptr, untimed = nullptr;
  ASSERT_EQ(cuEventCreate(&from, 0), kSuccess);
  ASSERT_EQ(cuEventCreate(&to, 0), kSuccess);
  ASSERT_EQ(cuEventCreate(&untimed, kEventDisableTiming), kSuccess);
  float ms = 0;
  EXPECT_EQ(cuEventRecord(from, nullptr), kSuccess);
  EXPECT_EQ(cuEventElapsedTime(&ms, from, to), kInvalidHandle);  // `to` is not recorded
  EXPECT_EQ(Launch(memory, 64, nullptr), kSuccess);
  EXPECT_EQ(cuEventRecord(to, nullptr), kSuccess);
  EXPECT_EQ(cuEventElapsedTime(&ms, from, to), kSuccess);
  EXPECT_GT(ms, 0);
  EXPECT_EQ(cuEventRecord(untimed, nullptr), kSuccess);
  EXPECT_EQ(cuEventElapsedTime(&ms, from, untimed), kInvalidHandle);
  EXPECT_EQ(cuEventQuery(to), kSuccess);
  EXPECT_EQ(cuEventSynchronize(to), kSuccess);
}

TEST_F(DriverTest, NamesErrors) {
  const char* text = nullptr;
  EXPECT_EQ(cuGetErrorName(kIllegalAddress, &text), kSuccess);
  EXPECT_STREQ(text, "CUDA_ERROR_ILLEGAL_ADDRESS");
  EXPECT_EQ(cuGetErrorString(kOutOfMemory, &text), kSuccess);
  EXPECT_STREQ(text, "out of memory");
  EXPECT_EQ(cuGetErrorName(static_cast<Result>(12345), &text), kInvalidValue);
}

TEST_F(DriverTest, ManyThreadsCallAtOnce) {
  Load();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      EXPECT_EQ(cuCtxPushCurrent_v2(context), kSuccess);
      Stream stream = NewStream();
      for (int j = 0; j < 50; ++j) {
        EXPECT_EQ(Launch(memory + static_cast<uint64_t>(i) * 1024, 64, stream), kSuccess);
      }
      EXPECT_EQ(cuStreamDestroy_v2(stream), kSuccess);
      EXPECT_EQ(cuCtxPopCurrent_v2(nullptr), kSuccess);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Findings(), "");
  for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(Read(256 * i), 50u);
}

}  // namespace
}  // namespace kiln::cuda
