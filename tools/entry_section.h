// SPDX-License-Identifier: Apache-2.0
// What --emit prints of a kernel in a cache or package.
#ifndef KILN_TOOLS_ENTRY_SECTION_H_
#define KILN_TOOLS_ENTRY_SECTION_H_

#include <string>

#include "absl/status/statusor.h"
#include "persistent_cache/entry.h"

namespace kiln {

// A section that the entry has ("ptx", "launch", "elf"); the text or schedule of its kernel
// ("kernel", "schedule"); or what the compiler makes again of that ("stmt", "asm", "sass").
// kNotFound: none of these, or there is no compiler.
absl::StatusOr<std::string> SectionOf(const Entry& entry, const std::string& tag);

}  // namespace kiln

#endif  // KILN_TOOLS_ENTRY_SECTION_H_
