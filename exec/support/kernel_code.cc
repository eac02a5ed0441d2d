// SPDX-License-Identifier: Apache-2.0
#include "exec/support/kernel_code.h"

namespace kiln {
namespace {

const DeviceRuntime* RuntimeOfMeta(const std::map<std::string, std::string>& meta) {
  const auto named = meta.find("device");
  const std::optional<DeviceKind> device =
      named != meta.end() ? ParseDevice(named->second) : std::nullopt;
  return device.has_value() ? &RuntimeOf(*device) : nullptr;
}

}  // namespace

std::optional<KernelCode> CodeOf(const Entry& entry) {
  const std::map<std::string, std::string> meta = MetaOf(entry);
  const DeviceRuntime* const runtime = RuntimeOfMeta(meta);
  const std::string* const bytes = runtime != nullptr ? entry.Find(runtime->section) : nullptr;
  if (bytes == nullptr) return std::nullopt;
  return KernelCode{runtime, *bytes, RunsHere(meta)};
}

bool RunsHere(const std::map<std::string, std::string>& meta) {
  const DeviceRuntime* const runtime = RuntimeOfMeta(meta);
  const auto isa = meta.find("isa");
  return runtime != nullptr && isa != meta.end() && runtime->runs(isa->second);
}

}  // namespace kiln
