// SPDX-License-Identifier: Apache-2.0
// A small call of any operator, for tests of all records at once.
#ifndef KILN_TESTS_OPS_ONE_CALL_H_
#define KILN_TESTS_OPS_ONE_CALL_H_

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "graph/graph.h"
#include "graph/op.h"

namespace kiln {

inline constexpr DType kTypes[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI8,
                                   DType::kI16, DType::kI32, DType::kI64, DType::kU8,   DType::kU16,
                                   DType::kU32, DType::kU64, DType::kBool};

// A graph of one call with inputs "x0", "x1", ... of `type`, where the call has no type of its own,
// and outputs "y0", "y1", ... An error if the operator does not take the type. Not for operators
// that own graphs.
absl::StatusOr<Graph> OneCall(const OpDef& op, DType type);

// True for operators that OneCall can call.
bool HasPlainCall(const OpDef& op);

}  // namespace kiln

#endif  // KILN_TESTS_OPS_ONE_CALL_H_
