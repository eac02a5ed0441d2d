// SPDX-License-Identifier: Apache-2.0
#include "persistent_cache/directory.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

// Makes every missing component of an absolute path.
absl::Status MakeDirs(FileSystem& files, absl::string_view path) {
  std::string at;
  for (absl::string_view part : absl::StrSplit(path, '/', absl::SkipEmpty())) {
    absl::StrAppend(&at, "/", part);
    if (files.Stat(at).ok()) continue;
    KILN_RETURN_IF_ERROR(files.MakeDir(at, 0700));
  }
  return absl::OkStatus();
}

absl::Status CheckComponent(FileSystem& files, const std::string& path) {
  KILN_ASSIGN_OR_RETURN(const FileInfo info, files.Stat(path));
  const auto refuse = [&](const std::string& what) {
    return absl::FailedPreconditionError(
        absl::StrCat("cache directory \"", path, "\": ", what,
                     "; choose another with --cache-dir or KILN_CACHE_DIR"));
  };
  if (!info.is_dir) return refuse("is not a directory");
  if (info.uid != 0 && info.uid != geteuid()) {
    return refuse(absl::StrCat("is owned by user ", info.uid, ", not by root or user ", geteuid()));
  }
  const bool others_write = (info.mode & 0022) != 0;
  const bool sticky = (info.mode & 01000) != 0;
  if (others_write && !sticky) {
    return refuse(absl::StrFormat("has mode %04o, writable by others than its owner", info.mode));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> DefaultCacheDirectory() {
  if (getauxval(AT_SECURE) != 0) {
    return absl::PermissionDeniedError(
        "cache directory: not taken from the environment of a set-uid process");
  }
  const char* const own = secure_getenv("KILN_CACHE_DIR");
  if (own != nullptr && own[0] != '\0') return std::string(own);
  const char* const xdg = secure_getenv("XDG_CACHE_HOME");
  if (xdg != nullptr && xdg[0] == '/') return absl::StrCat(xdg, "/kiln");
  const char* const home = secure_getenv("HOME");
  if (home != nullptr && home[0] == '/') return absl::StrCat(home, "/.cache/kiln");
  return absl::NotFoundError(
      "cache directory: HOME is not set; set KILN_CACHE_DIR to keep compiled kernels");
}

absl::StatusOr<std::string> PrepareCacheDirectory(FileSystem& files, absl::string_view path,
                                                  bool make) {
  const std::string absolute = AbsolutePath(path);
  if (!absl::StartsWith(absolute, "/"))
    return absl::NotFoundError(
        "cache directory: the working directory is gone; give an absolute path");
  if (make) KILN_RETURN_IF_ERROR(MakeDirs(files, absolute));
  if (!make && absl::IsNotFound(files.Stat(absolute).status())) return absolute;
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(absolute.c_str(), nullptr),
                                                         std::free);
  if (real == nullptr)
    return absl::NotFoundError(
        absl::StrCat("cache directory \"", absolute, "\": does not resolve"));
  std::string at;
  KILN_RETURN_IF_ERROR(CheckComponent(files, "/"));
  for (absl::string_view part : absl::StrSplit(real.get(), '/', absl::SkipEmpty())) {
    absl::StrAppend(&at, "/", part);
    KILN_RETURN_IF_ERROR(CheckComponent(files, at));
  }
  return at;
}

}  // namespace kiln
