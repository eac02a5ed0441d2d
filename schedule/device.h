// SPDX-License-Identifier: Apache-2.0
// DeviceModel: how kernels are scheduled and priced for a device.
//
// Grouping, the choice of schedules, and whoever prints them, look up here whatever depends on the
// device that they work for. A device is one file (schedule/<device>/device.cc) with its model, and
// one line in the table of devices.cc.
//
// Example: ModelOf(target).templates() lists the ways in which kernels for `target` may run.
#ifndef KILN_SCHEDULE_DEVICE_H_
#define KILN_SCHEDULE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/decision.h"
#include "base/dtype.h"
#include "base/library_set.h"
#include "base/target.h"
#include "schedule/machine.h"
#include "schedule/price.h"
#include "schedule/schedule.h"

namespace kiln {

// What a kernel of the device may be at most; grouping makes no larger ones.
struct GroupCaps {
  size_t buffers;        // inputs and outputs together
  size_t numbers;        // inputs of one element, beside them
  int64_t compile_work;  // CompileWork of schedule/analysis.h

  // No says which of the first two is too many.
  Decision Allows(size_t with_buffers, size_t with_numbers) const;
};

// How the activations of convolutions lie in memory where a library runs fastest.
enum class ActivationLayout : uint8_t { kChannelsFirst, kChannelsLast };

// What of an operator decides which library computes it, as its record has it. Lists are empty
// where nothing is said, or the operator has no such attribute.
struct OperatorForm {
  absl::string_view name;
  DType type;
  size_t rank;      // of its first operand
  size_t operands;  // that are there
  std::vector<int64_t> pads, dilations;
  bool ceil_mode;
};

// A post-op of a library call, as far as whether a library does it depends on it. `vector`: its
// operand is one over the channels or columns.
struct PostOpForm {
  absl::string_view name;
  bool vector = false;
};

struct DeviceModel {
  DeviceKind device;
  // Yes if the nodes of a kernel gain by running as one, whatever its extents: some template other
  // than one of a loop nest for each stage accepts it. No says what each of them lacks.
  Decision (*fuses)(const Kernel& kernel);
  // What Schedule::Parse knows, and the choice takes candidates from.
  std::span<const Template* const> (*templates)();
  GroupCaps caps;
  ActivationLayout layout;
  // The library of the device that computes an operator; where there is none, the operator becomes
  // kernels, or runs on the host. Null: there is none for any.
  LibrarySet (*library)(const OperatorForm& op);
  // Whether one call does `next` after the operator and `before`. Null: as the host's.
  bool (*takes_post_op)(absl::string_view op, std::span<const PostOpForm> before, PostOpForm next,
                        bool fast);
  // What an extent that nobody knows is taken to be, in turn, when schedules are priced.
  std::span<const int64_t> open_extents;
  // Of a verified kernel that the schedule suits; one extent per dim. Pure and thread-safe.
  Price (*price)(const Kernel& kernel, std::span<const int64_t> extents, const Machine& machine,
                 const Schedule& schedule);
  // Its loops in text, a line each, for a kernel that has any (schedule/picture.h).
  std::string (*picture)(const Kernel& kernel, std::span<const int64_t> extents,
                         const Schedule& schedule, const Machine& machine);
  // Fills in what can be found of this computer without compiling kernels.
  void (*probe)(Machine& machine);
  // The description shipped for the level; that of the lowest level with code for lower ones.
  const Machine& (*machine)(Target target);
};

// The table.
std::span<const DeviceModel* const> AllDeviceModels();

inline const DeviceModel& ModelOf(DeviceKind device) { return RowOf(AllDeviceModels(), device); }
inline const DeviceModel& ModelOf(Target target) { return ModelOf(target.device); }
inline const Machine& ShippedMachine(Target target) { return ModelOf(target).machine(target); }

// By the model of the machine's device.
inline Price PriceOf(const Kernel& kernel, std::span<const int64_t> extents, const Machine& machine,
                     const Schedule& schedule) {
  return ModelOf(machine.target).price(kernel, extents, machine, schedule);
}

}  // namespace kiln

#endif  // KILN_SCHEDULE_DEVICE_H_
