// SPDX-License-Identifier: Apache-2.0
// The families of operators: each file of this folder has the records of one, in one table. A new
// operator is a row there; a new family is a line here and in all_ops.cc.
#ifndef KILN_GRAPH_OPS_OPS_H_
#define KILN_GRAPH_OPS_OPS_H_

#include <span>

#include "graph/op.h"

namespace kiln::ops {

std::span<const OpDef> ActivationOps();
std::span<const OpDef> ArithmeticOps();
std::span<const OpDef> ConvBackwardOps();
std::span<const OpDef> ControlOps();
std::span<const OpDef> ConvOps();
std::span<const OpDef> CustomOps();  // graph/custom_op.cc
std::span<const OpDef> DynamicOps();
std::span<const OpDef> FunctionOps();
std::span<const OpDef> HostOps();
std::span<const OpDef> IndexingOps();
std::span<const OpDef> LogicOps();
std::span<const OpDef> LookupOps();
std::span<const OpDef> MatmulOps();
std::span<const OpDef> MovementOps();
std::span<const OpDef> NormalizeOps();
std::span<const OpDef> OrderOps();
std::span<const OpDef> PoolOps();
std::span<const OpDef> RandomOps();
std::span<const OpDef> ReduceOps();
std::span<const OpDef> SliceOps();
std::span<const OpDef> ViewOps();

}  // namespace kiln::ops

#endif  // KILN_GRAPH_OPS_OPS_H_
