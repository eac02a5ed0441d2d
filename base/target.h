// SPDX-License-Identifier: Apache-2.0
// Target: what code is made for, a device and a level of it.
//
// Its text form ("x86-64-v3") is what --target takes, what keys, packages and machine descriptions
// hold, and what messages say. Whatever depends on a device is looked up by it: in base the levels
// (targets.cc), in schedule/device.h how kernels are scheduled and priced, in
// halide_gen/common/backend.h how code is made, in exec/support/device.h how it is loaded. Each has
// one table with one line for each device.
//
// Levels of a device are ordered: code for one runs on all above it.
//
// Example:
//   Target::Parse("x86-64-v3")->RunsOn(HostTarget())   true where the processor has AVX2
#ifndef KILN_BASE_TARGET_H_
#define KILN_BASE_TARGET_H_

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace kiln {

// One line for each device; the first is the default.
enum class DeviceKind : uint8_t {
  kCpu,
};

struct Target {
  DeviceKind device = DeviceKind::kCpu;
  uint8_t level = 0;  // of the device; 0 has no code, its kernels run on the VM

  // Nothing for a text that names no target.
  static std::optional<Target> Parse(absl::string_view name);
  absl::string_view name() const;

  // Whether kernels are compiled for this target at all.
  bool compiles() const { return level > 0; }
  // Whether code for this target runs where `host` is.
  bool RunsOn(Target host) const { return device == host.device && level <= host.level; }

  friend bool operator==(Target, Target) = default;
};

// ---- The tables, immutable.

struct DeviceRow {
  DeviceKind device;
  const char* name;        // "cpu": what --device takes, and entries of the cache and JSON say
  uint8_t (*detect)();     // the level of the one in this computer
  std::string (*model)();  // what its maker calls that
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

// What kernels are compiled for where nothing else is asked: the level of the device in this
// computer. Found once; thread-safe.
Target HostTarget(DeviceKind device = DefaultDevice());

// The lowest level of the device that has code: what is assumed where no target is known.
Target LowestTarget(DeviceKind device = DefaultDevice());

}  // namespace kiln

#endif  // KILN_BASE_TARGET_H_
