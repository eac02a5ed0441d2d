// SPDX-License-Identifier: Apache-2.0
#include "compiler/device_library.h"

#include "compiler/machine_of.h"
#include "exec/runtime_state.h"
#include "exec/support/device.h"

namespace kiln {

LibrarySet LibrariesOf(const CompileOptions& options) {
  const DeviceKind target = TargetOf(options).device;
  if (OnHost(target) || options.device_library == DeviceLibrary::kNever) return kHostLibrary;
  LibrarySet libraries = kHostLibrary;
  if (options.device_library == DeviceLibrary::kAlways)
    return libraries | kProductLibrary | kConvolutionLibrary;
  const std::shared_ptr<ComputeDevice> device = DeviceOf(options.runtime);
  if (device == nullptr || device->target().device != target) return libraries;
  for (const DeviceLibraryInfo& info : device->libraries())
    if (info.missing.empty()) libraries |= info.library;
  return libraries;
}

LibraryRules LibraryRulesOf(const CompileOptions& options) {
  return {TargetOf(options).device, LibrariesOf(options), options.math == MathMode::kFast};
}

}  // namespace kiln
