// SPDX-License-Identifier: Apache-2.0
// Times as flags give them, with errors that say what is expected.
#ifndef KILN_TOOLS_FLAG_VALUES_H_
#define KILN_TOOLS_FLAG_VALUES_H_

#include <string>

#include "absl/status/statusor.h"

namespace kiln {

// Milliseconds of "5s", "200ms" or "5", which are seconds; 0 if empty. kInvalidArgument otherwise,
// and for what is not above 0.
absl::StatusOr<double> ParseTime(const std::string& flag, const std::string& text);

}  // namespace kiln

#endif  // KILN_TOOLS_FLAG_VALUES_H_
