// SPDX-License-Identifier: Apache-2.0
// The code in an entry of the cache, for the device that its meta section names.
//
// Example:
//   const std::optional<KernelCode> code = CodeOf(entry);
//   if (code && code->RunsHere(gpu)) KILN_ASSIGN_OR_RETURN(LoadedKernel loaded, code->Load(gpu));
#ifndef KILN_EXEC_SUPPORT_KERNEL_CODE_H_
#define KILN_EXEC_SUPPORT_KERNEL_CODE_H_

#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "exec/support/device.h"
#include "persistent_cache/entry.h"

namespace kiln {

struct KernelCode {
  const DeviceRuntime* device;
  CodeImage image;                 // in the entry
  std::optional<std::string> isa;  // nothing: it does not say what it needs
  std::string kernel;              // text

  // `on`: as RunsOn and LoadOn of device.h. Thread-safe.
  bool RunsHere(const ComputeDevice* on) const { return isa && RunsOn(*device, *isa, on); }
  absl::StatusOr<LoadedKernel> Load(ComputeDevice* on) const;
};

// Nothing if the entry has no code, or is for a device unknown here. The entry outlives what is
// returned.
std::optional<KernelCode> CodeOf(const Entry& entry);

// Whether code of an entry with this meta section runs in this computer, or on the device: what
// does not say for which device it is, or what it needs, runs nowhere.
bool RunsHere(const std::map<std::string, std::string>& meta, const ComputeDevice* on = nullptr);

}  // namespace kiln

#endif  // KILN_EXEC_SUPPORT_KERNEL_CODE_H_
