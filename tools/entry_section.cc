// SPDX-License-Identifier: Apache-2.0
#include "tools/entry_section.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "compiler/kernel_key.h"
#include "compiler/kernel_service.h"

namespace kiln {
namespace {

// What the compiler makes of a kernel, beside code.
constexpr absl::string_view kMadeAgain[] = {"ir", "stmt", "asm", "ptxas", "sass"};

// What the kernels of a device are shown as.
std::vector<absl::string_view> EmitsOf(DeviceKind device) {
  if (device == DeviceKind::kCpu) return {"kernel", "schedule", "ir", "stmt", "asm"};
  return {"kernel", "schedule", "ptx", "launch", "ptxas", "sass"};
}

bool Has(const std::vector<absl::string_view>& tags, absl::string_view tag) {
  return std::find(tags.begin(), tags.end(), tag) != tags.end();
}

}  // namespace

absl::StatusOr<std::string> SectionOf(const Entry& entry, const std::string& tag) {
  if (const std::string* const bytes = entry.Find(tag); bytes != nullptr) return *bytes;
  const std::string& preimage = *entry.Find("preimage");
  if (tag == "kernel" || tag == "schedule") {
    const std::string field = FieldOf(preimage, tag);
    if (!field.empty()) return tag == "kernel" ? field : field + "\n";
  }
  const std::optional<Target> target = Target::Parse(FieldOf(preimage, "target"));
  if (std::count(std::begin(kMadeAgain), std::end(kMadeAgain), tag) == 0 || !target.has_value())
    return absl::NotFoundError(absl::StrCat("the entry has no section \"", tag, "\""));
  CompileOptions options;
  options.cache.enabled = false;
  KernelService service(options);
  const MathMode math = FieldOf(preimage, "math") == "fast" ? MathMode::kFast : MathMode::kStrict;
  KILN_ASSIGN_OR_RETURN(const CodegenAnswer answer,
                        service.Emit(IdentityOf(FieldOf(preimage, "kernel"),
                                                FieldOf(preimage, "schedule"), *target, math),
                                     {tag}));
  for (const auto& [name, bytes] : answer.sections) {
    if (name == tag) return bytes;
  }
  return absl::NotFoundError(absl::StrCat("the compiler gives no section \"", tag, "\""));
}

absl::Status CheckEmit(absl::string_view tag, Target target) {
  const std::vector<absl::string_view> here = EmitsOf(target.device);
  if (Has(here, tag)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--emit ", tag, ": is of kernels for ",
      target.device == DeviceKind::kCpu ? "GPUs (--target cuda-sm90)" : "CPUs (--target x86-64-v3)",
      "; those for ", target.name(), " have ", absl::StrJoin(here, ", ")));
}

}  // namespace kiln
