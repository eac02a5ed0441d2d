// SPDX-License-Identifier: Apache-2.0
// Operands: registers, immediates, addresses and vectors become rows.
#include <bit>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "ptx_emulator/parser.h"

namespace kiln::ptx {
namespace {

int SpecialRegister(absl::string_view name) {
  static constexpr absl::string_view kNames[kSpecialRows] = {
      "%tid.x",           "%tid.y",       "%tid.z",
      "%ntid.x",          "%ntid.y",      "%ntid.z",
      "%ctaid.x",         "%ctaid.y",     "%ctaid.z",
      "%nctaid.x",        "%nctaid.y",    "%nctaid.z",
      "%laneid",          "%warpid",      "%nwarpid",
      "%lanemask_eq",     "%lanemask_le", "%lanemask_lt",
      "%lanemask_ge",     "%lanemask_gt", "%dynamic_smem_size",
      "%total_smem_size",
  };
  for (int row = 0; row < kSpecialRows; ++row) {
    if (kNames[row] == name) return row;
  }
  return kNoRow;
}

}  // namespace

int Parser::ConstantRow(uint64_t value, int variable) {
  const auto [found, fresh] = constant_rows_.try_emplace({value, variable}, 0);
  if (fresh) {
    found->second = NewRow();
    kernel_.constants.push_back({found->second, value, variable});
  }
  return found->second;
}

const Parser::Register* Parser::FindRegister(absl::string_view name) {
  const std::string key(name);
  const auto found = registers_.find(key);
  if (found != registers_.end()) return &found->second;
  size_t digits = name.size();
  while (digits > 0 && absl::ascii_isdigit(static_cast<unsigned char>(name[digits - 1]))) --digits;
  const auto range = ranges_.find(std::string(name.substr(0, digits)));
  uint64_t number = 0;
  if (range == ranges_.end() || !absl::SimpleAtoi(name.substr(digits), &number) ||
      number >= range->second.count) {
    return nullptr;
  }
  ++kernel_.registers;
  return &(registers_[key] = {NewRow(), range->second.bytes});
}

// A register of at least so many bytes; 0: a predicate.
int Parser::RegisterOperand(int bytes) {
  const Register* found = FindRegister(Peek().text);
  if (found == nullptr) {
    Fail("no register \"", Peek().text.substr(0, 40), "\"");
    return 0;
  }
  if ((found->bytes == 0) != (bytes == 0) || found->bytes < bytes) {
    Fail("register \"", Peek().text, "\" is of another type");
    return 0;
  }
  const int row = found->row;
  Next();
  return row;
}

int Parser::SinkOrRegister(int bytes) { return Take("_") ? kNoRow : RegisterOperand(bytes); }

int Parser::Immediate(OperandType type, bool negative) {
  const absl::string_view text = Peek().text;
  const bool single = absl::StartsWith(text, "0f") || absl::StartsWith(text, "0F");
  const bool twice = absl::StartsWith(text, "0d") || absl::StartsWith(text, "0D");
  if (!single && !twice && type.is_float && type.bytes >= 4 && absl::StrContains(text, ".")) {
    double value = 0;
    if (!absl::SimpleAtod(text, &value)) Fail("not a number");
    if (negative) value = -value;
    Next();
    return ConstantRow(type.bytes == 8 ? std::bit_cast<uint64_t>(value)
                                       : std::bit_cast<uint32_t>(static_cast<float>(value)));
  }
  if (!single && !twice) {
    if (type.is_float && type.bytes >= 4) Fail("an integer stands where a float belongs");
    const uint64_t value = ParseInteger();
    return ConstantRow(negative ? uint64_t{0} - value : value);
  }
  uint64_t bits = 0;
  const bool fits = type.bytes == (single ? 4 : 8) && text.size() == (single ? 10 : 18);
  if (!fits || negative || !absl::SimpleHexAtoi(text.substr(2), &bits)) {
    Fail("a float of another type: \"", text.substr(0, 40), "\"");
  }
  Next();
  return ConstantRow(bits);
}

uint64_t Parser::SharedOffset(const std::string& name) {
  const auto [found, fresh] = shared_offsets_.try_emplace(name, 0);
  if (fresh) {
    const ArrayDeclaration& array = shared_.at(name);
    const uint64_t start =
        (kernel_.shared_bytes + array.alignment - 1) / array.alignment * array.alignment;
    found->second = start;
    if (start + array.bytes > (uint64_t{1} << 31)) {
      Fail("too much shared memory");
    } else {
      kernel_.shared_bytes = static_cast<uint32_t>(start + array.bytes);
    }
  }
  return found->second;
}

// The address of a variable within its space: a parameter, a local, shared or global array.
int Parser::SymbolOperand(absl::string_view symbol) {
  const std::string name(symbol);
  for (const Parameter& parameter : kernel_.parameters) {
    if (parameter.name == name) return ConstantRow(static_cast<uint64_t>(parameter.offset));
  }
  if (const auto local = locals_.find(name); local != locals_.end()) {
    return ConstantRow(local->second);
  }
  if (const auto shared = shared_.find(name); shared != shared_.end()) {
    if (!shared->second.external) return ConstantRow(SharedOffset(name));
    dynamic_shared_.push_back(static_cast<int>(kernel_.constants.size()));
    const int row = NewRow();
    kernel_.constants.push_back({row, 0});
    return row;
  }
  if (const auto variable = variables_.find(name); variable != variables_.end()) {
    return ConstantRow(0, variable->second);
  }
  Fail("unknown operand \"", symbol.substr(0, 40), "\"");
  return 0;
}

int Parser::SourceOperand(OperandType type) {
  const bool negative = Peek().Is("-") && Peek(1).type == Token::Type::kNumber;
  if (negative) Next();
  const Token& token = Peek();
  if (token.type == Token::Type::kNumber) return Immediate(type, negative);
  if (token.type != Token::Type::kWord) {
    Fail("expected an operand, found \"", token.text.substr(0, 40), "\"");
    return 0;
  }
  if (Take("WARP_SZ")) return ConstantRow(kLanes);
  if (const int row = SpecialRegister(token.text); row != kNoRow && type.bytes != 0) {
    Next();
    return row;
  }
  if (token.text[0] == '%' || FindRegister(token.text) != nullptr) {
    return RegisterOperand(type.bytes);
  }
  if (type.bytes < 4) {
    Fail("unknown operand \"", token.text.substr(0, 40), "\"");
    return 0;
  }
  const int row = SymbolOperand(token.text);
  Next();
  if (Take("+")) {  // symbol+4
    const Constant constant = kernel_.constants.back();
    const uint64_t offset = ParseInteger();
    if (constant.row == row) return ConstantRow(constant.value + offset, constant.variable);
    for (const Constant& other : kernel_.constants) {
      if (other.row == row) return ConstantRow(other.value + offset, other.variable);
    }
  }
  return row;
}

// [register+offset], [symbol+offset] or [address]
void Parser::AddressOperand() {
  Expect("[");
  if (Peek().type == Token::Type::kNumber) {
    instruction_.source[0] = ConstantRow(ParseInteger());
  } else if (const Register* base = FindRegister(Peek().text); base != nullptr) {
    instruction_.narrow_address = base->bytes == 4;
    instruction_.source[0] = RegisterOperand(4);
  } else {
    instruction_.source[0] = SymbolOperand(Peek().text);
    Next();
  }
  if (Take("+")) {
    instruction_.offset = static_cast<int64_t>(ParseInteger());
  } else if (Peek().Is("-")) {
    instruction_.offset = static_cast<int64_t>(ParseInteger());
  }
  Expect("]");
}

// {a, b} or one operand, in `rows`; sets the count.
void Parser::VectorOperand(int* rows, int bytes, bool source) {
  const OperandType type = {static_cast<uint8_t>(bytes), false};
  const auto one = [&] {
    if (!source) return SinkOrRegister(bytes);
    const bool is_float =
        absl::StartsWith(Peek().text, "0f") || absl::StartsWith(Peek().text, "0d");
    return SourceOperand(is_float ? OperandType{type.bytes, true} : type);
  };
  if (!Take("{")) {
    rows[0] = one();
    instruction_.count = 1;
    return;
  }
  int count = 0;
  do {
    if (count == 4) return Fail("a vector of more than four");
    rows[count++] = one();
  } while (Take(","));
  Expect("}");
  instruction_.count = static_cast<uint8_t>(count);
}

}  // namespace kiln::ptx
