// SPDX-License-Identifier: Apache-2.0
// schedule/pointwise.cc decides, this does.
#include "kiln/halide_gen/nests.h"

namespace kiln {

using Halide::Expr;
using Halide::TailStrategy;
using Halide::Var;

std::vector<OutputNest> PointwiseNests(const Kernel& kernel, const Params& params,
                                       const Operands& operands) {
  if (params.Get("unroll", 0) > 0) return UnrolledNests(kernel, params, operands);
  if (params.Get("cuts", 0) > 0) return PieceNests(kernel, params, operands);
  if (params.Get("turn", -1) >= 0) return TurnNests(kernel, params, operands);
  const Var x("px"), row("prow"), task("ptask"), inside("pinside");
  const int64_t stride_dim = params.Get("stride_dim", -1);
  const int lanes = static_cast<int>(params.Get("lanes", 16));
  const int64_t grain = params.Get("grain", 1 << 15);
  const bool rows = kernel.num_iterated() > 1;
  const Expr length = operands.extents[static_cast<size_t>(kernel.innermost())];
  const ExprEmitter emitter(kernel, operands);
  Scope scope = RowScope(kernel, operands, rows ? Expr(row) : Expr(), x);
  std::vector<OutputNest> nests;
  for (std::vector<size_t>& group : GroupOutputs(kernel)) {
    const std::vector<Var> vars = rows ? std::vector<Var>{x, row} : std::vector<Var>{x};
    Halide::Func out = DefineOutputs(kernel, group, vars, emitter, scope);
    if (rows) {
      SetDense(out, {length, RowCount(kernel, operands)});
      out.split(row, task, inside, PerTask(grain, length), TailStrategy::GuardWithIf)
          .parallel(task);
      Vectors(out, x, lanes);
    } else {
      SetDense(out, {length});
      CutRow(out, x, lanes, grain);
    }
    if (stride_dim >= 0) {
      out.specialize(operands.extents[static_cast<size_t>(stride_dim)] ==
                     static_cast<int32_t>(params.Get("stride_is", 1)));
    }
    nests.push_back({out, std::move(group)});
  }
  return nests;
}

}  // namespace kiln
