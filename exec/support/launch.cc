// SPDX-License-Identifier: Apache-2.0
#include "exec/support/launch.h"

#include <alloca.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace kiln {
namespace {

constexpr size_t kAlign = 64;                     // correctness
constexpr size_t kFirstBlock = size_t{64} << 10;  // correctness
constexpr size_t kMaxBytes = size_t{1} << 39;  // correctness: more is not worth asking the system

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

int Launcher::Launch(KernelFn fn, const void* self, void** argv, bool non_temporal) {
  LaunchContext context = context_;
  context.kernel = self;
  context.non_temporal = non_temporal;
  LaunchContext* argument = &context;
  argv[0] = &argument;
  return fn(argv);
}

void Launcher::Share(int n, absl::FunctionRef<void(int)> fn) {
  pool_->ParallelFor(n, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) fn(static_cast<int>(i));
    return 0;
  });
}

namespace {

// Runs tasks [begin, end) with the stack at the end of a page. Loops keep vectors on it that they
// have no registers for, and one that lies across two pages takes longer than all else of a step
// (Zen 4: 3.3 times as long a gelu). Where the stack begins differs from process to process.
[[gnu::noinline]] int RunTasks(LaunchContext* context, TaskFn task, int64_t begin, int64_t end,
                               uint8_t* closure) {
  constexpr uintptr_t kPage = 4096;  // correctness
  const auto here = reinterpret_cast<uintptr_t>(alloca(1));
  *static_cast<volatile char*>(alloca(1 + here % kPage)) = 0;
  for (int64_t i = begin; i < end; ++i) {
    if (const int error = task(context, static_cast<int>(i), closure); error != 0) return error;
  }
  return 0;
}

// Arguments of one subdomain: those of the launch, with its own buffers, cut extents and outputs.
struct SubdomainArguments {
  void** argv;
  BufferArg* buffers;
  int32_t* extents;

  static size_t Bytes(const PartitionedLaunch& parts, size_t arguments) {
    return RoundUp(arguments * sizeof(void*)) + RoundUp(parts.steps.size() * sizeof(BufferArg)) +
           RoundUp(parts.extents.size() * sizeof(int32_t));
  }
  SubdomainArguments(uint8_t* memory, const PartitionedLaunch& parts, size_t arguments) {
    argv = reinterpret_cast<void**>(memory);
    memory += RoundUp(arguments * sizeof(void*));
    buffers = reinterpret_cast<BufferArg*>(memory);
    memory += RoundUp(parts.steps.size() * sizeof(BufferArg));
    extents = reinterpret_cast<int32_t*>(memory);
  }
};

BufferArg& Operand(void** argv, const PartitionedLaunch& parts, size_t operand) {
  const size_t at = operand < parts.inputs ? operand : operand + parts.skipped;
  return *static_cast<BufferArg*>(argv[1 + at]);
}

}  // namespace

int Launcher::Launch(KernelFn fn, const void* self, void** argv, const PartitionedLaunch& parts) {
  LaunchContext context = context_;
  context.kernel = self;
  LaunchContext* argument = &context;
  argv[0] = &argument;
  const size_t arguments = 1 + parts.steps.size() + parts.skipped;
  void* const memory = Allocate(&context_, SubdomainArguments::Bytes(parts, arguments));
  if (memory == nullptr) return -1;
  const SubdomainArguments sub(static_cast<uint8_t*>(memory), parts, arguments);
  std::copy_n(argv, arguments, sub.argv);
  const size_t dims = parts.extents.size();
  for (size_t o = 0; o < parts.steps.size(); ++o) {
    new (&sub.buffers[o]) BufferArg(Operand(argv, parts, o));
    sub.argv[1 + (o < parts.inputs ? o : o + parts.skipped)] = &sub.buffers[o];
  }
  for (size_t d = 0; d < dims; ++d) sub.argv[1 + parts.inputs + d] = &sub.extents[d];
  std::fill_n(sub.extents, dims, 1);
  int error = 0;
  for (int64_t i = 0; i < parts.subdomains && error == 0; ++i) {
    const int64_t first = i % parts.along * parts.range;
    const int64_t count = std::min(parts.range, parts.extents[dims - 1] - first);
    sub.extents[dims - 1] = static_cast<int32_t>(count);
    for (size_t o = 0; o < parts.steps.size(); ++o) {
      int64_t offset = first * parts.steps[o][dims - 1], rest = i / parts.along;
      for (size_t d = dims - 1; d-- > 0;) {
        offset += rest % parts.extents[d] * parts.steps[o][d];
        rest /= parts.extents[d];
      }
      sub.buffers[o].host = Operand(argv, parts, o).host + offset;
    }
    error = fn(sub.argv);
  }
  Release(&context_, memory);
  return error;
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
        return RunTasks(context, task, min + begin, min + end, closure);
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
