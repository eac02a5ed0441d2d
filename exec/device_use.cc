// SPDX-License-Identifier: Apache-2.0
#include "exec/device_use.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/log.h"

namespace kiln {

absl::Status DeviceUse::RunOnCpu(absl::string_view subject, absl::string_view why) const {
  if (device == nullptr) return absl::OkStatus();
  if (required) {
    return absl::FailedPreconditionError(absl::StrCat(
        why, "; RuntimeOptions::require_device (--require-device) asks for device \"",
        device->name(), "\": compile for ", device->target().name(), ", or allow the CPU"));
  }
  LogWarning(subject, ": ", why, "; it runs on the CPU, not on device \"", device->name(),
             "\", with the same results");
  return absl::OkStatus();
}

absl::Status DeviceUse::CheckKernels(const program::Program& program,
                                     std::atomic<bool>& told) const {
  if (device == nullptr || (!required && told)) return absl::OkStatus();
  const auto on_host = [&](const auto& refs) {
    return std::any_of(refs.begin(), refs.end(), [&](const program::TensorRef& ref) {
      return ref.buffer() >= 0 && ref.buffer() < program.buffers_size() &&
             program.buffers(ref.buffer()).device().empty();
    });
  };
  const bool uses_device =
      std::any_of(program.buffers().begin(), program.buffers().end(),
                  [](const program::Buffer& buffer) { return !buffer.device().empty(); });
  const auto has_code = [&](int kernel) {
    const program::KernelDef& def = program.kernels(kernel);
    return def.choices_size() > 0 && !def.choices(0).schedule().empty();
  };
  int kernels = 0, on_cpu = 0;
  std::string first;
  for (const program::Region& region : program.regions()) {
    for (const program::Thunk& thunk : region.thunks()) {
      if (!thunk.has_kernel()) continue;
      ++kernels;
      if (!on_host(thunk.kernel().inputs()) && !on_host(thunk.kernel().outputs())) continue;
      if (!required && !uses_device && has_code(thunk.kernel().kernel())) continue;
      if (on_cpu++ == 0) first = thunk.name();
    }
  }
  if (on_cpu == 0 || (told.exchange(true) && !required)) return absl::OkStatus();
  return RunOnCpu("model", absl::StrCat(on_cpu, " of ", kernels, " kernels, the first \"", first,
                                        "\", have no code for ", device->target().name(),
                                        " (kiln explain says why)"));
}

}  // namespace kiln
