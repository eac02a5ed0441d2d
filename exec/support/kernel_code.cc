// SPDX-License-Identifier: Apache-2.0
#include "exec/support/kernel_code.h"

#include "persistent_cache/key.h"

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
  std::map<std::string, std::string> meta = MetaOf(entry);
  const DeviceRuntime* const runtime = RuntimeOfMeta(meta);
  const auto section = [&](const char* name) {
    const std::string* const bytes = name != nullptr ? entry.Find(name) : nullptr;
    return bytes != nullptr ? absl::string_view(*bytes) : absl::string_view();
  };
  if (runtime == nullptr || entry.Find(runtime->section) == nullptr) return std::nullopt;
  KernelCode code = {
      runtime,
      {section(runtime->section), section(runtime->machine_code), section(runtime->recipe)},
      std::nullopt,
      ""};
  const std::string* const preimage = entry.Find("preimage");
  if (preimage != nullptr) code.kernel = FieldOf(*preimage, "kernel");
  if (const auto isa = meta.find("isa"); isa != meta.end()) code.isa = isa->second;
  return code;
}

absl::StatusOr<LoadedKernel> KernelCode::Load(ComputeDevice* on) const {
  CodeImage whole = image;
  whole.kernel = kernel;
  return LoadOn(*device, whole, on);
}

bool RunsHere(const std::map<std::string, std::string>& meta, const ComputeDevice* on) {
  const DeviceRuntime* const runtime = RuntimeOfMeta(meta);
  const auto isa = meta.find("isa");
  return runtime != nullptr && isa != meta.end() && RunsOn(*runtime, isa->second, on);
}

}  // namespace kiln
