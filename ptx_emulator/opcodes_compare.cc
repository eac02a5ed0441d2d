// SPDX-License-Identifier: Apache-2.0
// Comparisons. A type is told by how its lanes become values that C++ compares.
#include "ptx_emulator/row.h"

namespace kiln::ptx {
namespace {

enum class Order { kEq, kNe, kLt, kLe, kGt, kGe };

template <Order order, typename T>
bool Holds(T a, T b) {
  switch (order) {
    case Order::kEq:
      return a == b;
    case Order::kNe:
      return a != b;
    case Order::kLt:
      return a < b;
    case Order::kLe:
      return a <= b;
    case Order::kGt:
      return a > b;
    case Order::kGe:
      return a >= b;
  }
  return false;
}

template <typename T>
bool Unordered(T a, T b) {
  return a != a || b != b;
}

template <typename T>
void AddInteger(OpcodeTable& table, const std::string& type, bool ordered) {
  const auto add = [&]<Order order>(const char* name) {
    Add(table, std::string("setp.") + name + "." + type,
        [](T a, T b) { return Holds<order>(a, b); });
  };
  add.template operator()<Order::kEq>("eq");
  add.template operator()<Order::kNe>("ne");
  if (!ordered) return;  // .b16 and so on
  constexpr bool kUnsigned = std::is_unsigned_v<T>;
  add.template operator()<Order::kLt>(kUnsigned ? "lo" : "lt");
  add.template operator()<Order::kLe>(kUnsigned ? "ls" : "le");
  add.template operator()<Order::kGt>(kUnsigned ? "hi" : "gt");
  add.template operator()<Order::kGe>(kUnsigned ? "hs" : "ge");
  if (!kUnsigned) return;
  for (const auto& [long_name, short_name] :
       {std::pair{"lt", "lo"}, {"le", "ls"}, {"gt", "hi"}, {"ge", "hs"}}) {
    table[std::string("setp.") + long_name + "." + type] =
        table[std::string("setp.") + short_name + "." + type];
  }
}

// V is the type in which T is compared. `pair`: T has two of them, and so has the result.
template <typename T, bool kPair, typename Test>
void AddTest(OpcodeTable& table, const std::string& name, Test) {
  if constexpr (kPair) {
    Add(table, name, [](uint32_t a, uint32_t b) {
      const auto test = [](uint32_t x, uint32_t y) {
        return Test{}(ToDouble(T{static_cast<uint16_t>(x)}), ToDouble(T{static_cast<uint16_t>(y)}));
      };
      return static_cast<uint8_t>(uint8_t{test(a, b)} | uint8_t{test(a >> 16, b >> 16)} << 1);
    });
    table[name].destination = {0, false};
  } else {
    Add(table, name, [](T a, T b) {
      if constexpr (sizeof(T) == 2) {
        return Test{}(ToDouble(a), ToDouble(b));
      } else {
        return Test{}(a, b);
      }
    });
  }
}

template <typename T, bool kPair>
void AddFloat(OpcodeTable& table, const std::string& type) {
  const auto add = [&]<Order order>(const std::string& name) {
    AddTest<T, kPair>(table, "setp." + name + type,
                      [](auto a, auto b) { return !Unordered(a, b) && Holds<order>(a, b); });
    AddTest<T, kPair>(table, "setp." + name + "u" + type,
                      [](auto a, auto b) { return Unordered(a, b) || Holds<order>(a, b); });
  };
  add.template operator()<Order::kEq>("eq");
  add.template operator()<Order::kNe>("ne");
  add.template operator()<Order::kLt>("lt");
  add.template operator()<Order::kLe>("le");
  add.template operator()<Order::kGt>("gt");
  add.template operator()<Order::kGe>("ge");
  AddTest<T, kPair>(table, "setp.num" + type, [](auto a, auto b) { return !Unordered(a, b); });
  AddTest<T, kPair>(table, "setp.nan" + type, [](auto a, auto b) { return Unordered(a, b); });
}

}  // namespace

void AddCompareOpcodes(OpcodeTable& table) {
  AddInteger<uint16_t>(table, "b16", false);
  AddInteger<uint32_t>(table, "b32", false);
  AddInteger<uint64_t>(table, "b64", false);
  AddInteger<int16_t>(table, "s16", true);
  AddInteger<uint16_t>(table, "u16", true);
  AddInteger<int32_t>(table, "s32", true);
  AddInteger<uint32_t>(table, "u32", true);
  AddInteger<int64_t>(table, "s64", true);
  AddInteger<uint64_t>(table, "u64", true);
  AddFloat<float, false>(table, ".f32");
  AddFloat<double, false>(table, ".f64");
  AddFloat<Half, false>(table, ".f16");
  AddFloat<Half, true>(table, ".f16x2");
  AddFloat<Bfloat, false>(table, ".bf16");
  AddFloat<Bfloat, true>(table, ".bf16x2");
}

}  // namespace kiln::ptx
