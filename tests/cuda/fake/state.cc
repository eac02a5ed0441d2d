// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/fake/state.h"

#include "base/dtype.h"
#include "tests/cuda/fake/control.h"

namespace kiln::cuda {
namespace {

template <typename T, typename F>
void Each(const std::vector<uint8_t>& bytes, std::vector<double>& to, const F& load) {
  for (size_t i = 0; i < to.size(); ++i) {
    T one;
    std::memcpy(&one, bytes.data() + i * sizeof one, sizeof one);
    to[i] = load(one);
  }
}

template <typename T, typename F>
void Each(const std::vector<double>& from, std::vector<uint8_t>& bytes, const F& store) {
  for (size_t i = 0; i < from.size(); ++i) {
    const T one = store(from[i]);
    std::memcpy(bytes.data() + i * sizeof one, &one, sizeof one);
  }
}

}  // namespace

FakeState& State() {
  static FakeState state;
  return state;
}

size_t BytesOf(Item item) { return item == Item::kF64 ? 8 : item == Item::kF32 ? 4 : 2; }

bool Fetch(const void* from, size_t count, Item item, Stream stream, std::vector<double>& to) {
  std::vector<uint8_t> bytes(count * BytesOf(item));
  to.resize(count);
  if (cuMemcpyDtoHAsync_v2(bytes.data(), reinterpret_cast<DevicePointer>(from), bytes.size(),
                           stream) != kSuccess)
    return false;
  switch (item) {
    case Item::kF32:
      Each<float>(bytes, to, [](float x) { return double{x}; });
      break;
    case Item::kF64:
      Each<double>(bytes, to, [](double x) { return x; });
      break;
    case Item::kF16:
      Each<uint16_t>(bytes, to, [](uint16_t x) { return double{HalfToFloat(x)}; });
      break;
    case Item::kBF16:
      Each<uint16_t>(bytes, to, [](uint16_t x) { return double{BFloatToFloat(x)}; });
      break;
  }
  return true;
}

bool Store(void* to, const std::vector<double>& values, Item item, Stream stream) {
  std::vector<uint8_t> bytes(values.size() * BytesOf(item));
  const auto narrow = [](double x) { return static_cast<float>(x); };
  switch (item) {
    case Item::kF32:
      Each<float>(values, bytes, narrow);
      break;
    case Item::kF64:
      Each<double>(values, bytes, [](double x) { return x; });
      break;
    case Item::kF16:
      Each<uint16_t>(values, bytes, [&](double x) { return FloatToHalf(narrow(x)); });
      break;
    case Item::kBF16:
      Each<uint16_t>(values, bytes, [&](double x) { return FloatToBFloat(narrow(x)); });
      break;
  }
  return cuMemcpyHtoDAsync_v2(reinterpret_cast<DevicePointer>(to), bytes.data(), bytes.size(),
                              stream) == kSuccess;
}

}  // namespace kiln::cuda

using kiln::cuda::State;

void kiln_fake_reset() {
  State().calls = State().queries = State().computed = State().fail_at = 0;
  State().failure = State().refuse = 0;
  State().version = 0;
}
void kiln_fake_fail_at(uint64_t k, int status) {
  State().failure = status;
  State().fail_at = k == 0 ? 0 : State().calls + k;
}
void kiln_fake_set_version(size_t version) { State().version = version; }
void kiln_fake_refuse(int refuse) { State().refuse = refuse; }
uint64_t kiln_fake_calls() { return State().calls; }
uint64_t kiln_fake_queries() { return State().queries; }
uint64_t kiln_fake_computed() { return State().computed; }
uint64_t kiln_fake_objects() { return State().objects; }
