// SPDX-License-Identifier: Apache-2.0
#include "base/target.h"

#include <cstdlib>

namespace kiln {
namespace {

const DeviceRow& RowOf(DeviceKind device) {
  for (const DeviceRow& row : AllDevices())
    if (row.device == device) return row;
  std::abort();  // a DeviceKind that is in no table: no input makes one
}

}  // namespace

std::optional<Target> Target::Parse(absl::string_view name) {
  for (const TargetRow& row : AllTargets())
    if (row.name == name) return row.target;
  return std::nullopt;
}

absl::string_view Target::name() const {
  for (const TargetRow& row : AllTargets())
    if (row.target == *this) return row.name;
  return "unknown";
}

absl::string_view Name(DeviceKind device) { return RowOf(device).name; }

std::optional<DeviceKind> ParseDevice(absl::string_view name) {
  for (const DeviceRow& row : AllDevices())
    if (row.name == name) return row.device;
  return std::nullopt;
}

Target LowestTarget(DeviceKind device) {
  for (const TargetRow& row : AllTargets())
    if (row.target.device == device && row.target.compiles()) return row.target;
  return {device, 0};
}

Target HostTarget() { return HostTarget(DefaultDevice()); }
Target HostTarget(DeviceKind device) { return {device, RowOf(device).detect()}; }

}  // namespace kiln
