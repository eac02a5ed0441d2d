// SPDX-License-Identifier: Apache-2.0
#include "tests/fault/failing_resources.h"

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

struct Counter {
  std::atomic<bool> counts{false};
  std::atomic<int64_t> asked{0};
  std::atomic<int64_t> fails_at{0};

  // Whether this one is to fail.
  bool Ask() {
    return counts.load(std::memory_order_relaxed) && asked.fetch_add(1) + 1 == fails_at.load();
  }
};
Counter g_memory, g_threads;

void* Allocate(size_t size, size_t alignment) {
  if (g_memory.Ask()) throw std::bad_alloc();
  size = std::max<size_t>(size, 1);
  void* const memory =
      alignment <= alignof(std::max_align_t)
          ? std::malloc(size)
          : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t size) { return Allocate(size, 1); }
void* operator new(size_t size, std::align_val_t alignment) {
  return Allocate(size, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*start)(void*), void* argument) {
  static const auto create =
      reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return g_threads.Ask() ? EAGAIN : create(thread, attributes, start, argument);
}

namespace kiln {

void FailAt(Resource resource, int64_t k) {
  Counter& counter = resource == Resource::kMemory ? g_memory : g_threads;
  counter.asked = 0;
  counter.fails_at = k;
  counter.counts = true;
}

int64_t FailNone() {
  int64_t asked = 0;
  for (Counter* const counter : {&g_memory, &g_threads}) {
    if (counter->counts.exchange(false)) asked = counter->asked;
  }
  return asked;
}

}  // namespace kiln
