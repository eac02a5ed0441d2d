// SPDX-License-Identifier: Apache-2.0
// What is done about a model, or a kernel of it, that has no code for the runtime's device: it runs
// on the CPU with a warning, or is an error where RuntimeOptions::require_device says so.
//
//   KILN_RETURN_IF_ERROR(DeviceUseOf(runtime).RunOnCpu("model", "has code for x86-64-v3 alone"));
#ifndef KILN_EXEC_DEVICE_USE_H_
#define KILN_EXEC_DEVICE_USE_H_

#include <atomic>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "exec/program.pb.h"
#include "exec/runtime_state.h"
#include "exec/support/compute_device.h"
#include "kiln/runtime.h"

namespace kiln {

struct DeviceUse {
  DeviceUse() = default;
  // Not explicit: a device that is open may be used, and need not be.
  DeviceUse(std::shared_ptr<ComputeDevice> open, bool must = false)  // NOLINT
      : device(std::move(open)), required(must) {}

  std::shared_ptr<ComputeDevice> device;  // null: there is none
  bool required = false;

  // The subject runs on the CPU because of `why`. Logs a warning; where the device is required
  // kFailedPrecondition, with `why` alone, for callers who know the subject. OK, and nothing is
  // logged, where no device is open.
  absl::Status RunOnCpu(absl::string_view subject, absl::string_view why) const;
  // The same of all kernels of a model's program whose operands lie in the host's memory. A program
  // for another device (of a package, or as options asked) counts only where this one is required.
  // Warns where `told` is not set, and sets it.
  absl::Status CheckKernels(const program::Program& program, std::atomic<bool>& told) const;
};

inline DeviceUse DeviceUseOf(const std::shared_ptr<Runtime>& runtime) {
  return {DeviceOf(runtime), runtime != nullptr && runtime->state().options.require_device};
}

}  // namespace kiln

#endif  // KILN_EXEC_DEVICE_USE_H_
