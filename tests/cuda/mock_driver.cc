// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/mock_driver.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

namespace kiln {
namespace {

using namespace cuda;  // NOLINT(google-build-using-namespace): the list of functions names its types

enum Number : size_t {
#define KILN_NUMBER(name, parameters) kNumberOf_##name,
  KILN_CUDA_FUNCTIONS(KILN_NUMBER)
#undef KILN_NUMBER
      kNumbers
};

struct Mock {
  std::array<int64_t, kNumbers> calls{};
  uintptr_t handles = 16;
  bool refuses_graphs = false;
};
Mock& TheMock() {
  static Mock mock;
  return mock;
}

// What a function leaves where its first argument points to: a handle, unless it says otherwise.
template <typename T>
void SetHandle(T* handle) {
  if constexpr (std::is_pointer_v<T>) *handle = reinterpret_cast<T>(TheMock().handles += 16);
}
template <typename First, typename... Rest>
void SetFirst(First first, Rest...) {
  if constexpr (std::is_pointer_v<First>) {
    if constexpr (!std::is_const_v<std::remove_pointer_t<First>> &&
                  !std::is_void_v<std::remove_pointer_t<First>>)
      SetHandle(first);
  }
}

// One function for each of the list, told apart by its number.
template <size_t kNumber, typename Signature>
struct Counted;
template <size_t kNumber, typename... Parameters>
struct Counted<kNumber, Result(Parameters...)> {
  static Result Call(Parameters... parameters) {
    ++TheMock().calls[kNumber];
    SetFirst(parameters...);
    return kSuccess;
  }
};

template <size_t kNumber>
Result Count() {
  ++TheMock().calls[kNumber];
  return kSuccess;
}

Result DeviceCount(int* count) { return *count = 2, Count<kNumberOf_cuDeviceGetCount>(); }
Result GetDevice(Device* device, int ordinal) {
  return *device = ordinal, Count<kNumberOf_cuDeviceGet>();
}
Result Version(int* version) { return *version = 13000, Count<kNumberOf_cuDriverGetVersion>(); }
Result ErrorName(Result, const char** name) { return *name = "MOCK", kSuccess; }
Result DeviceName(char* name, int, Device) {
  return std::strcpy(name, "Mock"), Count<kNumberOf_cuDeviceGetName>();
}
Result TotalMemory(size_t* bytes, Device) {
  return *bytes = size_t{1} << 30, Count<kNumberOf_cuDeviceTotalMem_v2>();
}
Result Attribute(int* value, DeviceAttribute attribute, Device) {
  *value = attribute == kComputeCapabilityMajor   ? 8
           : attribute == kComputeCapabilityMinor ? 0
                                                  : 1 << 16;
  return Count<kNumberOf_cuDeviceGetAttribute>();
}
Result Allocate(DevicePointer* memory, size_t bytes) {
  *memory = reinterpret_cast<DevicePointer>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  return Count<kNumberOf_cuMemAlloc_v2>();
}
Result Free(DevicePointer memory) {
  std::free(reinterpret_cast<void*>(memory));
  return Count<kNumberOf_cuMemFree_v2>();
}
Result AllocateHost(void** memory, size_t bytes, unsigned) {
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  return Count<kNumberOf_cuMemHostAlloc>();
}
Result FreeHost(void* memory) { return std::free(memory), Count<kNumberOf_cuMemFreeHost>(); }
Result Instantiate(GraphExec* exec, Graph, unsigned long long) {
  SetHandle(exec);
  Count<kNumberOf_cuGraphInstantiateWithFlags>();
  return TheMock().refuses_graphs ? kNotSupported : kSuccess;
}

}  // namespace

std::shared_ptr<const Driver> MockDriver() {
  auto driver = std::make_shared<Driver>();
#define KILN_SET(name, parameters) \
  driver->name = &Counted<kNumberOf_##name, Result parameters>::Call;
  KILN_CUDA_FUNCTIONS(KILN_SET)
#undef KILN_SET
  driver->cuDeviceGetCount = &DeviceCount;
  driver->cuDeviceGet = &GetDevice;
  driver->cuDriverGetVersion = &Version;
  driver->cuGetErrorName = &ErrorName;
  driver->cuDeviceGetName = &DeviceName;
  driver->cuDeviceTotalMem_v2 = &TotalMemory;
  driver->cuDeviceGetAttribute = &Attribute;
  driver->cuMemAlloc_v2 = &Allocate;
  driver->cuMemFree_v2 = &Free;
  driver->cuMemHostAlloc = &AllocateHost;
  driver->cuMemFreeHost = &FreeHost;
  driver->cuGraphInstantiateWithFlags = &Instantiate;
  return driver;
}

std::map<std::string, int64_t> TakeMockCalls() {
  static constexpr const char* kNames[] = {
#define KILN_NAME(name, parameters) #name,
      KILN_CUDA_FUNCTIONS(KILN_NAME)
#undef KILN_NAME
  };
  std::map<std::string, int64_t> calls;
  for (size_t k = 0; k < kNumbers; ++k)
    if (TheMock().calls[k] > 0) calls[kNames[k]] = TheMock().calls[k];
  TheMock().calls.fill(0);
  return calls;
}

void RefuseMockGraphs(bool refuse) { TheMock().refuses_graphs = refuse; }

}  // namespace kiln
