// SPDX-License-Identifier: Apache-2.0
// DeviceModel: how kernels are scheduled and priced for a device.
//
// Grouping, the choice of schedules, and whoever prints them, look up here whatever depends on the
// device that they work for. A device is one file (schedule/<device>/device.cc) with its model, and
// one line in the table of devices.cc.
//
// Example: ModelOf(target).schedulers lists what a kernel for `target` may be run like.
#ifndef KILN_SCHEDULE_DEVICE_H_
#define KILN_SCHEDULE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/target.h"
#include "schedule/machine.h"
#include "schedule/scheduler.h"

namespace kiln {

// What a kernel of the device may be at most; grouping makes no larger ones.
struct GroupCaps {
  size_t buffers;        // inputs and outputs together
  int64_t compile_work;  // CompileWork of schedule/analysis.h
};

// How the activations of convolutions lie in memory where a library runs fastest.
enum class ActivationLayout : uint8_t { kChannelsFirst, kChannelsLast };

struct DeviceModel {
  DeviceKind device;
  // What Schedule::Parse knows.
  std::span<const Template* const> (*templates)();
  // Best first; the last accepts everything the grammar can say.
  std::span<const Scheduler> (*schedulers)();
  GroupCaps caps;
  ActivationLayout layout;
  // The description shipped for the level; that of the lowest level with code for lower ones.
  const Machine& (*machine)(Target target);
};

// The table.
std::span<const DeviceModel* const> AllDeviceModels();

const DeviceModel& ModelOf(DeviceKind device);
inline const DeviceModel& ModelOf(Target target) { return ModelOf(target.device); }
inline const Machine& ShippedMachine(Target target) { return ModelOf(target).machine(target); }

}  // namespace kiln

#endif  // KILN_SCHEDULE_DEVICE_H_
