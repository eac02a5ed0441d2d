// SPDX-License-Identifier: Apache-2.0
// The texts of include/kiln/trace_ops.h and python/kiln/ops.py, made of the registry of operators.
#ifndef KILN_TESTS_TRACE_OPS_HEADER_H_
#define KILN_TESTS_TRACE_OPS_HEADER_H_

#include <string>

#include "graph/op.h"

namespace kiln {

// Whether arrays have a function for it: not for what gives extents that depend on data, arithmetic
// of shapes, graphs of its own, and operators of the caller's.
bool HasFunction(const OpDef& op);
// The function's name: that of the operator, with `_` behind it where C++ has that word.
std::string FunctionName(const OpDef& op);
std::string OpsHeader();
std::string OpsModule();

}  // namespace kiln

#endif  // KILN_TESTS_TRACE_OPS_HEADER_H_
