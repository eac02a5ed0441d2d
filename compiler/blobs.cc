// SPDX-License-Identifier: Apache-2.0
#include "compiler/blobs.h"

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/catch_exceptions.h"
#include "base/log.h"
#include "base/target.h"

namespace kiln {
namespace {

std::string ToText(const FileIdentity& f) {
  return absl::StrCat(f.device, " ", f.inode, " ", f.size, " ", f.mtime_ns, " ", f.ctime_ns);
}

std::optional<FileIdentity> ParseIdentity(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ' ');
  FileIdentity f;
  if (parts.size() != 5 || !absl::SimpleAtoi(parts[0], &f.device) ||
      !absl::SimpleAtoi(parts[1], &f.inode) || !absl::SimpleAtoi(parts[2], &f.size) ||
      !absl::SimpleAtoi(parts[3], &f.mtime_ns) || !absl::SimpleAtoi(parts[4], &f.ctime_ns))
    return std::nullopt;
  return f;
}

}  // namespace

Preimage Blobs::ByContent(const Sha256Digest& digest) {
  return Preimage().Add("schema", "1").Add("artefact", "blob").Add("sha256", ToHex(digest));
}

Preimage Blobs::RecordOf() const {
  return Preimage().Add("schema", "1").Add("artefact", "blob memo").Add("program", ToHex(owner_));
}

void Blobs::LoadRecord() {
  {
    const MutexLock lock(mutex_);
    if (loaded_) return;
  }
  const std::optional<Entry> entry = store_.Lookup(RecordOf());
  const MutexLock lock(mutex_);
  loaded_ = true;
  if (!entry.has_value()) return;
  for (const auto& [key, text] : MetaOf(*entry)) {
    if (const auto identity = ParseIdentity(text); identity.has_value())
      checked_.emplace(key, *identity);
  }
}

Blobs::~Blobs() {
  if (!changed_ || store_.read_only()) return;
  CatchExceptions("cache", [&] {
    std::map<std::string, std::string> meta;
    for (const auto& [key, identity] : checked_) meta[key] = ToText(identity);
    const Preimage preimage = RecordOf();
    Entry entry;
    entry.key = preimage.Key();
    entry.Add("preimage", preimage.bytes(), true);
    entry.Add("meta", FormatMeta(meta), true);
    return store_.Publish(entry);
  }).IgnoreError();
}

std::optional<MappedBlob> Blobs::Find(const Preimage& preimage) {
  LoadRecord();
  const std::string key = ToHex(preimage.Key());
  const int64_t begun = SystemNowNs();
  bool known = false;
  const auto was_checked = [&](const FileIdentity& file) {
    const MutexLock lock(mutex_);
    const auto found = checked_.find(key);
    return known = found != checked_.end() && found->second == file;
  };
  std::optional<MappedBlob> blob = store_.FindBlob(preimage, was_checked);
  if (blob.has_value() && !known && store_.local() && Settled(blob->file, begun)) {
    const MutexLock lock(mutex_);
    checked_[key] = blob->file;
    changed_ = true;
  }
  return blob;
}

void Blobs::Keep(const Preimage& preimage, absl::string_view bytes, absl::string_view kind) {
  if (store_.read_only() || store_.Holds(preimage.Key())) return;
  const absl::Status done = store_.PublishBlob(
      preimage, bytes,
      {{"device", std::string(Name(DefaultDevice()))}, {"kind", std::string(kind)}});
  if (!done.ok()) LogDebug("cache: ", kind, " is not kept: ", done.message());
}

}  // namespace kiln
