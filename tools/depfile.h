// SPDX-License-Identifier: Apache-2.0
// Which files a result was made of, as Makefile text that make, Ninja and CMake read: "m.kiln:" and
// then each file on a line of its own, all but the last with a backslash at its end.
#ifndef KILN_TOOLS_DEPFILE_H_
#define KILN_TOOLS_DEPFILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kiln {

// Each file once, in the order given. kInvalidArgument: a name has a line's end, which no Makefile
// can say.
absl::StatusOr<std::string> DepfileText(const std::string& target,
                                        const std::vector<std::string>& files);

}  // namespace kiln

#endif  // KILN_TOOLS_DEPFILE_H_
