// SPDX-License-Identifier: Apache-2.0
// A Kernel made ready for the block VM: passes over the iteration space, each a flat list of typed
// instructions on blocks.
//
// The first `prefix` dims, which every output and reduction has, span the *cells*; cells are
// independent and run in parallel. Within a cell the passes run in order; what one pass leaves for
// later ones lies in temporaries of the cell. Softmax over the last of two dims has prefix 1 (a
// cell is a row), two temporaries for the reductions, one for exp(...), and three passes over b:
//
//   pass 0 lanes:  read, mul, add          -> reduce max into t0
//   pass 1 lanes:  read, mul, add, sub, .. -> store t1, reduce add into t2
//   pass 2 map:    read t1, div            -> output
//
// A block lies along the vector dim, the last of its pass. Where that dim is short, a block of it
// costs more to start than to run: then the launch takes the kernel's *wide* program, whose blocks
// span several dims (launch_state.h). In it nothing is computed once per row, and a cell is a few
// consecutive coordinates of the last dim of the prefix, `group`, which all passes have.
//
// An instruction runs once per worker (constants, parameters), once per row (what does not vary
// along the vector dim; one element), once per element of the reduced dim where that is another
// (one element too), once per place in rows (`inner`: what depends on the coordinate along the
// vector dim and on no other) or once per block. Where a block needs a register of the first three,
// the step of a strip takes one element; for other operations the register is first filled.
#ifndef KILN_EXEC_VM_PROGRAM_H_
#define KILN_EXEC_VM_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "exec/vm/ops.h"
#include "kernel/kernel.h"

namespace kiln::vm {

inline constexpr int kMaxDims = 16;  // correctness: iterated dims
// Elements of a block: of the vector dim alone, which divide the blocks of reductions; and of
// several dims in a wide program. Larger ones cost less for each element to start, but all that a
// pass keeps of a long row should stay in the nearest cache; passes that keep little have up to the
// most.
inline constexpr int64_t kBlock = 512, kMostBlock = 4096;           // speed
inline constexpr int64_t kWideBlock = 1024, kMostWideBlock = 2048;  // speed
inline constexpr int64_t kMapChunk = 4096;  // speed: elements of a row that are one unit of work
inline constexpr size_t kStripPart = 128;   // speed: elements of a strip between fetches of lines

struct Insn {
  enum class Kind : uint8_t { kOp, kRead, kCoordinate, kParam, kConst, kExtent, kFill, kStrip };
  Kind kind = Kind::kOp;
  uint8_t size = 0;  // bytes of an element of dst: kParam, kConst, kFill
  int32_t dst = 0;   // registers; 0 is none
  int32_t a = 0, b = 0, c = 0;
  int32_t ref = 0;  // read, dim, parameter or strip
  uint64_t imm = 0;
  OpFn fn = nullptr;
  // A kOp that may be part of a strip: what it is there, and the types that its operands and its
  // result lie in memory with.
  StepOp step = StepOp::kNone;
  DType from = DType::kF32, to = DType::kF32;
};

// Operations that run together, see step.h. Operands of a step in memory are registers, or slots as
// negative numbers.
struct StripStep {
  StepFn fn;
  StepFn past;  // of a store: the one around the caches, where there is one
  int32_t x = 0, y = 0;
};

struct Strip {
  std::vector<StripStep> steps;
  std::vector<int32_t> reads, writes;  // registers, each once
  std::vector<int32_t> last;           // of those written, the ones after the last load
  size_t first = 0;                    // of the steps among those of the pass
  std::vector<size_t> moving;          // steps with registers that do not stay in one place
};

// One axis of a read whose position is not just a linear function of the coordinates.
struct Axis {
  int32_t axis = 0;
  IndexExpr index;
  int32_t load = 0;    // register with i64 positions, or 0
  bool fixed = false;  // the position loaded is always `position`
  int64_t position = 0;
};

struct Read {
  ReadSource source = ReadSource::kInput;
  int32_t ref = 0;                // input, or temporary
  uint8_t size = 0;               // bytes of an element
  bool guarded = false;           // positions may lie outside: such elements are 0
  bool first = false;             // no pass before reads this input
  bool copy = false;              // the register must not point into the operand
  std::vector<IndexExpr> linear;  // per axis; empty terms and offset for those in `axes`
  std::vector<Axis> axes;
};

struct Sink {
  // kSum: the register is added to the output at places; those along its loaded axes, in registers
  // of i64, are kPlace, which come before.
  enum class Kind : uint8_t { kTemp, kOutput, kReduce, kPlace, kSum };
  bool IsStored() const { return kind == Kind::kTemp || kind == Kind::kOutput; }
  Kind kind = Kind::kOutput;
  uint8_t size = 0;
  // The body may write the register straight to its place: always, or where no output lies over an
  // input.
  bool direct = false, direct_apart = false;
  int32_t reg = 0;
  int32_t ref = 0;      // temporary, output, or axis of it
  bool varies = false;  // kPlace: within a block
  ReduceFns fns = {};   // kReduce, kSum
  uint64_t identity = 0, empty = 0;
};

struct Pass {
  enum class Shape : uint8_t {
    kMap,       // no reduction
    kLanes,     // reduces the innermost dim, which is the vector dim
    kOuter,     // reduces another dim, one block of each of its elements after the other
    kSequence,  // reduces another dim, which is all there is: the vector dim
  };
  Shape shape = Shape::kMap;
  std::vector<int32_t> rows;  // loops around the vector dim, ascending; not the reduced one
  int32_t vec = -1;           // the vector dim; -1: a single element
  int32_t over = -1;          // the reduced dim
  int64_t block = kBlock;     // the most elements of a register
  std::vector<Insn> once, row, each, inner, body;
  std::vector<Strip> strips;
  size_t operations = 0;  // of the body
  size_t num_steps = 0;   // of all strips
  size_t num_slots = 0;   // of any strip
  std::vector<Sink> sinks;
  bool sums = false;               // of its sinks one is kSum: its units run in order
  std::vector<size_t> reg_offset;  // of each register in the frame
  size_t frame_bytes = 0;
  size_t reads_begin = 0, reads_end = 0;  // in Program::reads
};

struct Temp {
  DType type = DType::kF32;
  std::vector<int32_t> stage_dims;  // all of the stage
  std::vector<int32_t> dims;        // those beyond the prefix, which it holds, row-major
};

struct Program {
  Kernel kernel;  // expanded; its inputs, outputs, dims and parameters are those of the text
  const OpTable* ops = nullptr;
  int32_t num_iterated = 0;
  int32_t prefix = 0;
  bool wide = false;
  bool fetches = false;  // operands should be fetched before they are read
  int32_t group = -1;    // wide: the dim that a cell has several coordinates of, or -1
  size_t max_sinks = 0;  // of a pass
  size_t swept = 0;      // passes that go over rows together, see sweep.h
  std::vector<Pass> passes;
  std::vector<Temp> temps;
  std::vector<Read> reads;  // of all passes
};

// kInvalidArgument: Verify or ExpandMath refuses the kernel. kUnimplemented: more than kMaxDims
// iterated dims. With `wide`, null if that program would be the same.
absl::StatusOr<std::unique_ptr<Program>> CompileProgram(const Kernel& kernel, const OpTable& ops,
                                                        bool wide);

}  // namespace kiln::vm

#endif  // KILN_EXEC_VM_PROGRAM_H_
