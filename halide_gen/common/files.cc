// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/common/files.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
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

namespace {

constexpr char kPrefix[] = "kiln-codegen.";
constexpr int64_t kOldSeconds = 60;  // correctness: one that is younger may be about to be locked

std::string Parent() {
  const char* const parent = secure_getenv("TMPDIR");
  return parent != nullptr && *parent != '\0' ? parent : "/tmp";
}

// Whether the directory is ours and nobody holds its lock, though there has been time to.
bool IsLeftBehind(int fd) {
  struct stat s;
  return fstat(fd, &s) == 0 && s.st_uid == geteuid() && time(nullptr) - s.st_mtime > kOldSeconds &&
         flock(fd, LOCK_EX | LOCK_NB) == 0;
}

int OpenDirectory(const std::string& path) {
  return open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

}  // namespace

absl::StatusOr<ScratchDir> ScratchDir::Make() {
  std::string path = absl::StrCat(Parent(), "/", kPrefix, "XXXXXX");
  if (mkdtemp(path.data()) == nullptr) {
    return absl::UnavailableError(absl::StrCat("\"", path, "\": cannot be made, ", strerror(errno),
                                               "; set TMPDIR to a directory with room"));
  }
  const int lock = OpenDirectory(path);
  if (lock >= 0) flock(lock, LOCK_SH);
  return ScratchDir(std::move(path), lock);
}

ScratchDir::~ScratchDir() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  if (lock_ >= 0) close(lock_);
}

void ScratchDir::RemoveThoseLeftBehind() {
  std::error_code ignored;
  for (std::filesystem::directory_iterator it(Parent(), ignored), end; !ignored && it != end;
       it.increment(ignored)) {
    if (!absl::StartsWith(it->path().filename().string(), kPrefix)) continue;
    const int fd = OpenDirectory(it->path());
    std::error_code failed;
    if (fd >= 0 && IsLeftBehind(fd)) std::filesystem::remove_all(it->path(), failed);
    if (fd >= 0) close(fd);
  }
}

}  // namespace kiln
