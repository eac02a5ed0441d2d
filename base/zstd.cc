// SPDX-License-Identifier: Apache-2.0
#include "base/zstd.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

constexpr int kLevel = 9;

// These functions have been the same since libzstd 1.3.
struct Library {
  size_t (*compress_bound)(size_t) = nullptr;
  size_t (*compress)(void*, size_t, const void*, size_t, int) = nullptr;
  size_t (*decompress)(void*, size_t, const void*, size_t) = nullptr;
  unsigned long long (*content_size)(const void*, size_t) = nullptr;
  unsigned (*is_error)(size_t) = nullptr;
  const char* (*error_name)(size_t) = nullptr;
  std::string error;  // "" where all of it is there
};

template <typename Function>
void Find(void* library, const char* name, Function& function, std::string& error) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr && error.empty()) error = absl::StrCat("it has no ", name);
}

Library Load() {
  Library zstd;
  void* const library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    zstd.error = why != nullptr ? why : "it cannot be loaded";
    return zstd;
  }
  Find(library, "ZSTD_compressBound", zstd.compress_bound, zstd.error);
  Find(library, "ZSTD_compress", zstd.compress, zstd.error);
  Find(library, "ZSTD_decompress", zstd.decompress, zstd.error);
  Find(library, "ZSTD_getFrameContentSize", zstd.content_size, zstd.error);
  Find(library, "ZSTD_isError", zstd.is_error, zstd.error);
  Find(library, "ZSTD_getErrorName", zstd.error_name, zstd.error);
  return zstd;
}

absl::StatusOr<const Library*> Loaded() {
  static const Library* const library = new Library(Load());  // usable in other destructors
  if (library->error.empty()) return library;
  return absl::FailedPreconditionError(
      absl::StrCat("zstd: libzstd.so.1 is needed: ", library->error, "; install libzstd1"));
}

}  // namespace

absl::StatusOr<std::string> ZstdCompress(absl::string_view bytes) {
  KILN_ASSIGN_OR_RETURN(const Library* const zstd, Loaded());
  std::string frame(zstd->compress_bound(bytes.size()), '\0');
  const size_t size =
      zstd->compress(frame.data(), frame.size(), bytes.data(), bytes.size(), kLevel);
  if (zstd->is_error(size) != 0)
    return absl::ResourceExhaustedError(absl::StrCat("zstd: ", zstd->error_name(size)));
  frame.resize(size);
  return frame;
}

absl::StatusOr<int64_t> ZstdSize(absl::string_view frame) {
  KILN_ASSIGN_OR_RETURN(const Library* const zstd, Loaded());
  const unsigned long long size = zstd->content_size(frame.data(), frame.size());
  if (size > static_cast<unsigned long long>(INT64_MAX))
    return absl::DataLossError("zstd: is no frame that says how many bytes it holds");
  return static_cast<int64_t>(size);
}

absl::Status ZstdDecompress(absl::string_view frame, void* bytes, int64_t size) {
  KILN_ASSIGN_OR_RETURN(const Library* const zstd, Loaded());
  const size_t made =
      zstd->decompress(bytes, static_cast<size_t>(size), frame.data(), frame.size());
  if (zstd->is_error(made) != 0)
    return absl::DataLossError(absl::StrCat("zstd: ", zstd->error_name(made)));
  if (made == static_cast<size_t>(size)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("zstd: holds ", made, " bytes, expected ", size));
}

}  // namespace kiln
