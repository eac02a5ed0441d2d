// SPDX-License-Identifier: Apache-2.0
#include "exec/package/packaged_weights.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status.h"

namespace kiln {

void PackagedWeights::Name(const Tensor& elements, int blob) {
  named_[static_cast<const char*>(elements.data())] = {elements.size_bytes(), blob};
}

void PackagedWeights::Add(Key key, const Tensor& bytes, PackageRange range) {
  stored_.insert_or_assign(std::move(key), Stored{bytes, range});
}

bool PackagedWeights::KeyOf(const void* constant, size_t bytes, const std::string& layout,
                            Key* key) const {
  const auto* const begin = static_cast<const char*>(constant);
  auto at = named_.upper_bound(begin);
  if (at == named_.begin()) return false;
  const auto& [from, named] = *--at;
  const int64_t offset = begin - from;
  if (offset > named.bytes || static_cast<int64_t>(bytes) > named.bytes - offset) return false;
  *key = {named.blob, offset, static_cast<int64_t>(bytes), layout};
  return true;
}

std::shared_ptr<const void> PackagedWeights::Find(const void* constant, size_t bytes,
                                                  const std::string& layout, size_t packed_bytes) {
  Key key;
  if (!KeyOf(constant, bytes, layout, &key)) return nullptr;
  const auto found = stored_.find(key);
  if (found == stored_.end()) return nullptr;
  const Stored& stored = found->second;
  if (stored.bytes.size_bytes() != static_cast<int64_t>(packed_bytes)) return nullptr;
  if (const absl::Status whole = file_->Check(stored.range.offset, stored.range.bytes);
      !whole.ok()) {
    LogWarning("package \"", file_->name(), "\": ", whole.message(),
               "; the constants that were packed there are packed again");
    return nullptr;
  }
  return {stored.bytes.owner(), stored.bytes.data()};
}

absl::Status PackagedWeights::Check(const void* constant, size_t bytes) {
  const absl::Status whole = file_->CheckMemory(constant, static_cast<int64_t>(bytes));
  return whole.ok() ? whole : Annotate(whole, absl::StrCat("package \"", file_->name(), "\""));
}

void PackagedWeights::Keep(const void* constant, size_t bytes, const std::string& layout,
                           std::shared_ptr<const void> packed, size_t packed_bytes) {
  Key key;
  if (!keeps_ || !KeyOf(constant, bytes, layout, &key)) return;
  void* const data = const_cast<void*>(packed.get());
  const MutexLock lock(mutex_);
  kept_.try_emplace(std::move(key),
                    Tensor::View(data, DType::kU8, {static_cast<int64_t>(packed_bytes)}, {},
                                 std::const_pointer_cast<void>(std::move(packed))));
}

std::vector<PackagedWeights::Packed> PackagedWeights::Kept() const {
  std::vector<Packed> list;
  const MutexLock lock(mutex_);
  for (const auto& [key, bytes] : kept_) list.push_back({key, bytes});
  return list;
}

}  // namespace kiln
