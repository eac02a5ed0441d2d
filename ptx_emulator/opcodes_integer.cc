// SPDX-License-Identifier: Apache-2.0
// Integer arithmetic. Sums and products are made unsigned, which has no overflow, and mean the
// same.
#include <algorithm>
#include <limits>

#include "ptx_emulator/row.h"

namespace kiln::ptx {
namespace {

template <typename T>
T Quotient(T a, T b) {
  using U = std::make_unsigned_t<T>;
  if (b == 0) return static_cast<T>(~U{0});  // PTX: unspecified; what GPUs give
  if constexpr (std::is_signed_v<T>) {
    if (b == T{-1}) return static_cast<T>(U{0} - static_cast<U>(a));
  }
  return static_cast<T>(a / b);
}

template <typename T>
T Remainder(T a, T b) {
  if (b == 0) return a;
  if constexpr (std::is_signed_v<T>) {
    if (b == T{-1}) return 0;
  }
  return static_cast<T>(a % b);
}

template <typename T>
using Twice = std::conditional_t<
    sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                       std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>>>;

template <typename T>
T HighProduct(T a, T b) {
  return static_cast<T>(static_cast<Twice<T>>(a) * static_cast<Twice<T>>(b) >> (8 * sizeof(T)));
}

template <typename T>
void AddArithmetic(OpcodeTable& table, const std::string& type) {
  using U = std::make_unsigned_t<T>;
  const auto name = [&](const char* op) { return op + type; };
  Add(table, name("add."), [](U a, U b) { return static_cast<U>(a + b); });
  Add(table, name("sub."), [](U a, U b) { return static_cast<U>(a - b); });
  Add(table, name("mul.lo."), [](U a, U b) { return static_cast<U>(uint64_t{a} * b); });
  Add(table, name("mad.lo."), [](U a, U b, U c) { return static_cast<U>(uint64_t{a} * b + c); });
  Add(table, name("mul.hi."), [](T a, T b) { return HighProduct(a, b); });
  Add(table, name("mad.hi."),
      [](T a, T b, U c) { return static_cast<U>(static_cast<U>(HighProduct(a, b)) + c); });
  Add(table, name("div."), [](T a, T b) { return Quotient(a, b); });
  Add(table, name("rem."), [](T a, T b) { return Remainder(a, b); });
  Add(table, name("min."), [](T a, T b) { return std::min(a, b); });
  Add(table, name("max."), [](T a, T b) { return std::max(a, b); });
  Add(table, name("sad."), [](T a, T b, U c) {
    const U distance = a < b ? static_cast<U>(static_cast<U>(b) - static_cast<U>(a))
                             : static_cast<U>(static_cast<U>(a) - static_cast<U>(b));
    return static_cast<U>(c + distance);
  });
  if constexpr (std::is_signed_v<T>) {
    Add(table, name("neg."), [](U a) { return static_cast<U>(U{0} - a); });
    Add(table, name("abs."),
        [](T a) { return a < 0 ? static_cast<U>(U{0} - static_cast<U>(a)) : static_cast<U>(a); });
  }
  if constexpr (sizeof(T) < 8) {
    using W = Twice<T>;
    using V = std::make_unsigned_t<W>;
    Add(table, name("mul.wide."), [](T a, T b) { return W{a} * W{b}; });
    Add(table, name("mad.wide."),
        [](T a, T b, V c) { return static_cast<V>(static_cast<V>(W{a} * W{b}) + c); });
  }
}

// Four products of bytes, added to c.
template <typename A, typename B>
uint32_t DotProduct(uint32_t a, uint32_t b, uint32_t c) {
  for (int i = 0; i < 32; i += 8) {
    const int product = static_cast<A>(a >> i) * static_cast<B>(b >> i);
    c += static_cast<uint32_t>(product);
  }
  return c;
}

}  // namespace

void AddIntegerOpcodes(OpcodeTable& table) {
  AddArithmetic<int16_t>(table, "s16");
  AddArithmetic<uint16_t>(table, "u16");
  AddArithmetic<int32_t>(table, "s32");
  AddArithmetic<uint32_t>(table, "u32");
  AddArithmetic<int64_t>(table, "s64");
  AddArithmetic<uint64_t>(table, "u64");
  Add(table, "add.sat.s32", [](int32_t a, int32_t b) {
    return static_cast<int32_t>(std::clamp<int64_t>(int64_t{a} + b, INT32_MIN, INT32_MAX));
  });
  Add(table, "sub.sat.s32", [](int32_t a, int32_t b) {
    return static_cast<int32_t>(std::clamp<int64_t>(int64_t{a} - b, INT32_MIN, INT32_MAX));
  });
  using U = uint32_t;
  Add(table, "dp4a.s32.s32", [](U a, U b, U c) { return DotProduct<int8_t, int8_t>(a, b, c); });
  Add(table, "dp4a.s32.u32", [](U a, U b, U c) { return DotProduct<int8_t, uint8_t>(a, b, c); });
  Add(table, "dp4a.u32.s32", [](U a, U b, U c) { return DotProduct<uint8_t, int8_t>(a, b, c); });
  Add(table, "dp4a.u32.u32", [](U a, U b, U c) { return DotProduct<uint8_t, uint8_t>(a, b, c); });
}

}  // namespace kiln::ptx
