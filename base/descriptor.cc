// SPDX-License-Identifier: Apache-2.0
#include "base/descriptor.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/no_cancellation.h"
#include "base/status.h"

namespace kiln {
namespace {

// The same file above stdin, stdout and stderr; -1 with errno where there is no other descriptor.
int AboveStandard(int fd) {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  const int higher = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  close(fd);
  errno = error == EINVAL ? EMFILE : error;  // the limit is below
  return higher;
}

}  // namespace

Descriptor::Descriptor(int fd) : fd_(AboveStandard(fd)) {
  struct stat file {};
  if (fd_ < 0 || fstat(fd_, &file) != 0) return;
  device_ = file.st_dev;
  inode_ = file.st_ino;
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this == &other) return *this;
  Close();
  fd_ = std::exchange(other.fd_, -1);
  device_ = other.device_;
  inode_ = other.inode_;
  return *this;
}

bool Descriptor::IsOurs() const {
  struct stat file {};
  return fd_ >= 0 && fstat(fd_, &file) == 0 && file.st_dev == device_ && file.st_ino == inode_;
}

int Descriptor::Close() {
  const NoCancellation guard;
  const bool ours = IsOurs();
  const int fd = std::exchange(fd_, -1);
  return ours ? close(fd) : 0;
}

bool IsWithinFileLimit(int fd, size_t bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return true;
  const bool appends = (fcntl(fd, F_GETFL) & O_APPEND) != 0;
  const off_t at = lseek(fd, 0, appends ? SEEK_END : SEEK_CUR);
  return at < 0 || static_cast<rlim_t>(at) + bytes <= limit.rlim_cur;
}

absl::Status WriteAll(const Descriptor& file, absl::string_view bytes, absl::string_view path) {
  if (!IsWithinFileLimit(file.get(), bytes.size())) return ErrnoStatus(EFBIG, path, "write");
  while (!bytes.empty()) {
    const ssize_t written = write(file.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, path, "write");
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace kiln
