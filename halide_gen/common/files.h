// SPDX-License-Identifier: Apache-2.0
// The few files the worker needs: plain bytes in a private directory that lives as long as one
// request.
#ifndef KILN_HALIDE_GEN_COMMON_FILES_H_
#define KILN_HALIDE_GEN_COMMON_FILES_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln {

// kUnavailable with the path and the system's reason if it cannot be written or read.
absl::Status WriteBytes(const std::string& path, absl::string_view bytes);
absl::StatusOr<std::string> ReadBytes(const std::string& path);

// A directory of mode 0700 under TMPDIR (else /tmp), removed with its files by the destructor. It
// is locked (flock) as long as it is used, so that what a killed process left is told from it.
class ScratchDir {
 public:
  static absl::StatusOr<ScratchDir> Make();
  ScratchDir(ScratchDir&& other) noexcept
      : path_(std::exchange(other.path_, "")), lock_(std::exchange(other.lock_, -1)) {}
  ScratchDir& operator=(ScratchDir&&) = delete;
  ~ScratchDir();

  const std::string& path() const { return path_; }

  // Removes the directories of this user that killed processes left, from a minute ago on.
  static void RemoveThoseLeftBehind();

 private:
  ScratchDir(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}
  std::string path_;
  int lock_;  // a descriptor; -1: none
};

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_COMMON_FILES_H_
