// SPDX-License-Identifier: Apache-2.0
// What --emit prints of a kernel in a cache or package.
#ifndef KILN_TOOLS_ENTRY_SECTION_H_
#define KILN_TOOLS_ENTRY_SECTION_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kiln/target.h"
#include "persistent_cache/entry.h"

namespace kiln {

// A section that the entry has ("ptx", "launch", "elf"); the text or schedule of its kernel
// ("kernel", "schedule"); or what the compiler makes again of that ("ir", "stmt", "asm", "ptxas",
// "sass"). kNotFound: none of these, or there is no compiler or no CUDA toolkit.
absl::StatusOr<std::string> SectionOf(const Entry& entry, const std::string& tag);

// Whether `kiln inspect --emit` has this form of kernels for `target`: "stmt" is of CPUs, "ptx" of
// GPUs. kInvalidArgument: not; says what it has.
absl::Status CheckEmit(absl::string_view tag, Target target);

}  // namespace kiln

#endif  // KILN_TOOLS_ENTRY_SECTION_H_
