// SPDX-License-Identifier: Apache-2.0
#include "kiln/halide_gen/files.h"

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace kiln {

absl::Status WriteBytes(const std::string& path, absl::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("\"", path, "\": cannot be written, ", strerror(errno)));
}

absl::StatusOr<std::string> ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  if (file) bytes << file.rdbuf();
  if (file) return std::move(bytes).str();
  return absl::UnavailableError(absl::StrCat("\"", path, "\": cannot be read, ", strerror(errno)));
}

absl::StatusOr<ScratchDir> ScratchDir::Make() {
  const char* parent = getenv("TMPDIR");
  std::string path =
      absl::StrCat(parent != nullptr && *parent != '\0' ? parent : "/tmp", "/kiln-codegen.XXXXXX");
  if (mkdtemp(path.data()) != nullptr) return ScratchDir(path);
  return absl::UnavailableError(absl::StrCat("\"", path, "\": cannot be made, ", strerror(errno),
                                             "; set TMPDIR to a directory with room"));
}

ScratchDir::~ScratchDir() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace kiln
