// SPDX-License-Identifier: Apache-2.0
// Random programs, straight and branching, on the emulator and on the judge: the same bits.
// KILN_PTX_PROGRAMS: how many; KILN_SEED: the first seed.
#include <cstdlib>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/ptx_emulator/judge.h"
#include "tests/ptx_emulator/run_ptx.h"

namespace kiln::ptx {
namespace {

constexpr int kRegisters = 6;  // of each width
constexpr int kWidths[] = {1, 16, 32, 64};

const char* RegisterName(int width) {
  return width == 1 ? "%p" : width == 16 ? "%h" : width == 32 ? "%r" : "%rd";
}

struct Operand {
  int width;
  int index;           // of a register, or -1
  uint64_t immediate;  // of the table of lop3
};

// An operation, or a branch with two arms of which the second may be run in a loop.
struct Statement {
  const JudgedOp* op = nullptr;
  int destination = 0;
  std::vector<Operand> sources;
  int predicate = 0, guard = -1;
  int turns = 0;  // of a loop over `first`; 0: if (predicate) first else second
  std::vector<Statement> first, second;
};

struct Thread {
  uint64_t registers[4][kRegisters] = {};  // by kWidths

  uint64_t& At(int width, int index) {
    return registers[width == 1 ? 0 : width == 16 ? 1 : width == 32 ? 2 : 3][index];
  }
};

class Program {
 public:
  explicit Program(uint64_t seed) : random_(seed) {
    statements_ = Block(14, 2);
    FillRegisters();
  }
  Program(uint64_t seed, const JudgedOp& op) : random_(seed) {
    statements_ = {Operation(op)};
    FillRegisters();
  }

  // A kernel that loads all registers, runs, and stores them.
  std::string Text() {
    std::string body = "mad.wide.u32 %rd9, %r0, 256, %rd0;\n";
    Transfer(body, "ld");
    Emit(statements_, body);
    Transfer(body, "st");
    return KernelText(body);
  }

  std::vector<uint64_t> Inputs() { return Flat(); }
  std::vector<uint64_t> Expected() {
    for (Thread& thread : threads_) Evaluate(statements_, thread);
    return Flat();
  }

 private:
  void FillRegisters() {
    for (int lane = 0; lane < kLanes; ++lane) {
      for (const int width : kWidths) {
        for (int i = 0; i < kRegisters; ++i) threads_[lane].At(width, i) = Value(width);
      }
    }
  }

  size_t Pick(size_t n) { return random_() % n; }

  uint64_t Value(int width) {
    static constexpr uint64_t kSpecial[] = {0,
                                            1,
                                            0x7fff,
                                            0x8000,
                                            0x7c00,
                                            0x7c01,
                                            0x3c00,
                                            0x0400,
                                            0x83ff,
                                            0x7f80,
                                            0x7f800000,
                                            0xff800000,
                                            0x7fc00001,
                                            0x00800000,
                                            0x807fffff,
                                            0x3f800000,
                                            0xbf800000,
                                            0x7f7fffff,
                                            0x4f000000,
                                            0xcf000000,
                                            0x80000000,
                                            0xffffffff,
                                            0x7ff0000000000000,
                                            0xfff0000000000000,
                                            0x7ff8000000000001,
                                            0x000fffffffffffff,
                                            0x8010000000000000,
                                            0x3ff0000000000000,
                                            0x43e0000000000000,
                                            0x7fefffffffffffff,
                                            0x8000000000000000,
                                            ~uint64_t{0},
                                            31,
                                            32,
                                            33};
    if (width == 1) return Pick(2);
    uint64_t value = Pick(3) == 0 ? kSpecial[Pick(std::size(kSpecial))] : random_();
    if (Pick(4) == 0) {  // a float near 1
      value = width == 64   ? 0x3ff0000000000000 + (random_() >> 14) - (random_() >> 14)
              : width == 32 ? 0x3f800000 + (random_() >> 40) - (random_() >> 40)
                            : 0x3c00 + Pick(512);
    }
    return width == 64 ? value : value & ((uint64_t{1} << width) - 1);
  }

  std::vector<Statement> Block(size_t length, int depth) {
    std::vector<Statement> block;
    for (size_t i = 0; i < length; ++i) {
      Statement statement;
      if (depth > 0 && Pick(7) == 0) {
        statement.predicate = static_cast<int>(Pick(kRegisters));
        statement.turns = Pick(3) == 0 ? 1 + static_cast<int>(Pick(3)) : 0;
        statement.first = Block(1 + Pick(4), depth - 1);
        if (statement.turns == 0) statement.second = Block(Pick(4), depth - 1);
      } else {
        statement = Operation(JudgedOps()[Pick(JudgedOps().size())]);
        if (Pick(5) == 0) statement.guard = static_cast<int>(Pick(kRegisters));
      }
      block.push_back(std::move(statement));
    }
    return block;
  }

  Statement Operation(const JudgedOp& op) {
    Statement statement;
    statement.op = &op;
    statement.destination = static_cast<int>(Pick(kRegisters));
    for (const int width : op.sources) {
      const bool immediate = width < 0;
      statement.sources.push_back({immediate ? 32 : width,
                                   immediate ? -1 : static_cast<int>(Pick(kRegisters)),
                                   immediate ? Pick(256) : 0});
    }
    return statement;
  }

  void Emit(const std::vector<Statement>& block, std::string& body) {
    for (const Statement& statement : block) {
      if (statement.op != nullptr) {
        EmitOp(statement, body);
      } else if (statement.turns > 0) {
        const int label = labels_++;
        const std::string counter = absl::StrCat("%r", 10 + label % 10);
        const std::string own = absl::StrCat("%loop", label);
        absl::StrAppend(&body, "{ .reg .b32 ", own, "; .reg .pred %again;\nmov.b32 ", own, ", ",
                        statement.turns, ";\n$L", label, ":\n");
        Emit(statement.first, body);
        absl::StrAppend(&body, "add.s32 ", own, ", ", own, ", -1;\nsetp.ne.s32 %again, ", own,
                        ", 0;\n@%again bra $L", label, ";\n}\n");
      } else {
        const int label = labels_++;
        absl::StrAppend(&body, "@!%p", statement.predicate, " bra $L", label, ";\n");
        Emit(statement.first, body);
        absl::StrAppend(&body, "bra.uni $E", label, ";\n$L", label, ":\n");
        Emit(statement.second, body);
        absl::StrAppend(&body, "$E", label, ":\n");
      }
    }
  }

  static void EmitOp(const Statement& statement, std::string& body) {
    std::vector<std::string> operands = {
        absl::StrCat(RegisterName(statement.op->result), statement.destination)};
    for (const Operand& source : statement.sources) {
      operands.push_back(source.index < 0 ? absl::StrCat(source.immediate)
                                          : absl::StrCat(RegisterName(source.width), source.index));
    }
    if (statement.guard >= 0) absl::StrAppend(&body, "@%p", statement.guard, " ");
    absl::StrAppend(&body, statement.op->name, " ", absl::StrJoin(operands, ", "), ";\n");
  }

  // %r0 is the thread's number until it is loaded; predicates travel as numbers.
  static void Transfer(std::string& body, const std::string& op) {
    int slot = 0;
    for (const int width : kWidths) {
      for (int i = 0; i < kRegisters; ++i, ++slot) {
        const std::string address = absl::StrCat("[%rd9+", 8 * slot, "]");
        const std::string name = absl::StrCat(RegisterName(width), i);
        if (width == 1 && op == "ld") {
          absl::StrAppend(&body, "ld.global.u32 %r19, ", address, ";\nsetp.ne.u32 ", name,
                          ", %r19, 0;\n");
        } else if (width == 1) {
          absl::StrAppend(&body, "selp.b64 %rd18, 1, 0, ", name, ";\nst.global.b64 ", address,
                          ", %rd18;\n");
        } else if (op == "ld") {
          absl::StrAppend(&body, "ld.global.b", width, " ", name, ", ", address, ";\n");
        } else {
          absl::StrAppend(&body, "st.global.b", width, " ", address, ", ", name, ";\n");
        }
      }
    }
  }

  static void Evaluate(const std::vector<Statement>& block, Thread& thread) {
    for (const Statement& statement : block) {
      if (statement.op == nullptr) {
        for (int i = 0; i < statement.turns; ++i) Evaluate(statement.first, thread);
        if (statement.turns > 0) continue;
        const bool taken = thread.At(1, statement.predicate) != 0;
        Evaluate(taken ? statement.first : statement.second, thread);
        continue;
      }
      if (statement.guard >= 0 && thread.At(1, statement.guard) == 0) continue;
      uint64_t sources[4] = {};
      for (size_t i = 0; i < statement.sources.size(); ++i) {
        const Operand& source = statement.sources[i];
        sources[i] = source.index < 0 ? source.immediate : thread.At(source.width, source.index);
      }
      thread.At(statement.op->result, statement.destination) = statement.op->value(sources);
    }
  }

  std::vector<uint64_t> Flat() {
    std::vector<uint64_t> flat;
    for (Thread& thread : threads_) {
      for (const auto& registers : thread.registers) {
        flat.insert(flat.end(), registers, registers + kRegisters);
      }
      flat.resize((flat.size() + 31) / 32 * 32);  // 256 bytes a thread
    }
    return flat;
  }

  std::mt19937_64 random_;
  std::vector<Statement> statements_;
  Thread threads_[kLanes];
  int labels_ = 0;
};

uint64_t Variable(const char* name, uint64_t otherwise) {
  const char* value = secure_getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

void ExpectTheSameBits(Program program, const std::string& what) {
  const std::string text = program.Text();
  PtxRun run(text, 256 * kLanes);
  run.Fill(program.Inputs());
  ASSERT_EQ(run.Launch({1, 1, 1}, {32, 1, 1}), cuda::kSuccess) << run.findings.ToString();
  ASSERT_EQ(run.findings.ToString(), "") << what;
  const std::vector<uint64_t> expected = program.Expected();
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(run.Read<uint64_t>(i), expected[i])
        << what << ", thread " << i / 32 << ", register " << i % 32 << "\n"
        << text;
  }
}

TEST(RandomPrograms, HaveTheBitsOfTheJudge) {
  const uint64_t first = Variable("KILN_SEED", 1), count = Variable("KILN_PTX_PROGRAMS", 4000);
  for (uint64_t seed = first; seed < first + count && !testing::Test::HasFailure(); ++seed) {
    ExpectTheSameBits(Program(seed), absl::StrCat("seed ", seed));
  }
}

TEST(RandomPrograms, EachOperationHasTheBitsOfTheJudge) {
  EXPECT_GT(JudgedOps().size(), 400u);
  for (const JudgedOp& op : JudgedOps()) {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      ExpectTheSameBits(Program(seed, op), absl::StrCat(op.name, ", seed ", seed));
    }
  }
}

}  // namespace
}  // namespace kiln::ptx
