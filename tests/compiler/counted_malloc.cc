// SPDX-License-Identifier: Apache-2.0
#include "tests/compiler/counted_malloc.h"

#include <link.h>
#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

extern "C" {
void* __libc_malloc(size_t);            // NOLINT: of glibc
void __libc_free(void*);                // NOLINT
void* __libc_calloc(size_t, size_t);    // NOLINT
void* __libc_realloc(void*, size_t);    // NOLINT
void* __libc_memalign(size_t, size_t);  // NOLINT
}

namespace {

std::atomic<int64_t> by_onednn{0}, by_others{0};
std::atomic<uintptr_t> onednn_begin{0}, onednn_end{0};

// Where oneDNN's code is, once it is loaded.
int Look(dl_phdr_info* info, size_t, void*) {
  if (std::strstr(info->dlpi_name, "libkdnn") == nullptr) return 0;
  uintptr_t end = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type == PT_LOAD) end = header.p_vaddr + header.p_memsz;
  }
  onednn_begin = info->dlpi_addr;
  onednn_end = info->dlpi_addr + end;
  return 1;
}

bool IsOnednn(const void* caller) {
  const auto at = reinterpret_cast<uintptr_t>(caller);
  return at >= onednn_begin && at < onednn_end;
}

[[maybe_unused]] void Count(const void* caller) { ++(IsOnednn(caller) ? by_onednn : by_others); }

// What was allocated while it is on: a table of addresses, which is written in memory that no
// malloc has given.
class LiveTable {
 public:
  void Start() {
    const Lock lock(*this);
    for (Slot& slot : slots_) slot = Slot();
    on_ = true;
  }
  void* Add(void* memory, const void* caller) {
    if (!on_ || memory == nullptr) return memory;
    const Lock lock(*this);
    Slot& slot = At(memory);
    slot = {memory, static_cast<int64_t>(malloc_usable_size(memory)), IsOnednn(caller)};
    return memory;
  }
  void Remove(void* memory) {
    if (!on_ || memory == nullptr) return;
    const Lock lock(*this);
    Slot& slot = At(memory);
    if (slot.memory == memory) slot.bytes = 0;
  }
  kiln::Allocations Sum() {
    const Lock lock(*this);
    kiln::Allocations sum;
    for (const Slot& slot : slots_) (slot.onednn ? sum.onednn : sum.others) += slot.bytes;
    return sum;
  }

 private:
  struct Slot {
    void* memory = nullptr;
    int64_t bytes = 0;
    bool onednn = false;
  };
  struct Lock {
    explicit Lock(LiveTable& table) : table(table) {
      while (table.busy_.test_and_set(std::memory_order_acquire)) continue;
    }
    ~Lock() { table.busy_.clear(std::memory_order_release); }
    LiveTable& table;
  };
  // The slot of an address, or the free one that it would have.
  Slot& At(const void* memory) {
    size_t i = (reinterpret_cast<uintptr_t>(memory) >> 4) * 0x9e3779b97f4a7c15 % kSlots;
    while (slots_[i].memory != nullptr && slots_[i].memory != memory) i = (i + 1) % kSlots;
    return slots_[i];
  }

  static constexpr size_t kSlots = 1 << 19;
  std::atomic<bool> on_{false};
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
  Slot slots_[kSlots];
};
LiveTable live;

}  // namespace

namespace kiln {

Allocations CountedAllocations() {
  if (onednn_end == 0) dl_iterate_phdr(Look, nullptr);
  return {by_onednn, by_others};
}

void TrackLiveBytes() {
  CountedAllocations();
  live.Start();
}

Allocations LiveBytes() { return live.Sum(); }

}  // namespace kiln

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define KILN_COUNT() Count(__builtin_return_address(0))

extern "C" {
void* malloc(size_t bytes) {
  KILN_COUNT();
  return live.Add(__libc_malloc(bytes), __builtin_return_address(0));
}
void free(void* memory) {
  live.Remove(memory);
  __libc_free(memory);
}
void* calloc(size_t count, size_t bytes) {
  KILN_COUNT();
  return live.Add(__libc_calloc(count, bytes), __builtin_return_address(0));
}
void* realloc(void* memory, size_t bytes) {
  KILN_COUNT();
  live.Remove(memory);
  return live.Add(__libc_realloc(memory, bytes), __builtin_return_address(0));
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  KILN_COUNT();
  return live.Add(__libc_memalign(alignment, bytes), __builtin_return_address(0));
}
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  KILN_COUNT();
  *memory = live.Add(__libc_memalign(alignment, bytes), __builtin_return_address(0));
  return *memory == nullptr ? ENOMEM : 0;
}
}

void* operator new(size_t bytes) {
  KILN_COUNT();
  void* const memory = __libc_malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return live.Add(memory, __builtin_return_address(0));
}
void* operator new[](size_t bytes) {
  KILN_COUNT();
  void* const memory = __libc_malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return live.Add(memory, __builtin_return_address(0));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
#endif
