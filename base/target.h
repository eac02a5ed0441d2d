// SPDX-License-Identifier: Apache-2.0
// The tables behind a Target (kiln/target.h): what devices and levels there are.
//
// Whatever depends on a device is looked up by it: here its levels (targets.cc), in
// schedule/device.h how kernels are scheduled and priced, in halide_gen/common/backend.h how code
// is made, in exec/support/device.h how it is loaded. Each has one table with one line for each
// device.
#ifndef KILN_BASE_TARGET_H_
#define KILN_BASE_TARGET_H_

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "kiln/target.h"

namespace kiln {

// ---- The tables, immutable.

struct DeviceRow {
  DeviceKind device;
  const char* name;        // "cpu": what --device takes, and entries of the cache and JSON say
  uint8_t (*detect)();     // the level of the one in this computer; 0 where there is none
  std::string (*model)();  // what its maker calls that; empty where there is none
  std::vector<std::string> (*features)();  // what it has, as in DeviceRuntime::runs
};
std::span<const DeviceRow> AllDevices();

struct TargetRow {
  Target target;
  const char* name;
  const char* doc;  // one phrase, for messages and help
};
std::span<const TargetRow> AllTargets();

// The device's row of a table that has one for each.
template <typename Row>
const Row& RowOf(std::span<const Row* const> table, DeviceKind device) {
  for (const Row* row : table)
    if (row->device == device) return *row;
  std::abort();  // a device without a line in the table: no input makes one
}

// The first: what is meant where no device is named.
inline DeviceKind DefaultDevice() { return AllDevices().front().device; }

absl::string_view Name(DeviceKind device);
std::optional<DeviceKind> ParseDevice(absl::string_view name);

// The level of the device in this computer, which may take opening its driver: nobody asks who does
// not mean to use the device. Found once; thread-safe.
Target HostTarget(DeviceKind device);

// The lowest level of the device that has code: what is assumed where no target is known.
Target LowestTarget(DeviceKind device = DefaultDevice());

}  // namespace kiln

#endif  // KILN_BASE_TARGET_H_
