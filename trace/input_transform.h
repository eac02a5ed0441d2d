// SPDX-License-Identifier: Apache-2.0
// Expressions over data of test cases: "(data - reduce_mean(data)) / 255".
//
//   sum     := product (('+' | '-') product)*
//   product := sign (('*' | '/' | '%') sign)*
//   sign    := '-' sign | power
//   power   := atom ('**' sign)?
//   atom    := NUMBER | 'data' | OPERATOR '(' sum (',' sum)* ')' | '(' sum ')'
//
// OPERATOR is one of docs/ops.md, with the defaults of its attributes; ** is `pow`, % is `mod`.
#ifndef KILN_TRACE_INPUT_TRANSFORM_H_
#define KILN_TRACE_INPUT_TRANSFORM_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kiln/graph.h"

namespace kiln::tracing {

// The expression as nodes; numbers have the type of `data`. kInvalidArgument: with the text and the
// place where it is wrong, or as the operator says.
absl::StatusOr<ValueId> AddTransform(absl::string_view text, ValueId data, GraphBuilder& builder);

}  // namespace kiln::tracing

#endif  // KILN_TRACE_INPUT_TRANSFORM_H_
