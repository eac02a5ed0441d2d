// SPDX-License-Identifier: Apache-2.0
#include "kiln/exec/support/launch.h"

#include <algorithm>
#include <cstdlib>

namespace kiln {
namespace {

constexpr size_t kAlign = 64;
constexpr size_t kFirstBlock = size_t{64} << 10;
constexpr size_t kMaxBytes = size_t{1} << 39;  // more is not worth asking the system

size_t RoundUp(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

}  // namespace

// Both lie before what they describe and are a multiple of kAlign long.
struct alignas(kAlign) Slab::Block {
  Block* below;
  size_t capacity;  // bytes after this struct
  size_t used;
  Header* last;  // the newest allocation
  uint8_t* data() { return reinterpret_cast<uint8_t*>(this + 1); }
};
struct alignas(kAlign) Slab::Header {
  Block* block;
  Header* below;
  bool released;
};

Slab::~Slab() { FreeBlocks(); }

void Slab::FreeBlocks() {
  while (top_ != nullptr) {
    Block* block = top_;
    top_ = block->below;
    std::free(block);
  }
  reserved_ = 0;
}

Slab::Block* Slab::AddBlock(size_t bytes) {
  const size_t capacity = std::max(bytes, kFirstBlock);
  void* memory = std::aligned_alloc(kAlign, sizeof(Block) + capacity);
  if (memory == nullptr) return nullptr;
  top_ = new (memory) Block{top_, capacity, 0, nullptr};
  reserved_ += capacity;
  return top_;
}

void* Slab::Allocate(size_t bytes) {
  if (bytes > kMaxBytes) return nullptr;
  const size_t need = sizeof(Header) + RoundUp(bytes);
  Block* block = top_;
  if (block == nullptr || block->capacity - block->used < need) {
    block = AddBlock(need);
    if (block == nullptr) return nullptr;
  }
  Header* header = new (block->data() + block->used) Header{block, block->last, false};
  block->used += need;
  block->last = header;
  return header + 1;
}

void Slab::Release(void* memory) {
  if (memory == nullptr) return;
  Header* header = static_cast<Header*>(memory) - 1;
  header->released = true;
  Block* block = header->block;
  while (block->last != nullptr && block->last->released) {
    block->used = static_cast<size_t>(reinterpret_cast<uint8_t*>(block->last) - block->data());
    block->last = block->last->below;
  }
  if (top_->below == nullptr) return;
  for (const Block* b = top_; b != nullptr; b = b->below) {
    if (b->used != 0) return;
  }
  const size_t total = reserved_;
  FreeBlocks();
  AddBlock(total);
}

Launcher::Launcher(Pool* pool)
    : pool_(pool), slabs_(new OwnLine[static_cast<size_t>(pool->threads())]) {
  context_.pool = this;
  context_.parallel_for = &Launcher::ParallelFor;
  context_.allocate = &Launcher::Allocate;
  context_.release = &Launcher::Release;
}

int Launcher::Launch(KernelFn fn, const void* self, void** argv) {
  context_.kernel = self;
  argv[0] = argument();
  return fn(argv);
}

size_t Launcher::scratch_bytes() const {
  size_t total = 0;
  for (int w = 0; w < pool_->threads(); ++w)
    total += slabs_[static_cast<size_t>(w)].slab.reserved();
  return total;
}

int Launcher::ParallelFor(LaunchContext* context, TaskFn task, int min, int n, uint8_t* closure) {
  auto* self = static_cast<Launcher*>(context->pool);
  return self->pool_->ParallelFor(
      n,
      [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          if (const int error = task(context, min + static_cast<int>(i), closure); error != 0)
            return error;
        }
        return 0;
      },
      self->limit_);
}

// A launch inside a region of some pool runs on its thread alone, so any one slab serves it.
Slab& Launcher::SlabOfThisThread() {
  const int member = Pool::Member();
  return slabs_[static_cast<size_t>(member < pool_->threads() ? member : 0)].slab;
}

void* Launcher::Allocate(LaunchContext* context, size_t bytes) {
  return static_cast<Launcher*>(context->pool)->SlabOfThisThread().Allocate(bytes);
}

void Launcher::Release(LaunchContext* context, void* memory) {
  static_cast<Launcher*>(context->pool)->SlabOfThisThread().Release(memory);
}

}  // namespace kiln
