// SPDX-License-Identifier: Apache-2.0
// DeviceRuntime: how kernels of a device become callable.
//
// Whoever loads code, or asks whether it runs here, looks up here what depends on the device that
// it was made for. A device is one file (exec/<device>/device.cc) and one line in the table of
// devices.cc. kernel_code.h has the same for an entry of the cache, which names its device.
//
// Example: RuntimeOf(target.device).section is "elf" for the CPU.
#ifndef KILN_EXEC_SUPPORT_DEVICE_H_
#define KILN_EXEC_SUPPORT_DEVICE_H_

#include <memory>
#include <span>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/target.h"
#include "kernel/abi.h"

namespace kiln {

// Code that can be called. Unloaded with the last copy; by then no call may be in flight.
class LoadedKernel {
 public:
  LoadedKernel(std::shared_ptr<void> object, KernelFn function)
      : object_(std::move(object)), function_(function) {}
  KernelFn function() const { return function_; }

 private:
  std::shared_ptr<void> object_;
  KernelFn function_;
};

struct DeviceRuntime {
  DeviceKind device;
  // The section of a cache entry that is loaded.
  const char* section;
  // True if the operands of kernels lie in memory of the host.
  bool host_memory;
  // Whether the device in this computer has everything named in `isa` (separated by blanks, as in
  // the meta section of an entry).
  bool (*runs)(absl::string_view isa);
  // Makes the bytes of that section callable; `name` is what debuggers show. kDataLoss: not a
  // kernel of this interface; kResourceExhausted or kUnavailable: the system refuses what it takes.
  // Thread-safe.
  absl::StatusOr<LoadedKernel> (*load)(absl::string_view bytes, absl::string_view name);
};

// The table.
std::span<const DeviceRuntime* const> AllDeviceRuntimes();

inline const DeviceRuntime& RuntimeOf(DeviceKind device) {
  return RowOf(AllDeviceRuntimes(), device);
}

}  // namespace kiln

#endif  // KILN_EXEC_SUPPORT_DEVICE_H_
