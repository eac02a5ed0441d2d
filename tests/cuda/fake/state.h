// SPDX-License-Identifier: Apache-2.0
// What the fakes share: counts, failures, and copies of operands. A fake computes on the host, by
// the functions of the emulated driver, in the stream that it is given.
#ifndef KILN_TESTS_CUDA_FAKE_STATE_H_
#define KILN_TESTS_CUDA_FAKE_STATE_H_

#include <atomic>
#include <cstdint>
#include <cstring>
#include <vector>

#include "exec/cuda/driver_api.h"

namespace kiln::cuda {

// NOLINTBEGIN(readability-identifier-naming): the names are the driver's.
#define KILN_DECLARE(name, parameters) extern "C" Result name parameters;
KILN_CUDA_FUNCTIONS(KILN_DECLARE)
#undef KILN_DECLARE
// NOLINTEND(readability-identifier-naming)

struct FakeState {
  std::atomic<uint64_t> calls{0}, queries{0}, computed{0}, objects{0}, fail_at{0};
  std::atomic<int> failure{0}, refuse{0};
  std::atomic<size_t> version{0};  // 0: the real one

  // The status of this call, if it is to fail; else 0.
  int Next() { return ++calls == fail_at ? failure.load() : 0; }
};

FakeState& State();

// Elements of device memory as float64, and back, with the errors of the driver: true if all went
// well. `item`: how the elements are stored.
enum class Item { kF32, kF64, kF16, kBF16 };
size_t BytesOf(Item item);
bool Fetch(const void* from, size_t count, Item item, Stream stream, std::vector<double>& to);
bool Store(void* to, const std::vector<double>& values, Item item, Stream stream);

}  // namespace kiln::cuda

#endif  // KILN_TESTS_CUDA_FAKE_STATE_H_
