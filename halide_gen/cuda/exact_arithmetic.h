// SPDX-License-Identifier: Apache-2.0
// Lowering passes that keep a device's floats the bits of the Kernel. Private: has Halide.h.
//
// LLVM prints the operators of Halide as `mul.f32` and `add.f32`, which the assembler of PTX may
// fuse into one fma; with a rounding in its name (`mul.rn.f32`) an instruction stays as it is.
// Other comparisons, selects and conversions are exact as they are.
#ifndef KILN_HALIDE_GEN_CUDA_EXACT_ARITHMETIC_H_
#define KILN_HALIDE_GEN_CUDA_EXACT_ARITHMETIC_H_

#include <Halide.h>

#include <string>
#include <utility>
#include <vector>

namespace kiln {

// Float arithmetic as calls of NVVM's functions that round to nearest even; a - b is fma(b, -1, a),
// for which there is an instruction and no such function. What extends the sign of a byte is a call
// of the device library: of four that are loaded as one word LLVM 21 compares them as if they had
// none, even where the text compares what they are cast to.
class ExactArithmetic : public Halide::Internal::IRMutator {
 protected:
  using IRMutator::visit;
  Halide::Expr visit(const Halide::Internal::Add* op) override;
  Halide::Expr visit(const Halide::Internal::Sub* op) override;
  Halide::Expr visit(const Halide::Internal::Mul* op) override;
  Halide::Expr visit(const Halide::Internal::Div* op) override;
  Halide::Expr visit(const Halide::Internal::LT* op) override;
  Halide::Expr visit(const Halide::Internal::LE* op) override;
  Halide::Expr visit(const Halide::Internal::GT* op) override;
  Halide::Expr visit(const Halide::Internal::GE* op) override;
  Halide::Expr visit(const Halide::Internal::Cast* op) override;
  Halide::Expr visit(const Halide::Internal::Call* op) override;

 private:
  template <typename Op>
  Halide::Expr Compare(const Op* op);
};

// What is computed before the loops of a grid, for all threads, is host code: integers of 32 bits
// stay, as terms of the launch recipe; all else moves into the threads.
class ScalarsInThreads : public Halide::Internal::IRMutator {
 protected:
  using IRMutator::visit;
  Halide::Internal::Stmt visit(const Halide::Internal::LetStmt* op) override;
  Halide::Internal::Stmt visit(const Halide::Internal::For* op) override;

 private:
  std::vector<std::pair<std::string, Halide::Expr>> sunk_;  // outermost first
};

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CUDA_EXACT_ARITHMETIC_H_
