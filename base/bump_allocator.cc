// SPDX-License-Identifier: Apache-2.0
#include "base/bump_allocator.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <utility>

namespace kiln {
namespace {

constexpr size_t kAlign = 64;                  // correctness
constexpr size_t kHugePage = size_t{2} << 20;  // speed
constexpr size_t kPiece = 8 * kHugePage;       // speed

size_t RoundUp(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

std::shared_ptr<void> Allocate(size_t align, size_t bytes) {
  void* const memory = std::aligned_alloc(align, bytes);
  if (memory == nullptr) return nullptr;
  return {memory, [](void* p) { std::free(p); }};
}

}  // namespace

std::shared_ptr<void> BumpAllocator::Take(size_t bytes) {
  if (bytes > SIZE_MAX - kPiece) return nullptr;
  const size_t padded = RoundUp(bytes == 0 ? 1 : bytes, kAlign);
  taken_ += padded;
  if (taken_ < kHugePage) return Allocate(kAlign, padded);
  if (padded > left_) {
    // What is larger than a piece has one of its own; the rest of its last page is for others.
    const size_t size = padded > kPiece ? RoundUp(padded, kHugePage) : kPiece;
    std::shared_ptr<void> piece = Allocate(kHugePage, size);
    if (piece == nullptr) return Allocate(kAlign, padded);
    madvise(piece.get(), size, MADV_HUGEPAGE);  // a wish
    if (size - padded <= left_) return {piece, piece.get()};
    next_ = static_cast<char*>(piece.get());
    left_ = size;
    piece_ = std::move(piece);
  }
  char* const block = next_;
  next_ += padded;
  left_ -= padded;
  return {piece_, block};
}

}  // namespace kiln
