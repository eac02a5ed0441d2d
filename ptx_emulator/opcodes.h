// SPDX-License-Identifier: Apache-2.0
// The arithmetic of PTX: an opcode's name -> a function over a row, which is one register of the 32
// lanes of a warp.
//
// A lane is 64 bits wide whatever the register's type. A function reads as many low bits of a lane
// as the type of its operand has, and extends what it writes, with the sign if the type has one. So
// bits above a register's type never matter, and ld and cvt may have wider registers, as PTX
// allows. Floats have the bits of the type; a NaN that arithmetic makes is the canonical NaN of PTX
// (0x7fffffff, 0x7ff8000000000000, 0x7fff).
//
//   const Opcode* add = FindOpcode("add.s32");
//   add->function(d, a, b, a, a, 0xffffffff);  // d = a + b in all lanes; unused sources: any row
//
// Only what is bit-exact on every GPU is here: no .approx, no .ftz, no atomics on floats.
#ifndef KILN_PTX_EMULATOR_OPCODES_H_
#define KILN_PTX_EMULATOR_OPCODES_H_

#include <cstdint>
#include <string>
#include <unordered_map>

#include "absl/strings/string_view.h"

namespace kiln::ptx {

inline constexpr int kLanes = 32;
inline constexpr uint32_t kAllLanes = 0xffffffffu;

// d may be one of the sources. Lanes outside the mask keep what they had. Every input has a result.
using RowFunction = void (*)(uint64_t* d, const uint64_t* a, const uint64_t* b, const uint64_t* c,
                             const uint64_t* e, uint32_t mask);

// bytes 0: a predicate.
struct OperandType {
  uint8_t bytes = 0;
  bool is_float = false;
};

struct Opcode {
  RowFunction function = nullptr;
  int sources = 0;
  OperandType destination, source[4];
};

// Comparisons are there under the names of setp ("setp.lt.s32"); bit 0 of a result is the
// comparison, and bit 1 that of the upper halves of packed types. Null: no such opcode.
const Opcode* FindOpcode(absl::string_view name);

// Why a strict kernel must not contain it, or "": "ex2.approx.f32" -> "an approximation ...".
absl::string_view WhyNotStrict(absl::string_view name);

// What each family of opcodes adds to the table; private to the component.
using OpcodeTable = std::unordered_map<std::string, Opcode>;
void AddIntegerOpcodes(OpcodeTable& table);
void AddBitOpcodes(OpcodeTable& table);
void AddFloatOpcodes(OpcodeTable& table);
void AddHalfOpcodes(OpcodeTable& table);
void AddCompareOpcodes(OpcodeTable& table);
void AddConversionOpcodes(OpcodeTable& table);

}  // namespace kiln::ptx

#endif  // KILN_PTX_EMULATOR_OPCODES_H_
