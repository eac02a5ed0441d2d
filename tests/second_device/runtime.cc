// SPDX-License-Identifier: Apache-2.0
// How code for the second device becomes callable, and the table with it.
#include "exec/cpu/device.h"
#include "exec/cpu/elf_loader.h"
#include "tests/second_device/device.h"

namespace kiln {

const DeviceRuntime kScalarRuntime = {.device = kScalarDevice,
                                      .section = "elf",
                                      .host_memory = true,
                                      .runs = HostRuns,
                                      .load = LoadElf};

std::span<const DeviceRuntime* const> AllDeviceRuntimes() {
  static constexpr const DeviceRuntime* kRuntimes[] = {&kCpuRuntime, &kScalarRuntime};
  return kRuntimes;
}

}  // namespace kiln
