// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/str_cat.h"
#include "exec/library/primitive.h"
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
  return absl::UnavailableError(
      absl::StrCat("device \"", Name(runtime.device),
                   "\": none is open; name one in RuntimeOptions::device (--device)"));
}

std::vector<DeviceLibraryInfo> ComputeDevice::libraries() { return {}; }

absl::StatusOr<std::unique_ptr<library::Primitive>> ComputeDevice::MakeCall(
    const char* op, const library::Request&) {
  return absl::UnimplementedError(absl::StrCat("device \"", name(), "\" has no ", op));
}

}  // namespace kiln
