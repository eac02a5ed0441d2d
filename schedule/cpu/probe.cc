// SPDX-License-Identifier: Apache-2.0
#include "schedule/cpu/probe.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "kernel/abi.h"

namespace kiln {
namespace {

constexpr int64_t kMemory = 64 << 20;  // correctness: more than the caches of a core

double Now() {
  return std::chrono::duration<double, std::nano>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// The least time of some calls of `run`, in ns.
template <typename Run>
double LeastNs(int times, Run&& run) {
  double least = 1e18;
  for (int k = 0; k < times; ++k) {
    const double start = Now();
    run();
    least = std::min(least, Now() - start);
  }
  return least;
}

// The compiler must take `value` to be used, and changed.
template <typename T>
void Keep(T& value) {
  asm volatile("" : "+x"(value));
}

// Of an addition that waits for the one before.
double LatencyNs() {
  constexpr int kAdditions = 1 << 16;  // correctness
  return LeastNs(/*tries=*/20,         // correctness
                 [] {
                   float sum = 1;
                   for (int k = 0; k < kAdditions; ++k) {
                     sum += 1.5F;  // correctness
                     Keep(sum);
                   }
                 }) /
         kAdditions;
}

// Of a line that is found by the one before it, where lines of so many bytes are walked in an order
// that no hardware foresees.
double ChasedNs(int64_t bytes) {
  const size_t lines = static_cast<size_t>(bytes) / kLine;
  std::vector<uint32_t> order(lines), next(lines * kLine / sizeof(uint32_t));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  constexpr size_t kStep = kLine / sizeof(uint32_t);
  for (size_t k = 0; k < lines; ++k)
    next[order[k] * kStep] = order[(k + 1) % lines] * static_cast<uint32_t>(kStep);
  const size_t walked = std::min<size_t>(lines, 1 << 16);
  volatile uint32_t end = 0;
  return LeastNs(/*tries=*/5,  // correctness
                 [&] {
                   uint32_t at = 0;
                   for (size_t k = 0; k < walked; ++k) at = next[at];
                   end = at;
                 }) /
         static_cast<double>(walked);
}

// Of a line of memory in a walk down the columns of rows longer than a page: addresses are known,
// but no line is next to the one before.
double JumpNs() {
  constexpr size_t kStride = 4096 + kLine, kColumns = 16;  // correctness
  std::vector<char> memory(kMemory, 1);
  const size_t rows = memory.size() / kStride;
  volatile int end = 0;
  return LeastNs(/*tries=*/3,  // correctness
                 [&] {
                   int sum = 0;
                   for (size_t column = 0; column < kColumns; ++column)
                     for (size_t row = 0; row < rows; ++row)
                       sum += memory[row * kStride + column * 2 * kLine];
                   end = sum;
                 }) /
         static_cast<double>(rows * kColumns);
}

int64_t CacheBytes(int name) { return std::max<int64_t>(0, sysconf(name)); }

// The largest set that is found much faster than memory: what a core may count on of the last
// cache, whatever its neighbours do.
int64_t L3Share(int64_t l2) {
  constexpr double kFaster = 0.5;  // correctness
  const double memory_ns = ChasedNs(kMemory);
  int64_t share = l2;
  for (int64_t bytes = 2 * l2; bytes < kMemory; bytes *= 2) {
    if (ChasedNs(bytes) > kFaster * memory_ns) break;
    share = bytes;
  }
  return share;
}

}  // namespace

void ProbeCpu(Machine& machine) {
  if (const int64_t bytes = CacheBytes(_SC_LEVEL1_DCACHE_SIZE)) machine.l1_bytes = bytes;
  if (const int64_t bytes = CacheBytes(_SC_LEVEL2_CACHE_SIZE)) machine.l2_bytes = bytes;
  machine.l3_bytes = L3Share(machine.l2_bytes);
  machine.latency_ns = LatencyNs();
  machine.jump_ns = JumpNs();
}

}  // namespace kiln
