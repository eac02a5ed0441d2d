// SPDX-License-Identifier: Apache-2.0
// What the plain loops of this folder share: elements of any type in the type they are computed in,
// and a parallel for.
#ifndef KILN_EXEC_LIBRARY_LOOPS_H_
#define KILN_EXEC_LIBRARY_LOOPS_H_

#include <cstdint>
#include <type_traits>

#include "base/dtype.h"
#include "kernel/abi.h"

namespace kiln::library {

// How elements are stored and computed. Integers are computed unsigned where they may wrap (`Sum`).
template <typename Stored>
struct Plain {
  using Storage = Stored;
  using Compute = Stored;
  static Compute Load(Storage value) { return value; }
  static Storage Store(Compute value) { return value; }
};
struct Half {
  using Storage = uint16_t;
  using Compute = float;
  static float Load(uint16_t bits) { return HalfToFloat(bits); }
  static uint16_t Store(float value) { return FloatToHalf(value); }
};
struct BFloat {
  using Storage = uint16_t;
  using Compute = float;
  static float Load(uint16_t bits) { return BFloatToFloat(bits); }
  static uint16_t Store(float value) { return FloatToBFloat(value); }
};

// A type in which sums and products of T wrap instead of being undefined: at least 32 bits wide.
template <typename T, bool = std::is_integral_v<T>>
struct WrappingOf {
  using type = T;
};
template <typename T>
struct WrappingOf<T, true> {
  using type = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
};
template <typename T>
using Wrapping = typename WrappingOf<T>::type;

// Calls f.operator()<E>() with the element traits of `type`; bool counts as u8.
template <typename F>
auto ForElement(DType type, F&& f) {
  switch (type) {
    case DType::kF32:
      return f.template operator()<Plain<float>>();
    case DType::kF64:
      return f.template operator()<Plain<double>>();
    case DType::kF16:
      return f.template operator()<Half>();
    case DType::kBF16:
      return f.template operator()<BFloat>();
    case DType::kI8:
      return f.template operator()<Plain<int8_t>>();
    case DType::kI16:
      return f.template operator()<Plain<int16_t>>();
    case DType::kI32:
      return f.template operator()<Plain<int32_t>>();
    case DType::kI64:
      return f.template operator()<Plain<int64_t>>();
    case DType::kU16:
      return f.template operator()<Plain<uint16_t>>();
    case DType::kU32:
      return f.template operator()<Plain<uint32_t>>();
    case DType::kU64:
      return f.template operator()<Plain<uint64_t>>();
    case DType::kU8:
    case DType::kBool:
      break;
  }
  return f.template operator()<Plain<uint8_t>>();
}

inline int64_t DivideUp(int64_t n, int64_t d) { return (n + d - 1) / d; }

// body(begin, end) over parts of [0, n), on the pool of `context` when there is one.
template <typename Body>
void ParallelRanges(LaunchContext* context, int64_t n, const Body& body) {
  constexpr int64_t kParts = 64;  // speed
  if (context == nullptr || context->parallel_for == nullptr || n < 2) {
    body(int64_t{0}, n);
    return;
  }
  struct Closure {
    const Body* body;
    int64_t n, parts;
  } closure{&body, n, n < kParts ? n : kParts};
  const TaskFn task = [](void*, int index, uint8_t* memory) {
    const Closure& c = *reinterpret_cast<const Closure*>(memory);
    const auto cut = [&c](int64_t part) {
      return c.n / c.parts * part + (c.n % c.parts) * part / c.parts;
    };
    (*c.body)(cut(index), cut(index + 1));
    return 0;
  };
  context->parallel_for(context, task, 0, static_cast<int>(closure.parts),
                        reinterpret_cast<uint8_t*>(&closure));
}

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_LOOPS_H_
