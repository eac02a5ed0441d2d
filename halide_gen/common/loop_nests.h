// SPDX-License-Identifier: Apache-2.0
// What the loop nests of all devices are made of: extents and coordinates of dims that are
// collapsed, and Funcs of a kernel's outputs. Private: has Halide.h.
#ifndef KILN_HALIDE_GEN_COMMON_LOOP_NESTS_H_
#define KILN_HALIDE_GEN_COMMON_LOOP_NESTS_H_

#include <Halide.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "halide_gen/common/expr_emitter.h"
#include "kernel/kernel.h"

namespace kiln {

// The product of the extents of `dims`, or of those from `first` to before `end`, as int32.
Halide::Expr ExtentOf(const Operands& operands, const std::vector<int32_t>& dims);
Halide::Expr ExtentOf(const Operands& operands, int first, int end);

// Sets the coordinates of those dims to where `rest`, their common row-major index, is.
void SetCoordinates(const Operands& operands, Halide::Expr rest, const std::vector<int32_t>& dims,
                    Scope& scope);
void SetCoordinates(const Operands& operands, const Halide::Expr& rest, int first, int end,
                    Scope& scope);

// Products of extents, as int32: of all iterated dims but the last `flat`, 1 for none; and of
// those.
Halide::Expr RowCount(const Kernel& kernel, const Operands& operands, int flat = 1);
Halide::Expr TailLength(const Kernel& kernel, const Operands& operands, int flat);

// The place of an element in a row-major operand over `dims`, at the coordinates of all dims.
Halide::Expr RowMajor(const Operands& operands, const std::vector<int32_t>& dims,
                      const std::vector<Halide::Expr>& coordinates);

// The scope of a nest with the coordinates `row` (undefined if there are no outer dims) and `x`
// (undefined in loops over rows).
Scope RowScope(const Kernel& kernel, const Operands& operands, const Halide::Expr& row,
               const Halide::Expr& x);

// Groups the outputs whose dims and layout are equal, so that one nest can make them.
std::vector<std::vector<size_t>> GroupOutputs(const Kernel& kernel);

// Defines a Func of the outputs `group` over `vars` (innermost first) from their values in `scope`.
Halide::Func DefineOutputs(const std::vector<size_t>& group, const std::vector<Halide::Var>& vars,
                           const std::vector<Halide::Expr>& values);
Halide::Func DefineOutputs(const Kernel& kernel, const std::vector<size_t>& group,
                           const std::vector<Halide::Var>& vars, const ExprEmitter& emitter,
                           Scope& scope);

// The same with a loop `dims` for each dim, outermost first; outputs are dense.
Halide::Func DefineOverDims(const Kernel& kernel, const Operands& operands,
                            const std::vector<size_t>& group, const std::vector<Halide::Var>& dims);

// The values, as in memory, of the outputs `group` in `scope`; and a Func of them over `vars` with
// no value yet, for nests that fill it by updates.
std::vector<Halide::Expr> OutputValues(const Kernel& kernel, const std::vector<size_t>& group,
                                       const ExprEmitter& emitter, Scope& scope);
Halide::Func UndefinedOutputs(const Kernel& kernel, const std::vector<size_t>& group,
                              const std::vector<Halide::Var>& vars);

// Gives `func` at `at` these values.
void SetValues(Halide::Func& func, const std::vector<Halide::Expr>& at,
               const std::vector<Halide::Expr>& values);

// Says that the buffers of `func` have these extents (innermost first) and min 0; with SetDense,
// that they are dense.
void SetExtents(Halide::Func& func, const std::vector<Halide::Expr>& extents);
void SetDense(Halide::Func& func, const std::vector<Halide::Expr>& extents);

// Makes one loop of `vars`, innermost first, of a Func or Stage; returns it.
template <typename Schedulable>
Halide::Var Fused(Schedulable& of, const std::vector<Halide::Var>& vars) {
  Halide::Var all = vars[0];
  for (size_t i = 1; i < vars.size(); ++i) {
    const Halide::Var fused("pfused" + std::to_string(i) + "v");
    of.fuse(all, vars[i], fused);
    all = fused;
  }
  return all;
}

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_COMMON_LOOP_NESTS_H_
