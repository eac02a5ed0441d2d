// SPDX-License-Identifier: Apache-2.0
#include "exec/support/kernel_code.h"

#include <optional>

#include "absl/status/status.h"

namespace kiln {
namespace {

const DeviceRuntime* RuntimeOfMeta(const std::map<std::string, std::string>& meta) {
  const auto named = meta.find("device");
  const std::optional<DeviceKind> device =
      named != meta.end() ? ParseDevice(named->second) : std::nullopt;
  return device.has_value() ? &RuntimeOf(*device) : nullptr;
}

}  // namespace

const std::string* CodeOf(const Entry& entry) {
  const DeviceRuntime* const runtime = RuntimeOfMeta(MetaOf(entry));
  return runtime != nullptr ? entry.Find(runtime->section) : nullptr;
}

bool RunsHere(const std::map<std::string, std::string>& meta) {
  const DeviceRuntime* const runtime = RuntimeOfMeta(meta);
  const auto isa = meta.find("isa");
  return runtime != nullptr && isa != meta.end() && runtime->runs(isa->second);
}

absl::StatusOr<LoadedKernel> LoadCode(const Entry& entry) {
  const std::string* const code = CodeOf(entry);
  if (code == nullptr) return absl::DataLossError("kernel entry: it has no code for this build");
  return RuntimeOfMeta(MetaOf(entry))->load(*code, "kernel");
}

}  // namespace kiln
