// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/device.h"

#include "exec/cpu/elf_loader.h"

namespace kiln {

const DeviceRuntime kCpuRuntime = {
    .device = DeviceKind::kCpu,
    .section = "elf",
    .host_memory = true,
    .runs = HostRuns,
    .load = LoadElf,
};

}  // namespace kiln
