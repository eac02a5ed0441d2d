// SPDX-License-Identifier: Apache-2.0
// The loop nests of the schedule templates: (Kernel with expanded functions, Schedule) -> scheduled
// Funcs.
// Private: has Halide.h.
#ifndef KILN_HALIDE_GEN_CPU_NESTS_H_
#define KILN_HALIDE_GEN_CPU_NESTS_H_

#include <Halide.h>

#include <string>
#include <vector>

#include "halide_gen/common/expr_emitter.h"
#include "halide_gen/common/loop_nests.h"
#include "kernel/kernel.h"
#include "schedule/cpu/templates.h"
#include "schedule/schedule.h"

namespace kiln {

// Outputs made by one loop nest: a Func whose values are kernel outputs `outputs`, in that order.
struct OutputNest {
  Halide::Func func;
  std::vector<size_t> outputs;
};

// The builder of each template, in its own file: what BuildName makes of a schedule of kName.
#define KILN_DECLARE_BUILDER(Name)                                                    \
  std::vector<OutputNest> Build##Name(const Kernel& kernel, const Schedule& schedule, \
                                      const Operands& operands);
KILN_CPU_TEMPLATES(KILN_DECLARE_BUILDER)
#undef KILN_DECLARE_BUILDER

// The builder of the schedule's template.
std::vector<OutputNest> BuildNests(const Kernel& kernel, const Schedule& schedule,
                                   const Operands& operands);

// Parts of builders that others use.

// The rows of kRowReduction; `fused`: in blocks of as many rows as a reduction over an outer dim
// combines, along with which nests of StagedNests run.
std::vector<OutputNest> RowNests(const Kernel& kernel, const RowReduction& schedule, bool fused,
                                 const Operands& operands);
// With `rows`, a nest of fused RowNests, the blocks of reductions over the outer dim run along with
// its.
std::vector<OutputNest> StagedNests(const Kernel& kernel, const Staged& schedule,
                                    const Operands& operands, const Halide::Func* rows = nullptr);

// ---- Shared by them.

// The reduction `stage` over the innermost dim, for every row: a Func of the row, computed before
// all else. It is over other dims too, which are not reduced yet, and reads whole rows of inputs.
Halide::Func ReducedRows(const Kernel& kernel, size_t stage, const Staged& schedule,
                         const Operands& operands);

// How many of the last dims are collapsed into one loop, in vectors of `step`.
struct CollapsedDims {
  int dims = 1, step = 16;
};

// The same where the last dims are collapsed, at `x`.
Scope FlatScope(const Kernel& kernel, const CollapsedDims& collapsed, const Operands& operands,
                const Halide::Expr& row, const Halide::Expr& x);

// The loops over the outputs of such a nest, `x` and what is outside of it, and their extents.
// Strides are those of a buffer, which has all the dims.
struct FlatLoops {
  std::vector<Halide::Var> vars;
  std::vector<Halide::Expr> extents;
};
FlatLoops LoopsOfFlat(const Kernel& kernel, int collapsed, const Operands& operands,
                      const Halide::Var& x, const Halide::Var& row);

// A Func is computed at one place only. The stages over just `dims` that stand on reductions and
// that outputs read, if outputs of several `groups` read such: one nest may compute them for all.
std::vector<size_t> SharedStages(const Kernel& kernel,
                                 const std::vector<std::vector<size_t>>& groups,
                                 const std::vector<int32_t>& dims);

// Of `count` rows with `each` elements, how many make a task: about `grain` elements, and an eighth
// of that where there would be a few tasks only: threads take equal numbers of them, and lines that
// another thread wrote come slowly, so that all kernels should cut what they share alike. Without
// `count`, always about `grain`.
Halide::Expr PerTask(int64_t grain, const Halide::Expr& each,
                     const Halide::Expr& count = Halide::Expr());

// The outermost loops of nests that run together: tasks of blocks of kOuterReduceBlock rows. Halide
// runs loops of one name together, and takes what a loop was split off for a part of its name:
// `number` has that of ReductionLevel::block.
struct BlockLoops {
  Halide::Var number{"block"}, task{"ptask"}, block{"pblock"};
  Halide::Expr blocks, per_task;
};
BlockLoops BlocksOf(const Halide::Expr& rows, const Halide::Expr& length, int64_t grain);

// How many short rows of `length` a stage takes, `most` or fewer: no more than four of the longest
// that are short, so that what a stage leaves is near for the next.
Halide::Expr RowsPerBlock(const Halide::Expr& length, int most);

// Vectorises `func` along `x`. The tail is told apart at each step, at the cost of a compare:
// Halide would make a loop for it, in which it tells it apart all the same, and code is what
// compiling costs.
void Vectors(Halide::Func& func, const Halide::Var& x, int lanes);

// Vectorises `func` along its only dim `x`, which is `extent` long, and cuts the vectors into
// tasks.
void CutRow(Halide::Func& func, const Halide::Var& x, int lanes, int64_t grain,
            const Halide::Expr& extent);

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CPU_NESTS_H_
