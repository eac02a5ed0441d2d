// SPDX-License-Identifier: Apache-2.0
#include "schedule/device.h"

#include <cstdlib>

namespace kiln {

const DeviceModel& ModelOf(DeviceKind device) {
  for (const DeviceModel* model : AllDeviceModels())
    if (model->device == device) return *model;
  std::abort();  // a device without a line in the table: no input makes one
}

}  // namespace kiln
