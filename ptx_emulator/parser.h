// SPDX-License-Identifier: Apache-2.0
// The parser of one module: its outline (parser.cc), declarations (declarations.cc), operands
// (operands.cc), and instructions, one method per family (decode.cc). Private to the component.
//
// The first error stays: after it Peek() is the end of the text, so every loop ends, and what is
// made meanwhile is thrown away.
#ifndef KILN_PTX_EMULATOR_PARSER_H_
#define KILN_PTX_EMULATOR_PARSER_H_

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ptx_emulator/lexer.h"
#include "ptx_emulator/module.h"

namespace kiln::ptx {

class Parser {
 public:
  explicit Parser(absl::string_view text);
  absl::StatusOr<Module> Run();

 private:
  struct Register {
    int row;
    int bytes;  // 0: a predicate
  };
  // %r<10>: registers of that name and a number below 10 have rows when they are first used.
  struct RegisterRange {
    int bytes;
    uint64_t count;
  };
  struct ArrayDeclaration {
    std::string name;
    uint64_t bytes = 0, alignment = 4;
    int element = 1;
    bool external = false;  // its size is given by the launch
  };
  struct Type {
    int bytes = 4;
    bool is_signed = false, is_float = false, known = false;
  };
  struct Fixup {
    int instruction;
    int table;  // -1: the instruction's own target
    std::string label;
    int line;
  };

  // ---- tokens
  const Token& Peek(size_t ahead = 0) const;
  Token Next();
  bool Take(absl::string_view text);  // true and on, if it is there
  void Expect(absl::string_view text);
  void SkipLine();
  void SkipTo(absl::string_view text);
  template <typename... T>
  void Fail(const T&... message) {
    FailAt(Peek().line, absl::StrCat(message...));
  }
  void FailAt(int line, const std::string& message);

  // ---- directives
  void ModuleStatement();
  void ParseTarget();
  void ParseVersion();
  void SkipFunction();
  void ParseEntry();
  void ParseParameter();
  void ParseBounds();
  void ParseBody();
  void ParseDirective();
  void ParseRegisters();
  void ParseBranchTargets(const std::string& label);
  ArrayDeclaration ParseArray();
  void ParseModuleArray();
  void ParseInitial(const ArrayDeclaration& array, Variable& variable);
  void FinishKernel();
  uint64_t ParseInteger();
  static Type TypeOf(absl::string_view suffix);

  // ---- operands
  int NewRow() { return kernel_.rows++; }
  int ConstantRow(uint64_t value, int variable = -1);
  const Register* FindRegister(absl::string_view name);
  int RegisterOperand(int bytes);
  int SourceOperand(OperandType type);
  int Immediate(OperandType type, bool negative);
  int SymbolOperand(absl::string_view name);
  uint64_t SharedOffset(const std::string& name);
  void AddressOperand();
  void VectorOperand(int* rows, int bytes, bool source);
  int SinkOrRegister(int bytes);

  // ---- instructions
  void ParseInstruction();
  void ParseGuard();
  void DecodeByFamily();
  bool DecodeSimple();
  void DecodeMemory();
  void DecodeAtomic();
  void DecodeCompare();
  void DecodeAlu(const Opcode& opcode);
  bool DecodeVectorMove();
  void DecodeBarrier();
  void DecodeShuffle();
  void DecodeVote();
  void DecodeReduce();
  void DecodeBranch();
  bool Has(absl::string_view modifier) const;

  absl::string_view text_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  Token end_;
  absl::Status status_;
  std::shared_ptr<std::vector<std::string>> lines_;
  Module module_;
  std::map<std::string, int> variables_;            // of the module
  std::map<std::string, ArrayDeclaration> shared_;  // of the module and the kernel
  // ---- of the kernel that is being parsed
  Kernel kernel_;
  std::unordered_map<std::string, Register> registers_;
  std::unordered_map<std::string, RegisterRange> ranges_;
  std::map<std::string, uint64_t> locals_, shared_offsets_;
  std::map<std::pair<uint64_t, int>, int> constant_rows_;
  std::map<std::string, int> labels_, tables_;
  std::vector<Fixup> fixups_;
  std::vector<int> dynamic_shared_;  // constants that are the start of dynamic shared memory
  // ---- of the instruction
  Instruction instruction_;
  std::string opcode_;
  std::vector<absl::string_view> parts_;  // of opcode_, between its dots
};

}  // namespace kiln::ptx

#endif  // KILN_PTX_EMULATOR_PARSER_H_
