// SPDX-License-Identifier: Apache-2.0
#include "ptx_emulator/memory.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace kiln::ptx {
namespace {

constexpr uint64_t kGap = 4096;
constexpr uint8_t kFresh = 0xcd;  // what unwritten memory holds
constexpr uint64_t kStamps = 0xfffffff0;

}  // namespace

bool Allocation::AllWritten(uint64_t offset, uint64_t count) const {
  const uint8_t* at = written.data() + offset;
  if (count == 4) {
    uint32_t four;
    std::memcpy(&four, at, sizeof four);
    return four == 0x01010101;
  }
  return std::memchr(at, 0, count) == nullptr;
}

void Allocation::MarkWritten(uint64_t offset, uint64_t count) {
  std::memset(written.data() + offset, 1, count);
}

uint64_t Memory::Allocate(uint64_t bytes) {
  if (bytes == 0 || bytes > capacity_ - used_) return 0;
  try {
    Allocation made;
    made.base = next_;
    made.size = bytes;
    made.bytes = std::make_unique<uint8_t[]>(bytes);
    std::memset(made.bytes.get(), kFresh, bytes);
    made.written.resize(bytes);
    allocations_.emplace(next_, std::move(made));
  } catch (const std::bad_alloc&) {
    return 0;
  }
  const uint64_t address = next_;
  next_ += (bytes + kGap + 255) / 256 * 256;
  used_ += bytes;
  return address;
}

bool Memory::Free(uint64_t address) {
  const auto found = allocations_.find(address);
  if (found == allocations_.end()) return false;
  used_ -= found->second.size;
  freed_[address] = found->second.size;
  last_ = nullptr;
  allocations_.erase(found);
  return true;
}

bool Memory::WasFreed(uint64_t address) const {
  auto after = freed_.upper_bound(address);
  if (after == freed_.begin()) return false;
  --after;
  return address - after->first < after->second;
}

Allocation* Memory::Search(uint64_t address, uint64_t bytes) {
  auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return nullptr;
  --after;
  Allocation& found = after->second;
  const uint64_t offset = address - found.base;
  if (offset > found.size || bytes > found.size - offset) return nullptr;
  return last_ = &found;
}

void Memory::BeginLaunch(uint64_t blocks, uint64_t threads) {
  const uint64_t writers = std::min(blocks * threads + 1, kStamps);
  const uint64_t readers = std::min(blocks + 2, kStamps);
  if (writer_base_ + writers_ + writers > kStamps || reader_base_ + readers_ + readers > kStamps) {
    for (auto& [base, allocation] : allocations_) {
      std::fill(allocation.writer.begin(), allocation.writer.end(), 0);
      std::fill(allocation.reader.begin(), allocation.reader.end(), 0);
    }
    writer_base_ = reader_base_ = 0;
    writers_ = readers_ = 0;
  }
  writer_base_ += static_cast<uint32_t>(writers_);
  reader_base_ += static_cast<uint32_t>(readers_);
  writers_ = writers;
  readers_ = readers;
  ++launch_;
}

}  // namespace kiln::ptx
