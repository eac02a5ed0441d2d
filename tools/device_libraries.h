// SPDX-License-Identifier: Apache-2.0
// Which libraries of operators there are for a device, for explain, devices and doctor.
#ifndef KILN_TOOLS_DEVICE_LIBRARIES_H_
#define KILN_TOOLS_DEVICE_LIBRARIES_H_

#include <string>
#include <vector>

#include "exec/support/compute_device.h"
#include "kiln/options.h"
#include "nlohmann/json.hpp"

namespace kiln {

// Of the device that models run on; none for the CPU, whose library is Kiln's own.
std::vector<DeviceLibraryInfo> DeviceLibraries(const CompileOptions& options);
// Of the device of that name; none where it cannot be opened.
std::vector<DeviceLibraryInfo> DeviceLibraries(const std::string& device);

// "cuBLASLt 13.1.0", or "no cuBLASLt: ...".
std::string ToText(const DeviceLibraryInfo& library);
// [{name, version, missing}]
nlohmann::json ToJson(const std::vector<DeviceLibraryInfo>& libraries);

}  // namespace kiln

#endif  // KILN_TOOLS_DEVICE_LIBRARIES_H_
