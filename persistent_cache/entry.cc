// SPDX-License-Identifier: Apache-2.0
#include "persistent_cache/entry.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/little_endian.h"

namespace kiln {
namespace {

constexpr absl::string_view kMagic("KILNENT\n", 8);
constexpr size_t kTagBytes = 16;
constexpr size_t kHeadBytes = 8 + 4 + 4 + 8 + 32;
constexpr size_t kRowBytes = kTagBytes + 4 + 4 + 8 + 8;
constexpr size_t kSumBytes = 32;
constexpr uint32_t kMaxSections = 64;
constexpr absl::string_view kKnownCritical[] = {"preimage", "meta",    "elf",     "ptx", "launch",
                                                "blob",     "program", "failure", "tune"};

size_t Align8(size_t n) { return (n + 7) / 8 * 8; }

bool IsKnownCritical(absl::string_view tag) {
  return std::find(std::begin(kKnownCritical), std::end(kKnownCritical), tag) !=
         std::end(kKnownCritical);
}

absl::Status CheckFrame(absl::string_view file, bool checksum) {
  if (file.size() < kHeadBytes + kSumBytes) {
    return absl::DataLossError(absl::StrCat("entry: ", file.size(), " bytes are too few"));
  }
  if (file.substr(0, 8) != kMagic)
    return absl::DataLossError("entry: does not start with \"KILNENT\"");
  if (const uint64_t length = LoadU64(file.substr(16)); length != file.size()) {
    return absl::DataLossError(
        absl::StrCat("entry: ", file.size(), " bytes, but its header says ", length));
  }
  const absl::string_view body = file.substr(0, file.size() - kSumBytes);
  if (checksum) {
    const Sha256Digest sum = Sha256(body);
    if (std::memcmp(sum.data(), file.data() + body.size(), kSumBytes) != 0)
      return absl::DataLossError("entry: checksum differs");
  }
  const uint32_t version = LoadU32(file.substr(8));
  if (version != kEntryVersion) {
    return absl::UnimplementedError(
        absl::StrCat("entry: version ", version, ", expected ", kEntryVersion));
  }
  return absl::OkStatus();
}

// Reads row `k` of the table; `end` is where the section before ended, and is moved to where this
// one ends.
absl::StatusOr<SectionView> ReadSection(absl::string_view file, uint32_t k, size_t& end) {
  const absl::string_view row = file.substr(kHeadBytes + k * kRowBytes, kRowBytes);
  SectionView section;
  section.tag = std::string(row.substr(0, std::min(row.find('\0'), kTagBytes)));
  const uint32_t flags = LoadU32(row.substr(kTagBytes));
  const uint64_t offset = LoadU64(row.substr(kTagBytes + 8));
  const uint64_t length = LoadU64(row.substr(kTagBytes + 16));
  section.critical = (flags & 1u) != 0;
  const size_t limit = file.size() - kSumBytes;
  if (section.tag.empty() || offset != Align8(end) || offset > limit || length > limit - offset) {
    return absl::DataLossError(
        absl::StrCat("entry: section ", k, " \"", section.tag, "\" does not fit"));
  }
  if (section.critical && !IsKnownCritical(section.tag)) {
    return absl::UnimplementedError(
        absl::StrCat("entry: unknown critical section \"", section.tag, "\""));
  }
  if (file.substr(end, offset - end).find_first_not_of('\0') != absl::string_view::npos)
    return absl::DataLossError(absl::StrCat("entry: bytes before section ", k));
  section.bytes = file.substr(offset, length);
  end = offset + length;
  return section;
}

// The value that a line of "meta" writes so.
std::string Unescaped(absl::string_view text) {
  std::string value;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '\\' && i + 1 < text.size();
    if (escape) ++i;
    value += escape && text[i] == 'n' ? '\n' : text[i];
  }
  return value;
}

absl::StatusOr<std::vector<SectionView>> ViewSections(absl::string_view file, bool checksum) {
  if (absl::Status frame = CheckFrame(file, checksum); !frame.ok()) return frame;
  std::vector<SectionView> views;
  const uint32_t sections = LoadU32(file.substr(12));
  size_t end = kHeadBytes + size_t{sections} * kRowBytes;
  if (sections > kMaxSections || end > file.size() - kSumBytes) {
    return absl::DataLossError(absl::StrCat("entry: ", sections, " sections do not fit"));
  }
  for (uint32_t k = 0; k < sections; ++k) {
    absl::StatusOr<SectionView> section = ReadSection(file, k, end);
    if (!section.ok()) return section.status();
    views.push_back(*std::move(section));
  }
  if (end != file.size() - kSumBytes)
    return absl::DataLossError("entry: bytes between the last section and the checksum");
  return views;
}

}  // namespace

const std::string* Entry::Find(absl::string_view tag) const {
  for (const Section& section : sections) {
    if (section.tag == tag) return &section.bytes;
  }
  return nullptr;
}

void Entry::Add(absl::string_view tag, std::string bytes, bool critical) {
  sections.push_back({std::string(tag), critical, std::move(bytes)});
}

std::string EncodeEntry(const Entry& entry) {
  std::string out(kMagic);
  AppendU32(out, kEntryVersion);
  AppendU32(out, static_cast<uint32_t>(entry.sections.size()));
  size_t end = kHeadBytes + entry.sections.size() * kRowBytes;
  std::string table;
  for (const Section& section : entry.sections) {
    std::string tag = section.tag.substr(0, kTagBytes);
    tag.resize(kTagBytes, '\0');
    table += tag;
    AppendU32(table, section.critical ? 1 : 0);
    AppendU32(table, 0);
    AppendU64(table, Align8(end));
    AppendU64(table, section.bytes.size());
    end = Align8(end) + section.bytes.size();
  }
  AppendU64(out, end + kSumBytes);
  out.append(reinterpret_cast<const char*>(entry.key.data()), entry.key.size());
  out += table;
  for (const Section& section : entry.sections) {
    out.resize(Align8(out.size()), '\0');
    out += section.bytes;
  }
  const Sha256Digest sum = Sha256(out);
  out.append(reinterpret_cast<const char*>(sum.data()), sum.size());
  return out;
}

absl::StatusOr<Entry> DecodeEntry(absl::string_view file) {
  const absl::StatusOr<std::vector<SectionView>> views = ViewSections(file, /*checksum=*/true);
  if (!views.ok()) return views.status();
  Entry entry;
  std::memcpy(entry.key.data(), file.data() + 24, entry.key.size());
  for (const SectionView& view : *views)
    entry.sections.push_back({view.tag, view.critical, std::string(view.bytes)});
  return entry;
}

absl::StatusOr<std::vector<SectionView>> ViewEntryOf(absl::string_view file, const CacheKey& key,
                                                     absl::string_view preimage, bool checksum) {
  absl::StatusOr<std::vector<SectionView>> views = ViewSections(file, checksum);
  if (!views.ok()) return views;
  if (std::memcmp(key.data(), file.data() + 24, key.size()) != 0)
    return absl::DataLossError("entry: holds another key");
  for (const SectionView& view : *views) {
    if (view.tag == "preimage" && view.bytes == preimage) return views;
  }
  return absl::DataLossError("entry: holds another preimage");
}

absl::StatusOr<Entry> DecodeEntryOf(absl::string_view file, const CacheKey& key,
                                    const std::string* preimage) {
  absl::StatusOr<Entry> entry = DecodeEntry(file);
  if (!entry.ok()) return entry;
  if (entry->key != key)
    return absl::DataLossError(absl::StrCat("entry: holds key ", ToHex(entry->key)));
  const std::string* const stored = entry->Find("preimage");
  if (stored == nullptr) return absl::DataLossError("entry: has no preimage");
  // A caller's preimage has been hashed to `key` already.
  if (preimage != nullptr ? *stored != *preimage : Sha256(*stored) != key)
    return absl::DataLossError("entry: holds another preimage");
  return entry;
}

absl::StatusOr<std::string> PeekSection(ReadableFile& file, absl::string_view tag) {
  constexpr int64_t kFirstRead = 8192;  // head, table and small sections of most entries
  absl::StatusOr<std::string> head = file.Read(0, kFirstRead);
  if (!head.ok()) return head;
  const absl::string_view bytes = *head;
  if (bytes.size() < kHeadBytes || bytes.substr(0, 8) != kMagic)
    return absl::DataLossError("entry: does not start with \"KILNENT\"");
  const uint32_t sections = std::min(LoadU32(bytes.substr(12)), kMaxSections);
  for (uint32_t k = 0; k < sections && kHeadBytes + (k + 1) * kRowBytes <= bytes.size(); ++k) {
    const absl::string_view row = bytes.substr(kHeadBytes + k * kRowBytes, kRowBytes);
    if (row.substr(0, std::min(row.find('\0'), kTagBytes)) != tag) continue;
    const uint64_t offset = LoadU64(row.substr(kTagBytes + 8));
    const uint64_t length = LoadU64(row.substr(kTagBytes + 16));
    if (offset <= bytes.size() && length <= bytes.size() - offset)
      return std::string(bytes.substr(offset, length));
    if (offset > kMaxEntryBytes || length > kMaxEntryBytes)
      return absl::DataLossError(absl::StrCat("entry: section \"", tag, "\" does not fit"));
    return file.Read(static_cast<int64_t>(offset), static_cast<int64_t>(length));
  }
  return absl::NotFoundError(absl::StrCat("entry: has no section \"", tag, "\""));
}

std::map<std::string, std::string> MetaOf(const Entry& entry) {
  const std::string* const text = entry.Find("meta");
  return ParseMeta(text != nullptr ? *text : "");
}

std::map<std::string, std::string> ParseMeta(absl::string_view text) {
  std::map<std::string, std::string> meta;
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> field =
        absl::StrSplit(line, absl::MaxSplits('=', 1));
    meta[std::string(field.first)] = Unescaped(field.second);
  }
  return meta;
}

std::string FormatMeta(const std::map<std::string, std::string>& meta) {
  std::string text;
  for (const auto& [name, value] : meta)
    absl::StrAppend(&text, name, "=", absl::StrReplaceAll(value, {{"\\", "\\\\"}, {"\n", "\\n"}}),
                    "\n");
  return text;
}

}  // namespace kiln
