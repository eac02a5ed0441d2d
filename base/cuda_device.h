// SPDX-License-Identifier: Apache-2.0
// What NVIDIA's driver says of the first GPU of this computer, for the table of devices.
//
// The driver is a library that is opened when it is first asked, and stays open: a process that
// never asks has none, and neither does one where there is no driver. Nothing is made on the
// device.
//
// Levels are by compute capability: 1 from 8.0 on, 2 from 9.0, 3 from 10.0, 4 from 12.0.
//
// Example: on an H200, FindCudaDevice() has major 9 and minor 0, and CudaLevelOf(9, 0) is 2.
#ifndef KILN_BASE_CUDA_DEVICE_H_
#define KILN_BASE_CUDA_DEVICE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

// How the name begins that the emulated driver (ptx_emulator/) gives its devices.
inline constexpr char kEmulatedModel[] = "Emulated ";

struct CudaDevice {
  std::string name;
  int major = 0, minor = 0;  // of the compute capability
};

// Nothing where the library, one of its functions or a device is missing. Thread-safe.
std::optional<CudaDevice> FindCudaDevice(const char* library);

// 0: older than what code is made for.
uint8_t CudaLevelOf(int major, int minor);
// What code that runs there may name: "sm_80" and on, in the order of levels.
std::vector<std::string> CudaFeaturesOf(uint8_t level);

// Of the first GPU of this computer, found once: DeviceRow's functions. Thread-safe.
uint8_t HostCudaLevel();
std::string HostCudaModel();
std::vector<std::string> HostCudaFeatures();

}  // namespace kiln

#endif  // KILN_BASE_CUDA_DEVICE_H_
