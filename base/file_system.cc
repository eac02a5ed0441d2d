// SPDX-License-Identifier: Apache-2.0
#include "kiln/base/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kiln/base/status.h"
#include "kiln/base/status_macros.h"

namespace kiln {
namespace {

// Repeats a system call that a signal interrupted.
template <typename Call>
auto Retry(Call call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

// Owns a descriptor; -1 is none.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

FileInfo InfoOf(const struct stat& s) {
  FileInfo info;
  info.size = s.st_size;
  info.allocated_bytes = static_cast<int64_t>(s.st_blocks) * 512;
  info.mtime_ns = static_cast<int64_t>(s.st_mtim.tv_sec) * 1'000'000'000 + s.st_mtim.tv_nsec;
  info.mode = s.st_mode & 07777;
  info.uid = s.st_uid;
  info.device = s.st_dev;
  info.inode = s.st_ino;
  info.is_regular = S_ISREG(s.st_mode);
  info.is_dir = S_ISDIR(s.st_mode);
  info.is_symlink = S_ISLNK(s.st_mode);
  return info;
}

class RealWritableFile : public WritableFile {
 public:
  RealWritableFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  absl::Status Append(absl::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t n = Retry([&] { return write(fd_.get(), bytes.data(), bytes.size()); });
      if (n < 0) return ErrnoStatus(errno, path_, "write");
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    if (Retry([&] { return fdatasync(fd_.get()); }) < 0) {
      return ErrnoStatus(errno, path_, "fdatasync");
    }
    return absl::OkStatus();
  }

  absl::Status Close() override {
    // Not repeated after EINTR: Linux has freed the descriptor by then.
    if (close(fd_.Release()) < 0 && errno != EINTR) return ErrnoStatus(errno, path_, "close");
    return absl::OkStatus();
  }

 private:
  std::string path_;
  Descriptor fd_;
};

class RealFiles : public FileSystem {
 public:
  absl::StatusOr<std::string> ReadFile(absl::string_view path, int64_t max_bytes) override {
    const std::string name(path);
    // O_NONBLOCK: opening a FIFO that someone put there must not wait for a writer.
    const int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    Descriptor fd(Retry([&] { return open(name.c_str(), flags); }));
    if (fd.get() < 0) return ErrnoStatus(errno, path, "open");
    struct stat s;
    if (fstat(fd.get(), &s) < 0) return ErrnoStatus(errno, path, "fstat");
    if (!S_ISREG(s.st_mode)) {
      return absl::FailedPreconditionError(absl::StrCat("\"", path, "\": not a regular file"));
    }
    if (s.st_size > max_bytes) {
      return absl::OutOfRangeError(absl::StrCat("\"", path, "\": ", s.st_size,
                                                " bytes, more than the limit of ", max_bytes));
    }
    std::string content(static_cast<size_t>(s.st_size), '\0');
    size_t have = 0;
    while (have < content.size()) {
      const ssize_t n =
          Retry([&] { return read(fd.get(), content.data() + have, content.size() - have); });
      if (n < 0) return ErrnoStatus(errno, path, "read");
      if (n == 0) break;  // truncated since fstat
      have += static_cast<size_t>(n);
    }
    content.resize(have);
    return content;
  }

  absl::StatusOr<std::unique_ptr<WritableFile>> CreateExclusive(absl::string_view path,
                                                                mode_t mode) override {
    std::string name(path);
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    const int fd = Retry([&] { return open(name.c_str(), flags, mode); });
    if (fd < 0) return ErrnoStatus(errno, path, "create");
    return std::make_unique<RealWritableFile>(std::move(name), fd);
  }

  absl::Status Rename(absl::string_view from, absl::string_view to) override {
    if (rename(std::string(from).c_str(), std::string(to).c_str()) < 0) {
      return ErrnoStatus(errno, from, absl::StrCat("rename to \"", to, "\""));
    }
    return absl::OkStatus();
  }

  absl::Status Unlink(absl::string_view path) override {
    if (unlink(std::string(path).c_str()) < 0) return ErrnoStatus(errno, path, "unlink");
    return absl::OkStatus();
  }

  absl::Status MakeDir(absl::string_view path, mode_t mode) override {
    if (mkdir(std::string(path).c_str(), mode) == 0) return absl::OkStatus();
    const int error = errno;
    if (error == EEXIST) {
      const absl::StatusOr<FileInfo> there = Stat(path);
      if (there.ok() && there->is_dir) return absl::OkStatus();
    }
    return ErrnoStatus(error, path, "mkdir");
  }

  absl::StatusOr<std::vector<std::string>> ListDir(absl::string_view path) override {
    DIR* opened = opendir(std::string(path).c_str());
    if (opened == nullptr) return ErrnoStatus(errno, path, "opendir");
    const std::unique_ptr<DIR, int (*)(DIR*)> dir(opened, closedir);
    std::vector<std::string> names;
    for (;;) {
      errno = 0;
      const dirent* entry = readdir(dir.get());
      if (entry == nullptr) break;
      const absl::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    if (errno != 0) return ErrnoStatus(errno, path, "readdir");
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::StatusOr<FileInfo> Stat(absl::string_view path) override {
    struct stat s;
    if (lstat(std::string(path).c_str(), &s) < 0) return ErrnoStatus(errno, path, "lstat");
    return InfoOf(s);
  }

  absl::Status SyncDir(absl::string_view path) override {
    const std::string name(path);
    Descriptor fd(Retry([&] { return open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
    if (fd.get() < 0) return ErrnoStatus(errno, path, "open");
    // Some file systems cannot sync a directory and say EINVAL: their names are as safe as they
    // get.
    if (Retry([&] { return fsync(fd.get()); }) < 0 && errno != EINVAL) {
      return ErrnoStatus(errno, path, "fsync");
    }
    return absl::OkStatus();
  }

  absl::Status Touch(absl::string_view path) override {
    const timespec times[2] = {{0, UTIME_OMIT}, {0, UTIME_NOW}};
    if (utimensat(AT_FDCWD, std::string(path).c_str(), times, AT_SYMLINK_NOFOLLOW) < 0) {
      return ErrnoStatus(errno, path, "utimensat");
    }
    return absl::OkStatus();
  }
};

}  // namespace

FileSystem& RealFileSystem() {
  static RealFiles* const files = new RealFiles;  // never destroyed: usable in other destructors
  return *files;
}

}  // namespace kiln
