// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/str_cat.h"
#include "exec/support/compute_device.h"
#include "exec/support/device.h"

namespace kiln {

bool RunsOn(const DeviceRuntime& runtime, absl::string_view isa, const ComputeDevice* on) {
  if (runtime.host_memory) return runtime.runs(isa);
  return on != nullptr && on->target().device == runtime.device && on->Runs(isa);
}

absl::StatusOr<LoadedKernel> LoadOn(const DeviceRuntime& runtime, const CodeImage& code,
                                    ComputeDevice* on) {
  if (runtime.host_memory) return runtime.load(code.code, code.name);
  if (on != nullptr && on->target().device == runtime.device) return on->Load(code);
  return absl::UnavailableError(absl::StrCat(
      "device \"", Name(runtime.device), "\": none is open; name one in RuntimeOptions::device"));
}

}  // namespace kiln
