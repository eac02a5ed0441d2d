// SPDX-License-Identifier: Apache-2.0
// A file that is replaced as a whole, or left as it was.
//
//   KILN_RETURN_IF_ERROR(PublishFile(files, "run.safetensors", [&](WritableFile& file) {
//     return file.Append(bytes);
//   }));
#ifndef KILN_BASE_PUBLISH_FILE_H_
#define KILN_BASE_PUBLISH_FILE_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"

namespace kiln {

// What `write` appends is written to `path`.tmp, which gets the name once it is on the disk: a
// process that is killed at any moment leaves the old file or the new one. One writer of a path at
// a time. Errors are those of `write` and of FileSystem; the file is then as it was.
absl::Status PublishFile(FileSystem& files, absl::string_view path,
                         const std::function<absl::Status(WritableFile& file)>& write);

// Whether that could be begun now: a file can be made beside `path`, which is no directory. To be
// asked before work whose result would be lost. Errors are FileSystem's.
absl::Status CheckPublishable(FileSystem& files, absl::string_view path);

}  // namespace kiln

#endif  // KILN_BASE_PUBLISH_FILE_H_
