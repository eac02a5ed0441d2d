// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/common/opaque_loads.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Internal::Call;

constexpr char kName[] = "kiln_opaque";

}  // namespace

Expr Opaque(const Expr& load) { return Call::make(load.type(), kName, {load}, Call::Extern); }

Expr OpaqueLoads::visit(const Call* op) {
  return op->is_extern() && op->name == kName ? mutate(op->args[0]) : IRMutator::visit(op);
}

}  // namespace kiln
