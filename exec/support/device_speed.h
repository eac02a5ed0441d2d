// SPDX-License-Identifier: Apache-2.0
// What a device beside the CPU says of itself, and what it was measured to do.
#ifndef KILN_EXEC_SUPPORT_DEVICE_SPEED_H_
#define KILN_EXEC_SUPPORT_DEVICE_SPEED_H_

#include <cstdint>
#include <string>

namespace kiln {

struct DeviceFacts {
  std::string driver;  // "CUDA 13.0": the highest that it serves
  int64_t memory_bytes = 0, cache_bytes = 0;
  int multiprocessors = 0;
  double clock_ghz = 0;
  int64_t registers = 0, shared_bytes = 0, threads = 0;  // of a multiprocessor
};

// Rates are in 1e9 bytes per second.
struct DeviceSpeed {
  // Copies on the device, bytes read and bytes written added up, of so many bytes in both arrays:
  // several caches, and what the cache holds.
  int64_t memory_set_bytes = 0, cache_set_bytes = 0;
  double memory_gb_s = 0, cache_gb_s = 0;
  // Copies between the host's memory, pinned or pageable, and the device.
  double to_device_pinned_gb_s = 0, from_device_pinned_gb_s = 0;
  double to_device_pageable_gb_s = 0, from_device_pageable_gb_s = 0;
  double launch_ns = 0;  // of an empty kernel behind another
};

}  // namespace kiln

#endif  // KILN_EXEC_SUPPORT_DEVICE_SPEED_H_
