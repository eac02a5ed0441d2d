// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/common/opaque_loads.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Internal::Call;

constexpr char kName[] = "kiln_opaque";

}  // namespace

// Pure, so that it is vectorized with masks and moved out of loops as a load is. The bounds of a
// pure call are those of its type once an argument's are, as those of reinterpreted bits are.
Expr Opaque(const Expr& load) {
  const Halide::Type type = load.type();
  const Expr bits = type.is_float()     ? Halide::reinterpret(Halide::UInt(type.bits()), load)
                    : type.bits() == 64 ? Halide::reinterpret<double>(load)
                                        : Halide::reinterpret<float>(Halide::cast<uint32_t>(load));
  return Call::make(type, kName, {load, bits}, Call::PureExtern);
}

Expr OpaqueLoads::visit(const Call* op) {
  return op->is_extern() && op->name == kName ? mutate(op->args[0]) : IRMutator::visit(op);
}

}  // namespace kiln
