// SPDX-License-Identifier: Apache-2.0
#include "exec/support/device.h"

#include <cstdlib>

namespace kiln {

const DeviceRuntime& RuntimeOf(DeviceKind device) {
  for (const DeviceRuntime* runtime : AllDeviceRuntimes())
    if (runtime->device == device) return *runtime;
  std::abort();  // a device without a line in the table: no input makes one
}

}  // namespace kiln
