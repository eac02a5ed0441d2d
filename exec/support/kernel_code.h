// SPDX-License-Identifier: Apache-2.0
// The code in an entry of the cache, for the device that its meta section names.
//
// Example:
//   const std::optional<KernelCode> code = CodeOf(entry);
//   if (code && code->runs_here) KILN_ASSIGN_OR_RETURN(LoadedKernel loaded, code->Load());
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
  absl::string_view bytes;  // of the section that is loaded; in the entry
  bool runs_here;           // RunsHere

  // As DeviceRuntime::load. Thread-safe.
  absl::StatusOr<LoadedKernel> Load() const { return device->load(bytes, "kernel"); }
};

// Nothing if the entry has no code, or is for a device unknown here. The entry outlives what is
// returned.
std::optional<KernelCode> CodeOf(const Entry& entry);

// Whether the device in this computer runs code of an entry with this meta section: what does not
// say for which device it is, or what it needs, runs nowhere.
bool RunsHere(const std::map<std::string, std::string>& meta);

}  // namespace kiln

#endif  // KILN_EXEC_SUPPORT_KERNEL_CODE_H_
