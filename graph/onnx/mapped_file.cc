// SPDX-License-Identifier: Apache-2.0
#include "graph/onnx/mapped_file.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/descriptor.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "graph/onnx/limits.h"

namespace kiln::onnx {
namespace {

absl::Status Refused(absl::string_view location, absl::string_view why) {
  return absl::PermissionDeniedError(
      absl::StrCat("external data \"", absl::Utf8SafeCEscape(location), "\": ", why,
                   "; it must be a plain file beneath the model's folder"));
}

// The same for what would be taken if links were followed.
absl::Status LinkRefused(absl::string_view location, absl::string_view why) {
  return absl::PermissionDeniedError(absl::StrCat(
      "external data \"", absl::Utf8SafeCEscape(location), "\": ", why,
      "; if you trust who made the model's folder, follow links with --external-data-links follow "
      "or CompileOptions::external_data_links"));
}

// The rules that need no look at the disk.
absl::Status CheckLocation(absl::string_view location) {
  if (location.empty()) return Refused(location, "has no name");
  if (static_cast<int64_t>(location.size()) > kMaxNameBytes) {
    return Refused(location.substr(0, 64), absl::StrCat("the name has ", location.size(),
                                                        " bytes, more than ", kMaxNameBytes));
  }
  if (location.find('\0') != absl::string_view::npos)
    return Refused(location, "the name holds a zero byte");
  if (location[0] == '/') return Refused(location, "is an absolute path");
  for (const absl::string_view part : absl::StrSplit(location, '/')) {
    if (part == "..") return Refused(location, "leads out of the folder");
  }
  return absl::OkStatus();
}

absl::Status NotRegular(absl::string_view name) {
  return absl::FailedPreconditionError(absl::StrCat("\"", name, "\": is no regular file"));
}

absl::Status OpenError(int error, const std::string& location) {
  // ELOOP: a link; EXDEV: a way out of the folder.
  if (error == ELOOP || error == EXDEV) return LinkRefused(location, "is reached through a link");
  return ErrnoStatus(error, location, "open");
}

// Without openat2: every component is opened by itself and may not be a link.
absl::StatusOr<Descriptor> OpenByComponents(int folder, const std::string& location) {
  const std::vector<std::string> parts = absl::StrSplit(location, '/', absl::SkipEmpty());
  Descriptor at;
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool last = i + 1 == parts.size();
    const int flags =
        O_CLOEXEC | O_NOFOLLOW | (last ? O_RDONLY | O_NONBLOCK : O_PATH | O_DIRECTORY);
    Descriptor next(openat(i == 0 ? folder : at.get(), parts[i].c_str(), flags));
    // O_DIRECTORY of a link to a directory says ENOTDIR.
    if (next.get() < 0) return OpenError(errno == ENOTDIR && !last ? ELOOP : errno, location);
    at = std::move(next);
  }
  return at;
}

absl::StatusOr<Descriptor> OpenUnder(int folder, const std::string& location) {
  open_how how = {};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  Descriptor fd(
      static_cast<int>(syscall(SYS_openat2, folder, location.c_str(), &how, sizeof(how))));
  if (fd) return fd;
  if (errno == ENOSYS || errno == EPERM)
    return OpenByComponents(folder, location);  // an old kernel, or a filter
  return OpenError(errno, location);
}

// Through links, to a regular file. Opening a device or pipe may act on it, so what the name leads
// to is looked at before it is opened for reading; it is the same file then, whatever becomes of
// the name.
absl::StatusOr<Descriptor> OpenFollowing(int folder, const std::string& location, bool openat2) {
  open_how how = {};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_NO_MAGICLINKS;
  Descriptor at(
      openat2 ? static_cast<int>(syscall(SYS_openat2, folder, location.c_str(), &how, sizeof(how)))
              : -1);
  if (!at && (!openat2 || errno == ENOSYS || errno == EPERM))
    at = Descriptor(openat(folder, location.c_str(), O_PATH | O_CLOEXEC));
  if (!at && errno == ELOOP)
    return Refused(location, "its links lead in a circle, or through /proc");
  if (!at) return ErrnoStatus(errno, location, "open");
  struct stat info;
  if (fstat(at.get(), &info) != 0) return ErrnoStatus(errno, location, "fstat");
  if (!S_ISREG(info.st_mode)) return NotRegular(location);
  Descriptor file(open(absl::StrCat("/proc/self/fd/", at.get()).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return ErrnoStatus(errno, location, "open");
  return file;
}

}  // namespace

absl::StatusOr<std::shared_ptr<MappedFile>> MappedFile::Map(int fd, const std::string& name,
                                                            int64_t max_bytes, bool one_name) {
  struct stat info;
  if (fstat(fd, &info) != 0) return ErrnoStatus(errno, name, "fstat");
  if (!S_ISREG(info.st_mode)) return NotRegular(name);
  if (one_name && info.st_nlink != 1) {
    return LinkRefused(name,
                       absl::StrCat("has ", info.st_nlink, " names (hard links), expected 1"));
  }
  if (info.st_size > max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("\"", name, "\": has ", info.st_size,
                                                     " bytes, more than ", max_bytes,
                                                     ", the most that is read"));
  }
  void* data = nullptr;
  const auto size = static_cast<size_t>(info.st_size);
  if (size > 0) {  // nothing can be mapped of an empty file
    data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) return ErrnoStatus(errno, name, "mmap");
  }
  const auto ns = [](const timespec& t) { return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec; };
  return std::shared_ptr<MappedFile>(new MappedFile(
      data, {info.st_dev, info.st_ino, info.st_size, ns(info.st_mtim), ns(info.st_ctim)}));
}

MappedFile::~MappedFile() {
  if (size_ > 0 && owner_ == nullptr) munmap(data_, size_);
}

absl::StatusOr<std::shared_ptr<MappedFile>> MappedFile::OfDescriptor(int fd,
                                                                     const std::string& name,
                                                                     int64_t max_bytes) {
  return Map(fd, name, max_bytes, /*one_name=*/false);
}

std::shared_ptr<MappedFile> MappedFile::OfMemory(absl::string_view bytes,
                                                 std::shared_ptr<const void> owner) {
  // No file has device 0, and no other bytes lie there while these do.
  const FileIdentity identity{.inode = reinterpret_cast<uintptr_t>(bytes.data()),
                              .size = static_cast<int64_t>(bytes.size())};
  std::shared_ptr<MappedFile> made(new MappedFile(const_cast<char*>(bytes.data()), identity));
  made->owner_ = std::move(owner);
  return made;
}

absl::StatusOr<std::shared_ptr<MappedFile>> MappedFile::Open(const std::string& path,
                                                             int64_t max_bytes) {
  const Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return ErrnoStatus(errno, path, "open");
  return Map(fd.get(), path, max_bytes, /*one_name=*/false);
}

absl::StatusOr<std::shared_ptr<MappedFile>> MappedFile::OpenBeneath(const std::string& folder,
                                                                    const std::string& location,
                                                                    Links links, bool openat2) {
  KILN_RETURN_IF_ERROR(CheckLocation(location));
  const Descriptor base(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (base.get() < 0) return ErrnoStatus(errno, folder, "open");
  const bool follow = links == Links::kFollow;
  KILN_ASSIGN_OR_RETURN(const Descriptor fd, follow ? OpenFollowing(base.get(), location, openat2)
                                             : openat2 ? OpenUnder(base.get(), location)
                                                       : OpenByComponents(base.get(), location));
  return Map(fd.get(), location, std::numeric_limits<int64_t>::max(), /*one_name=*/!follow);
}

absl::StatusOr<ExternalFiles::Bytes> ExternalFiles::Read(const std::string& location,
                                                         int64_t offset, int64_t length) {
  std::shared_ptr<MappedFile>& file = files_[location];
  if (file == nullptr) {
    if (folder_.empty()) return Refused(location, "the model is no file, so it has no folder");
    KILN_ASSIGN_OR_RETURN(file, MappedFile::OpenBeneath(folder_, location, links_));
  }
  const auto size = static_cast<int64_t>(file->bytes().size());
  if (length == -1 && offset >= 0 && offset <= size) length = size - offset;
  if (offset < 0 || length < 0 || offset > size || length > size - offset) {
    return absl::InvalidArgumentError(absl::StrCat(
        "external data \"", location, "\": has ", size, " bytes, but ", length, " at offset ",
        offset, " are asked for; the file is incomplete or another one"));
  }
  return Bytes{file->bytes().substr(static_cast<size_t>(offset), static_cast<size_t>(length)),
               file};
}

}  // namespace kiln::onnx
