// SPDX-License-Identifier: Apache-2.0
// Pointwise kernels whose innermost dim has a few elements only: vectors run along the next dim,
// and a step makes all of the innermost one. Where strides are then constants, Halide makes of the
// strided loads and stores dense ones and shuffles; so the vectors are for the extents that are
// known ("is<dim>"), which a launch hardly ever differs from.
#include <algorithm>
#include <string>

#include "kiln/halide_gen/nests.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::TailStrategy;
using Halide::Var;

// The known extents are what they are said to be.
Expr AsKnown(const Kernel& kernel, const Params& params, const Operands& operands) {
  Expr known = Halide::Internal::const_true();
  for (size_t d = 0; d < kernel.dims.size(); ++d) {
    const int64_t extent = params.Get("is" + std::to_string(d), -1);
    if (extent >= 0) known = known && operands.extents[d] == static_cast<int32_t>(extent);
  }
  return known;
}

}  // namespace

std::vector<OutputNest> UnrolledNests(const Kernel& kernel, const Params& params,
                                      const Operands& operands) {
  const Var x("px"), y("py"), outer("pouter"), step("pstep"), in_step("pinstep"), vector("pvector"),
      lane("plane"), task("ptask"), inside("pinside");
  const auto guard = TailStrategy::GuardWithIf;
  const int lanes = static_cast<int>(params.Get("lanes", 16));
  const int64_t grain = params.Get("grain", 1 << 15);
  const auto inner = static_cast<size_t>(kernel.innermost());
  const Expr width = operands.extents[inner], length = operands.extents[inner - 1];
  const bool outers = inner > 1;
  Scope scope;
  scope.coordinates.resize(kernel.dims.size());
  scope.coordinates[inner] = x;
  scope.coordinates[inner - 1] = y;
  scope.row = outers ? outer * length + y : Expr(y);
  Expr rest = outer, outer_count = 1;
  for (size_t d = inner - 1; d-- > 0;) {
    scope.coordinates[d] = d == 0 ? rest : rest % operands.extents[d];
    rest = rest / operands.extents[d];
    outer_count = outer_count * operands.extents[d];
  }
  const ExprEmitter emitter(kernel, operands);
  std::vector<OutputNest> nests;
  for (std::vector<size_t>& group : GroupOutputs(kernel)) {
    std::vector<Var> vars = {x, y};
    std::vector<Expr> extents = {width, length};
    if (outers) {
      vars.push_back(outer);
      extents.push_back(outer_count);
    }
    Func out = DefineOutputs(kernel, group, vars, emitter, scope);
    SetDense(out, extents);
    out.split(x, step, in_step, static_cast<int>(params.Get("unroll", 2)), guard);
    out.split(y, vector, lane, lanes, guard);
    if (outers) {
      out.reorder(in_step, lane, vector, step, outer);
      out.split(outer, task, inside, PerTask(grain, width * length), guard);
    } else {
      out.reorder(in_step, lane, step, vector);
      out.split(vector, task, inside, PerTask(grain, width * lanes), guard);
    }
    out.parallel(task).never_partition_all();
    out.specialize(AsKnown(kernel, params, operands)).vectorize(lane).unroll(in_step);
    nests.push_back({out, std::move(group)});
  }
  return nests;
}

}  // namespace kiln
