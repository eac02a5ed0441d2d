// SPDX-License-Identifier: Apache-2.0
#include "exec/support/openmp_shim.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdint>
#include <utility>

namespace {

constexpr int kBarrierSpins = 1000;  // speed: pauses before a member sleeps: tens of microseconds

// One region with several members. It lies with the thread that began it.
struct Team {
  void (*body)(void*) = nullptr;
  void* data = nullptr;
  int size = 1;
  bool* invalid = nullptr;  // told when a member but the first raises that flag
  std::atomic<int> arrived{0};
  std::atomic<uint32_t> phase{0};  // of the barrier
  std::atomic<int> asleep{0};
};

// Iterations of a loop that the calling member has yet to do.
struct Cursor {
  long next = 0, end = 0, chunk = 0, stride = 0;
};

struct Thread {
  const OpenmpPool* pool = nullptr;
  Team* team = nullptr;  // that it is a member of
  int member = 0;
  int alone = 0;  // regions of one member that it is in
  bool* invalid = nullptr;
  Cursor cursor;
  Team own;
};
thread_local Thread self;

void RunMember(void* data, int member) {
  auto* team = static_cast<Team*>(data);
  self.team = team;
  self.member = member;
#if defined(__SSE__)
  if (team->invalid != nullptr) _MM_SET_EXCEPTION_STATE(0);
#endif
  team->body(team->data);
#if defined(__SSE__)
  if (team->invalid != nullptr && (_MM_GET_EXCEPTION_STATE() & _MM_EXCEPT_INVALID) != 0)
    __atomic_store_n(team->invalid, true, __ATOMIC_RELAXED);
#endif
  self.team = nullptr;
  self.member = 0;
}

void Futex(std::atomic<uint32_t>& word, int operation, uint32_t value) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation, value, nullptr, nullptr, 0);
}

bool InTeam() { return self.team != nullptr && self.alone == 0; }

}  // namespace

extern "C" {

__attribute__((visibility("default"))) const OpenmpPool* kiln_omp_bind(const OpenmpPool* pool) {
  return std::exchange(self.pool, pool);
}

__attribute__((visibility("default"))) void kiln_omp_watch_invalid(bool* invalid) {
  self.invalid = invalid;
}

int komp_get_max_threads() { return self.pool != nullptr ? self.pool->threads : 1; }
int komp_get_num_threads() { return InTeam() ? self.team->size : 1; }
int komp_get_thread_num() { return InTeam() ? self.member : 0; }
int komp_in_parallel() {
  return self.team != nullptr || (self.pool != nullptr && self.pool->in_region()) ? 1 : 0;
}

void komp_parallel_start(void (*body)(void*), void* data, unsigned count) {
  const OpenmpPool* const pool = self.pool;
  const int threads = komp_get_max_threads();
  const int size =
      count == 0 || count > static_cast<unsigned>(threads) ? threads : static_cast<int>(count);
  if (size > 1 && self.team == nullptr && self.alone == 0) {
    Team& team = self.own;
    team.body = body;
    team.data = data;
    team.size = size;
    team.invalid = self.invalid;
    if (pool->begin(pool->pool, size, RunMember, &team)) {
      self.team = &team;
      return;
    }
  }
  ++self.alone;
}

void komp_parallel_end() {
  if (self.alone > 0) {
    --self.alone;
    return;
  }
  self.pool->end(self.pool->pool);
  self.team = nullptr;
}

void komp_barrier() {
  if (!InTeam()) return;
  Team& team = *self.team;
  const uint32_t phase = team.phase.load();
  if (team.arrived.fetch_add(1) + 1 == team.size) {
    team.arrived.store(0);
    team.phase.fetch_add(1);
    if (team.asleep.load() > 0) Futex(team.phase, FUTEX_WAKE_PRIVATE, INT_MAX);
    return;
  }
  for (int i = 0; i < kBarrierSpins; ++i) {
    if (team.phase.load(std::memory_order_acquire) != phase) return;
    __builtin_ia32_pause();
  }
  // Either the last member sees that this one sleeps, or this one sees the new phase.
  team.asleep.fetch_add(1);
  while (team.phase.load() == phase) Futex(team.phase, FUTEX_WAIT_PRIVATE, phase);
  team.asleep.fetch_sub(1);
}

bool komp_loop_static_next(long* begin, long* end) {
  Cursor& c = self.cursor;
  const bool up = c.stride > 0;
  if (c.chunk == 0 || (up ? c.next >= c.end : c.next <= c.end)) return false;
  *begin = c.next;
  *end = up ? std::min(c.next + c.chunk, c.end) : std::max(c.next + c.chunk, c.end);
  c.next += c.stride;
  return true;
}

// Iterations begin, begin + step, ... before `end`. Chunks of `chunk` iterations go round the
// members; with 0, each has one part, and the first parts are the longer ones.
bool komp_loop_static_start(long begin, long end, long step, long chunk, long* my_begin,
                            long* my_end) {
  const long size = komp_get_num_threads(), member = komp_get_thread_num();
  self.cursor = Cursor();
  if (chunk > 0) {
    self.cursor = {begin + member * chunk * step, end, chunk * step, size * chunk * step};
    return komp_loop_static_next(my_begin, my_end);
  }
  const long count = (end - begin + step - (step > 0 ? 1 : -1)) / step;
  if (count <= 0) return false;
  const long each = count / size, longer = count % size;
  const long first = member * each + std::min(member, longer);
  const long last = first + each + (member < longer ? 1 : 0);
  if (first >= last) return false;
  *my_begin = begin + first * step;
  *my_end = begin + last * step;
  return true;
}

void komp_loop_end_nowait() {}

// What the environment says to oneDNN is meant for another, the host's.
char* komp_no_variable(const char*) { return nullptr; }

}  // extern "C"

// One @: no program that happens to be linked with this library ever binds its own OpenMP to it.
__asm__(
    ".symver komp_get_max_threads,omp_get_max_threads@ILN_1.0\n"
    ".symver komp_get_num_threads,omp_get_num_threads@ILN_1.0\n"
    ".symver komp_get_thread_num,omp_get_thread_num@ILN_1.0\n"
    ".symver komp_in_parallel,omp_in_parallel@ILN_1.0\n"
    ".symver komp_parallel_start,GOMP_parallel_start@KILN_1.0\n"
    ".symver komp_parallel_end,GOMP_parallel_end@KILN_1.0\n"
    ".symver komp_barrier,GOMP_barrier@KILN_1.0\n"
    ".symver komp_loop_static_start,GOMP_loop_static_start@KILN_1.0\n"
    ".symver komp_loop_static_next,GOMP_loop_static_next@KILN_1.0\n"
    ".symver komp_loop_end_nowait,GOMP_loop_end_nowait@KILN_1.0\n"
    ".symver komp_no_variable,kgeten@KILN_1.0\n");
