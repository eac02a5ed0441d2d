// SPDX-License-Identifier: Apache-2.0
// PTX text, decoded once: what the machine runs.
//
// Every operand of an instruction is a row (opcodes.h): registers, but also immediates, special
// registers and addresses of variables, whose rows are filled when a launch begins. So
//
//   .visible .entry k(.param .u64 out) {
//     .reg .b64 %rd<2>;  .reg .b32 %r<2>;
//     ld.param.b64 %rd1, [out];
//     mov.u32 %r1, %tid.x;
//     st.global.b32 [%rd1+4], %r1;
//     ret;
//   }
//
// is four instructions and an exit over four rows of its own. Labels are indices of instructions.
// Text is untrusted: what is not understood is an error with the line and its text, and a Module
// refers to no row, instruction or variable that it does not have.
#ifndef KILN_PTX_EMULATOR_MODULE_H_
#define KILN_PTX_EMULATOR_MODULE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ptx_emulator/opcodes.h"

namespace kiln::ptx {

enum class Kind : uint8_t {
  kAlu,          // function: destination[0] from source[]
  kCompare,      // setp and set: see FindOpcode
  kLoad,         // data[] from [source[0] + offset]
  kStore,        // [source[0] + offset] from data[]
  kAtomic,       // data[0] (or nothing) from [source[0] + offset], with source[1], source[2]
  kBranch,       // to target
  kBranchTable,  // to branch_tables[target][source[0]]
  kExit,         //
  kTrap,         //
  kBarrier,      // source[0]: which of 16
  kShuffle,      // data[0] | data[1] from source[0], source[1], source[2]; members source[3]
  kVote,         // data[0] from source[0]; members source[3]
  kReduce,       // data[0] from source[0]; members source[3]
  kSyncWarp,     // members source[3]
  kActiveMask,   // data[0]
  kPack,         // data[0] from source[0..count), `bytes` each
  kUnpack,       // data[0..count) from source[0]
  kNothing,      // fences and prefetches
};
enum class Space : uint8_t { kGlobal, kShared, kLocal, kParam, kGeneric };
enum class ShuffleMode : uint8_t { kUp, kDown, kButterfly, kIndex };
enum class VoteMode : uint8_t { kAll, kAny, kUniform, kBallot };
enum class AtomicOp : uint8_t {
  kAdd,
  kMin,
  kMax,
  kAnd,
  kOr,
  kXor,
  kExchange,
  kCompareSwap,
  kInc,
  kDec
};
enum class Logic : uint8_t { kNone, kAnd, kOr, kXor };

// Rows that every kernel has, in this order, before its own.
enum SpecialRow : int {
  kTidX,
  kTidY,
  kTidZ,
  kNtidX,
  kNtidY,
  kNtidZ,
  kCtaidX,
  kCtaidY,
  kCtaidZ,
  kNctaidX,
  kNctaidY,
  kNctaidZ,
  kLaneId,
  kWarpId,
  kNwarpId,
  kMaskEq,
  kMaskLe,
  kMaskLt,
  kMaskGe,
  kMaskGt,
  kDynamicSharedSize,
  kTotalSharedSize,
  kSpecialRows,
};

inline constexpr int kNoRow = -1;
inline constexpr uint64_t kBarriers = 16;  // of a block

struct Instruction {
  Kind kind = Kind::kAlu;
  Space space = Space::kGlobal;
  uint8_t mode = 0;             // ShuffleMode, VoteMode or AtomicOp
  uint8_t bytes = 4;            // of one element
  uint8_t count = 1;            // of elements
  bool is_signed = false;       // loads extend the sign; atomics and reductions compare with it
  bool aligned = false;         // of barriers: the whole warp must come at once
  bool narrow_address = false;  // source[0] has 32 bits
  bool guard_negated = false;
  bool source_negated = false;  // of source[2] of a comparison, source[0] of a vote
  bool packed = false;          // of comparisons: data[1] is that of the upper halves
  Logic logic = Logic::kNone;   // of comparisons: with source[2]
  int guard = kNoRow;
  int destination = kNoRow;  // of kAlu
  int source[4] = {0, 0, 0, 0};
  int data[4] = {kNoRow, kNoRow, kNoRow, kNoRow};
  int target = 0;
  int line = 0;
  int64_t offset = 0;
  uint64_t true_value = 1;  // of comparisons
  RowFunction function = nullptr;
};

struct Parameter {
  std::string name;
  int bytes, offset;
};

// A row whose lanes all hold value + the address of variable `variable` of the module, if any.
struct Constant {
  int row;
  uint64_t value;
  int variable = -1;
};

// A .global or .const array, to be placed in the device's memory when the module is loaded.
struct Variable {
  std::string name;
  uint64_t bytes = 0;
  std::vector<uint8_t> initial;  // the rest is 0
};

struct Kernel {
  std::string name;
  std::vector<Parameter> parameters;
  int parameter_bytes = 0;
  std::vector<Instruction> code;  // the last one is an exit
  std::vector<std::vector<int>> branch_tables;
  std::vector<Constant> constants;
  int rows = kSpecialRows;
  int registers = 0;                           // rows that are registers
  uint32_t local_bytes = 0, shared_bytes = 0;  // declared ones
  uint32_t max_threads = 1024;
  uint32_t required_block[3] = {0, 0, 0};  // .reqntid; 0: any
  // Sizes of the smallest elements that are accessed, 4 at most: what races are told apart by.
  int global_granule = 4, shared_granule = 4;
  std::shared_ptr<const std::vector<std::string>> lines;  // of the module's text

  // The text of an instruction, without blanks around it.
  absl::string_view TextOf(const Instruction& instruction) const;
};

struct Module {
  int version = 0;     // 78: PTX 7.8
  int target = 0;      // 80: sm_80
  bool exact = false;  // sm_90a, which runs on no other
  std::vector<Variable> variables;
  std::vector<Kernel> kernels;

  const Kernel* Find(absl::string_view name) const;
};

// kInvalidArgument: `line 12: unknown opcode "foo.b32": foo.b32 %r1, %r2;`. Thread-safe.
absl::StatusOr<Module> Parse(absl::string_view text);

}  // namespace kiln::ptx

#endif  // KILN_PTX_EMULATOR_MODULE_H_
