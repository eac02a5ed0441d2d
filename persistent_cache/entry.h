// SPDX-License-Identifier: Apache-2.0
// One cache entry: a key and tagged sections, in one self-describing file (docs/cache_format.md,
// byte by byte).
//
//   entry := magic "KILNENT\n" | u32 version | u32 sections | u64 file length | key (32) | row* |
//            sections | SHA-256 of all before
//   row   := tag (16, zero padded) | u32 flags (bit 0: critical) | u32 zero | u64 offset |
//            u64 length
//
// Sections are in the order of the table, start at multiples of 8, and the gaps are zero, so equal
// entries are equal bytes. A reader that meets a critical tag it does not know treats the entry as
// a miss; other unknown tags it skips.
//
// Tags: "preimage" and "meta" stand in every entry. Kernels have "elf" (of CUDA "ptx" and "launch",
// perhaps "cubin") and may have "stmt", "asm". An entry with "failure" says that building fails
// each time, with this text; it holds until the time in "expires". "meta" is lines `name=value`,
// sorted by name: device, expires (seconds since 1970), isa, launch, schedule, scratch, target,
// wall_ms (of the build). In values a backslash is written `\\` and the end of a line `\n`: what
// another process said is one value.
#ifndef KILN_PERSISTENT_CACHE_ENTRY_H_
#define KILN_PERSISTENT_CACHE_ENTRY_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "persistent_cache/key.h"

namespace kiln {

inline constexpr uint32_t kEntryVersion = 1;
inline constexpr int64_t kMaxEntryBytes = int64_t{256} << 20;

struct Section {
  std::string tag;  // 1 to 16 bytes
  bool critical = false;
  std::string bytes;
};

struct Entry {
  CacheKey key{};
  std::vector<Section> sections;

  // The section's bytes, or null.
  const std::string* Find(absl::string_view tag) const;
  void Add(absl::string_view tag, std::string bytes, bool critical);
};

// A section where it lies in the file of its entry.
struct SectionView {
  std::string tag;
  bool critical = false;
  absl::string_view bytes;
};

// The file of an entry. Deterministic.
std::string EncodeEntry(const Entry& entry);

// Checks everything that is documented above, the checksum first. kDataLoss says what is wrong;
// kUnimplemented: a whole entry of another version or with an unknown critical tag. Never reads
// outside `file`, whatever it holds.
absl::StatusOr<Entry> DecodeEntry(absl::string_view file);

// DecodeEntry, and that the entry is the one of `key`, and of `preimage` unless that is null.
absl::StatusOr<Entry> DecodeEntryOf(absl::string_view file, const CacheKey& key,
                                    const std::string* preimage);

// The sections of the entry of `preimage`, in place. Checks what DecodeEntryOf does; without
// `checksum` all but the SHA-256, for a file that was checked before and is the same
// (FileIdentity).
absl::StatusOr<std::vector<SectionView>> ViewEntryOf(absl::string_view file, const CacheKey& key,
                                                     absl::string_view preimage, bool checksum);

// One section of an entry in a file, without reading the rest of it: for lists and for choosing
// what to evict. Its bytes are NOT verified. kNotFound: no such section.
absl::StatusOr<std::string> PeekSection(ReadableFile& file, absl::string_view tag);

// The "meta" section as a map, and back; the first also of an entry, {} where it has none.
std::map<std::string, std::string> MetaOf(const Entry& entry);
std::map<std::string, std::string> ParseMeta(absl::string_view text);
std::string FormatMeta(const std::map<std::string, std::string>& meta);

}  // namespace kiln

#endif  // KILN_PERSISTENT_CACHE_ENTRY_H_
