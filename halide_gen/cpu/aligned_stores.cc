// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/aligned_stores.h"

#include <algorithm>
#include <map>

#include "kernel/abi.h"
#include "schedule/cpu/segmented.h"
#include "schedule/index_split.h"

namespace kiln {

using Halide::Expr;
using Halide::Internal::LetStmt;
using Halide::Internal::ModulusRemainder;
using Halide::Internal::Ramp;
using Halide::Internal::ScopedBinding;
using Halide::Internal::Stmt;
using Halide::Internal::Store;
using Halide::Internal::Variable;

std::optional<std::vector<LineExtent>> CutsAtLines(const Kernel& kernel, const Schedule& schedule) {
  if (!schedule.Is(kSegmented)) return std::vector<LineExtent>();
  int64_t line = 1;
  for (const KernelOutput& output : kernel.outputs)
    line = std::max(line, kLine / static_cast<int64_t>(SizeOf(output.type)));
  std::map<size_t, int64_t> extents;
  for (const IndexExpr& cut : Cuts(kernel)) {
    if (cut.offset % line != 0) return std::nullopt;
    for (const IndexExpr::Term& term : cut.terms) extents[static_cast<size_t>(term.dim)] = line;
  }
  std::vector<LineExtent> found;
  for (const auto& [dim, multiple] : extents) found.push_back({dim, multiple});
  return found;
}

AlignedStores::AlignedStores(const Kernel& kernel, const Schedule& schedule,
                             const Operands& operands, std::vector<OutputNest>& nests) {
  std::map<std::string, int64_t> multiples;  // of each variable
  const auto is = [&](const Expr& extent, int64_t multiple) {
    const auto* variable = extent.as<Variable>();
    if (variable == nullptr) return;
    int64_t& known = multiples[variable->name];
    known = std::max(known, multiple);
  };
  const std::optional<std::vector<LineExtent>> cuts = CutsAtLines(kernel, schedule);
  if (!cuts) return;
  for (const LineExtent& cut : *cuts) is(operands.extents[cut.dim], cut.multiple);
  for (OutputNest& nest : nests) {
    const std::vector<Halide::OutputImageParam> buffers = nest.func.output_buffers();
    for (size_t b = 0; b < buffers.size(); ++b) {
      Halide::OutputImageParam buffer = buffers[b];
      buffer.set_host_alignment(kLine);
      outputs_.insert(buffer.name());
      const KernelOutput& output = kernel.outputs[nest.outputs[b]];
      const int64_t line = kLine / buffer.type().bytes();
      for (int axis = 1; axis < buffer.dimensions(); ++axis)
        multiples[buffer.name() + ".stride." + std::to_string(axis)] = line;
      if (output.layout == Layout::kDense && output.dims.size() >= 2)
        is(operands.extents[static_cast<size_t>(output.dims.back())], line);
    }
  }
  for (const auto& [name, multiple] : multiples) known_.push(name, ModulusRemainder(multiple, 0));
}

Stmt AlignedStores::visit(const LetStmt* op) {
  const bool integer = op->value.type().is_int() && op->value.type().is_scalar();
  if (!integer || known_.contains(op->name)) return IRMutator::visit(op);
  const ScopedBinding<ModulusRemainder> bound(
      known_, op->name, Halide::Internal::modulus_remainder(op->value, known_));
  return IRMutator::visit(op);
}

Stmt AlignedStores::visit(const Store* op) {
  ModulusRemainder alignment;  // any place
  const auto* ramp = op->index.as<Ramp>();
  if (ramp != nullptr && outputs_.count(op->name) > 0)
    alignment = Halide::Internal::modulus_remainder(ramp->base, known_);
  return Store::make(op->name, op->value, op->index, op->param, op->predicate, alignment);
}

}  // namespace kiln
