// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/common/ordered_sums.h"

#include <algorithm>
#include <string>
#include <utility>

#include "halide_gen/common/loop_nests.h"
#include "schedule/sums.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::RDom;
using Halide::Var;

// The dims that run along what is added, before `x`.
int DimsOfAdded(const Kernel& kernel) { return kernel.num_iterated() - (AddsRows(kernel) ? 1 : 0); }

}  // namespace

OutputAxes AxesOfSums(const Kernel& kernel, const Operands& operands, const Var& x) {
  OutputAxes axes;
  const std::vector<int32_t>& dims = kernel.outputs[0].dims;
  for (size_t axis = dims.size(); axis-- > 0;) {
    axes.vars.push_back(axes.vars.empty() ? x : Var("paxis" + std::to_string(axis)));
    axes.extents.push_back(operands.extents[static_cast<size_t>(dims[axis])]);
  }
  return axes;
}

Expr CountOfAdded(const Kernel& kernel, const Operands& operands) {
  return ExtentOf(operands, 0, DimsOfAdded(kernel));
}

Expr DividedExtent(const Kernel& kernel, const Operands& operands) {
  return operands.extents[static_cast<size_t>(kernel.outputs[0].dims[DividedAxis(kernel)])];
}

AddedElements ElementsToAdd(const Kernel& kernel, const Operands& operands, const Var& x,
                            const Expr& parts) {
  const KernelOutput& output = kernel.outputs[0];
  RDom places({{0, CountOfAdded(kernel, operands)}, {0, parts}}, "pplaces");
  const Expr at = places[0], part = places[1];
  Scope scope;
  scope.coordinates.resize(kernel.dims.size());
  SetCoordinates(operands, at, 0, DimsOfAdded(kernel), scope);
  if (AddsRows(kernel)) scope.coordinates[static_cast<size_t>(kernel.innermost())] = x;
  const ExprEmitter emitter(kernel, operands);
  const Expr value = emitter.Stored(output.expr, output.type, scope);
  std::vector<Expr> where = emitter.Places(output, scope);
  std::reverse(where.begin(), where.end());
  const size_t divided = output.dims.size() - 1 - DividedAxis(kernel);
  if (!HasOnePlace(kernel)) {
    const Expr each = (DividedExtent(kernel, operands) + (parts - 1)) / parts;
    places.where(where[divided] >= part * each && where[divided] < (part + 1) * each);
  }
  // Named, so that Halide loops over `at` where nothing depends on it, too.
  return {places, Halide::Internal::Select::make(at >= 0, value, value), std::move(where), divided};
}

}  // namespace kiln
