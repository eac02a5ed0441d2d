// SPDX-License-Identifier: Apache-2.0
// The code in an entry of the cache, for the device that its meta section names.
//
// Example:
//   if (CodeOf(entry) != nullptr && RunsHere(MetaOf(entry)))
//     KILN_ASSIGN_OR_RETURN(LoadedKernel loaded, LoadCode(entry));
#ifndef KILN_EXEC_SUPPORT_KERNEL_CODE_H_
#define KILN_EXEC_SUPPORT_KERNEL_CODE_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "exec/support/device.h"
#include "persistent_cache/entry.h"

namespace kiln {

// The section that is loaded; null if the entry has none, or is for a device unknown here. Lives as
// long as `entry`.
const std::string* CodeOf(const Entry& entry);

// Whether the device in this computer runs code of an entry with this meta section: what does not
// say for which device it is, or what it needs, runs nowhere.
bool RunsHere(const std::map<std::string, std::string>& meta);

// Makes the code callable; as DeviceRuntime::load. kDataLoss also where there is none. Thread-safe.
absl::StatusOr<LoadedKernel> LoadCode(const Entry& entry);

}  // namespace kiln

#endif  // KILN_EXEC_SUPPORT_KERNEL_CODE_H_
