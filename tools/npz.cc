// SPDX-License-Identifier: Apache-2.0
#include "tools/npz.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/file_system.h"
#include "base/npy.h"
#include "base/printable.h"
#include "base/status.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

// Sizes and signatures of the ZIP specification (APPNOTE 6.3), little endian.
constexpr size_t kEndBytes = 22, kEntryBytes = 46, kLocalBytes = 30, kMostComment = 65535;
constexpr uint32_t kEnd = 0x06054b50, kEntry = 0x02014b50, kLocal = 0x04034b50;
constexpr uint32_t kInZip64 = 0xFFFFFFFF;

// Numbers within `bytes`; whoever asks has checked that they are there.
uint64_t At(absl::string_view bytes, size_t offset, size_t size) {
  uint64_t value = 0;
  for (size_t i = size; i-- > 0;)
    value = value << 8 | static_cast<unsigned char>(bytes[offset + i]);
  return value;
}

bool Holds(absl::string_view bytes, uint64_t offset, uint64_t size) {
  return offset <= bytes.size() && size <= bytes.size() - offset;
}

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("npz archive: ", what, "; the file is damaged"));
}

// Where the end record begins.
absl::StatusOr<size_t> FindEnd(absl::string_view bytes) {
  if (bytes.size() < kEndBytes) return Damaged("it is shorter than an empty archive");
  const size_t last = bytes.size() - kEndBytes;
  for (size_t back = 0; back <= std::min(last, kMostComment); ++back) {
    if (At(bytes, last - back, 4) == kEnd) return last - back;
  }
  return Damaged("it has no end record");
}

// `room`: bytes of members that are still possible; small archives could name one member often.
absl::StatusOr<Tensor> ReadMember(absl::string_view bytes, size_t entry, uint64_t& room) {
  const uint64_t flags = At(bytes, entry + 8, 2), method = At(bytes, entry + 10, 2);
  const uint64_t packed = At(bytes, entry + 20, 4), size = At(bytes, entry + 24, 4);
  const uint64_t local = At(bytes, entry + 42, 4);
  if (method != 0)
    return absl::UnimplementedError(
        "it is compressed; write the archive by numpy.savez, not numpy.savez_compressed");
  if ((flags & 1) != 0) return absl::UnimplementedError("it is encrypted");
  if (packed == kInZip64 || size == kInZip64 || local == kInZip64)
    return absl::UnimplementedError("it is larger than 4 GiB; give .npy files");
  if (!Holds(bytes, local, kLocalBytes) || At(bytes, local, 4) != kLocal)
    return Damaged("a member has no header");
  const uint64_t data = local + kLocalBytes + At(bytes, local + 26, 2) + At(bytes, local + 28, 2);
  if (packed != size || !Holds(bytes, data, size)) return Damaged("a member ends behind the file");
  if (size > room) return Damaged("members lie over each other");
  room -= size;
  return ParseNpy(bytes.substr(data, size));
}

}  // namespace

absl::StatusOr<std::vector<std::pair<std::string, Tensor>>> ParseNpz(absl::string_view bytes) {
  KILN_ASSIGN_OR_RETURN(const size_t end, FindEnd(bytes));
  const uint64_t count = At(bytes, end + 10, 2);
  uint64_t entry = At(bytes, end + 16, 4);
  uint64_t room = bytes.size();
  std::vector<std::pair<std::string, Tensor>> arrays;
  std::set<std::string> names;
  for (uint64_t k = 0; k < count; ++k) {
    if (!Holds(bytes, entry, kEntryBytes) || At(bytes, entry, 4) != kEntry)
      return Damaged(absl::StrCat("entry ", k, " of ", count, " is none"));
    const uint64_t name_bytes = At(bytes, entry + 28, 2);
    if (!Holds(bytes, entry + kEntryBytes, name_bytes)) return Damaged("a name is cut");
    const absl::string_view file = bytes.substr(entry + kEntryBytes, name_bytes);
    const std::string name(absl::StripSuffix(file, ".npy"));
    if (!names.insert(name).second)
      return Invalid("npz archive: \"", Printable(name), "\" stands twice");
    absl::StatusOr<Tensor> array = ReadMember(bytes, entry, room);
    if (!array.ok())
      return Annotate(array.status(), absl::StrCat("array \"", Printable(name), "\""));
    arrays.emplace_back(name, *std::move(array));
    entry += kEntryBytes + name_bytes + At(bytes, entry + 30, 2) + At(bytes, entry + 32, 2);
  }
  return arrays;
}

absl::StatusOr<std::vector<std::pair<std::string, Tensor>>> ReadNpz(absl::string_view path) {
  // Links are followed, as for .npy; of one that leads nowhere the error is that of opening it.
  std::error_code error;
  const std::string file_path =
      std::filesystem::weakly_canonical(std::string(path), error).string();
  KILN_ASSIGN_OR_RETURN(const auto file,
                        RealFileSystem().OpenRead(error ? std::string(path) : file_path));
  KILN_ASSIGN_OR_RETURN(const ReadableFile::Mapping mapping, file->Map());
  auto arrays = ParseNpz(mapping.bytes);
  if (!arrays.ok()) return Annotate(arrays.status(), absl::StrCat("\"", Printable(path), "\""));
  return arrays;
}

}  // namespace kiln
