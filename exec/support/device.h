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

class ComputeDevice;  // compute_device.h

// Code that can be called. Unloaded with the last copy; by then no call may be in flight.
class LoadedKernel {
 public:
  LoadedKernel(std::shared_ptr<void> object, KernelFn function, const void* self = nullptr)
      : object_(std::move(object)), function_(function), self_(self) {}
  KernelFn function() const { return function_; }
  // LaunchContext::kernel of its launches.
  const void* self() const { return self_; }

 private:
  std::shared_ptr<void> object_;
  KernelFn function_;
  const void* self_;
};

// What an entry has of a kernel's code.
struct CodeImage {
  absl::string_view code;
  absl::string_view machine_code = "";  // of `code`, for one level of the device; may be empty
  absl::string_view recipe = "";  // of launches (kernel/launch_recipe.h), where a device has one
  absl::string_view kernel = "";  // text
  absl::string_view name = "kernel";  // what debuggers show
};

struct DeviceRuntime {
  DeviceKind device;
  // The section of a cache entry that is loaded, and those that go with it; null: none.
  const char* section;
  const char* machine_code = nullptr;
  const char* recipe = nullptr;
  const char* figures = nullptr;  // what an assembler says of machine_code, for people
  // A ComputeDevice that every computer has, for validations where no other is open; null: the
  // code runs on the CPU.
  const char* emulated = nullptr;
  // True if the operands of kernels lie in memory of the host.
  bool host_memory;
  // Where operands lie in memory of the host; null else, a ComputeDevice does it: whether the
  // device in this computer has everything named in `isa` (separated by blanks, as in the meta
  // section of an entry).
  bool (*runs)(absl::string_view isa) = nullptr;
  // Makes the bytes of that section callable; `name` is what debuggers show. kDataLoss: not a
  // kernel of this interface; kResourceExhausted or kUnavailable: the system refuses what it takes.
  // Thread-safe.
  absl::StatusOr<LoadedKernel> (*load)(absl::string_view bytes, absl::string_view name) = nullptr;
};

// `on`: the device for kernels of its kind, if one is open.
bool RunsOn(const DeviceRuntime& runtime, absl::string_view isa, const ComputeDevice* on);
absl::StatusOr<LoadedKernel> LoadOn(const DeviceRuntime& runtime, const CodeImage& code,
                                    ComputeDevice* on);

// The table.
std::span<const DeviceRuntime* const> AllDeviceRuntimes();

inline const DeviceRuntime& RuntimeOf(DeviceKind device) {
  return RowOf(AllDeviceRuntimes(), device);
}
// Whether its kernels work in memory of the host.
inline bool OnHost(DeviceKind device) { return RuntimeOf(device).host_memory; }

}  // namespace kiln

#endif  // KILN_EXEC_SUPPORT_DEVICE_H_
