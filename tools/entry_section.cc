// SPDX-License-Identifier: Apache-2.0
#include "tools/entry_section.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "compiler/kernel_key.h"
#include "compiler/kernel_service.h"

namespace kiln {

absl::StatusOr<std::string> SectionOf(const Entry& entry, const std::string& tag) {
  if (const std::string* const bytes = entry.Find(tag); bytes != nullptr) return *bytes;
  const std::string& preimage = *entry.Find("preimage");
  if (tag == "kernel" || tag == "schedule") {
    const std::string field = FieldOf(preimage, tag);
    if (!field.empty()) return tag == "kernel" ? field : field + "\n";
  }
  const std::optional<Target> target = Target::Parse(FieldOf(preimage, "target"));
  if ((tag != "stmt" && tag != "asm" && tag != "sass") || !target.has_value())
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

}  // namespace kiln
