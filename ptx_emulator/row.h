// SPDX-License-Identifier: Apache-2.0
// From a lambda over values to an Opcode over rows: the types of PTX are read off its signature.
//
//   Add(table, "add.f32", [](float a, float b) { return a + b; });
//   Add(table, "setp.lt.u16", [](uint16_t a, uint16_t b) { return a < b; });   // bool: a predicate
#ifndef KILN_PTX_EMULATOR_ROW_H_
#define KILN_PTX_EMULATOR_ROW_H_

#include <bit>
#include <concepts>
#include <cstring>
#include <string>
#include <type_traits>

#include "ptx_emulator/float_format.h"
#include "ptx_emulator/opcodes.h"

namespace kiln::ptx {

template <typename T>
T FromLane(uint64_t lane) {
  if constexpr (std::is_same_v<T, bool>) {
    return (lane & 1) != 0;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(lane);
  } else if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<float>(static_cast<uint32_t>(lane));
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<double>(lane);
  } else {
    return T{static_cast<uint16_t>(lane)};
  }
}

template <typename T>
uint64_t ToLane(T value) {
  if constexpr (std::is_same_v<T, bool> || std::is_unsigned_v<T>) {
    return value;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<uint64_t>(static_cast<int64_t>(value));
  } else if constexpr (std::is_same_v<T, float>) {
    return value != value ? kNan32 : std::bit_cast<uint32_t>(value);
  } else if constexpr (std::is_same_v<T, double>) {
    return value != value ? kNan64 : std::bit_cast<uint64_t>(value);
  } else {
    return value.bits;
  }
}

template <typename T>
constexpr OperandType OperandTypeOf() {
  if constexpr (std::is_same_v<T, bool>) return {0, false};
  return {sizeof(T), !std::is_integral_v<T>};
}

// F is the type of a lambda without captures.
template <typename F, typename D, typename... S>
void ApplyToRow(uint64_t* d, const uint64_t* a, const uint64_t* b, const uint64_t* c,
                const uint64_t* e, uint32_t mask) {
  const uint64_t* const rows[] = {a, b, c, e};
  uint64_t out[kLanes];  // a copy, so that the compiler need not ask whether rows overlap
  [&]<size_t... I>(std::index_sequence<I...>) {
    for (int lane = 0; lane < kLanes; ++lane) {
      out[lane] = ToLane<D>(F{}(FromLane<S>(rows[I][lane])...));
    }
  }
  (std::index_sequence_for<S...>{});
  if (mask == kAllLanes) {
    std::memcpy(d, out, sizeof out);
    return;
  }
  for (; mask != 0; mask &= mask - 1) d[std::countr_zero(mask)] = out[std::countr_zero(mask)];
}

template <typename F, typename D, typename... S>
Opcode OpcodeOf(D (F::*)(S...) const) {
  return {&ApplyToRow<F, D, S...>, sizeof...(S), OperandTypeOf<D>(), {OperandTypeOf<S>()...}};
}

template <typename F>
void Add(OpcodeTable& table, const std::string& name, F) {
  table[name] = OpcodeOf<F>(&F::operator());
}

}  // namespace kiln::ptx

#endif  // KILN_PTX_EMULATOR_ROW_H_
