// SPDX-License-Identifier: Apache-2.0
// The only way Kiln reads and writes files that must survive crashes and strangers: the persistent
// cache goes through this interface, so that tests can tear writes, fill the disk and lose unsynced
// data (tests/base/fault_injecting_file_system.h).
//
// Publishing a file so that readers see all of it or nothing:
//   KILN_ASSIGN_OR_RETURN(auto file, fs.CreateExclusive("tmp/1234", 0600));
//   KILN_RETURN_IF_ERROR(file->Append(bytes));
//   KILN_RETURN_IF_ERROR(file->Sync());
//   KILN_RETURN_IF_ERROR(file->Close());
//   KILN_RETURN_IF_ERROR(fs.Rename("tmp/1234", "entries/ab/cd"));
//
// Errors carry the path in double quotes, the call and the text of errno. Codes: kNotFound = ENOENT
// or ENOTDIR; kAlreadyExists = EEXIST; kPermissionDenied = EACCES, EPERM, EROFS; kResourceExhausted
// = ENOSPC, EDQUOT, EMFILE, ENFILE, ENOMEM, EFBIG; kFailedPrecondition = a link or a special file
// where a regular file was asked for; kUnavailable = any other errno (EIO, ESTALE, ...).
#ifndef KILN_BASE_FILE_SYSTEM_H_
#define KILN_BASE_FILE_SYSTEM_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln {

// What lstat says: a link is described itself, never followed.
struct FileInfo {
  int64_t size = 0;             // bytes
  int64_t allocated_bytes = 0;  // blocks on disk * 512: what a cache limit counts
  int64_t mtime_ns = 0;         // since 1970, of the last write
  int64_t ctime_ns = 0;         // of the last change of any kind, which no program can choose
  uint32_t mode = 0;            // permission bits only, 07777
  uint32_t uid = 0;
  uint64_t device = 0;
  uint64_t inode = 0;
  bool is_regular = false;
  bool is_dir = false;
  bool is_symlink = false;
};

// By what a file is known again without reading it: writing to it, or putting another in its place,
// changes one of these, unless it happens within the grain of the clock; see Settled.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t size = 0;
  int64_t mtime_ns = 0;
  int64_t ctime_ns = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};
FileIdentity IdentityOf(const FileInfo& info);

// Whether what was read from a file at `read_ns` or later may be remembered under this identity:
// true if its times lie so far back that a write after `read_ns` gives it other ones. A file whose
// times have no fractions of a second is taken to be on a disk that keeps full or even seconds
// only.
bool Settled(const FileIdentity& file, int64_t read_ns);

// What statfs says of the file system that a path is on.
struct DiskInfo {
  int64_t total_bytes = 0;
  int64_t free_bytes = 0;  // for a user without privileges
  std::string kind;        // "ext4", "tmpfs", "nfs", or the number of the type in hexadecimal
  bool network = false;    // another machine may write it too, a FUSE program serves it, or it is
                           // an image: the next one mounted here may have files of equal times
};

// A file being read. Thread-safe.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  // As the file was when it was opened.
  virtual const FileInfo& info() const = 0;
  // Up to `bytes` bytes from `offset`; fewer only where the file ends.
  virtual absl::StatusOr<std::string> Read(int64_t offset, int64_t bytes) = 0;
  // All of the file, at an address that is a multiple of 64, for as long as `owner` lives: mapped
  // by the real file system (whoever cuts the file short then ends this process when it reads
  // there), else a copy.
  struct Mapping {
    absl::string_view bytes;
    std::shared_ptr<const void> owner;
  };
  virtual absl::StatusOr<Mapping> Map();
};

// Bytes of a lock file, held until the object or the process goes.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

// A file being written by one thread. Not thread-safe.
class WritableFile {
 public:
  // Closes without syncing, ignoring errors; the file stays, complete or not.
  virtual ~WritableFile() = default;
  // Appends all of `bytes`. After an error the file's content is unspecified.
  virtual absl::Status Append(absl::string_view bytes) = 0;
  // Waits until the content is on the disk (fdatasync).
  virtual absl::Status Sync() = 0;
  // Reports errors that the system held back until now. The file takes no further calls.
  virtual absl::Status Close() = 0;
};

// Thread-safe. Paths are taken as they are, relative ones against the working directory.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // The content of a regular file that is not reached by a final symbolic link.
  // kNotFound when absent; kOutOfRange when it is longer than `max_bytes`, before reading it.
  virtual absl::StatusOr<std::string> ReadFile(absl::string_view path, int64_t max_bytes) = 0;

  // Opens a regular file that is not reached by a final symbolic link. kNotFound when absent.
  virtual absl::StatusOr<std::unique_ptr<ReadableFile>> OpenRead(absl::string_view path) = 0;

  // Makes a new empty file. kAlreadyExists when anything, a dangling link included, has that name.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> CreateExclusive(absl::string_view path,
                                                                        mode_t mode) = 0;

  // Atomically gives `from` the name `to`, replacing a file that had it.
  virtual absl::Status Rename(absl::string_view from, absl::string_view to) = 0;

  // Removes a file, a link or an empty directory. kNotFound when absent.
  virtual absl::Status Unlink(absl::string_view path) = 0;

  // Makes one directory. Ok when a directory (not a link to one) is already there.
  virtual absl::Status MakeDir(absl::string_view path, mode_t mode) = 0;

  // Names of the entries without "." and "..", in byte order.
  virtual absl::StatusOr<std::vector<std::string>> ListDir(absl::string_view path) = 0;

  virtual absl::StatusOr<FileInfo> Stat(absl::string_view path) = 0;

  // Waits until the names in a directory are on the disk.
  virtual absl::Status SyncDir(absl::string_view path) = 0;

  // Sets the modification time to now. Does not follow links, does not create.
  virtual absl::Status Touch(absl::string_view path) = 0;

  // Takes the byte at `offset` of a lock file, made with mode 0600 if it is absent, for the caller
  // alone, without waiting; null while somebody else has it, another thread included. The lock
  // belongs to the open file description: the system drops it when the process dies. kUnavailable
  // where there are no such locks (ENOLCK, EOPNOTSUPP).
  virtual absl::StatusOr<std::unique_ptr<FileLock>> TryLock(absl::string_view path,
                                                            int64_t offset) = 0;

  virtual absl::StatusOr<DiskInfo> Disk(absl::string_view path) = 0;
};

// `path` from the root, so that it names the same file when the working directory changes. As it is
// where that is gone.
std::string AbsolutePath(absl::string_view path);

// The regular file behind a descriptor, which stays the caller's and where it is; `name` is what
// messages call it.
absl::StatusOr<std::unique_ptr<ReadableFile>> ReadDescriptor(int descriptor,
                                                             absl::string_view name);

// The files of this machine. Lives for ever.
FileSystem& RealFileSystem();

}  // namespace kiln

#endif  // KILN_BASE_FILE_SYSTEM_H_
