// SPDX-License-Identifier: Apache-2.0
// ComputeDevice: a device beside the CPU, with memory of its own, that kernels run on.
//
//   KILN_ASSIGN_OR_RETURN(std::shared_ptr<ComputeDevice> device, OpenComputeDevice("cuda:0"));
//   KILN_ASSIGN_OR_RETURN(std::unique_ptr<DeviceQueue> queue, device->NewQueue());
//   KILN_ASSIGN_OR_RETURN(void* const arena, queue->Arena(1 << 20));
//   KILN_RETURN_IF_ERROR(queue->CopyIn(arena, input, 4096));
//   // launches with LaunchContext::stream = queue.get(), operands at addresses in the arena
//   KILN_RETURN_IF_ERROR(queue->CopyOut(output, arena, 4096));
//
// Addresses of the device are told as pointers, which the host must not follow. What implements it
// is a module, a shared library of its own (exec/cuda/module.cc), that is opened when a device is
// first asked for: a process without one carries none of it. A device serves the process that
// opened it; in a child of a fork its calls fail, with a status that says so.
#ifndef KILN_EXEC_SUPPORT_COMPUTE_DEVICE_H_
#define KILN_EXEC_SUPPORT_COMPUTE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/target.h"
#include "exec/support/device.h"
#include "exec/support/device_speed.h"
#include "kernel/kernel.h"

namespace kiln {

// What one caller has of a device: the order of its copies and launches, and memory for them. One
// caller at a time. An error of a launch may show at a later call.
class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;
  // At least `bytes` of device memory, 256-byte aligned, the same as before where that is enough;
  // else what was given before is no more. kResourceExhausted.
  virtual absl::StatusOr<void*> Arena(int64_t bytes) = 0;
  // Host memory may be changed or freed as soon as they return.
  virtual absl::Status CopyIn(void* to, const void* from, size_t bytes) = 0;
  virtual absl::Status CopyOut(void* to, const void* from, size_t bytes) = 0;
  virtual absl::Status CopyOver(void* to, const void* from, size_t bytes) = 0;
  // Until all of it has ended; then as TakeError.
  virtual absl::Status Wait() = 0;
  // The first error of a launch since the last call.
  virtual absl::Status TakeError() = 0;
  // The device's own clock: StopClock waits, and answers the milliseconds of what was put in since
  // StartClock. Before that, other data have filled the device's cache, which takes so long that
  // the host is ahead of the device: what the host needs for a launch is not in the time.
  virtual absl::Status StartClock() = 0;
  virtual absl::StatusOr<double> StopClock() = 0;
};

// Thread-safe.
class ComputeDevice {
 public:
  virtual ~ComputeDevice() = default;
  // As it was opened: "cuda:0", "cuda-emulated".
  virtual const std::string& name() const = 0;
  // What its maker calls it; validations of code are remembered by it.
  virtual const std::string& model() const = 0;
  virtual Target target() const = 0;
  virtual const DeviceFacts& facts() const = 0;
  // Copies and launches, timed: some 100 ms. Other work on the device spoils the figures.
  virtual absl::StatusOr<DeviceSpeed> Measure() = 0;
  // Whether it has everything named in the `isa` of an entry.
  virtual bool Runs(absl::string_view isa) const = 0;
  virtual absl::StatusOr<std::unique_ptr<DeviceQueue>> NewQueue() = 0;
  // A copy on the device, at the address that the pointer holds, until the last owner goes.
  virtual absl::StatusOr<std::shared_ptr<void>> Upload(const void* data, int64_t bytes) = 0;
  // Makes code callable, with a DeviceQueue as LaunchContext::stream. Errors as
  // DeviceRuntime::load.
  virtual absl::StatusOr<LoadedKernel> Load(const CodeImage& code) = 0;
};

// kUnavailable: there is no such device, or nothing here reaches it; why. kInvalidArgument: it is
// no name of a device.
absl::StatusOr<std::shared_ptr<ComputeDevice>> OpenComputeDevice(const std::string& name);

// What a module exports as kiln_open_device. `version` is the caller's; the module refuses another
// than its own.
using OpenDeviceFn = void (*)(const char* version, const std::string& name,
                              absl::StatusOr<std::shared_ptr<ComputeDevice>>* made);

}  // namespace kiln

#endif  // KILN_EXEC_SUPPORT_COMPUTE_DEVICE_H_
