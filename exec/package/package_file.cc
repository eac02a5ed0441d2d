// SPDX-License-Identifier: Apache-2.0
#include "exec/package/package_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/little_endian.h"
#include "base/sha256.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "base/try_allocate.h"
#include "base/xxh3.h"

namespace kiln {
namespace {

constexpr absl::string_view kPackMagic("KILNPAK\n", 8);
constexpr size_t kSignedBytes = 32 + 64;            // correctness: key and signature end a pack
constexpr int64_t kPieceBytes = int64_t{16} << 20;  // speed
constexpr int64_t kConstantAlignment = 64;          // correctness

template <typename Digest>
absl::string_view Text(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

// A part of a file as a file.
class FilePart : public ReadableFile {
 public:
  FilePart(std::shared_ptr<ReadableFile> file, int64_t offset, int64_t size)
      : file_(std::move(file)), offset_(offset), info_(file_->info()) {
    info_.size = size;
  }
  const FileInfo& info() const override { return info_; }
  absl::StatusOr<std::string> Read(int64_t offset, int64_t bytes) override {
    if (offset < 0 || bytes < 0 || offset > info_.size)
      return absl::InvalidArgumentError("reads beyond a part of a file");
    return file_->Read(offset_ + offset, std::min(bytes, info_.size - offset));
  }

 private:
  const std::shared_ptr<ReadableFile> file_;
  const int64_t offset_;
  FileInfo info_;
};

// What covers the numbers of the footer, and the end of the pack, which its own digest leaves out.
std::string FooterSum(absl::string_view end_of_pack, absl::string_view numbers) {
  return std::string(Text(Xxh3(absl::StrCat(end_of_pack, numbers))));
}

absl::Status OtherVersion(absl::string_view head) {
  if (head.substr(0, 8) == kPackMagic) {
    return absl::DataLossError(absl::StrCat(
        "head: is a pack of kernels, or a package of format 1; this Kiln reads packages of format ",
        kPackageVersion, ": compile the model again"));
  }
  if (head.substr(0, 8) != kPackageMagic)
    return absl::DataLossError("head: does not start with \"KILNPKG\": it is no package");
  if (const uint32_t version = LoadU32(head.substr(8)); version != kPackageVersion) {
    return absl::DataLossError(absl::StrCat(
        "head: is of format ", version, ", and this Kiln reads format ", kPackageVersion,
        ": compile the model again with this Kiln, or use one that "
        "reads it"));
  }
  if (head != PackageHead()) return absl::DataLossError("head: bytes of it are not zero");
  return absl::OkStatus();
}

}  // namespace

std::string PackageHead() {
  std::string head(kPackageMagic);
  AppendU32(head, kPackageVersion);
  head.resize(static_cast<size_t>(kPackageHeadBytes), '\0');
  return head;
}

std::string PackageFooter(absl::string_view pack, int64_t area) {
  std::string footer;
  AppendU64(footer, static_cast<uint64_t>(area));
  AppendU64(footer, static_cast<uint64_t>(area + kPackageFooterBytes) + pack.size());
  const size_t end = std::min(pack.size(), kSignedBytes);
  return absl::StrCat(footer, FooterSum(pack.substr(pack.size() - end), footer));
}

std::string PackageChunkSums(absl::string_view chunk) {
  return absl::StrCat(Text(Xxh3(chunk)), Text(Sha256(chunk)));
}

absl::StatusOr<std::shared_ptr<PackageFile>> PackageFile::Open(std::unique_ptr<ReadableFile> file,
                                                               absl::string_view name,
                                                               const PackageOptions& options) {
  std::shared_ptr<PackageFile> made(new PackageFile);
  made->name_ = std::string(name);
  made->file_ = std::move(file);
  made->size_ = made->file_->info().size;
  made->read_ = options.read;
  made->strict_ = options.signers.has_value();
  KILN_RETURN_IF_ERROR(made->ReadFrame(options));
  return made;
}

absl::Status PackageFile::ReadFrame(const PackageOptions& options) {
  KILN_ASSIGN_OR_RETURN(const std::string head, file_->Read(0, kPackageHeadBytes));
  if (static_cast<int64_t>(head.size()) < kPackageHeadBytes)
    return absl::DataLossError(absl::StrCat("head: ", size_, " bytes are too few for a package"));
  KILN_RETURN_IF_ERROR(OtherVersion(head));
  const auto tail_bytes = kPackageFooterBytes + static_cast<int64_t>(kSignedBytes);
  if (size_ < kPackageHeadBytes + tail_bytes)
    return absl::DataLossError(absl::StrCat("footer: ", size_, " bytes are too few for a package"));
  KILN_ASSIGN_OR_RETURN(const std::string tail, file_->Read(size_ - tail_bytes, tail_bytes));
  if (static_cast<int64_t>(tail.size()) != tail_bytes)
    return absl::DataLossError("footer: the file was cut short while it was read");
  const absl::string_view end_of_pack = absl::string_view(tail).substr(0, kSignedBytes);
  const absl::string_view footer = absl::string_view(tail).substr(kSignedBytes);
  const uint64_t length = LoadU64(footer.substr(8));
  if (FooterSum(end_of_pack, footer.substr(0, 16)) != footer.substr(16) ||
      length != static_cast<uint64_t>(size_)) {
    return absl::DataLossError(absl::StrCat("footer: its checksum differs, or the file of ", size_,
                                            " bytes was cut short"));
  }
  const uint64_t area = LoadU64(footer);
  if (area < static_cast<uint64_t>(kPackageHeadBytes) ||
      area > static_cast<uint64_t>(size_ - tail_bytes)) {
    return absl::DataLossError(
        absl::StrCat("footer: the pack is at ", area, " of ", size_, " bytes"));
  }
  area_ = static_cast<int64_t>(area);
  PackTrust trust;
  if (options.signers) trust.signers = *options.signers;
  auto pack =
      Pack::Open(std::make_unique<FilePart>(file_, area_, size_ - area_ - kPackageFooterBytes),
                 name_, options.signers ? &trust : nullptr);
  if (absl::IsPermissionDenied(pack.status())) return pack.status();  // about the package
  if (absl::IsUnimplemented(pack.status()))
    return absl::DataLossError(absl::StrCat("pack: ", pack.status().message()));
  KILN_RETURN_IF_ERROR(Annotate(pack.status(), "pack"));
  pack_ = *std::move(pack);
  return absl::OkStatus();
}

absl::Status PackageFile::ReadChunks(absl::string_view sums) {
  const int64_t chunks = (area_ - 1) / kPackageChunkBytes + 1;
  if (sums.size() != static_cast<size_t>(chunks * kPackageChunkSums)) {
    return absl::DataLossError(absl::StrCat("chunks: ", sums.size(), " bytes of checksums for ",
                                            chunks, " chunks, expected ",
                                            chunks * kPackageChunkSums));
  }
  sums_ = std::string(sums);
  checked_ = std::make_unique<std::atomic<bool>[]>(static_cast<size_t>(chunks));
  return absl::OkStatus();
}

// Maps what can be, and reads else.
absl::Status PackageFile::Load() {
  if (!read_) {
    absl::StatusOr<ReadableFile::Mapping> mapped = file_->Map();
    const auto is_aligned = [](const void* at) {
      return reinterpret_cast<uintptr_t>(at) % kConstantAlignment == 0;
    };
    if (mapped.ok() && is_aligned(mapped->bytes.data()) &&
        static_cast<int64_t>(mapped->bytes.size()) >= area_) {
      bytes_ = *std::move(mapped);
      return absl::OkStatus();
    }
    if (!mapped.ok() && !absl::IsUnimplemented(mapped.status())) return mapped.status();
  }
  KILN_ASSIGN_OR_RETURN(const Tensor memory, TryAllocate(DType::kU8, {area_}));
  for (int64_t at = 0; at < area_; at += kPieceBytes) {
    const int64_t wanted = std::min(kPieceBytes, area_ - at);
    KILN_ASSIGN_OR_RETURN(const std::string piece, file_->Read(at, wanted));
    if (static_cast<int64_t>(piece.size()) != wanted)
      return absl::DataLossError("constants: the file was cut short while it was read");
    std::memcpy(static_cast<char*>(memory.data()) + at, piece.data(), piece.size());
  }
  bytes_ = {{static_cast<const char*>(memory.data()), static_cast<size_t>(area_)}, memory.owner()};
  return absl::OkStatus();
}

absl::StatusOr<ReadableFile::Mapping> PackageFile::View(int64_t offset, int64_t bytes) {
  if (offset < kPackageHeadBytes || offset % kConstantAlignment != 0 || bytes < 0 ||
      offset > area_ || bytes > area_ - offset) {
    return absl::DataLossError(absl::StrCat("constants: ", bytes, " bytes at ", offset,
                                            " are not among the ", area_, " of the constants"));
  }
  if (bytes_.bytes.empty()) KILN_RETURN_IF_ERROR(Load());
  return ReadableFile::Mapping{
      bytes_.bytes.substr(static_cast<size_t>(offset), static_cast<size_t>(bytes)), bytes_.owner};
}

absl::Status PackageFile::Check(int64_t offset, int64_t bytes) {
  if (bytes <= 0) return absl::OkStatus();
  if (bytes_.bytes.empty()) KILN_RETURN_IF_ERROR(Load());
  for (int64_t k = offset / kPackageChunkBytes; k * kPackageChunkBytes < offset + bytes; ++k) {
    std::atomic<bool>& checked = checked_[static_cast<size_t>(k)];
    if (checked.load(std::memory_order_acquire)) continue;
    const int64_t begin = k * kPackageChunkBytes;
    const int64_t size = std::min(kPackageChunkBytes, area_ - begin);
    const absl::string_view chunk =
        bytes_.bytes.substr(static_cast<size_t>(begin), static_cast<size_t>(size));
    const absl::string_view sums = absl::string_view(sums_).substr(
        static_cast<size_t>(k * kPackageChunkSums), static_cast<size_t>(kPackageChunkSums));
    const bool right =
        strict_ ? Text(Sha256(chunk)) == sums.substr(16) : Text(Xxh3(chunk)) == sums.substr(0, 16);
    if (!right) {
      return absl::DataLossError(absl::StrCat("constants: chunk ", k, " (bytes ", begin, " to ",
                                              begin + size, ") has another ",
                                              strict_ ? "SHA-256" : "checksum"));
    }
    checked.store(true, std::memory_order_release);
  }
  return absl::OkStatus();
}

absl::Status PackageFile::CheckMemory(const void* data, int64_t bytes) {
  const auto first = reinterpret_cast<uintptr_t>(bytes_.bytes.data());
  const uintptr_t offset = reinterpret_cast<uintptr_t>(data) - first;  // wraps if it lies before
  if (offset >= bytes_.bytes.size()) return absl::OkStatus();
  const int64_t rest = area_ - static_cast<int64_t>(offset);
  return Check(static_cast<int64_t>(offset), std::min(bytes, rest));
}

}  // namespace kiln
