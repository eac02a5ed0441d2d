// SPDX-License-Identifier: Apache-2.0
// Instructions: a method for each family, and the table of opcodes for all arithmetic.
#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "ptx_emulator/parser.h"

namespace kiln::ptx {
namespace {

template <typename Value>
struct Choice {
  absl::string_view name;
  Value value;
};

// The value of the first modifier that the table names.
template <typename Value, size_t n>
const Value* FindChoice(const Choice<Value> (&choices)[n],
                        const std::vector<absl::string_view>& parts) {
  for (const absl::string_view part : parts) {
    for (const Choice<Value>& choice : choices) {
      if (choice.name == part) return &choice.value;
    }
  }
  return nullptr;
}

constexpr Choice<Space> kSpaces[] = {
    {"global", Space::kGlobal},      {"const", Space::kGlobal}, {"shared", Space::kShared},
    {"shared::cta", Space::kShared}, {"local", Space::kLocal},  {"param", Space::kParam},
    {"param::entry", Space::kParam},
};
constexpr Choice<ShuffleMode> kShuffles[] = {
    {"up", ShuffleMode::kUp},
    {"down", ShuffleMode::kDown},
    {"bfly", ShuffleMode::kButterfly},
    {"idx", ShuffleMode::kIndex},
};
constexpr Choice<VoteMode> kVotes[] = {
    {"all", VoteMode::kAll},
    {"any", VoteMode::kAny},
    {"uni", VoteMode::kUniform},
    {"ballot", VoteMode::kBallot},
};
constexpr Choice<AtomicOp> kAtomics[] = {
    {"add", AtomicOp::kAdd},       {"min", AtomicOp::kMin},         {"max", AtomicOp::kMax},
    {"and", AtomicOp::kAnd},       {"or", AtomicOp::kOr},           {"xor", AtomicOp::kXor},
    {"exch", AtomicOp::kExchange}, {"cas", AtomicOp::kCompareSwap}, {"inc", AtomicOp::kInc},
    {"dec", AtomicOp::kDec},
};
constexpr Choice<Logic> kLogics[] = {
    {"and", Logic::kAnd},
    {"or", Logic::kOr},
    {"xor", Logic::kXor},
};
// What ld, st and atom may say besides, and what it changes: nothing.
constexpr absl::string_view kOrderings[] = {
    "volatile", "relaxed", "acquire", "release", "acq_rel", "weak",
    "sys",      "cta",     "gpu",     "cluster", "nc",
};

bool ChangesNothing(absl::string_view modifier) {
  return absl::StartsWith(modifier, "L1::") || absl::StartsWith(modifier, "L2::") ||
         std::find(std::begin(kOrderings), std::end(kOrderings), modifier) != std::end(kOrderings);
}

}  // namespace

bool Parser::Has(absl::string_view modifier) const {
  return std::find(parts_.begin(), parts_.end(), modifier) != parts_.end();
}

void Parser::ParseInstruction() {
  instruction_ = Instruction();
  instruction_.line = Peek().line;
  const int line = Peek().line;
  ParseGuard();
  opcode_ = std::string(Peek().text);
  if (Peek().type != Token::Type::kWord) return Fail("expected an instruction");
  Next();
  parts_ = absl::StrSplit(opcode_, '.');
  if (const absl::string_view why = WhyNotStrict(opcode_); !why.empty()) {
    return FailAt(line, absl::StrCat("\"", opcode_, "\" is refused: ", why));
  }
  DecodeByFamily();
  Expect(";");
  if (status_.ok()) kernel_.code.push_back(instruction_);
}

void Parser::ParseGuard() {
  if (!Take("@")) return;
  instruction_.guard_negated = Take("!");
  instruction_.guard = RegisterOperand(0);
}

void Parser::DecodeByFamily() {
  struct Family {
    absl::string_view name;
    void (Parser::*decode)();
  };
  static constexpr Family kFamilies[] = {
      {"ld", &Parser::DecodeMemory},       {"ldu", &Parser::DecodeMemory},
      {"st", &Parser::DecodeMemory},       {"atom", &Parser::DecodeAtomic},
      {"red", &Parser::DecodeAtomic},      {"setp", &Parser::DecodeCompare},
      {"set", &Parser::DecodeCompare},     {"bar", &Parser::DecodeBarrier},
      {"barrier", &Parser::DecodeBarrier}, {"shfl", &Parser::DecodeShuffle},
      {"vote", &Parser::DecodeVote},       {"redux", &Parser::DecodeReduce},
      {"bra", &Parser::DecodeBranch},      {"brx", &Parser::DecodeBranch},
  };
  for (const Family& family : kFamilies) {
    if (family.name == parts_[0]) return (this->*family.decode)();
  }
  if (DecodeSimple() || DecodeVectorMove()) return;
  const Opcode* opcode = FindOpcode(opcode_);
  if (opcode == nullptr) return FailAt(instruction_.line, "unknown opcode \"" + opcode_ + "\"");
  DecodeAlu(*opcode);
}

bool Parser::DecodeSimple() {
  static constexpr Choice<Kind> kSimple[] = {
      {"ret", Kind::kExit},          {"exit", Kind::kExit},
      {"trap", Kind::kTrap},         {"fence", Kind::kNothing},
      {"membar", Kind::kNothing},    {"prefetch", Kind::kNothing},
      {"prefetchu", Kind::kNothing}, {"activemask", Kind::kActiveMask},
  };
  const Kind* kind = FindChoice(kSimple, {parts_[0]});
  if (kind == nullptr) return false;
  instruction_.kind = *kind;
  if (*kind == Kind::kActiveMask) instruction_.data[0] = RegisterOperand(4);
  if (absl::StartsWith(parts_[0], "prefetch")) {
    AddressOperand();  // not followed: a prefetch of any address is harmless
  }
  return true;
}

void Parser::DecodeAlu(const Opcode& opcode) {
  instruction_.destination = RegisterOperand(opcode.destination.bytes);
  instruction_.function = opcode.function;
  for (int i = 0; i < opcode.sources; ++i) {
    Expect(",");
    OperandType type = opcode.source[i];
    const bool move = parts_[0] == "mov" || parts_[0] == "selp";
    const absl::string_view text = Peek().text;
    if (move) {  // also of bits
      type.is_float = absl::StartsWith(text, "0f") || absl::StartsWith(text, "0d") ||
                      (Peek().type == Token::Type::kNumber && absl::StrContains(text, "."));
    }
    instruction_.source[i] = SourceOperand(type);
  }
}

bool Parser::DecodeVectorMove() {
  if (parts_[0] != "mov" || parts_.size() != 2) return false;
  const int bytes = TypeOf(parts_[1]).bytes;
  int commas = 0;  // of the destination or the source, whichever has braces
  for (size_t i = 0; !Peek(i).Is(";") && Peek(i).type != Token::Type::kEnd; ++i) {
    commas += Peek(i).Is(",") ? 1 : 0;
  }
  const bool unpack = Peek().Is("{");
  if (!unpack && !Peek(2).Is("{")) return false;
  if (commas != 2 && commas != 4) {
    Fail("a vector of two or four");
    return true;
  }
  const int element = bytes / commas;
  if (element == 0) {
    Fail("too small for a vector");
    return true;
  }
  instruction_.bytes = static_cast<uint8_t>(element);
  instruction_.kind = unpack ? Kind::kUnpack : Kind::kPack;
  if (unpack) {
    VectorOperand(instruction_.data, element, false);
    Expect(",");
    instruction_.source[0] = SourceOperand({static_cast<uint8_t>(bytes), false});
  } else {
    instruction_.data[0] = RegisterOperand(bytes);
    Expect(",");
    VectorOperand(instruction_.source, element, true);
  }
  if (instruction_.count != commas) Fail("a vector of two or four");
  return true;
}

void Parser::DecodeMemory() {
  const bool load = parts_[0] != "st";
  instruction_.kind = load ? Kind::kLoad : Kind::kStore;
  const Space* space = FindChoice(kSpaces, parts_);
  instruction_.space = space == nullptr ? Space::kGeneric : *space;
  const Type type = TypeOf(parts_.back());
  int vector = 1;
  for (size_t i = 1; i + 1 < parts_.size(); ++i) {
    const std::vector<absl::string_view> one = {parts_[i]};
    if (parts_[i] == "v2") {
      vector = 2;
    } else if (parts_[i] == "v4") {
      vector = 4;
    } else if (FindChoice(kSpaces, one) == nullptr && !ChangesNothing(parts_[i])) {
      return FailAt(instruction_.line, "unknown opcode \"" + opcode_ + "\"");
    }
  }
  if (!type.known || type.bytes == 0 || parts_.size() < 2) {
    return FailAt(instruction_.line, "unknown opcode \"" + opcode_ + "\"");
  }
  if (type.bytes * vector > 16) return Fail("an access of more than 16 bytes");
  if (!load && (instruction_.space == Space::kParam || Has("const"))) {
    return Fail("a store to memory that is read only");
  }
  instruction_.bytes = static_cast<uint8_t>(type.bytes);
  instruction_.is_signed = type.is_signed;
  if (load) {
    VectorOperand(instruction_.data, type.bytes, false);
    Expect(",");
    AddressOperand();
  } else {
    AddressOperand();
    Expect(",");
    VectorOperand(instruction_.data, type.bytes, true);
  }
  if (instruction_.count != vector) Fail("another number of registers than ", vector);
  const bool generic = instruction_.space == Space::kGeneric;
  if (generic || instruction_.space == Space::kGlobal) {
    kernel_.global_granule = std::min(kernel_.global_granule, type.bytes);
  }
  if (generic || instruction_.space == Space::kShared) {
    kernel_.shared_granule = std::min(kernel_.shared_granule, type.bytes);
  }
}

void Parser::DecodeAtomic() {
  const Space* space = FindChoice(kSpaces, parts_);
  const AtomicOp* op = FindChoice(kAtomics, parts_);
  const Type type = TypeOf(parts_.back());
  for (size_t i = 1; i + 1 < parts_.size(); ++i) {
    const std::vector<absl::string_view> one = {parts_[i]};
    if (FindChoice(kSpaces, one) == nullptr && FindChoice(kAtomics, one) == nullptr &&
        !ChangesNothing(parts_[i])) {
      return FailAt(instruction_.line, "unknown opcode \"" + opcode_ + "\"");
    }
  }
  const bool placed = space == nullptr || *space == Space::kGlobal || *space == Space::kShared;
  if (op == nullptr || !placed || type.bytes < 4 || type.is_float) {
    return FailAt(instruction_.line, "unknown opcode \"" + opcode_ + "\"");
  }
  instruction_.kind = Kind::kAtomic;
  instruction_.space = space == nullptr ? Space::kGeneric : *space;
  instruction_.mode = static_cast<uint8_t>(*op);
  instruction_.bytes = static_cast<uint8_t>(type.bytes);
  instruction_.is_signed = type.is_signed;
  if (parts_[0] == "atom") {
    instruction_.data[0] = SinkOrRegister(type.bytes);
    Expect(",");
  }
  AddressOperand();
  for (int i = 1; i <= (*op == AtomicOp::kCompareSwap ? 2 : 1); ++i) {
    Expect(",");
    instruction_.source[i] = SourceOperand({static_cast<uint8_t>(type.bytes), false});
  }
}

// setp.lt.and.s32 p|q, a, b, !c; set.lt.u32.f32 d, a, b;
void Parser::DecodeCompare() {
  const bool set = parts_[0] == "set";
  const bool logic = parts_.size() == (set ? 5 : 4);
  const Logic* combined = logic ? FindChoice(kLogics, {parts_[2]}) : nullptr;
  const Opcode* opcode = parts_.size() < 3
                             ? nullptr
                             : FindOpcode(absl::StrCat("setp.", parts_[1], ".", parts_.back()));
  if (opcode == nullptr || logic != (combined != nullptr) ||
      (!logic && parts_.size() != (set ? 4 : 3))) {
    return FailAt(instruction_.line, "unknown opcode \"" + opcode_ + "\"");
  }
  instruction_.packed = absl::EndsWith(opcode_, "x2");
  instruction_.function = opcode->function;
  const Type to = set ? TypeOf(parts_[parts_.size() - 2]) : Type{0, false, false, true};
  if (set) {
    if (to.bytes < 2 || to.bytes > 4 || instruction_.packed) return Fail("unknown type of set");
    instruction_.true_value = to.is_float ? (to.bytes == 4 ? 0x3f800000 : 0x3c00) : ~uint64_t{0};
    if (parts_[parts_.size() - 2] == "bf16") instruction_.true_value = 0x3f80;
  }
  instruction_.data[0] = SinkOrRegister(to.bytes);
  if (!set && Take("|")) instruction_.data[1] = SinkOrRegister(0);
  for (int i = 0; i < 2; ++i) {
    Expect(",");
    instruction_.source[i] = SourceOperand(opcode->source[i]);
  }
  if (combined != nullptr) {
    Expect(",");
    instruction_.logic = *combined;
    instruction_.source_negated = Take("!");
    instruction_.source[2] = RegisterOperand(0);
  }
  // The plain form is one function on one row, as arithmetic is.
  const bool plain = !set && combined == nullptr && !instruction_.packed &&
                     instruction_.data[1] == kNoRow && instruction_.data[0] != kNoRow;
  instruction_.kind = plain ? Kind::kAlu : Kind::kCompare;
  instruction_.destination = instruction_.data[0];
}

void Parser::DecodeBarrier() {
  if (opcode_ == "bar.warp.sync") {
    instruction_.kind = Kind::kSyncWarp;
    instruction_.source[3] = SourceOperand({4, false});
    return;
  }
  if (!Has("sync") || Has("red") || Has("arrive")) {
    return FailAt(instruction_.line, "unknown opcode \"" + opcode_ + "\"");
  }
  instruction_.kind = Kind::kBarrier;
  instruction_.aligned = parts_[0] == "bar" || Has("aligned");
  if (Peek().type == Token::Type::kNumber || Peek().Is("-")) {
    const uint64_t number = ParseInteger();
    if (number >= kBarriers) Fail("barrier ", number, " is none of the ", kBarriers, " of a block");
    instruction_.source[0] = ConstantRow(number);
  } else {
    instruction_.source[0] = SourceOperand({4, false});
  }
  if (Take(",")) Fail("a barrier of a part of the block is not emulated");
}

void Parser::DecodeShuffle() {
  const ShuffleMode* mode = FindChoice(kShuffles, parts_);
  if (mode == nullptr || !Has("sync") || parts_.back() != "b32" || parts_.size() != 4) {
    return FailAt(instruction_.line, "unknown opcode \"" + opcode_ + "\"");
  }
  instruction_.kind = Kind::kShuffle;
  instruction_.mode = static_cast<uint8_t>(*mode);
  instruction_.data[0] = SinkOrRegister(4);
  if (Take("|")) instruction_.data[1] = RegisterOperand(0);
  for (int i = 0; i < 4; ++i) {
    Expect(",");
    instruction_.source[i] = SourceOperand({4, i == 0 && absl::StartsWith(Peek().text, "0f")});
  }
}

void Parser::DecodeVote() {
  const VoteMode* mode = FindChoice(kVotes, parts_);
  if (mode == nullptr || parts_.size() != 4 || !Has("sync") ||
      parts_[3] != (*mode == VoteMode::kBallot ? "b32" : "pred")) {
    return FailAt(instruction_.line, "unknown opcode \"" + opcode_ + "\"");
  }
  instruction_.kind = Kind::kVote;
  instruction_.mode = static_cast<uint8_t>(*mode);
  instruction_.data[0] = RegisterOperand(*mode == VoteMode::kBallot ? 4 : 0);
  Expect(",");
  instruction_.source_negated = Take("!");
  instruction_.source[0] = RegisterOperand(0);
  Expect(",");
  instruction_.source[3] = SourceOperand({4, false});
}

void Parser::DecodeReduce() {
  const AtomicOp* op = FindChoice(kAtomics, parts_);
  const Type type = TypeOf(parts_.back());
  if (op == nullptr || parts_.size() != 4 || type.bytes != 4 || type.is_float ||
      *op > AtomicOp::kXor) {
    return FailAt(instruction_.line, "unknown opcode \"" + opcode_ + "\"");
  }
  instruction_.kind = Kind::kReduce;
  instruction_.mode = static_cast<uint8_t>(*op);
  instruction_.is_signed = type.is_signed;
  instruction_.data[0] = RegisterOperand(4);
  Expect(",");
  instruction_.source[0] = SourceOperand({4, false});
  Expect(",");
  instruction_.source[3] = SourceOperand({4, false});
}

void Parser::DecodeBranch() {
  if (parts_[0] == "bra") {
    instruction_.kind = Kind::kBranch;
    fixups_.push_back(
        {static_cast<int>(kernel_.code.size()), -1, std::string(Peek().text), instruction_.line});
    Next();
    return;
  }
  instruction_.kind = Kind::kBranchTable;
  instruction_.source[0] = SourceOperand({4, false});
  Expect(",");
  const auto table = tables_.find(std::string(Peek().text));
  if (table == tables_.end()) return Fail("no .branchtargets of this name before");
  instruction_.target = table->second;
  Next();
}

}  // namespace kiln::ptx
