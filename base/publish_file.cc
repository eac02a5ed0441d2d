// SPDX-License-Identifier: Apache-2.0
#include "base/publish_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <memory>
#include <thread>

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

// Of one writer in a folder at a time: else one would rename what another has half written. Ends
// with the process, and leaves no file.
class FolderLock {
 public:
  // Waits for another writer. kUnavailable: it does not end. Where a folder cannot be locked, as on
  // some network disks, there is no lock.
  static absl::StatusOr<std::unique_ptr<FolderLock>> Take(const std::string& folder) {
    constexpr auto kLongest = std::chrono::seconds(60);  // a write of some GB to a slow disk
    const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    auto lock = std::unique_ptr<FolderLock>(new FolderLock(fd));
    const auto begin = std::chrono::steady_clock::now();
    while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      if (std::chrono::steady_clock::now() - begin > kLongest) {
        return absl::UnavailableError(absl::StrCat(
            "\"", folder, "\": another program has been writing in it for a minute; try again"));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return lock;
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock() {
    if (fd_ < 0) return;
    flock(fd_, LOCK_UN);  // also for children of a fork, which have the descriptor
    close(fd_);
  }

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  const int fd_;
};

// Permissions of a file are those of the one that it replaces, which its owner may read and write.
mode_t ModeAt(const std::string& target) {
  struct stat there = {};
  return stat(target.c_str(), &there) == 0 ? (there.st_mode & 0777) | 0600 : 0644;
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
  KILN_ASSIGN_OR_RETURN(const auto lock, FolderLock::Take(FolderOf(target)));
  KILN_RETURN_IF_ERROR(ClearTemporary(files, temporary));
  KILN_ASSIGN_OR_RETURN(const auto file, files.CreateExclusive(temporary, 0644));
  KILN_RETURN_IF_ERROR(file->Close());
  return files.Unlink(temporary);
}

absl::Status PublishFile(FileSystem& files, absl::string_view path,
                         const std::function<absl::Status(WritableFile& file)>& write) {
  KILN_ASSIGN_OR_RETURN(const std::string target, PathToReplace(path));
  const std::string temporary = TemporaryOf(target);
  KILN_ASSIGN_OR_RETURN(const auto lock, FolderLock::Take(FolderOf(target)));
  KILN_RETURN_IF_ERROR(ClearTemporary(files, temporary));
  const auto written = [&]() -> absl::Status {
    KILN_ASSIGN_OR_RETURN(const auto file, files.CreateExclusive(temporary, ModeAt(target)));
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
