// SPDX-License-Identifier: Apache-2.0
// Logic, shifts, fields of bits, selections and moves.
#include "ptx_emulator/memory.h"
#include "ptx_emulator/row.h"

namespace kiln::ptx {
namespace {

uint32_t SelectByte(uint64_t bytes, uint32_t selector) {
  const auto byte = static_cast<uint8_t>(bytes >> (8 * (selector & 7)));
  return (selector & 8) == 0 ? byte : (byte & 0x80) != 0 ? 0xff : 0;
}

// prmt in its general form: each nibble of c selects a byte of b:a, or eight copies of its sign.
uint32_t Permute(uint32_t a, uint32_t b, uint32_t c) {
  const uint64_t bytes = uint64_t{b} << 32 | a;
  uint32_t out = 0;
  for (int i = 0; i < 4; ++i) out |= SelectByte(bytes, c >> (4 * i) & 15) << (8 * i);
  return out;
}

// The selectors of prmt's special forms, for c & 3 = 0, 1, 2, 3, byte 0 in the lowest nibble.
template <uint16_t k0, uint16_t k1, uint16_t k2, uint16_t k3>
void AddPermute(OpcodeTable& table, const char* name) {
  Add(table, name, [](uint32_t a, uint32_t b, uint32_t c) {
    constexpr uint16_t kSelectors[] = {k0, k1, k2, k3};
    return Permute(a, b, kSelectors[c & 3]);
  });
}

template <typename T>
T ExtractField(T a, uint32_t position, uint32_t length) {
  constexpr uint32_t kBits = 8 * sizeof(T);
  position &= 255;
  length &= 255;
  if (length == 0) return 0;
  // The sign is the field's highest bit, or that of a where the field reaches beyond it.
  const uint32_t last = position + length - 1 < kBits ? position + length - 1 : kBits - 1;
  const bool sign = std::is_signed_v<T> && (a >> last & 1) != 0;
  T out = 0;
  for (uint32_t i = 0; i < kBits; ++i) {
    const bool bit = i < length && position + i < kBits ? (a >> (position + i) & 1) != 0 : sign;
    if (bit) out = static_cast<T>(out | static_cast<T>(std::make_unsigned_t<T>{1} << i));
  }
  return out;
}

template <typename U>
U InsertField(U a, U b, uint32_t position, uint32_t length) {
  constexpr uint32_t kBits = 8 * sizeof(U);
  position &= 255;
  length &= 255;
  if (position >= kBits || length == 0) return b;
  const U ones = length >= kBits ? ~U{0} : static_cast<U>((U{1} << length) - 1);
  return static_cast<U>((b & ~(ones << position)) | ((a & ones) << position));
}

template <typename T, bool kShift>
uint32_t HighestBit(T a) {
  using U = std::make_unsigned_t<T>;
  const U bits = a < 0 ? static_cast<U>(~static_cast<U>(a)) : static_cast<U>(a);
  if (bits == 0) return ~uint32_t{0};
  const auto zeros = static_cast<uint32_t>(std::countl_zero(bits));
  return kShift ? zeros : 8 * sizeof(T) - 1 - zeros;
}

template <typename U>
U Reversed(U a) {
  U out = 0;
  for (size_t i = 0; i < 8 * sizeof(U); ++i) out = static_cast<U>(out << 1 | (a >> i & 1));
  return out;
}

template <typename T>
T ShiftedRight(T a, uint32_t by) {
  if (by >= 8 * sizeof(T)) return static_cast<T>(a < 0 ? -1 : 0);
  return static_cast<T>(a >> by);
}

uint32_t FunnelShift(uint32_t a, uint32_t b, uint32_t by, bool left) {
  const uint64_t both = uint64_t{b} << 32 | a;
  return static_cast<uint32_t>(left ? both << by >> 32 : both >> by);
}

uint32_t Logic3(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
  uint32_t out = 0;
  for (uint32_t i = 0; i < 8; ++i) {
    if ((table >> i & 1) == 0) continue;
    out |= ((i & 4) != 0 ? a : ~a) & ((i & 2) != 0 ? b : ~b) & ((i & 1) != 0 ? c : ~c);
  }
  return out;
}

template <typename U>
void AddLogic(OpcodeTable& table, const std::string& bits) {
  Add(table, "and." + bits, [](U a, U b) { return static_cast<U>(a & b); });
  Add(table, "or." + bits, [](U a, U b) { return static_cast<U>(a | b); });
  Add(table, "xor." + bits, [](U a, U b) { return static_cast<U>(a ^ b); });
  Add(table, "mov." + bits, [](U a) { return a; });
  if constexpr (std::is_same_v<U, bool>) {
    Add(table, "not." + bits, [](U a) { return !a; });
  } else {
    Add(table, "not." + bits, [](U a) { return static_cast<U>(~a); });
    Add(table, "cnot." + bits, [](U a) { return static_cast<U>(a == 0 ? 1 : 0); });
    Add(table, "shl." + bits,
        [](U a, uint32_t by) { return by >= 8 * sizeof(U) ? U{0} : static_cast<U>(a << by); });
    Add(table, "shr." + bits, [](U a, uint32_t by) { return ShiftedRight(a, by); });
  }
}

// What every type of this width has: U is the unsigned type, S the signed one.
template <typename U, typename S>
void AddTyped(OpcodeTable& table, const std::string& bits) {
  Add(table, "shr.u" + bits, [](U a, uint32_t by) { return ShiftedRight(a, by); });
  Add(table, "shr.s" + bits, [](S a, uint32_t by) { return ShiftedRight(a, by); });
  for (const char* kind : {"b", "u", "s", "f"}) {
    const std::string type = kind + bits;
    Add(table, "mov." + type, [](U a) { return a; });
    Add(table, "selp." + type, [](U a, U b, bool c) { return c ? a : b; });
    Add(table, "slct." + type + ".s32", [](U a, U b, int32_t c) { return c >= 0 ? a : b; });
    Add(table, "slct." + type + ".f32", [](U a, U b, float c) { return c >= 0 ? a : b; });
  }
  if constexpr (sizeof(U) >= 4) {
    Add(table, "popc.b" + bits, [](U a) { return static_cast<uint32_t>(std::popcount(a)); });
    Add(table, "clz.b" + bits, [](U a) { return static_cast<uint32_t>(std::countl_zero(a)); });
    Add(table, "brev.b" + bits, [](U a) { return Reversed(a); });
    Add(table, "bfi.b" + bits,
        [](U a, U b, uint32_t p, uint32_t n) { return InsertField(a, b, p, n); });
    Add(table, "bfe.u" + bits, [](U a, uint32_t p, uint32_t n) { return ExtractField(a, p, n); });
    Add(table, "bfe.s" + bits, [](S a, uint32_t p, uint32_t n) { return ExtractField(a, p, n); });
    Add(table, "bfind.u" + bits, [](U a) { return HighestBit<U, false>(a); });
    Add(table, "bfind.s" + bits, [](S a) { return HighestBit<S, false>(a); });
    Add(table, "bfind.shiftamt.u" + bits, [](U a) { return HighestBit<U, true>(a); });
    Add(table, "bfind.shiftamt.s" + bits, [](S a) { return HighestBit<S, true>(a); });
  }
}

template <uint64_t kWindow>
void AddWindow(OpcodeTable& table, const std::string& space) {
  Add(table, "cvta." + space + ".u64", [](uint64_t a) { return a + kWindow; });
  Add(table, "cvta.to." + space + ".u64", [](uint64_t a) { return a - kWindow; });
  Add(table, "isspacep." + space,
      [](uint64_t a) { return kWindow == 0 ? a < kSharedWindow : a - kWindow < kWindowBytes; });
}

}  // namespace

void AddBitOpcodes(OpcodeTable& table) {
  AddLogic<bool>(table, "pred");
  AddLogic<uint16_t>(table, "b16");
  AddLogic<uint32_t>(table, "b32");
  AddLogic<uint64_t>(table, "b64");
  AddTyped<uint16_t, int16_t>(table, "16");
  AddTyped<uint32_t, int32_t>(table, "32");
  AddTyped<uint64_t, int64_t>(table, "64");
  AddWindow<0>(table, "global");
  AddWindow<0>(table, "const");
  AddWindow<kSharedWindow>(table, "shared");
  AddWindow<kSharedWindow>(table, "shared::cta");
  AddWindow<kLocalWindow>(table, "local");
  using U = uint32_t;
  Add(table, "shf.l.wrap.b32", [](U a, U b, U c) { return FunnelShift(a, b, c & 31, true); });
  Add(table, "shf.r.wrap.b32", [](U a, U b, U c) { return FunnelShift(a, b, c & 31, false); });
  Add(table, "shf.l.clamp.b32",
      [](U a, U b, U c) { return FunnelShift(a, b, c < 32 ? c : 32, true); });
  Add(table, "shf.r.clamp.b32",
      [](U a, U b, U c) { return FunnelShift(a, b, c < 32 ? c : 32, false); });
  Add(table, "lop3.b32", [](U a, U b, U c, U e) { return Logic3(a, b, c, e); });
  Add(table, "prmt.b32", [](U a, U b, U c) { return Permute(a, b, c); });
  AddPermute<0x3210, 0x4321, 0x5432, 0x6543>(table, "prmt.b32.f4e");
  AddPermute<0x5670, 0x6701, 0x7012, 0x0123>(table, "prmt.b32.b4e");
  AddPermute<0x0000, 0x1111, 0x2222, 0x3333>(table, "prmt.b32.rc8");
  AddPermute<0x3210, 0x3211, 0x3222, 0x3333>(table, "prmt.b32.ecl");
  AddPermute<0x0000, 0x1110, 0x2210, 0x3210>(table, "prmt.b32.ecr");
  AddPermute<0x1010, 0x3232, 0x1010, 0x3232>(table, "prmt.b32.rc16");
}

}  // namespace kiln::ptx
