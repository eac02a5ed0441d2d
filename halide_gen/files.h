// SPDX-License-Identifier: Apache-2.0
// The few files the worker needs: plain bytes in a private directory that lives as long as one
// request.
#ifndef KILN_HALIDE_GEN_FILES_H_
#define KILN_HALIDE_GEN_FILES_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln {

// kUnavailable with the path and the system's reason if it cannot be written or read.
absl::Status WriteBytes(const std::string& path, absl::string_view bytes);
absl::StatusOr<std::string> ReadBytes(const std::string& path);

// A directory of mode 0700 under TMPDIR (else /tmp), removed with its files by the destructor.
class ScratchDir {
 public:
  static absl::StatusOr<ScratchDir> Make();
  ScratchDir(ScratchDir&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  ScratchDir& operator=(ScratchDir&&) = delete;
  ~ScratchDir();

  const std::string& path() const { return path_; }

 private:
  explicit ScratchDir(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_FILES_H_
