// SPDX-License-Identifier: Apache-2.0
// The outside of kernels, their bodies, and what ties a kernel together at its end.
#include "ptx_emulator/parser.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/status.h"

namespace kiln::ptx {
namespace {

constexpr uint64_t kMaxLocalBytes = 512 << 10;   // CUDA's limit for a thread
constexpr uint64_t kMaxStaticShared = 48 << 10;  // and for a block
constexpr int kMaxNesting = 64;

}  // namespace

absl::string_view Kernel::TextOf(const Instruction& instruction) const {
  const auto index = static_cast<size_t>(instruction.line - 1);
  return index < lines->size() ? absl::StripAsciiWhitespace((*lines)[index]) : "";
}

const Kernel* Module::Find(absl::string_view name) const {
  for (const Kernel& kernel : kernels) {
    if (kernel.name == name) return &kernel;
  }
  return nullptr;
}

absl::StatusOr<Module> Parse(absl::string_view text) { return Parser(text).Run(); }

Parser::Parser(absl::string_view text) : text_(text), tokens_(Tokenize(text)) {
  const std::vector<absl::string_view> lines = absl::StrSplit(text_, '\n');
  lines_ = std::make_shared<std::vector<std::string>>(lines.begin(), lines.end());
}

absl::StatusOr<Module> Parser::Run() {
  while (Peek().type != Token::Type::kEnd) ModuleStatement();
  if (status_.ok() && module_.version == 0) Fail("no .version: this is not PTX");
  if (status_.ok() && module_.target == 0) Fail("no .target");
  if (!status_.ok()) return status_;
  return std::move(module_);
}

const Token& Parser::Peek(size_t ahead) const {
  return status_.ok() && at_ + ahead < tokens_.size() ? tokens_[at_ + ahead] : end_;
}

Token Parser::Next() {
  const Token token = Peek();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool Parser::Take(absl::string_view text) {
  if (!Peek().Is(text) || text.empty()) return false;
  Next();
  return true;
}

void Parser::Expect(absl::string_view text) {
  if (!Take(text)) Fail("expected \"", text, "\", found \"", Peek().text.substr(0, 40), "\"");
}

void Parser::SkipLine() {
  const int line = Peek().line;
  while (Peek().type != Token::Type::kEnd && Peek().line == line) Next();
}

void Parser::SkipTo(absl::string_view text) {
  while (Peek().type != Token::Type::kEnd && !Take(text)) Next();
}

void Parser::FailAt(int line, const std::string& message) {
  if (!status_.ok()) return;
  const auto index = static_cast<size_t>(line - 1);
  const absl::string_view text =
      index < lines_->size() ? absl::StripAsciiWhitespace((*lines_)[index]) : "";
  status_ = Invalid("line ", line, ": ", message, ": ", text.substr(0, 200));
}

void Parser::ModuleStatement() {
  const Token& first = Peek();
  if (first.Is(".version")) return ParseVersion();
  if (first.Is(".target")) return ParseTarget();
  if (first.Is(".address_size")) {
    Next();
    if (ParseInteger() != 64) Fail("addresses have 64 bits here");
    return;
  }
  if (first.Is(".file") || first.Is(".loc")) return SkipLine();
  if (Take(".section")) return SkipTo("}");
  if (Take(".visible") || Take(".weak") || Take(".common") || Take(";")) return;
  if (first.Is(".extern") && Peek(1).Is(".func")) return SkipTo(";");
  if (first.Is(".func")) return SkipFunction();
  if (Take(".entry")) return ParseEntry();
  if (first.Is(".extern") || first.Is(".global") || first.Is(".const") || first.Is(".shared")) {
    return ParseModuleArray();
  }
  Fail("unknown directive \"", first.text.substr(0, 40), "\"");
}

void Parser::ParseVersion() {
  Next();
  const std::vector<absl::string_view> parts = absl::StrSplit(Next().text, '.');
  int major = 0, minor = 0;
  const bool read = parts.size() == 2 && absl::SimpleAtoi(parts[0], &major) &&
                    absl::SimpleAtoi(parts[1], &minor) && major > 0 && major < 100 && minor >= 0 &&
                    minor < 10;
  if (!read) return Fail("a version is two numbers");
  module_.version = 10 * major + minor;
}

void Parser::ParseTarget() {
  const int line = Peek().line;
  Next();
  absl::string_view name = Next().text;
  if (!absl::ConsumePrefix(&name, "sm_")) return FailAt(line, "a target is sm_ and a number");
  module_.exact = absl::ConsumeSuffix(&name, "a");
  absl::ConsumeSuffix(&name, "f");
  if (!absl::SimpleAtoi(name, &module_.target) || module_.target < 20 || module_.target > 999) {
    return FailAt(line, "a target is sm_ and a number");
  }
  while (Take(",")) Next();  // texmode_independent, debug
}

// Declarations alone: kernels of Halide call nothing.
void Parser::SkipFunction() {
  const int line = Peek().line;
  while (Peek().type != Token::Type::kEnd && !Peek().Is(";") && !Peek().Is("{")) Next();
  if (!Take(";")) FailAt(line, "functions are not emulated; inline them");
}

uint64_t Parser::ParseInteger() {
  const bool negative = Take("-");
  absl::string_view text = Peek().text;
  absl::ConsumeSuffix(&text, "U");
  uint64_t value = 0;
  bool read = false;
  if (Peek().type == Token::Type::kNumber) {
    if (absl::StartsWith(text, "0x") || absl::StartsWith(text, "0X")) {
      read = absl::SimpleHexAtoi(text, &value);
    } else {
      read = absl::SimpleAtoi(text, &value);
    }
  }
  if (!read) Fail("expected an integer, found \"", text.substr(0, 40), "\"");
  Next();
  return negative ? uint64_t{0} - value : value;
}

Parser::Type Parser::TypeOf(absl::string_view suffix) {
  struct Named {
    absl::string_view name;
    Type type;
  };
  static constexpr Named kTypes[] = {
      {"b8", {1, false, false, true}},   {"u8", {1, false, false, true}},
      {"s8", {1, true, false, true}},    {"b16", {2, false, false, true}},
      {"u16", {2, false, false, true}},  {"s16", {2, true, false, true}},
      {"f16", {2, false, true, true}},   {"bf16", {2, false, true, true}},
      {"b32", {4, false, false, true}},  {"u32", {4, false, false, true}},
      {"s32", {4, true, false, true}},   {"f32", {4, false, true, true}},
      {"f16x2", {4, false, true, true}}, {"bf16x2", {4, false, true, true}},
      {"b64", {8, false, false, true}},  {"u64", {8, false, false, true}},
      {"s64", {8, true, false, true}},   {"f64", {8, false, true, true}},
      {"pred", {0, false, false, true}},
  };
  absl::ConsumePrefix(&suffix, ".");
  for (const Named& named : kTypes) {
    if (named.name == suffix) return named.type;
  }
  return {};
}

void Parser::ParseEntry() {
  kernel_ = Kernel();
  kernel_.lines = lines_;
  registers_.clear();
  ranges_.clear();
  locals_.clear();
  shared_offsets_.clear();
  constant_rows_.clear();
  labels_.clear();
  tables_.clear();
  fixups_.clear();
  dynamic_shared_.clear();
  const auto module_shared = shared_;
  kernel_.name = std::string(Next().text);
  if (module_.Find(kernel_.name) != nullptr) return Fail("a second kernel of this name");
  if (Take("(")) {
    while (Peek().Is(".param")) {
      ParseParameter();
      if (!Take(",")) break;
    }
    Expect(")");
  }
  ParseBounds();
  Expect("{");
  ParseBody();
  FinishKernel();
  shared_ = module_shared;
}

void Parser::ParseBody() {
  int nesting = 1;
  while (nesting > 0 && Peek().type != Token::Type::kEnd) {
    const Token& first = Peek();
    if (Take("{")) {
      if (++nesting > kMaxNesting) Fail("blocks are nested too deeply");
    } else if (Take("}")) {
      --nesting;
    } else if (first.type == Token::Type::kWord && Peek(1).Is(":")) {
      const std::string label(Next().text);
      Next();
      if (Peek().Is(".branchtargets")) {
        ParseBranchTargets(label);
      } else if (!labels_.emplace(label, kernel_.code.size()).second) {
        Fail("a second label \"", label, "\"");
      }
    } else if (first.type == Token::Type::kWord && first.text[0] == '.') {
      ParseDirective();
    } else if (!Take(";")) {
      ParseInstruction();
    }
  }
  if (nesting > 0) Fail("the text ends within a kernel");
}

void Parser::ParseDirective() {
  const Token& first = Peek();
  if (first.Is(".reg")) return ParseRegisters();
  if (first.Is(".pragma")) return SkipTo(";");
  if (first.Is(".loc") || first.Is(".file")) return SkipLine();
  if (first.Is(".shared") || first.Is(".extern")) {
    const ArrayDeclaration array = ParseArray();
    shared_[array.name] = array;
    shared_offsets_.erase(array.name);  // of the module's array of that name
    // A kernel has its own arrays also where it does not use them, and of the module's what it
    // uses.
    if (!array.external) SharedOffset(array.name);
    return;
  }
  if (first.Is(".local")) {
    const ArrayDeclaration array = ParseArray();
    const uint64_t offset =
        (kernel_.local_bytes + array.alignment - 1) / array.alignment * array.alignment;
    if (offset + array.bytes > kMaxLocalBytes) return Fail("more than 512 KiB of local memory");
    locals_[array.name] = offset;
    kernel_.local_bytes = static_cast<uint32_t>(offset + array.bytes);
    return;
  }
  Fail("unknown directive \"", first.text.substr(0, 40), "\"");
}

void Parser::FinishKernel() {
  if (!status_.ok()) return;
  Instruction exit;
  exit.kind = Kind::kExit;
  exit.line = Peek().line;
  kernel_.code.push_back(exit);
  for (const Fixup& fixup : fixups_) {
    const auto found = labels_.find(fixup.label);
    if (found == labels_.end()) {
      return FailAt(fixup.line, absl::StrCat("no label \"", fixup.label, "\""));
    }
    int& target = fixup.table < 0 ? kernel_.code[fixup.instruction].target
                                  : kernel_.branch_tables[fixup.table][fixup.instruction];
    target = found->second;
  }
  // Dynamic shared memory begins after what is declared.
  for (const int index : dynamic_shared_) {
    kernel_.constants[index].value = (kernel_.shared_bytes + 15) / 16 * 16;
  }
  if (kernel_.shared_bytes > kMaxStaticShared) return Fail("more than 48 KiB of shared memory");
  module_.kernels.push_back(std::move(kernel_));
}

}  // namespace kiln::ptx
