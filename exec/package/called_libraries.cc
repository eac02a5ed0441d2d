// SPDX-License-Identifier: Apache-2.0
#include "exec/package/called_libraries.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "exec/support/device.h"

namespace kiln {
namespace {

bool OnDevice(const program::Program& program, const program::LibraryThunk& call) {
  return std::any_of(call.outputs().begin(), call.outputs().end(), [&](const auto& ref) {
    if (ref.buffer() < 0 || ref.buffer() >= program.buffers_size()) return false;
    const std::optional<DeviceKind> device = ParseDevice(program.buffers(ref.buffer()).device());
    return device && !OnHost(*device);
  });
}

}  // namespace

absl::Status CheckCalledLibraries(const program::Program& program, ComputeDevice* on) {
  std::set<std::string> called;
  for (const program::Region& region : program.regions()) {
    for (const program::Thunk& thunk : region.thunks())
      if (thunk.has_library() && OnDevice(program, thunk.library()))
        called.insert(thunk.library().op());
  }
  if (called.empty() || on == nullptr) return absl::OkStatus();
  for (const DeviceLibraryInfo& library : on->libraries()) {
    if (library.missing.empty()) continue;
    for (const std::string& op : library.operators) {
      if (called.count(op) == 0) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          "calls a library for \"", op, "\" on device \"", on->name(), "\": ", library.missing));
    }
  }
  return absl::OkStatus();
}

}  // namespace kiln
