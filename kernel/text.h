// SPDX-License-Identifier: Apache-2.0
// The text form of a Kernel, as in the example of kernel.h, and its parser: Parse(Print(k)) prints
// the same again.
//
// Grammar, one line each; `#` starts a comment; blanks are free:
//   kernel v1 math N
//   dims NAME...              iterated dims, outermost first (may be absent: a scalar)
//   sizes NAME...             extents that are not iterated (may be absent)
//   in  K TYPE [DIM, ...] dense|rows|strided
//   par K TYPE
//   sK : TYPE [DIM, ...] = EXPR  |  reduce OP over DIM... (EXPR)
//   out K TYPE [DIM, ...] dense|rows|strided = EXPR
// EXPR:     op(EXPR, ...) | inK[INDEX, ...] | sK[INDEX, ...] | parK | index(DIM) | extent(DIM) |
//           cast<TYPE>(EXPR) | bitcast<TYPE>(EXPR) | roundto<TYPE>(EXPR) | LITERAL
// LITERAL:  carries its type where it is not f32:
//           0  -1  0x1.8p+1  inf  -inf  nan  i64:3  bool:1  f64:0x1p-3   (floats in hex)
// INDEX:    sum of `DIM`, `C*DIM`, `|DIM|` (extent), `C*|DIM|`, `C`; optionally `(sum)/C`,
//           `(sum)%C`, `((sum)/C)%C`; or `[EXPR]`
#ifndef KILN_KERNEL_TEXT_H_
#define KILN_KERNEL_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernel/kernel.h"

namespace kiln {

std::string Print(const Kernel& kernel);

// Parses and verifies. Fails with kInvalidArgument naming line and column. Linear in the text;
// nesting is limited to 500.
absl::StatusOr<Kernel> ParseKernel(absl::string_view text);

}  // namespace kiln

#endif  // KILN_KERNEL_TEXT_H_
