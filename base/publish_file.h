// SPDX-License-Identifier: Apache-2.0
// A file that is replaced as a whole, or left as it was. A path that a user names may be a symbolic
// link, as `latest.safetensors` to a file on another disk: the link stays, and what it leads to is
// replaced.
//
//   KILN_RETURN_IF_ERROR(PublishFile(files, "run.safetensors", [&](WritableFile& file) {
//     return file.Append(bytes);
//   }));
#ifndef KILN_BASE_PUBLISH_FILE_H_
#define KILN_BASE_PUBLISH_FILE_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"

namespace kiln {

// Where a file at `path` is written: where its links lead, also where no file is yet. kUnavailable:
// a directory or device is there, or links lead in a circle.
absl::StatusOr<std::string> PathToReplace(absl::string_view path);

// What `write` appends is written to a file beside the one to replace (.kiln-DIGEST.tmp), which
// gets the name once it is on the disk: a process that is killed at any moment leaves the old file
// or the new one. Permissions stay, and owner and group where the system lets them; another hard
// link keeps the old file. Writers in one folder, of any process, wait for each other;
// kUnavailable after a minute. Other errors are those of PathToReplace, `write` and FileSystem; the
// file is then as it was.
absl::Status PublishFile(FileSystem& files, absl::string_view path,
                         const std::function<absl::Status(WritableFile& file)>& write);

// Whether that could be begun now: a file can be made beside the one to replace. To be asked before
// work whose result would be lost. Errors are the same.
absl::Status CheckPublishable(FileSystem& files, absl::string_view path);

}  // namespace kiln

#endif  // KILN_BASE_PUBLISH_FILE_H_
