// SPDX-License-Identifier: Apache-2.0
// The part of NVIDIA's driver interface that Kiln calls: types, values, and one list of functions.
//
// Nothing here needs cuda.h or links libcuda: driver.h opens the library at run time, and
// ptx_emulator/ exports the same functions on the CPU. Values and layouts are the ABI of CUDA 11.4
// and later, under the names that libcuda.so.1 exports (gpu_test compares them with cuda.h
// where there is one).
//
//   KILN_CUDA_FUNCTIONS(F)   expands F(name, parameters) for each function; all return Result
#ifndef KILN_EXEC_CUDA_DRIVER_API_H_
#define KILN_EXEC_CUDA_DRIVER_API_H_

#include <cstddef>
#include <cstdint>

namespace kiln::cuda {

enum Result : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeinitialized = 4,
  kStubLibrary = 34,
  kDeviceUnavailable = 46,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoBinaryForGpu = 209,
  kEccUncorrectable = 214,
  kInvalidPtx = 218,
  kNvlinkUncorrectable = 220,
  kJitCompilerNotFound = 221,
  kUnsupportedPtxVersion = 222,
  kOperatingSystem = 304,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchOutOfResources = 701,
  kLaunchTimeout = 702,
  kContextIsDestroyed = 709,
  kAssert = 710,
  kHardwareStackError = 714,
  kIllegalInstruction = 715,
  kMisalignedAddress = 716,
  kInvalidAddressSpace = 717,
  kInvalidPc = 718,
  kLaunchFailed = 719,
  kNotPermitted = 800,
  kNotSupported = 801,
  kSystemNotReady = 802,
  kSystemDriverMismatch = 803,
  kUnknown = 999,
};

enum DeviceAttribute : int {
  kMaxThreadsPerBlock = 1,
  kSharedBytesPerBlock = 8,
  kWarpSize = 10,
  kClockKhz = 13,
  kMultiprocessors = 16,
  kMemoryClockKhz = 36,
  kMemoryBusBits = 37,
  kL2Bytes = 38,
  kThreadsPerMultiprocessor = 39,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kSharedBytesPerMultiprocessor = 81,
  kRegistersPerMultiprocessor = 82,
  kSharedBytesPerBlockOptIn = 97,
};

enum FunctionAttribute : int {
  kFunctionMaxThreads = 0,
  kFunctionSharedBytes = 1,
  kFunctionLocalBytes = 3,
  kFunctionRegisters = 4,
  kFunctionMaxDynamicSharedBytes = 8,
};

enum PointerAttribute : int {
  kPointerContext = 1,
  kPointerMemoryType = 2,
  kPointerDeviceOrdinal = 9,
};
enum MemoryType : unsigned { kHostMemory = 1, kDeviceMemory = 2 };

inline constexpr unsigned kStreamNonBlocking = 1;   // correctness: of cuStreamCreate
inline constexpr unsigned kEventDisableTiming = 2;  // correctness: of cuEventCreate
inline constexpr unsigned kHostPortable = 1;        // correctness: of cuMemHostAlloc

using Device = int;
using DevicePointer = unsigned long long;
using Context = struct ContextHandle*;
using Module = struct ModuleHandle*;
using Function = struct FunctionHandle*;
using Stream = struct StreamHandle*;
using Event = struct EventHandle*;
using Graph = struct GraphHandle*;
using GraphNode = struct GraphNodeHandle*;
using GraphExec = struct GraphExecHandle*;

// CUDA_KERNEL_NODE_PARAMS_v2.
struct KernelNodeParams {
  Function function;
  unsigned grid[3], block[3], shared_bytes;
  void** params;
  void** extra;   // null
  void* kernel;   // null
  void* context;  // null
};

// clang-format off
#define KILN_CUDA_FUNCTIONS(F)                                                                     \
  F(cuInit, (unsigned flags))                                                                      \
  F(cuDriverGetVersion, (int* version))                                                            \
  F(cuGetErrorName, (Result error, const char** name))                                             \
  F(cuGetErrorString, (Result error, const char** text))                                           \
  F(cuDeviceGetCount, (int* count))                                                                \
  F(cuDeviceGet, (Device* device, int ordinal))                                                    \
  F(cuDeviceGetName, (char* name, int size, Device device))                                        \
  F(cuDeviceTotalMem_v2, (size_t* bytes, Device device))                                           \
  F(cuDeviceGetAttribute, (int* value, DeviceAttribute attribute, Device device))                  \
  F(cuDevicePrimaryCtxRetain, (Context* context, Device device))                                   \
  F(cuDevicePrimaryCtxRelease_v2, (Device device))                                                 \
  F(cuCtxGetCurrent, (Context* context))                                                           \
  F(cuCtxPushCurrent_v2, (Context context))                                                        \
  F(cuCtxPopCurrent_v2, (Context* context))                                                        \
  F(cuModuleLoadDataEx, (Module* module, const void* image, unsigned options, int* names,          \
                         void** values))                                                           \
  F(cuModuleUnload, (Module module))                                                               \
  F(cuModuleGetFunction, (Function* function, Module module, const char* name))                    \
  F(cuFuncGetAttribute, (int* value, FunctionAttribute attribute, Function function))              \
  F(cuFuncSetAttribute, (Function function, FunctionAttribute attribute, int value))               \
  F(cuOccupancyMaxActiveBlocksPerMultiprocessor,                                                   \
    (int* blocks, Function function, int threads, size_t shared_bytes))                            \
  F(cuMemGetInfo_v2, (size_t* free_bytes, size_t* total_bytes))                                    \
  F(cuMemAlloc_v2, (DevicePointer* memory, size_t bytes))                                          \
  F(cuMemFree_v2, (DevicePointer memory))                                                          \
  F(cuMemHostAlloc, (void** memory, size_t bytes, unsigned flags))                                 \
  F(cuMemFreeHost, (void* memory))                                                                 \
  F(cuPointerGetAttribute, (void* value, PointerAttribute attribute, DevicePointer memory))        \
  F(cuMemcpyHtoDAsync_v2, (DevicePointer to, const void* from, size_t bytes, Stream stream))       \
  F(cuMemcpyDtoHAsync_v2, (void* to, DevicePointer from, size_t bytes, Stream stream))             \
  F(cuMemcpyDtoDAsync_v2, (DevicePointer to, DevicePointer from, size_t bytes, Stream stream))     \
  F(cuMemsetD8Async, (DevicePointer to, unsigned char value, size_t bytes, Stream stream))         \
  F(cuStreamCreate, (Stream* stream, unsigned flags))                                              \
  F(cuStreamDestroy_v2, (Stream stream))                                                           \
  F(cuStreamSynchronize, (Stream stream))                                                          \
  F(cuStreamQuery, (Stream stream))                                                                \
  F(cuStreamWaitEvent, (Stream stream, Event event, unsigned flags))                               \
  F(cuStreamGetCtx, (Stream stream, Context* context))                                             \
  F(cuEventCreate, (Event* event, unsigned flags))                                                 \
  F(cuEventDestroy_v2, (Event event))                                                              \
  F(cuEventRecord, (Event event, Stream stream))                                                   \
  F(cuEventQuery, (Event event))                                                                   \
  F(cuEventSynchronize, (Event event))                                                             \
  F(cuEventElapsedTime, (float* ms, Event from, Event to))                                         \
  F(cuLaunchKernel, (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,         \
                     unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,  \
                     Stream stream, void** params, void** extra))                                  \
  F(cuGraphCreate, (Graph* graph, unsigned flags))                                                 \
  F(cuGraphDestroy, (Graph graph))                                                                 \
  F(cuGraphAddKernelNode_v2, (GraphNode* node, Graph graph, const GraphNode* after, size_t count,  \
                              const KernelNodeParams* params))                                     \
  F(cuGraphInstantiateWithFlags, (GraphExec* exec, Graph graph, unsigned long long flags))         \
  F(cuGraphExecDestroy, (GraphExec exec))                                                          \
  F(cuGraphExecKernelNodeSetParams_v2, (GraphExec exec, GraphNode node,                            \
                                        const KernelNodeParams* params))                           \
  F(cuGraphLaunch, (GraphExec exec, Stream stream))
// clang-format on

}  // namespace kiln::cuda

#endif  // KILN_EXEC_CUDA_DRIVER_API_H_
