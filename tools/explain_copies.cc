// SPDX-License-Identifier: Apache-2.0
#include "tools/explain_copies.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace kiln {
namespace {

bool Reads(const program::Thunk& thunk, int buffer) {
  const auto has = [&](const auto& refs) {
    return std::any_of(refs.begin(), refs.end(),
                       [&](const program::TensorRef& ref) { return ref.buffer() == buffer; });
  };
  if (thunk.has_kernel()) return has(thunk.kernel().inputs());
  if (thunk.has_library()) return has(thunk.library().inputs());
  if (thunk.has_view()) return thunk.view().from().buffer() == buffer;
  return thunk.has_copy() && thunk.copy().from().buffer() == buffer;
}

std::string Why(const program::Program& program, const program::Thunk& reader, bool to_device) {
  if (reader.has_library() && to_device) return "a call of the device's library";
  if (reader.has_library())
    return absl::StrCat("the device has no ", reader.library().op(), "; the library's runs");
  if (!reader.has_kernel()) return "parts are put together there";
  const bool compiled = !program.kernels(reader.kernel().kernel()).choices(0).schedule().empty();
  return compiled ? "a kernel of the device" : "no template of the device takes the kernel";
}

}  // namespace

std::vector<DeviceCopy> CopiesOf(const program::Program& program) {
  std::vector<DeviceCopy> copies;
  for (const program::Region& region : program.regions()) {
    for (int k = 0; k < region.thunks_size(); ++k) {
      if (!region.thunks(k).has_copy()) continue;
      const int from = region.thunks(k).copy().from().buffer();
      int to = region.thunks(k).copy().to().buffer();
      const program::Buffer& target = program.buffers(to);
      if (program.buffers(from).device() == target.device()) continue;
      DeviceCopy& copy = copies.emplace_back();
      copy.value = program.buffers(from).name();
      copy.to_device = !target.device().empty();
      copy.bytes = target.bytes();
      copy.why = "the caller's memory is the host's";
      for (int next = k + 1; next < region.thunks_size(); ++next) {
        const program::Thunk& thunk = region.thunks(next);
        if (!Reads(thunk, to)) continue;
        if (thunk.has_view()) {  // who reads what is seen
          to = thunk.view().to().buffer();
          continue;
        }
        copy.reader = thunk.name();
        copy.why = Why(program, thunk, copy.to_device);
        break;
      }
    }
  }
  return copies;
}

HostLaunches HostLaunchesOf(const program::Program& program) {
  HostLaunches found;
  const auto on_host = [&](const auto& refs) {
    return std::any_of(refs.begin(), refs.end(), [&](const program::TensorRef& ref) {
      return ref.buffer() >= 0 && program.buffers(ref.buffer()).device().empty();
    });
  };
  for (const program::Region& region : program.regions()) {
    for (const program::Thunk& thunk : region.thunks()) {
      if (!thunk.has_kernel() && !thunk.has_library()) continue;
      ++found.all;
      const bool kernel = thunk.has_kernel();
      const auto& inputs = kernel ? thunk.kernel().inputs() : thunk.library().inputs();
      const auto& outputs = kernel ? thunk.kernel().outputs() : thunk.library().outputs();
      if (on_host(inputs) || on_host(outputs))
        found.on_cpu.push_back({thunk.name(), Why(program, thunk, /*to_device=*/false)});
    }
  }
  return found;
}

std::string HostLaunches::ToString() const {
  if (on_cpu.empty()) return "";
  return absl::StrCat(on_cpu.size(), " of ", all, " launches: ",
                      absl::StrJoin(on_cpu, ", ", [](std::string* out, const HostLaunch& launch) {
                        absl::StrAppend(out, launch.nodes, " (", launch.why, ")");
                      }));
}

}  // namespace kiln
