// SPDX-License-Identifier: Apache-2.0
#include "base/publish_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <memory>

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

absl::StatusOr<std::string> PathToReplace(absl::string_view path) {
  constexpr int kMostLinks = 40;  // that Linux follows
  const auto unavailable = [&](const char* why) {
    return absl::UnavailableError(absl::StrCat("\"", path, "\" ", why));
  };
  std::string at(path);
  struct stat there = {};
  int links = 0;
  while (lstat(at.c_str(), &there) == 0 && S_ISLNK(there.st_mode)) {
    char to[PATH_MAX];
    const ssize_t length = readlink(at.c_str(), to, sizeof(to));
    if (length <= 0 || ++links > kMostLinks) return unavailable("leads nowhere by links");
    const absl::string_view next(to, static_cast<size_t>(length));
    at = next[0] == '/' ? std::string(next) : absl::StrCat(FolderOf(at), "/", next);
    there = {};
  }
  if (S_ISDIR(there.st_mode)) return unavailable("is a directory; name a file in it");
  if (there.st_mode != 0 && !S_ISREG(there.st_mode))
    return unavailable("is no regular file; name one, or one that is not there");
  return at;
}

absl::Status CheckPublishable(FileSystem& files, absl::string_view path) {
  KILN_ASSIGN_OR_RETURN(const std::string target, PathToReplace(path));
  const std::string temporary = TemporaryOf(target);
  KILN_RETURN_IF_ERROR(ClearTemporary(files, temporary));
  KILN_ASSIGN_OR_RETURN(const auto file, files.CreateExclusive(temporary, 0644));
  KILN_RETURN_IF_ERROR(file->Close());
  return files.Unlink(temporary);
}

absl::Status PublishFile(FileSystem& files, absl::string_view path,
                         const std::function<absl::Status(WritableFile& file)>& write) {
  KILN_ASSIGN_OR_RETURN(const std::string target, PathToReplace(path));
  const std::string temporary = TemporaryOf(target);
  KILN_RETURN_IF_ERROR(ClearTemporary(files, temporary));
  const auto written = [&]() -> absl::Status {
    KILN_ASSIGN_OR_RETURN(const auto file, files.CreateExclusive(temporary, 0644));
    KILN_RETURN_IF_ERROR(write(*file));
    KILN_RETURN_IF_ERROR(file->Sync());
    KILN_RETURN_IF_ERROR(file->Close());
    return files.Rename(temporary, target);
  };
  if (absl::Status status = written(); !status.ok()) {
    files.Unlink(temporary).IgnoreError();
    return status;
  }
  return files.SyncDir(FolderOf(target));
}

}  // namespace kiln
