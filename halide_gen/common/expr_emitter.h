// SPDX-License-Identifier: Apache-2.0
// ScalarExprs of a Kernel -> Halide expressions. Private: has Halide.h.
//
// A scope says which coordinates the dims have. Stages are read in one of two ways: one that was
// made a Func (Store) by a call of it, any other by its expression in the scope of the reader, or
// in a new scope if it is read at another element. Example: with coordinates (f, x) and s0 not
// stored, `add(s0[a, b], s1[a])` becomes `<expression of s0 at (f, x)> + s1(f)`.
//
// Where all dims but the innermost are collapsed, scope.row is their common row-major index;
// operands and Funcs that span all dims, or all outer ones, are then addressed by it, without
// dividing it up. Likewise where the last dims are collapsed: scope.tail is their index.
#ifndef KILN_HALIDE_GEN_COMMON_EXPR_EMITTER_H_
#define KILN_HALIDE_GEN_COMMON_EXPR_EMITTER_H_

#include <Halide.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "halide_gen/common/primitives.h"
#include "kernel/kernel.h"

namespace kiln {

// True for a read of a Func or an image.
bool IsLoad(const Halide::Internal::Call& call);

// A load of which Halide makes a masked one when it is vectorised.
Halide::Expr LoadIf(const Halide::Expr& condition, const Halide::Expr& load);

// `value` with such loads for all whose address depends on `lane`, but those in `always`; for those
// of one element for all lanes under `of_any`, if that is defined.
Halide::Expr LoadsIf(const Halide::Expr& condition, const Halide::Var& lane,
                     const Halide::Expr& value, const std::vector<Halide::Expr>& always = {},
                     const Halide::Expr& of_any = {});

// What stands for the arguments of a launch, in the order of kernel/abi.h.
struct Operands {
  std::vector<Halide::ImageParam> inputs;  // a dense one is flat: one dimension, all its elements
  std::vector<Halide::Expr> extents;       // int32, one per dim
  std::vector<Halide::Expr> params;        // as in memory: bool is a byte
  std::vector<Halide::Argument> arguments;
  const HalfConversions* halves = nullptr;  // null: as in primitives.h

  static Operands Of(const Kernel& kernel);
};

struct Scope {
  std::vector<Halide::Expr> coordinates;  // int32, one per dim; undefined: dim is not in scope
  Halide::Expr row;
  // What Funcs over rows, and copies of inputs, are called with, where that is not `row` or all
  // coordinates.
  std::vector<Halide::Expr> row_arguments, copy_arguments;
  Halide::Expr lane, tile;
  // The first step of a vector along the collapsed loop, counted over all that is, see tables.h,
  // and the steps from there.
  Halide::Expr start, step;
  // Where the last `flat` dims are collapsed: their common index, undefined in loops that lack some
  // of them.
  int flat = 1;
  Halide::Expr tail;
  // There: the place of the element in operands over all dims, for element-wise loop nests; Funcs
  // over all dims are then called with `row_arguments`.
  Halide::Expr place;
  // Of reads that depend on the lane: lanes where it does not hold lie outside and are not read.
  Halide::Expr inside;

  // What was made in this scope: values of nodes, and the scopes of stages read at other elements.
  using Key = std::pair<int32_t, std::vector<const void*>>;
  std::map<const ScalarExpr*, std::vector<Halide::Expr>> values;
  std::map<Key, std::unique_ptr<Scope>> inner;
};

class ExprEmitter {
 public:
  // Both must outlive the emitter.
  ExprEmitter(const Kernel& kernel, const Operands& operands)
      : kernel_(kernel),
        operands_(operands),
        funcs_(kernel.stages.size()),
        spreads_(kernel.stages.size()),
        copies_(kernel.inputs.size()),
        tables_(kernel.inputs.size()) {}

  // From now on reads of `stage` are calls of `func`. Its arguments are the coordinates of the
  // stage's dims, innermost first; with scopes that have a row: (innermost, row) or (row).
  void Store(int32_t stage, const Halide::Func& func) { funcs_[static_cast<size_t>(stage)] = func; }

  // Reads of `stage`, which has some but not all of the dims that are collapsed, are calls of
  // `spread` in scopes with a tail; it has that in their place.
  void Spread(int32_t stage, const Halide::Func& spread) {
    spreads_[static_cast<size_t>(stage)] = spread;
  }

  // From now on reads of `input` at the reader's own element are calls of `copy`, whose arguments
  // are the coordinates of all iterated dims, innermost first.
  void Copy(size_t input, const Halide::Func& copy) { copies_[input] = copy; }

  // From now on reads of `input`, in scopes with a start, are calls of `table`, in which it comes
  // back after `period` steps, see tables.h.
  void Repeat(size_t input, const Halide::Func& table, const Halide::Expr& period) {
    tables_[input] = {table, period};
  }

  // The value of `expr` at the scope's coordinates.
  Halide::Expr Value(const ScalarExpr& expr, Scope& scope) const;

  // Where the root of `expr`, add_at, adds that value: its index along each axis, outermost first.
  std::vector<Halide::Expr> Places(const KernelOutput& output, Scope& scope) const;

  // That value as an element of `type` in memory.
  Halide::Expr Stored(const ScalarExpr& expr, DType type, Scope& scope) const;

 private:
  const HalfConversions* HalvesOf(DType type) const;  // null: none of the device
  // The value of an element that was read.
  Halide::Expr Element(const Halide::Expr& stored, DType type) const;
  Halide::Expr Node(const ScalarExpr& expr, ExprId id, bool guarded,
                    const std::vector<Halide::Expr>& values, Scope& scope) const;
  Halide::Expr Read(const ExprNode& node, bool guarded, const std::vector<Halide::Expr>& values,
                    Scope& scope) const;
  Halide::Expr ReadInput(const ExprNode& node, const std::vector<Halide::Expr>& index,
                         bool identity, const Scope& scope) const;
  Halide::Expr ReadStage(const ExprNode& node, const std::vector<Halide::Expr>& index,
                         bool identity, Scope& scope) const;
  std::vector<Halide::Expr> FlatArguments(const Stage& stage,
                                          const std::vector<Halide::Expr>& index,
                                          const Scope& scope) const;
  Halide::Expr Index(const IndexExpr& index, const std::vector<Halide::Expr>& values,
                     const Scope& scope, int32_t axis_dim, bool guarded) const;

  const Kernel& kernel_;
  const Operands& operands_;
  std::vector<Halide::Func> funcs_;    // undefined: not stored
  std::vector<Halide::Func> spreads_;  // of stages
  std::vector<Halide::Func> copies_;   // of inputs; undefined: read where they are
  struct Table {
    Halide::Func func;
    Halide::Expr period;
  };
  std::vector<Table> tables_;  // of inputs
};

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_COMMON_EXPR_EMITTER_H_
