// SPDX-License-Identifier: Apache-2.0
// Declarations: parameters, bounds of blocks, registers, arrays and their values, branch targets.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "ptx_emulator/parser.h"

namespace kiln::ptx {
namespace {

constexpr uint64_t kMaxArrayBytes = uint64_t{1} << 30;
constexpr int kMaxParameterBytes = 32764;

}  // namespace

void Parser::ParseParameter() {
  Expect(".param");
  uint64_t alignment = 0;
  int element = 0;
  while (Peek().type == Token::Type::kWord && Peek().text[0] == '.') {
    const Token token = Next();
    if (token.Is(".align")) {
      alignment = ParseInteger();
    } else if (token.Is(".ptr") || token.Is(".global") || token.Is(".shared") ||
               token.Is(".const") || token.Is(".local")) {
      // an attribute of the pointer
    } else if (TypeOf(token.text).known) {
      element = TypeOf(token.text).bytes;
    } else {
      return Fail("a parameter's \"", token.text, "\" is unknown");
    }
  }
  const std::string name(Next().text);
  uint64_t bytes = element;
  if (Take("[")) {
    bytes *= std::min<uint64_t>(ParseInteger(), kMaxParameterBytes);
    Expect("]");
  }
  if (alignment == 0 || element == 0) alignment = std::max(element, 1);
  if (element == 0 || bytes == 0 || (alignment & (alignment - 1)) != 0 || alignment > 256) {
    return Fail("a parameter has no size");
  }
  const int align = std::max(static_cast<int>(alignment), element);
  const int offset = (kernel_.parameter_bytes + align - 1) / align * align;
  if (offset + bytes > kMaxParameterBytes) return Fail("too many bytes of parameters");
  kernel_.parameters.push_back({name, static_cast<int>(bytes), offset});
  kernel_.parameter_bytes = offset + static_cast<int>(bytes);
}

void Parser::ParseBounds() {
  while (Peek().type == Token::Type::kWord && Peek().text[0] == '.') {
    const Token token = Next();
    uint64_t extents[3] = {1, 1, 1};
    for (uint64_t& extent : extents) {
      extent = ParseInteger();
      if (!Take(",")) break;
    }
    const uint64_t threads = std::min(extents[0], uint64_t{1} << 20) *
                             std::min(extents[1], uint64_t{1} << 20) *
                             std::min(extents[2], uint64_t{1} << 20);
    if (token.Is(".maxntid") || token.Is(".reqntid")) {
      if (threads == 0 || threads > 1024) return Fail("a block has 1 to 1024 threads");
      kernel_.max_threads = static_cast<uint32_t>(threads);
    } else if (!token.Is(".minnctapersm") && !token.Is(".maxnreg")) {
      return Fail("unknown directive \"", token.text, "\"");
    }
    if (token.Is(".reqntid")) std::copy_n(extents, 3, kernel_.required_block);
  }
}

void Parser::ParseRegisters() {
  Expect(".reg");
  const Type type = TypeOf(Peek().text);
  if (!type.known) return Fail("unknown type \"", Peek().text.substr(0, 40), "\"");
  Next();
  do {
    const std::string name(Next().text);
    if (Take("<")) {
      ranges_[name] = {type.bytes, ParseInteger()};
      Expect(">");
    } else {
      registers_[name] = {NewRow(), type.bytes};  // an inner block's hides the outer one's
      ++kernel_.registers;
    }
  } while (Take(","));
  Expect(";");
}

void Parser::ParseBranchTargets(const std::string& label) {
  Next();
  tables_[label] = static_cast<int>(kernel_.branch_tables.size());
  int count = 0;
  do {
    const Token token = Next();
    fixups_.push_back({count++, tables_[label], std::string(token.text), token.line});
  } while (Take(","));
  kernel_.branch_tables.emplace_back(count, 0);
  Expect(";");
}

// [.extern] .space [.align n] .type name[n][m]; the bracket may be empty where the array is
// external.
Parser::ArrayDeclaration Parser::ParseArray() {
  ArrayDeclaration array;
  array.external = Take(".extern");
  Next();  // the space
  while (Take(".attribute")) SkipTo(")");
  if (Take(".align")) array.alignment = ParseInteger();
  if (array.alignment == 0 || array.alignment > 4096 ||
      (array.alignment & (array.alignment - 1)) != 0) {
    Fail("an alignment is a power of two");
    array.alignment = 1;
  }
  const Type type = TypeOf(Peek().text);
  if (!type.known || type.bytes == 0) Fail("unknown type \"", Peek().text.substr(0, 40), "\"");
  Next();
  array.name = std::string(Next().text);
  array.element = std::max(type.bytes, 1);
  array.bytes = array.element;
  array.alignment = std::max<uint64_t>(array.alignment, array.element);
  while (Take("[")) {
    if (!Peek().Is("]")) {
      array.bytes *= std::min(ParseInteger(), kMaxArrayBytes + 1);
    } else if (!array.external) {
      Fail("an array without a size");
    }
    Expect("]");
    if (array.bytes > kMaxArrayBytes) Fail("an array of more than 1 GiB");
    array.bytes = std::min(array.bytes, kMaxArrayBytes);
  }
  if (!Peek().Is("=")) Expect(";");
  return array;
}

void Parser::ParseModuleArray() {
  const bool shared = Peek().Is(".shared") || Peek(1).Is(".shared");
  const ArrayDeclaration array = ParseArray();
  if (shared) {
    shared_[array.name] = array;
    return;
  }
  if (array.external) return Fail("\"", array.name, "\" is defined nowhere");
  Variable variable;
  variable.name = array.name;
  variable.bytes = array.bytes;
  if (Take("=")) ParseInitial(array, variable);
  variables_[array.name] = static_cast<int>(module_.variables.size());
  module_.variables.push_back(std::move(variable));
}

void Parser::ParseInitial(const ArrayDeclaration& array, Variable& variable) {
  const bool braces = Take("{");
  do {
    uint64_t value = 0;
    const absl::string_view text = Peek().text;
    if (absl::StartsWith(text, "0f") || absl::StartsWith(text, "0d")) {
      if (!absl::SimpleHexAtoi(text.substr(2), &value)) Fail("a float's bits are hexadecimal");
      Next();
    } else {
      value = ParseInteger();
    }
    for (int i = 0; i < array.element; ++i) {
      variable.initial.push_back(static_cast<uint8_t>(value >> (8 * i)));
    }
    if (variable.initial.size() > variable.bytes) return Fail("more values than elements");
  } while (braces && Take(","));
  if (braces) Expect("}");
  Expect(";");
}

}  // namespace kiln::ptx
