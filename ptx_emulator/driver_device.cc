// SPDX-License-Identifier: Apache-2.0
// Devices and contexts.
#include <algorithm>
#include <cstring>

#include "base/cuda_device.h"
#include "ptx_emulator/driver.h"

// NOLINTBEGIN(readability-identifier-naming): the names are the driver's.
namespace kiln::cuda {
namespace {

using ptx::Call;
using ptx::ContextOf;
using ptx::DeviceState;
using ptx::Driver;
using ptx::Needs;

struct ErrorText {
  Result result;
  const char* name;
  const char* text;
};

constexpr ErrorText kErrorTexts[] = {
    {kSuccess, "CUDA_SUCCESS", "no error"},
    {kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {kNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {kInvalidImage, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {kNoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image for this device"},
    {kInvalidPtx, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {kUnsupportedPtxVersion, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "unsupported PTX version"},
    {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {kNotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {kNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {kLaunchOutOfResources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested"},
    {kLaunchTimeout, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
    {kContextIsDestroyed, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {kMisalignedAddress, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {kInvalidPc, "CUDA_ERROR_INVALID_PC", "invalid program counter"},
    {kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {kNotSupported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {kUnknown, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

const ErrorText* FindErrorText(Result error) {
  for (const ErrorText& text : kErrorTexts) {
    if (text.result == error) return &text;
  }
  return nullptr;
}

bool IsDevice(const Driver& driver, Device device) {
  return device >= 0 && device < driver.config.devices;
}

// The device of a context that is alive, or -1.
int DeviceOf(const Driver& driver, Context context) {
  for (int i = 0; i < driver.config.devices; ++i) {
    if (ContextOf(i) == context && driver.devices[i].retains > 0) return i;
  }
  return -1;
}

Result Attribute(const Driver& driver, DeviceAttribute attribute, int device, int& value) {
  const int sm = driver.config.sm[device];
  const ptx::Capability& capability = ptx::CapabilityOf(sm);
  const std::pair<DeviceAttribute, int> values[] = {
      {kMaxThreadsPerBlock, 1024},
      {kSharedBytesPerBlock, ptx::kDefaultDynamicShared},
      {kWarpSize, ptx::kLanes},
      {kClockKhz, 1410000},
      {kMultiprocessors, driver.config.multiprocessors[device]},
      {kMemoryClockKhz, 1215000},
      {kMemoryBusBits, 5120},
      {kL2Bytes, capability.l2_mib << 20},
      {kThreadsPerMultiprocessor, capability.threads},
      {kComputeCapabilityMajor, sm / 10},
      {kComputeCapabilityMinor, sm % 10},
      {kSharedBytesPerMultiprocessor, capability.shared_bytes},
      {kRegistersPerMultiprocessor, 65536},
      {kSharedBytesPerBlockOptIn, capability.shared_opt_in},
  };
  for (const auto& [known, answer] : values) {
    if (known != attribute) continue;
    value = answer;
    return kSuccess;
  }
  return kInvalidValue;
}

}  // namespace

Result cuInit(unsigned flags) {
  return Call(__func__, Needs::kNothing, [&](Driver& driver) {
    if (flags != 0) return kInvalidValue;
    if (driver.config.devices == 0) return kNoDevice;
    driver.initialized = true;
    return kSuccess;
  });
}

Result cuDriverGetVersion(int* version) {
  return Call(__func__, Needs::kNothing, [&](Driver& driver) {
    if (version == nullptr) return kInvalidValue;
    *version = driver.config.driver_version;
    return kSuccess;
  });
}

Result cuGetErrorName(Result error, const char** name) {
  const ErrorText* found = FindErrorText(error);
  if (name == nullptr) return kInvalidValue;
  *name = found == nullptr ? nullptr : found->name;
  return found == nullptr ? kInvalidValue : kSuccess;
}

Result cuGetErrorString(Result error, const char** text) {
  const ErrorText* found = FindErrorText(error);
  if (text == nullptr) return kInvalidValue;
  *text = found == nullptr ? nullptr : found->text;
  return found == nullptr ? kInvalidValue : kSuccess;
}

Result cuDeviceGetCount(int* count) {
  return Call(__func__, Needs::kInit, [&](Driver& driver) {
    if (count == nullptr) return kInvalidValue;
    *count = driver.config.devices;
    return kSuccess;
  });
}

Result cuDeviceGet(Device* device, int ordinal) {
  return Call(__func__, Needs::kInit, [&](Driver& driver) {
    if (device == nullptr) return kInvalidValue;
    if (!IsDevice(driver, ordinal)) return kInvalidDevice;
    *device = ordinal;
    return kSuccess;
  });
}

Result cuDeviceGetName(char* name, int size, Device device) {
  return Call(__func__, Needs::kInit, [&](Driver& driver) {
    if (name == nullptr || size <= 0) return kInvalidValue;
    if (!IsDevice(driver, device)) return kInvalidDevice;
    const std::string text =
        std::string(kEmulatedModel) + "sm_" + std::to_string(driver.config.sm[device]);
    const size_t length = std::min(text.size(), static_cast<size_t>(size) - 1);
    std::memcpy(name, text.data(), length);
    name[length] = 0;
    return kSuccess;
  });
}

Result cuDeviceTotalMem_v2(size_t* bytes, Device device) {
  return Call(__func__, Needs::kInit, [&](Driver& driver) {
    if (bytes == nullptr) return kInvalidValue;
    if (!IsDevice(driver, device)) return kInvalidDevice;
    *bytes = driver.config.memory[device];
    return kSuccess;
  });
}

Result cuDeviceGetAttribute(int* value, DeviceAttribute attribute, Device device) {
  return Call(__func__, Needs::kInit, [&](Driver& driver) {
    if (value == nullptr) return kInvalidValue;
    if (!IsDevice(driver, device)) return kInvalidDevice;
    return Attribute(driver, attribute, device, *value);
  });
}

Result cuDevicePrimaryCtxRetain(Context* context, Device device) {
  return Call(__func__, Needs::kInit, [&](Driver& driver) {
    if (context == nullptr) return kInvalidValue;
    if (!IsDevice(driver, device)) return kInvalidDevice;
    ++driver.devices[device].retains;
    *context = ContextOf(device);
    return kSuccess;
  });
}

Result cuDevicePrimaryCtxRelease_v2(Device device) {
  return Call(__func__, Needs::kInit, [&](Driver& driver) {
    if (!IsDevice(driver, device)) return kInvalidDevice;
    DeviceState& state = driver.devices[device];
    if (state.retains == 0) return kInvalidContext;
    if (--state.retains == 0) driver.DestroyContext(state);
    return kSuccess;
  });
}

Result cuCtxGetCurrent(Context* context) {
  return Call(__func__, Needs::kInit, [&](Driver& driver) {
    if (context == nullptr) return kInvalidValue;
    const DeviceState* current = driver.Current();
    *context = current == nullptr ? nullptr : ContextOf(current->ordinal);
    return kSuccess;
  });
}

Result cuCtxPushCurrent_v2(Context context) {
  return Call(__func__, Needs::kInit, [&](Driver& driver) {
    const int device = DeviceOf(driver, context);
    if (device < 0) return kInvalidContext;
    driver.contexts[std::this_thread::get_id()].push_back(device);
    return kSuccess;
  });
}

Result cuCtxPopCurrent_v2(Context* context) {
  return Call(__func__, Needs::kInit, [&](Driver& driver) {
    const auto stack = driver.contexts.find(std::this_thread::get_id());
    if (stack == driver.contexts.end()) return kInvalidContext;
    if (context != nullptr) *context = ContextOf(stack->second.back());
    stack->second.pop_back();
    if (stack->second.empty()) driver.contexts.erase(stack);
    return kSuccess;
  });
}

}  // namespace kiln::cuda
// NOLINTEND(readability-identifier-naming)
