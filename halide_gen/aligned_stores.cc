// SPDX-License-Identifier: Apache-2.0
#include "kiln/halide_gen/aligned_stores.h"

#include <algorithm>
#include <map>

#include "kiln/kernel/abi.h"

namespace kiln {

using Halide::Expr;
using Halide::Internal::LetStmt;
using Halide::Internal::ModulusRemainder;
using Halide::Internal::Ramp;
using Halide::Internal::ScopedBinding;
using Halide::Internal::Stmt;
using Halide::Internal::Store;
using Halide::Internal::Variable;

AlignedStores::AlignedStores(const Kernel& kernel, const Operands& operands,
                             std::vector<OutputNest>& nests) {
  std::map<std::string, int64_t> multiples;  // of each variable
  for (OutputNest& nest : nests) {
    const std::vector<Halide::OutputImageParam> buffers = nest.func.output_buffers();
    for (size_t b = 0; b < buffers.size(); ++b) {
      Halide::OutputImageParam buffer = buffers[b];
      buffer.set_host_alignment(kLine);
      outputs_.insert(buffer.name());
      const KernelOutput& output = kernel.outputs[nest.outputs[b]];
      const int64_t line = kLine / buffer.type().bytes();
      const auto is = [&](const std::string& name) {
        multiples[name] = std::max(multiples[name], line);
      };
      for (int axis = 1; axis < buffer.dimensions(); ++axis)
        is(buffer.name() + ".stride." + std::to_string(axis));
      if (output.layout != Layout::kDense || output.dims.size() < 2) continue;
      const auto& row = operands.extents[static_cast<size_t>(output.dims.back())];
      if (const auto* extent = row.as<Variable>(); extent != nullptr) is(extent->name);
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
