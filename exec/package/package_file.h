// SPDX-License-Identifier: Apache-2.0
// The file of a package (docs/package_format.md, byte by byte): constants, where a processor can
// use them, and a pack of everything else.
//
//   package := head | constants | pack | footer
//   head    := magic "KILNPKG\n" | u32 version | zeros up to 64 bytes
//   footer  := u64 offset of the pack | u64 length of the file | XXH3-128 of the last 96 bytes of
//              the pack and the 16 before
//
// Head and constants are the area. It is cut into chunks of 1 MiB, and the entry of the pack that
// describes the package has a checksum and a SHA-256 of each (section "chunks"). Opening reads what
// is behind the area and nothing of it; a chunk is checked once, before the first use of a constant
// in it: by its checksum, or by its SHA-256 where a signature is demanded, since the signature of
// the pack covers that. So every byte of the file is under one of them.
//
//   KILN_ASSIGN_OR_RETURN(auto file, PackageFile::Open(std::move(opened), "m.kiln", {}));
//   KILN_RETURN_IF_ERROR(file->ReadChunks(*head.Find("chunks")));
//   KILN_ASSIGN_OR_RETURN(auto view, file->View(offset, bytes));    // where the constant lies
//   KILN_RETURN_IF_ERROR(file->Check(offset, bytes));               // before anybody reads it
#ifndef KILN_EXEC_PACKAGE_PACKAGE_FILE_H_
#define KILN_EXEC_PACKAGE_PACKAGE_FILE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "kiln/package.h"
#include "persistent_cache/pack.h"

namespace kiln {

inline constexpr absl::string_view kPackageMagic("KILNPKG\n", 8);
inline constexpr uint32_t kPackageVersion = 2;                   // correctness
inline constexpr int64_t kPackageHeadBytes = 64;                 // correctness
inline constexpr int64_t kPackageFooterBytes = 8 + 8 + 16;       // correctness
inline constexpr int64_t kPackageChunkBytes = int64_t{1} << 20;  // correctness
inline constexpr int64_t kPackageChunkSums = 16 + 32;            // correctness: XXH3-128, SHA-256

// Bytes of a package's area.
struct PackageRange {
  int64_t offset = 0, bytes = 0;
};

// The head of the area, and what ends the file behind `pack`, which lies behind `area` bytes.
std::string PackageHead();
std::string PackageFooter(absl::string_view pack, int64_t area);
// The sums of one chunk.
std::string PackageChunkSums(absl::string_view chunk);

class PackageFile {
 public:
  // Checks footer, head and the index of the pack. kDataLoss names the part that is wrong, and both
  // versions; kPermissionDenied: signers are demanded, and none of them signed it.
  static absl::StatusOr<std::shared_ptr<PackageFile>> Open(std::unique_ptr<ReadableFile> file,
                                                           absl::string_view name,
                                                           const PackageOptions& options);

  const std::string& name() const { return name_; }
  const Pack& pack() const { return *pack_; }
  int64_t size() const { return size_; }
  int64_t area() const { return area_; }
  // Takes over the sums of all chunks. kDataLoss: they are not as many as there are chunks.
  absl::Status ReadChunks(absl::string_view sums);

  // Bytes of the area, unchecked: mapped, or where PackageOptions::read is set, or the file cannot
  // be mapped, in memory. kDataLoss: they are not all in the area. Not thread-safe.
  absl::StatusOr<ReadableFile::Mapping> View(int64_t offset, int64_t bytes);
  // Checks the chunks that have these bytes of the area, those that nobody has checked yet.
  // Thread-safe after the last call of View.
  absl::Status Check(int64_t offset, int64_t bytes);
  // The same for bytes of views, by where they lie; others are left alone.
  absl::Status CheckMemory(const void* data, int64_t bytes);

 private:
  PackageFile() = default;
  absl::Status ReadFrame(const PackageOptions& options);
  absl::Status Load();

  std::string name_;
  std::shared_ptr<ReadableFile> file_;
  std::unique_ptr<Pack> pack_;
  int64_t size_ = 0, area_ = 0;
  bool read_ = false;    // in place of mapping
  bool strict_ = false;  // SHA-256
  std::string sums_;
  std::unique_ptr<std::atomic<bool>[]> checked_;  // by chunk
  ReadableFile::Mapping bytes_;                   // of the area
};

}  // namespace kiln

#endif  // KILN_EXEC_PACKAGE_PACKAGE_FILE_H_
