// SPDX-License-Identifier: Apache-2.0
// Leaves the current function with the error of a failed step. Shaped like abseil's own newer
// macros.
//
//   KILN_RETURN_IF_ERROR(Verify(graph));
//   KILN_ASSIGN_OR_RETURN(Model model, Load(path));            // declares
//   KILN_ASSIGN_OR_RETURN(model, Load(path));                  // assigns
//
// A type with a comma in it must be written as auto. `expr` is evaluated once. The second macro is
// several statements: brace the body of an `if`.
#ifndef KILN_BASE_STATUS_MACROS_H_
#define KILN_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define KILN_RETURN_IF_ERROR(expr)                                \
  do {                                                            \
    if (absl::Status kiln_status_ = (expr); !kiln_status_.ok()) { \
      return kiln_status_;                                        \
    }                                                             \
  } while (false)

#define KILN_ASSIGN_OR_RETURN(lhs, expr) \
  KILN_ASSIGN_OR_RETURN_IMPL_(KILN_STATUS_CONCAT_(kiln_statusor_, __LINE__), lhs, expr)

#define KILN_ASSIGN_OR_RETURN_IMPL_(statusor, lhs, expr)   \
  auto statusor = (expr);                                  \
  if (!statusor.ok()) return std::move(statusor).status(); \
  lhs = *std::move(statusor)

#define KILN_STATUS_CONCAT_(a, b) KILN_STATUS_CONCAT_IMPL_(a, b)
#define KILN_STATUS_CONCAT_IMPL_(a, b) a##b

#endif  // KILN_BASE_STATUS_MACROS_H_
