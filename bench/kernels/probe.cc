// SPDX-License-Identifier: Apache-2.0
#include "bench/kernels/probe.h"

#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

#include "base/tensor.h"

namespace kiln::bench {
namespace {

constexpr int64_t kStep = 128;  // bytes: every part is a multiple

__attribute__((target("avx2"))) void Copy(uint8_t* to, const uint8_t* from, int64_t n,
                                          bool stream) {
  for (int64_t i = 0; i < n; i += kStep) {
    for (int64_t k = 0; k < kStep; k += 32) {
      const __m256i v = _mm256_load_si256(reinterpret_cast<const __m256i*>(from + i + k));
      auto* place = reinterpret_cast<__m256i*>(to + i + k);
      if (stream) {
        _mm256_stream_si256(place, v);
      } else {
        _mm256_store_si256(place, v);
      }
    }
  }
}

__attribute__((target("avx2"))) void Fill(uint8_t* to, int64_t n, bool stream) {
  const __m256i v = _mm256_set1_epi8(1);
  for (int64_t i = 0; i < n; i += 32) {
    auto* place = reinterpret_cast<__m256i*>(to + i);
    if (stream) {
      _mm256_stream_si256(place, v);
    } else {
      _mm256_store_si256(place, v);
    }
  }
}

__attribute__((target("avx2"))) int64_t Sum(const uint8_t* from, int64_t n) {
  __m256i sums[4] = {};
  for (int64_t i = 0; i < n; i += kStep) {
    for (int64_t k = 0; k < 4; ++k) {
      const auto* place = reinterpret_cast<const __m256i*>(from + i + 32 * k);
      sums[k] = _mm256_add_epi64(sums[k], _mm256_load_si256(place));
    }
  }
  const __m256i all =
      _mm256_add_epi64(_mm256_add_epi64(sums[0], sums[1]), _mm256_add_epi64(sums[2], sums[3]));
  return _mm256_extract_epi64(all, 0);
}

struct Work {
  uint8_t* to;
  const uint8_t* from;
  int64_t both, more_read, more_written;
  bool stream;
  int parts;
};

// The share of one member: of each of the three parts.
void Share(const Work& w, int64_t index) {
  const auto begin = [&](int64_t bytes, int64_t k) { return bytes / kStep * k / w.parts * kStep; };
  const auto part = [&](int64_t bytes, auto&& body) {
    body(begin(bytes, index), begin(bytes, index + 1) - begin(bytes, index));
  };
  part(w.both, [&](int64_t at, int64_t n) { Copy(w.to + at, w.from + at, n, w.stream); });
  part(w.more_written, [&](int64_t at, int64_t n) { Fill(w.to + w.both + at, n, w.stream); });
  part(w.more_read, [&](int64_t at, int64_t n) {
    const int64_t sum = Sum(w.from + w.both + at, n);
    asm volatile("" : : "r"(sum));  // keeps the reads
  });
  _mm_sfence();
}

int64_t RoundUp(int64_t bytes) { return (bytes + kStep - 1) / kStep * kStep; }

}  // namespace

double ProbeSeconds(int64_t read, int64_t written, int runs, Pool& pool) {
  read = RoundUp(read);
  written = RoundUp(written);
  const Tensor from = Tensor::Allocate(DType::kU8, {std::max(read, kStep)});
  const Tensor to = Tensor::Allocate(DType::kU8, {std::max(written, kStep)});
  std::memset(from.data(), 1, static_cast<size_t>(from.size_bytes()));
  std::memset(to.data(), 1, static_cast<size_t>(to.size_bytes()));
  const int64_t both = std::min(read, written);
  double best = std::numeric_limits<double>::infinity();
  for (int run = 0; run < 2 * runs; ++run) {
    const Work work = {static_cast<uint8_t*>(to.data()),
                       static_cast<const uint8_t*>(from.data()),
                       both,
                       read - both,
                       written - both,
                       run % 2 == 1,
                       pool.threads()};
    const auto start = std::chrono::steady_clock::now();
    pool.ParallelFor(work.parts, [&work](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) Share(work, k);
      return 0;
    });
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (run >= 2) best = std::min(best, took.count());
  }
  return best;
}

}  // namespace kiln::bench
