// SPDX-License-Identifier: Apache-2.0
#include "base/publish_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <memory>
#include <system_error>
#include <thread>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "base/xxh3.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

std::string FolderOf(absl::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos) return ".";
  return std::string(path.substr(0, std::max<size_t>(slash, 1)));
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

// One for each file of a folder that nobody else gives, and short where the file's is long.
std::string TemporaryName(absl::string_view target) {
  const Xxh3Digest digest = Xxh3(target.substr(target.rfind('/') + 1));
  const auto* const bytes = reinterpret_cast<const char*>(digest.data());
  return absl::StrCat(".kiln-", absl::BytesToHexString({bytes, digest.size()}), ".tmp");
}

// Where a file is written, and its caller alone writes.
struct Place {
  std::string target, temporary;
  std::unique_ptr<FolderLock> lock;

  static absl::StatusOr<Place> Of(FileSystem& files, absl::string_view path) {
    Place place;
    KILN_ASSIGN_OR_RETURN(place.target, PathToReplace(path));
    const std::string folder = FolderOf(place.target);
    place.temporary = absl::StrCat(folder, "/", TemporaryName(place.target));
    KILN_ASSIGN_OR_RETURN(place.lock, FolderLock::Take(folder));
    const absl::Status cleared = files.Unlink(place.temporary);  // of what a killed writer has left
    if (!cleared.ok() && !absl::IsNotFound(cleared)) return cleared;
    return place;
  }
  // With the permissions and, if they may be given away, the owner and group of the file that it
  // replaces, but readable and writable by its owner.
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(FileSystem& files) const {
    absl::StatusOr<std::unique_ptr<WritableFile>> file = files.CreateExclusive(temporary, 0644);
    struct stat there = {};
    if (!file.ok() || stat(target.c_str(), &there) != 0) return file;
    const bool given = chown(temporary.c_str(), there.st_uid, there.st_gid) == 0;
    const mode_t mode = (there.st_mode & 0777) | 0600;
    // Bits of a group that is another one are not for that.
    chmod(temporary.c_str(), given ? mode : mode & ~mode_t{0070});
    return file;
  }
  // An error with the file's name in place of the temporary one, which nobody has given.
  absl::Status Told(const absl::Status& status) const {
    if (!absl::StrContains(status.message(), temporary)) return status;
    return absl::Status(status.code(),
                        absl::StrReplaceAll(status.message(), {{temporary, target}}));
  }
};

}  // namespace

absl::StatusOr<std::string> PathToReplace(absl::string_view path) {
  constexpr int kMostLinks = 40;  // that Linux follows
  const auto unavailable = [&](const char* why) {
    return absl::UnavailableError(absl::StrCat("\"", path, "\" ", why));
  };
  fs::path at{std::string(path)};
  std::error_code error;
  for (int links = 0; fs::is_symlink(at, error); ++links) {
    const fs::path next = fs::read_symlink(at, error);
    if (error || links == kMostLinks) return unavailable("leads nowhere by links");
    at = at.parent_path() / next;
  }
  const fs::file_status there = fs::status(at, error);
  if (fs::is_directory(there)) return unavailable("is a directory; name a file in it");
  if (fs::exists(there) && !fs::is_regular_file(there))
    return unavailable("is no regular file; name one, or one that is not there");
  return at.string();
}

absl::Status CheckPublishable(FileSystem& files, absl::string_view path) {
  KILN_ASSIGN_OR_RETURN(const Place place, Place::Of(files, path));
  const auto file = place.Create(files);
  if (!file.ok()) return place.Told(file.status());
  KILN_RETURN_IF_ERROR((*file)->Close());
  return files.Unlink(place.temporary);
}

absl::Status PublishFile(FileSystem& files, absl::string_view path,
                         const std::function<absl::Status(WritableFile& file)>& write) {
  KILN_ASSIGN_OR_RETURN(const Place place, Place::Of(files, path));
  const auto written = [&]() -> absl::Status {
    KILN_ASSIGN_OR_RETURN(const auto file, place.Create(files));
    KILN_RETURN_IF_ERROR(write(*file));
    KILN_RETURN_IF_ERROR(file->Sync());
    KILN_RETURN_IF_ERROR(file->Close());
    return files.Rename(place.temporary, place.target);
  };
  if (const absl::Status status = written(); !status.ok()) {
    files.Unlink(place.temporary).IgnoreError();
    return place.Told(status);
  }
  return files.SyncDir(FolderOf(place.target));
}

}  // namespace kiln
