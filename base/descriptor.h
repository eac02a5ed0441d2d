// SPDX-License-Identifier: Apache-2.0
// Descriptor owns a file descriptor, and closes no other.
//
// A host may close descriptors that are not its own and open files under the same numbers. A
// Descriptor remembers which file it was given, by device and inode:
//
//   Descriptor file(open(...));
//   ... a call returns, the host does what it likes, another call begins ...
//   if (!file.IsOurs()) return absl::UnavailableError(...);  // before it is used again
//   ...                                                      // ~Descriptor: a file of the host's
//                                                            // stays open
//
// Not thread-safe.
#ifndef KILN_BASE_DESCRIPTOR_H_
#define KILN_BASE_DESCRIPTOR_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace kiln {

class Descriptor {
 public:
  Descriptor() = default;  // none
  // Takes it, and moves it above stdin, stdout and stderr, which a host may have closed: what is
  // printed there must not get into a file of ours. None, with errno, for -1 and where the process
  // may have no other.
  explicit Descriptor(int fd);
  Descriptor(Descriptor&& other) noexcept { *this = std::move(other); }
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { Close(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  bool IsOurs() const;
  // As close(2): 0, or -1 with errno. Does nothing where it is not ours any more.
  int Close();

 private:
  int fd_ = -1;
  uint64_t device_ = 0, inode_ = 0;
};

// Whether RLIMIT_FSIZE allows to write so many bytes to `fd` now. A write that crosses the limit is
// cut there; one that begins at it ends the process by SIGXFSZ.
bool IsWithinFileLimit(int fd, size_t bytes);

// Writes all bytes. An error names `path`; the host's limit of a file's size is one, not a signal.
absl::Status WriteAll(const Descriptor& file, absl::string_view bytes, absl::string_view path);

}  // namespace kiln

#endif  // KILN_BASE_DESCRIPTOR_H_
