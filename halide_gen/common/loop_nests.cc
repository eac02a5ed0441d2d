// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/common/loop_nests.h"

#include <algorithm>
#include <string>

#include "halide_gen/common/primitives.h"

namespace kiln {

using Halide::Expr;
using Halide::Func;
using Halide::Var;

namespace {

std::vector<int32_t> DimsBetween(int first, int end) {
  std::vector<int32_t> dims;
  for (int32_t dim = first; dim < end; ++dim) dims.push_back(dim);
  return dims;
}

}  // namespace

Expr ExtentOf(const Operands& operands, const std::vector<int32_t>& dims) {
  Expr product = 1;
  for (size_t k = 0; k < dims.size(); ++k) {
    const Expr extent = operands.extents[static_cast<size_t>(dims[k])];
    product = k == 0 ? extent : product * extent;
  }
  return product;
}

Expr ExtentOf(const Operands& operands, int first, int end) {
  return ExtentOf(operands, DimsBetween(first, end));
}

void SetCoordinates(const Operands& operands, Expr rest, const std::vector<int32_t>& dims,
                    Scope& scope) {
  for (size_t k = dims.size(); k-- > 0;) {
    const auto dim = static_cast<size_t>(dims[k]);
    scope.coordinates[dim] = k == 0 ? rest : rest % operands.extents[dim];
    rest = rest / operands.extents[dim];
  }
}

void SetCoordinates(const Operands& operands, const Expr& rest, int first, int end, Scope& scope) {
  SetCoordinates(operands, rest, DimsBetween(first, end), scope);
}

Expr RowCount(const Kernel& kernel, const Operands& operands, int flat) {
  return ExtentOf(operands, 0, kernel.num_iterated() - flat);
}

Expr TailLength(const Kernel& kernel, const Operands& operands, int flat) {
  return ExtentOf(operands, kernel.num_iterated() - flat, kernel.num_iterated());
}

Expr RowMajor(const Operands& operands, const std::vector<int32_t>& dims,
              const std::vector<Expr>& coordinates) {
  Expr place = 0;
  for (const int32_t dim : dims) {
    const auto d = static_cast<size_t>(dim);
    place = place * operands.extents[d] + coordinates[d];
  }
  return place;
}

Scope RowScope(const Kernel& kernel, const Operands& operands, const Expr& row, const Expr& x) {
  Scope scope;
  scope.coordinates.resize(kernel.dims.size());
  if (kernel.num_iterated() == 0) return scope;
  scope.coordinates[static_cast<size_t>(kernel.innermost())] = x;
  scope.row = row;
  SetCoordinates(operands, row, 0, kernel.num_iterated() - 1, scope);
  return scope;
}

std::vector<std::vector<size_t>> GroupOutputs(const Kernel& kernel) {
  std::vector<std::vector<size_t>> groups;
  for (size_t i = 0; i < kernel.outputs.size(); ++i) {
    const KernelOutput& output = kernel.outputs[i];
    const auto same =
        std::find_if(groups.begin(), groups.end(), [&](const std::vector<size_t>& group) {
          const KernelOutput& first = kernel.outputs[group[0]];
          return first.dims == output.dims && first.layout == output.layout;
        });
    if (same == groups.end()) {
      groups.push_back({i});
    } else {
      same->push_back(i);
    }
  }
  return groups;
}

std::vector<Expr> OutputValues(const Kernel& kernel, const std::vector<size_t>& group,
                               const ExprEmitter& emitter, Scope& scope) {
  std::vector<Expr> values;
  for (const size_t i : group) {
    const KernelOutput& output = kernel.outputs[i];
    values.push_back(emitter.Stored(output.expr, output.type, scope));
  }
  return values;
}

void SetValues(Func& func, const std::vector<Expr>& at, const std::vector<Expr>& values) {
  if (values.size() == 1) {
    func(at) = values[0];
  } else {
    func(at) = Halide::Tuple(values);
  }
}

Func DefineOutputs(const std::vector<size_t>& group, const std::vector<Var>& vars,
                   const std::vector<Expr>& values) {
  Func func("out" + std::to_string(group[0]));
  SetValues(func, {vars.begin(), vars.end()}, values);
  return func;
}

Func DefineOutputs(const Kernel& kernel, const std::vector<size_t>& group,
                   const std::vector<Var>& vars, const ExprEmitter& emitter, Scope& scope) {
  return DefineOutputs(group, vars, OutputValues(kernel, group, emitter, scope));
}

Func DefineOverDims(const Kernel& kernel, const Operands& operands,
                    const std::vector<size_t>& group, const std::vector<Var>& dims) {
  const ExprEmitter emitter(kernel, operands);
  Scope scope;
  scope.coordinates.assign(dims.begin(), dims.end());
  scope.coordinates.resize(kernel.dims.size());
  Func out = DefineOutputs(kernel, group, {dims.rbegin(), dims.rend()}, emitter, scope);
  std::vector<Expr> extents(operands.extents.begin(),
                            operands.extents.begin() + static_cast<std::ptrdiff_t>(dims.size()));
  std::reverse(extents.begin(), extents.end());
  SetDense(out, extents);
  return out;
}

Func UndefinedOutputs(const Kernel& kernel, const std::vector<size_t>& group,
                      const std::vector<Var>& vars) {
  std::vector<Expr> values;
  for (const size_t i : group) {
    values.push_back(Halide::undef(StorageType(kernel.outputs[i].type)));
  }
  Func func("out" + std::to_string(group[0]));
  SetValues(func, {vars.begin(), vars.end()}, values);
  return func;
}

void SetDense(Func& func, const std::vector<Expr>& extents) {
  SetExtents(func, extents);
  for (Halide::OutputImageParam buffer : func.output_buffers()) {
    Expr stride = 1;
    for (size_t d = 0; d < extents.size(); ++d) {
      buffer.dim(static_cast<int>(d)).set_stride(stride);
      stride = d == 0 ? extents[d] : stride * extents[d];
    }
  }
}

void SetExtents(Func& func, const std::vector<Expr>& extents) {
  // Halide takes the extents of further outputs to be those of the first.
  Halide::OutputImageParam first = func.output_buffers().front();
  for (size_t d = 0; d < extents.size(); ++d) {
    first.dim(static_cast<int>(d)).set_bounds(0, extents[d]);
    func.bound(func.args()[d], 0, extents[d]);
  }
}

}  // namespace kiln
