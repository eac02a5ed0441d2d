// SPDX-License-Identifier: Apache-2.0
// Which directory a cache is kept in, and whether it may be trusted: who can write it can run code
// as its reader.
#ifndef KILN_PERSISTENT_CACHE_DIRECTORY_H_
#define KILN_PERSISTENT_CACHE_DIRECTORY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"

namespace kiln {

// $KILN_CACHE_DIR, else $XDG_CACHE_HOME/kiln, else $HOME/.cache/kiln. kNotFound if none is set or
// all are relative; kPermissionDenied in a set-uid process, where the environment is not to be
// believed.
absl::StatusOr<std::string> DefaultCacheDirectory();

// Makes `path` and its parents as needed and if `make` (0700), resolves links, and checks that
// every component of the resolved path is a directory owned by root or by us and writable by nobody
// else (a sticky directory such as /tmp may be). Returns the resolved path. kFailedPrecondition
// names the component, its owner or mode, and what to do. Where nothing is to be made, an absent
// directory is returned as it is: it is empty.
absl::StatusOr<std::string> PrepareCacheDirectory(FileSystem& files, absl::string_view path,
                                                  bool make);

}  // namespace kiln

#endif  // KILN_PERSISTENT_CACHE_DIRECTORY_H_
