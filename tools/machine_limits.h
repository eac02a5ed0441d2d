// SPDX-License-Identifier: Apache-2.0
// What the system lets this process have.
#ifndef KILN_TOOLS_MACHINE_LIMITS_H_
#define KILN_TOOLS_MACHINE_LIMITS_H_

#include <cstdint>
#include <string>

namespace kiln {

// The contents of a small file; "" where it cannot be read.
std::string TextOfFile(const std::string& path);

// Bytes that the control group may have, the least of its limit and of those above it; INT64_MAX
// without one. Arguments as of QuotaProcessors (base/processors.h).
int64_t GroupMemoryLimit(const std::string& groups, const std::string& root);

// The word in brackets of "always [madvise] never", as files of /sys mark what is chosen.
std::string ChosenWord(const std::string& text);

}  // namespace kiln

#endif  // KILN_TOOLS_MACHINE_LIMITS_H_
