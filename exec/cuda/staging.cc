// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/staging.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/status_macros.h"

namespace kiln::cuda {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 20;  // speed: a copy of less is mostly its beginning
constexpr size_t kAlignment = 64;                // speed: pieces begin at lines

size_t RoundUp(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

absl::StatusOr<Staging::Chunk*> Staging::WithRoom(Stream stream) {
  const Driver& driver = gpu_->driver();
  Chunk* chunk = &chunks_[now_];
  if (chunk->used + kAlignment > kChunkBytes) {
    if (chunk->done == nullptr) {
      KILN_ASSIGN_OR_RETURN(chunk->done, DeviceEvent::Make(gpu_));
    }
    KILN_RETURN_IF_ERROR(
        gpu_->Check(driver.cuEventRecord(chunk->done->handle(), stream), "cuEventRecord"));
    now_ = (now_ + 1) % kChunks;
    chunk = &chunks_[now_];
    if (chunk->used > 0) {
      KILN_RETURN_IF_ERROR(gpu_->Check(driver.cuEventSynchronize(chunk->done->handle()),
                                       "a copy through pinned memory"));
      Deliver(*chunk);
    }
  }
  if (chunk->memory != nullptr || refused_) return chunk->memory != nullptr ? chunk : nullptr;
  absl::StatusOr<std::shared_ptr<PinnedMemory>> memory = PinnedMemory::Allocate(gpu_, kChunkBytes);
  refused_ = absl::IsResourceExhausted(memory.status());
  if (refused_) return nullptr;
  KILN_RETURN_IF_ERROR(memory.status());
  chunk->memory = *std::move(memory);
  return chunk;
}

absl::Status Staging::CopyIn(DevicePointer to, const void* from, size_t bytes, Stream stream) {
  const auto copy = [&](const void* source, size_t size) {
    return gpu_->Check(gpu_->driver().cuMemcpyHtoDAsync_v2(to, source, size, stream),
                       "a copy to the device");
  };
  const auto* source = static_cast<const uint8_t*>(from);
  while (bytes > 0) {
    KILN_ASSIGN_OR_RETURN(Chunk* const chunk, WithRoom(stream));
    // The driver has read ordinary memory when it returns.
    if (chunk == nullptr) return copy(source, bytes);
    uint8_t* const place = static_cast<uint8_t*>(chunk->memory->data()) + chunk->used;
    const size_t size = std::min(bytes, kChunkBytes - chunk->used);
    std::memcpy(place, source, size);
    chunk->used = RoundUp(chunk->used + size);
    KILN_RETURN_IF_ERROR(copy(place, size));
    to += size;
    source += size;
    bytes -= size;
  }
  return absl::OkStatus();
}

absl::Status Staging::CopyOut(void* to, DevicePointer from, size_t bytes, Stream stream) {
  const auto copy = [&](void* place, size_t size) {
    return gpu_->Check(gpu_->driver().cuMemcpyDtoHAsync_v2(place, from, size, stream),
                       "a copy from the device");
  };
  auto* target = static_cast<uint8_t*>(to);
  while (bytes > 0) {
    KILN_ASSIGN_OR_RETURN(Chunk* const chunk, WithRoom(stream));
    if (chunk == nullptr) {
      // It has written there when it returns: after what was copied out before.
      KILN_RETURN_IF_ERROR(
          gpu_->Check(gpu_->driver().cuStreamSynchronize(stream), "a copy from the device"));
      Deliver();
      return copy(target, bytes);
    }
    uint8_t* const place = static_cast<uint8_t*>(chunk->memory->data()) + chunk->used;
    const size_t size = std::min(bytes, kChunkBytes - chunk->used);
    KILN_RETURN_IF_ERROR(copy(place, size));
    chunk->used = RoundUp(chunk->used + size);
    chunk->pieces.push_back({target, place, size});
    ++pending_;
    from += size;
    target += size;
    bytes -= size;
  }
  return absl::OkStatus();
}

bool Staging::PendingIn(const void* begin, size_t bytes) const {
  if (pending_ == 0) return false;
  const auto first = reinterpret_cast<uintptr_t>(begin);
  return std::any_of(chunks_.begin(), chunks_.end(), [&](const Chunk& chunk) {
    return std::any_of(chunk.pieces.begin(), chunk.pieces.end(), [&](const Piece& piece) {
      const auto to = reinterpret_cast<uintptr_t>(piece.to);
      return first < to + piece.bytes && to < first + bytes;
    });
  });
}

void Staging::Deliver(Chunk& chunk) {
  for (const Piece& piece : chunk.pieces) std::memcpy(piece.to, piece.from, piece.bytes);
  pending_ -= chunk.pieces.size();
  chunk.pieces.clear();
  chunk.used = 0;
}

// The oldest first: two may be for the same bytes.
void Staging::Deliver() {
  for (size_t i = 1; i <= kChunks; ++i) Deliver(chunks_[(now_ + i) % kChunks]);
}

void Staging::Drop() {
  for (Chunk& chunk : chunks_) chunk.pieces.clear();
  pending_ = 0;
  Deliver();
}

}  // namespace kiln::cuda
