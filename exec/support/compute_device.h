// SPDX-License-Identifier: Apache-2.0
// ComputeDevice: a device beside the CPU, with memory of its own, that kernels run on.
//
//   KILN_ASSIGN_OR_RETURN(std::shared_ptr<ComputeDevice> device, OpenComputeDevice("cuda:0"));
//   KILN_ASSIGN_OR_RETURN(std::unique_ptr<DeviceQueue> queue, device->NewQueue());
//   KILN_ASSIGN_OR_RETURN(void* const arena, queue->Arena(1 << 20));
//   KILN_RETURN_IF_ERROR(queue->Begin(nullptr, /*alone=*/true));
//   KILN_RETURN_IF_ERROR(queue->CopyIn(arena, input, 4096));
//   // launches with LaunchContext::stream = queue.get(), operands at addresses in the arena
//   KILN_RETURN_IF_ERROR(queue->CopyOut(output, arena, 4096));
//   KILN_RETURN_IF_ERROR(queue->End());                 // now `output` has it
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
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/library_set.h"
#include "base/target.h"
#include "exec/support/device.h"
#include "exec/support/device_speed.h"
#include "kernel/kernel.h"

namespace kiln {

namespace library {  // exec/library/primitive.h
class Primitive;
struct Request;
}  // namespace library

// A library of whole operators for a device.
struct DeviceLibraryInfo {
  LibrarySet library = kNoLibrary;
  std::vector<std::string> operators;  // that it computes
  std::string name;                    // as its maker calls it
  std::string version;                 // "13.1.0"; empty where it is missing
  std::string missing;                 // why it cannot be used, and what to do; empty: it is there
};

// A launch of device code that has been loaded.
struct DeviceCall {
  const void* self = nullptr;  // LoadedKernel::self
  void** argv = nullptr;       // as kernel/abi.h says; it and what it points to stay where they are
};

// Launches that follow each other and are repeated with the same extents: all but the addresses of
// operands is evaluated once. From its second run on a device may replay them as one.
class LaunchSequence {
 public:
  virtual ~LaunchSequence() = default;
  // Puts all of them into the queue, operands at the addresses that arguments have now. `moved`:
  // some may have changed since the last run. After an error `failed` is the first call that was
  // not launched.
  virtual absl::Status Run(bool moved, size_t& failed) = 0;
};

// What one caller has of a device: the order of its copies and launches, and memory for them. One
// caller at a time. An error of a launch may show at a later call.
class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;
  // At least `bytes` of device memory, 256-byte aligned, the same as before where that is enough;
  // else what was given before is no more. Not within a run. kResourceExhausted.
  virtual absl::StatusOr<void*> Arena(int64_t bytes) = 0;
  // Of device memory that it has: the arena, and what launches share.
  virtual int64_t bytes() const = 0;

  // A run: what follows, up to End, is one thread's, which calls nothing else of the device if
  // `alone` (calls then cost less). It goes into `stream`, a stream of the application in the
  // device's context: after what is in it, and before what is put into it later. Null: the queue's
  // own, which is in order with those of other runs. kInvalidArgument: a stream of another device.
  virtual absl::Status Begin(void* stream, bool alone) = 0;
  // Ends a run, and waits for all of it, unless it went into a stream of the application and copied
  // nothing to the host. As TakeError.
  virtual absl::Status End() = 0;
  // Ends a run that has failed; what it copied to the host may not arrive.
  virtual void Abandon() = 0;

  // Host memory may be changed or freed as soon as CopyIn returns. What CopyOut copies is there
  // after the next WaitForCopies, Wait or End; a CopyIn from there waits by itself.
  virtual absl::Status CopyIn(void* to, const void* from, size_t bytes) = 0;
  virtual absl::Status CopyOut(void* to, const void* from, size_t bytes) = 0;
  virtual absl::Status CopyOver(void* to, const void* from, size_t bytes) = 0;
  // Until all that CopyOut was called for is there. Returns at once if there is nothing.
  virtual absl::Status WaitForCopies() = 0;
  // Until all of it has ended; then as TakeError.
  virtual absl::Status Wait() = 0;
  // The first error of a launch since the last call; a KernelFn, which answers a number, hands it
  // on by SetError.
  virtual absl::Status TakeError() = 0;
  virtual void SetError(absl::Status error) = 0;

  // The sequence ends before the queue and the code.
  virtual absl::StatusOr<std::unique_ptr<LaunchSequence>> Prepare(
      std::span<const DeviceCall> calls) = 0;

  // Fills the device's cache with other data. What follows reads its operands from memory, and the
  // host is ahead of the device: what it needs for a launch is not in the device's time.
  virtual absl::Status FlushCache() = 0;
  // Remembers when the work before it has ended, as number `mark`; after a Wait, the time from one
  // mark to another.
  virtual absl::Status Mark(size_t mark) = 0;
  virtual absl::StatusOr<double> MillisecondsBetween(size_t from, size_t to) = 0;
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
  // The number of tensors that lie on it (Device::index).
  virtual int ordinal() const = 0;
  // Whether these bytes are memory of the device, of whoever in the process: kInvalidArgument says
  // what they are. kUnavailable: the device is lost.
  virtual absl::Status CheckMemory(const void* data, int64_t bytes) = 0;
  // A copy on the device, at the address that the pointer holds, until the last owner goes.
  virtual absl::StatusOr<std::shared_ptr<void>> Upload(const void* data, int64_t bytes) = 0;
  // Makes code callable, with a DeviceQueue as LaunchContext::stream. Errors as
  // DeviceRuntime::load.
  virtual absl::StatusOr<LoadedKernel> Load(const CodeImage& code) = 0;

  // The libraries that it may have, and whether it has them: they are opened when first asked for.
  virtual std::vector<DeviceLibraryInfo> libraries();
  // A call of the operator (exec/library/library.h has the table) whose operands lie on the device,
  // and which is put into the DeviceQueue that is LaunchContext::stream. The request has been
  // checked (library::CheckOperands). kUnimplemented: no library takes it, and why;
  // kFailedPrecondition: the library that would is missing, and what to do.
  virtual absl::StatusOr<std::unique_ptr<library::Primitive>> MakeCall(
      const char* op, const library::Request& request);
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
