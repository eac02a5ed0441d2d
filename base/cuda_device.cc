// SPDX-License-Identifier: Apache-2.0
#include "base/cuda_device.h"

#include <dlfcn.h>

#include <iterator>

#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

// Values of cuda.h.
constexpr int kNoError = 0, kCapabilityMajor = 75, kCapabilityMinor = 76;

// The least capability of each level, from 1 on.
constexpr struct { int major, minor; } kLevels[] = {{8, 0}, {9, 0}, {10, 0}, {12, 0}};

// One call of the library: false where it has no such function, or that fails.
template <typename... Args>
bool CallsDriver(void* library, const char* name, Args... args) {
  const auto function = reinterpret_cast<int (*)(Args...)>(dlsym(library, name));
  return function != nullptr && function(args...) == kNoError;
}

const std::optional<CudaDevice>& HostCudaDevice() {
  static const std::optional<CudaDevice> kDevice = FindCudaDevice("libcuda.so.1");
  return kDevice;
}

}  // namespace

std::optional<CudaDevice> FindCudaDevice(const char* library) {
  void* const opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) return std::nullopt;
  int device = 0;
  char name[256] = "";
  CudaDevice found;
  const bool all =
      CallsDriver(opened, "cuInit", 0U) && CallsDriver(opened, "cuDeviceGet", &device, 0) &&
      CallsDriver(opened, "cuDeviceGetName", &name[0], static_cast<int>(sizeof(name)), device) &&
      CallsDriver(opened, "cuDeviceGetAttribute", &found.major, kCapabilityMajor, device) &&
      CallsDriver(opened, "cuDeviceGetAttribute", &found.minor, kCapabilityMinor, device);
  if (!all) return std::nullopt;
  found.name = name;
  return found;
}

uint8_t CudaLevelOf(int major, int minor) {
  uint8_t level = 0;
  for (const auto& least : kLevels)
    if (major > least.major || (major == least.major && minor >= least.minor)) ++level;
  return level;
}

std::vector<std::string> CudaFeaturesOf(uint8_t level) {
  std::vector<std::string> features;
  for (uint8_t k = 0; k < level && k < std::size(kLevels); ++k)
    features.push_back(absl::StrCat("sm_", kLevels[k].major, kLevels[k].minor));
  return features;
}

uint8_t HostCudaLevel() {
  const std::optional<CudaDevice>& device = HostCudaDevice();
  return device ? CudaLevelOf(device->major, device->minor) : 0;
}

std::string HostCudaModel() {
  const std::optional<CudaDevice>& device = HostCudaDevice();
  return device ? device->name : "";
}

std::vector<std::string> HostCudaFeatures() { return CudaFeaturesOf(HostCudaLevel()); }

}  // namespace kiln
