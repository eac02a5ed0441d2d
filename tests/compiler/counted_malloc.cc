// SPDX-License-Identifier: Apache-2.0
#include "tests/compiler/counted_malloc.h"

#include <link.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

extern "C" {
void* __libc_malloc(size_t);            // NOLINT: of glibc
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

void Count(const void* caller) {
  const auto at = reinterpret_cast<uintptr_t>(caller);
  const bool onednn = at >= onednn_begin && at < onednn_end;
  ++(onednn ? by_onednn : by_others);
}

}  // namespace

namespace kiln {

Allocations CountedAllocations() {
  if (onednn_end == 0) dl_iterate_phdr(Look, nullptr);
  return {by_onednn, by_others};
}

}  // namespace kiln

#define KILN_COUNT() Count(__builtin_return_address(0))

extern "C" {
void* malloc(size_t bytes) {
  KILN_COUNT();
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  KILN_COUNT();
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes) {
  KILN_COUNT();
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  KILN_COUNT();
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  KILN_COUNT();
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
}

void* operator new(size_t bytes) {
  KILN_COUNT();
  void* const memory = __libc_malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new[](size_t bytes) {
  KILN_COUNT();
  void* const memory = __libc_malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
