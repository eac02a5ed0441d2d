// SPDX-License-Identifier: Apache-2.0
// Files that a user names may be symbolic links, as in `current.kiln -> v7.kiln`; FileSystem opens
// none.
#ifndef KILN_BASE_REAL_PATH_H_
#define KILN_BASE_REAL_PATH_H_

#include <string>

#include "absl/strings/string_view.h"

namespace kiln {

// The path that is no link, of the file that `path` names. `path` itself where there is no such
// file: whoever opens it says so.
std::string RealPath(absl::string_view path);

}  // namespace kiln

#endif  // KILN_BASE_REAL_PATH_H_
