// SPDX-License-Identifier: Apache-2.0
#include "base/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/descriptor.h"
#include "base/fork.h"
#include "base/status.h"
#include "base/status_macros.h"

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

FileInfo InfoOf(const struct stat& s) {
  FileInfo info;
  info.size = s.st_size;
  info.allocated_bytes = static_cast<int64_t>(s.st_blocks) * 512;
  info.mtime_ns = static_cast<int64_t>(s.st_mtim.tv_sec) * 1'000'000'000 + s.st_mtim.tv_nsec;
  info.ctime_ns = static_cast<int64_t>(s.st_ctim.tv_sec) * 1'000'000'000 + s.st_ctim.tv_nsec;
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
  RealWritableFile(std::string path, Descriptor fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  absl::Status Append(absl::string_view bytes) override { return WriteAll(fd_, bytes, path_); }

  absl::Status Sync() override {
    if (Retry([&] { return fdatasync(fd_.get()); }) < 0) {
      return ErrnoStatus(errno, path_, "fdatasync");
    }
    return absl::OkStatus();
  }

  absl::Status Close() override {
    // Not repeated after EINTR: Linux has freed the descriptor by then.
    if (fd_.Close() < 0 && errno != EINTR) return ErrnoStatus(errno, path_, "close");
    return absl::OkStatus();
  }

 private:
  std::string path_;
  Descriptor fd_;
};

class RealReadableFile : public ReadableFile {
 public:
  RealReadableFile(std::string path, Descriptor fd, const FileInfo& info)
      : path_(std::move(path)), fd_(std::move(fd)), info_(info) {}

  const FileInfo& info() const override { return info_; }

  absl::StatusOr<std::string> Read(int64_t offset, int64_t bytes) override {
    if (offset < 0 || bytes < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", path_, "\": read of ", bytes, " bytes at ", offset));
    }
    // No more memory than the file can fill, whatever was asked for.
    std::string content(static_cast<size_t>(std::clamp<int64_t>(info_.size - offset, 0, bytes)),
                        '\0');
    size_t have = 0;
    while (have < content.size()) {
      const ssize_t n = Retry([&] {
        return pread(fd_.get(), content.data() + have, content.size() - have,
                     offset + static_cast<int64_t>(have));
      });
      if (n < 0) return ErrnoStatus(errno, path_, "read");
      if (n == 0) break;  // truncated since it was opened
      have += static_cast<size_t>(n);
    }
    content.resize(have);
    return content;
  }

  absl::StatusOr<Mapping> Map() override {
    if (info_.size == 0) return Mapping();
    const auto size = static_cast<size_t>(info_.size);
    void* const data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd_.get(), 0);
    if (data == MAP_FAILED) return ErrnoStatus(errno, path_, "mmap");
    return Mapping{{static_cast<const char*>(data), size},
                   std::shared_ptr<const void>(data, [size](void* at) { munmap(at, size); })};
  }

 private:
  std::string path_;
  Descriptor fd_;
  FileInfo info_;
};

absl::StatusOr<std::unique_ptr<ReadableFile>> Readable(Descriptor fd, absl::string_view path) {
  struct stat s;
  if (fstat(fd.get(), &s) < 0) return ErrnoStatus(errno, path, "fstat");
  if (!S_ISREG(s.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat("\"", path, "\": not a regular file"));
  }
  return std::make_unique<RealReadableFile>(std::string(path), std::move(fd), InfoOf(s));
}

struct flock ByteRange(short type, int64_t offset) {
  struct flock range = {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = offset;
  range.l_len = 1;
  return range;
}

// Gives a new file what the umask of the host has taken of the owner's rights.
void RestoreOwnersRights(int fd, mode_t mode) {
  struct stat s;
  if (fstat(fd, &s) != 0 || s.st_uid != geteuid()) return;
  const mode_t wanted = (s.st_mode & 07777) | (mode & 0700);
  if (wanted != (s.st_mode & 07777)) fchmod(fd, wanted);
}

class RealFileLock final : public FileLock, ForkListener {
 public:
  RealFileLock(Descriptor fd, int64_t offset) : fd_(std::move(fd)), offset_(offset) { Listen(); }
  // Unlocks by name: a forked child may have a copy of the descriptor, which closing leaves open.
  ~RealFileLock() override {
    struct flock range = ByteRange(F_UNLCK, offset_);
    if (fd_.IsOurs()) fcntl(fd_.get(), F_OFD_SETLK, &range);
    Unlisten();
  }

 private:
  void InChild(bool) override { fd_.Close(); }  // the lock is the parent's

  Descriptor fd_;
  int64_t offset_;
};

struct DiskKind {
  uint32_t magic;
  const char* name;
  bool network;
};
constexpr DiskKind kDiskKinds[] = {
    {0xEF53, "ext4", false},        {0x58465342, "xfs", false},     {0x9123683E, "btrfs", false},
    {0x01021994, "tmpfs", false},   {0x794C7630, "overlay", false}, {0xF2F52010, "f2fs", false},
    {0x2FC12FC1, "zfs", false},     {0x6969, "nfs", true},          {0x517B, "smb", true},
    {0xFF534D42, "cifs", true},     {0xFE534D42, "smb2", true},     {0x01021997, "9p", true},
    {0x65735546, "fuse", true},     {0x0BD00BD0, "lustre", true},   {0x47504653, "gpfs", true},
    {0x00C36400, "ceph", true},     {0x5346414F, "afs", true},      {0x19830326, "beegfs", true},
    {0x73717368, "squashfs", true}, {0xE0F5E1E2, "erofs", true},    {0x9660, "iso9660", true},
    {0x28CD3D45, "cramfs", true},
};

class RealFiles : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenRead(absl::string_view path) override {
    std::string name(path);
    // O_NONBLOCK: opening a FIFO that someone put there must not wait for a writer.
    const int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    Descriptor fd(Retry([&] { return open(name.c_str(), flags); }));
    if (fd.get() < 0) return ErrnoStatus(errno, path, "open");
    return Readable(std::move(fd), path);
  }

  absl::StatusOr<std::string> ReadFile(absl::string_view path, int64_t max_bytes) override {
    KILN_ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, OpenRead(path));
    const int64_t size = file->info().size;
    if (size > max_bytes) {
      return absl::OutOfRangeError(
          absl::StrCat("\"", path, "\": ", size, " bytes, more than the limit of ", max_bytes));
    }
    return file->Read(0, size);
  }

  absl::StatusOr<std::unique_ptr<WritableFile>> CreateExclusive(absl::string_view path,
                                                                mode_t mode) override {
    std::string name(path);
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    Descriptor fd(Retry([&] { return open(name.c_str(), flags, mode); }));
    if (!fd) return ErrnoStatus(errno, path, "create");
    RestoreOwnersRights(fd.get(), mode);
    return std::make_unique<RealWritableFile>(std::move(name), std::move(fd));
  }

  absl::Status Rename(absl::string_view from, absl::string_view to) override {
    if (rename(std::string(from).c_str(), std::string(to).c_str()) < 0) {
      return ErrnoStatus(errno, from, absl::StrCat("rename to \"", to, "\""));
    }
    return absl::OkStatus();
  }

  absl::Status Unlink(absl::string_view path) override {
    const std::string name(path);
    if (unlink(name.c_str()) == 0) return absl::OkStatus();
    if (errno == EISDIR && rmdir(name.c_str()) == 0) return absl::OkStatus();
    return ErrnoStatus(errno, path, "unlink");
  }

  absl::Status MakeDir(absl::string_view path, mode_t mode) override {
    const std::string name(path);
    if (mkdir(name.c_str(), mode) == 0) {
      struct stat s;
      if (lstat(name.c_str(), &s) == 0 && S_ISDIR(s.st_mode) && (~s.st_mode & mode & 0700) != 0)
        chmod(name.c_str(), (s.st_mode & 07777) | (mode & 0700));  // the umask of the host took it
      return absl::OkStatus();
    }
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

  absl::StatusOr<std::unique_ptr<FileLock>> TryLock(absl::string_view path,
                                                    int64_t offset) override {
    const std::string name(path);
    const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    Descriptor fd(Retry([&] { return open(name.c_str(), flags, 0600); }));
    if (fd.get() < 0) return ErrnoStatus(errno, path, "open");
    RestoreOwnersRights(fd.get(), 0600);
    struct flock range = ByteRange(F_WRLCK, offset);
    if (Retry([&] { return fcntl(fd.get(), F_OFD_SETLK, &range); }) < 0) {
      if (errno == EAGAIN || errno == EACCES) return std::unique_ptr<FileLock>();
      return ErrnoStatus(errno, path, "lock");
    }
    return std::make_unique<RealFileLock>(std::move(fd), offset);
  }

  absl::StatusOr<DiskInfo> Disk(absl::string_view path) override {
    struct statfs s;
    if (Retry([&] { return statfs(std::string(path).c_str(), &s); }) < 0) {
      return ErrnoStatus(errno, path, "statfs");
    }
    DiskInfo info;
    info.total_bytes = static_cast<int64_t>(s.f_blocks) * s.f_bsize;
    info.free_bytes = static_cast<int64_t>(s.f_bavail) * s.f_bsize;
    const auto magic = static_cast<uint32_t>(s.f_type);
    info.kind = absl::StrCat("0x", absl::Hex(magic));
    for (const DiskKind& kind : kDiskKinds) {
      if (kind.magic != magic) continue;
      info.kind = kind.name;
      info.network = kind.network;
    }
    return info;
  }
};

}  // namespace

FileIdentity IdentityOf(const FileInfo& info) {
  return {info.device, info.inode, info.size, info.mtime_ns, info.ctime_ns};
}

bool Settled(const FileIdentity& file, int64_t read_ns) {
  constexpr int64_t kSecond = 1'000'000'000;
  constexpr int64_t kTick = kSecond / 10;  // file times are those of a clock that ticks this slowly
  const bool coarse = file.mtime_ns % kSecond == 0 && file.ctime_ns % kSecond == 0;
  return std::max(file.mtime_ns, file.ctime_ns) < read_ns - (coarse ? 4 * kSecond : kTick);
}

absl::StatusOr<ReadableFile::Mapping> ReadableFile::Map() {
  constexpr size_t kAlignment = 64;
  KILN_ASSIGN_OR_RETURN(const std::string content, Read(0, info().size));
  if (content.empty()) return Mapping();
  const size_t rounded = (content.size() + kAlignment - 1) / kAlignment * kAlignment;
  std::shared_ptr<void> copy(std::aligned_alloc(kAlignment, rounded),
                             [](void* p) { std::free(p); });
  if (copy == nullptr)
    return absl::ResourceExhaustedError(absl::StrCat("no memory for ", rounded, " bytes"));
  std::memcpy(copy.get(), content.data(), content.size());
  return Mapping{{static_cast<const char*>(copy.get()), content.size()}, copy};
}

std::string AbsolutePath(absl::string_view path) {
  if (absl::StartsWith(path, "/")) return std::string(path);
  const std::unique_ptr<char, decltype(&std::free)> here(getcwd(nullptr, 0), std::free);
  return here == nullptr ? std::string(path) : absl::StrCat(here.get(), "/", path);
}

absl::StatusOr<std::unique_ptr<ReadableFile>> ReadDescriptor(int descriptor,
                                                             absl::string_view name) {
  Descriptor fd(fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  if (!fd) return ErrnoStatus(errno, name, "dup");
  return Readable(std::move(fd), name);
}

FileSystem& RealFileSystem() {
  static RealFiles* const files = new RealFiles;  // never destroyed: usable in other destructors
  return *files;
}

}  // namespace kiln
