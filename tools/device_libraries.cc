// SPDX-License-Identifier: Apache-2.0
#include "tools/device_libraries.h"

#include "absl/strings/str_cat.h"
#include "exec/runtime_state.h"

namespace kiln {

std::vector<DeviceLibraryInfo> DeviceLibraries(const CompileOptions& options) {
  const std::shared_ptr<ComputeDevice> device = DeviceOf(options.runtime);
  return device != nullptr ? device->libraries() : std::vector<DeviceLibraryInfo>();
}

std::vector<DeviceLibraryInfo> DeviceLibraries(const std::string& device) {
  const absl::StatusOr<std::shared_ptr<ComputeDevice>> opened = OpenComputeDevice(device);
  return opened.ok() ? (*opened)->libraries() : std::vector<DeviceLibraryInfo>();
}

std::string ToText(const DeviceLibraryInfo& library) {
  if (library.missing.empty()) return absl::StrCat(library.name, " ", library.version);
  return absl::StrCat("no ", library.missing);
}

nlohmann::json ToJson(const std::vector<DeviceLibraryInfo>& libraries) {
  nlohmann::json list = nlohmann::json::array();
  for (const DeviceLibraryInfo& one : libraries)
    list.push_back({{"name", one.name}, {"version", one.version}, {"missing", one.missing}});
  return list;
}

}  // namespace kiln
