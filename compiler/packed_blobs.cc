// SPDX-License-Identifier: Apache-2.0
#include "compiler/packed_blobs.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

Preimage PreimageOf(const std::string& name, const std::string& layout) {
  return Preimage()
      .Add("schema", "1")
      .Add("artefact", "packed constant")
      .Add("constant", name)
      .Add("layout", layout);
}

}  // namespace

void PackedBlobs::NameFile(absl::string_view memory, const Sha256Digest& file, int64_t offset) {
  const MutexLock lock(mutex_);
  known_[memory.data()] = {memory.size(), file, offset, nullptr};
}

void PackedBlobs::NameContent(absl::string_view memory, const Sha256Digest& digest,
                              std::shared_ptr<const void> owner) {
  const MutexLock lock(mutex_);
  if (!NameOf(memory.data(), memory.size()).empty()) return;
  known_[memory.data()] = {memory.size(), digest, -1, std::move(owner)};
  for (auto it = nameless_.begin(); it != nameless_.end();) {
    std::shared_ptr<const void> packed = it->packed.lock();
    const bool named = it->constant == memory.data() && it->bytes == memory.size();
    if (named && packed != nullptr) Publish(ToHex(digest), it->layout, packed, it->packed_bytes);
    it = named || packed == nullptr ? nameless_.erase(it) : std::next(it);
  }
}

std::string PackedBlobs::NameOf(const char* constant, size_t bytes) const {
  auto at = known_.upper_bound(constant);
  if (at == known_.begin()) return "";
  const auto& [begin, known] = *--at;
  const auto from = static_cast<size_t>(constant - begin);
  if (known.offset < 0) return from == 0 && bytes == known.bytes ? ToHex(known.digest) : "";
  if (from > known.bytes || bytes > known.bytes - from) return "";
  return absl::StrCat(ToHex(known.digest), " at ", known.offset + static_cast<int64_t>(from),
                      " bytes ", bytes);
}

std::shared_ptr<const void> PackedBlobs::Find(const void* constant, size_t bytes,
                                              const std::string& layout, size_t packed_bytes) {
  std::string name;
  {
    const MutexLock lock(mutex_);
    name = NameOf(static_cast<const char*>(constant), bytes);
  }
  if (name.empty()) return nullptr;
  std::optional<MappedBlob> blob = blobs_.Find(PreimageOf(name, layout));
  if (!blob.has_value() || blob->bytes.size() != packed_bytes) return nullptr;
  const MutexLock lock(mutex_);
  mapped_ += static_cast<int64_t>(packed_bytes);
  return {std::move(blob->owner), blob->bytes.data()};
}

void PackedBlobs::Keep(const void* constant, size_t bytes, const std::string& layout,
                       std::shared_ptr<const void> packed, size_t packed_bytes) {
  const auto* const begin = static_cast<const char*>(constant);
  const MutexLock lock(mutex_);
  made_ += static_cast<int64_t>(packed_bytes);
  if (const std::string name = NameOf(begin, bytes); !name.empty()) {
    Publish(name, layout, std::move(packed), packed_bytes);
  } else {
    nameless_.push_back({begin, bytes, layout, packed, packed_bytes});
  }
}

void PackedBlobs::Publish(const std::string& name, const std::string& layout,
                          std::shared_ptr<const void> packed, size_t packed_bytes) {
  publishing_.Add(
      [this, preimage = PreimageOf(name, layout), packed = std::move(packed), packed_bytes] {
        blobs_.Keep(preimage, {static_cast<const char*>(packed.get()), packed_bytes},
                    "packed constant");
      });
}

int64_t PackedBlobs::mapped() const {
  const MutexLock lock(mutex_);
  return mapped_;
}

int64_t PackedBlobs::made() const {
  const MutexLock lock(mutex_);
  return made_;
}

}  // namespace kiln
