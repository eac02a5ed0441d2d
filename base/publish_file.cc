// SPDX-License-Identifier: Apache-2.0
#include "base/publish_file.h"

#include <algorithm>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

std::string FolderOf(absl::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos) return ".";
  return std::string(path.substr(0, std::max<size_t>(slash, 1)));
}

std::string TemporaryOf(absl::string_view path) { return absl::StrCat(path, ".tmp"); }

// What a killed writer has left.
absl::Status ClearTemporary(FileSystem& files, const std::string& temporary) {
  const absl::Status status = files.Unlink(temporary);
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

}  // namespace

absl::Status CheckPublishable(FileSystem& files, absl::string_view path) {
  if (files.ListDir(path).ok())
    return absl::UnavailableError(absl::StrCat("\"", path, "\" is a directory; name a file in it"));
  const std::string temporary = TemporaryOf(path);
  KILN_RETURN_IF_ERROR(ClearTemporary(files, temporary));
  KILN_ASSIGN_OR_RETURN(const auto file, files.CreateExclusive(temporary, 0644));
  KILN_RETURN_IF_ERROR(file->Close());
  return files.Unlink(temporary);
}

absl::Status PublishFile(FileSystem& files, absl::string_view path,
                         const std::function<absl::Status(WritableFile& file)>& write) {
  const std::string temporary = TemporaryOf(path);
  KILN_RETURN_IF_ERROR(ClearTemporary(files, temporary));
  const auto written = [&]() -> absl::Status {
    KILN_ASSIGN_OR_RETURN(const auto file, files.CreateExclusive(temporary, 0644));
    KILN_RETURN_IF_ERROR(write(*file));
    KILN_RETURN_IF_ERROR(file->Sync());
    KILN_RETURN_IF_ERROR(file->Close());
    return files.Rename(temporary, path);
  };
  if (absl::Status status = written(); !status.ok()) {
    files.Unlink(temporary).IgnoreError();
    return status;
  }
  return files.SyncDir(FolderOf(path));
}

}  // namespace kiln
