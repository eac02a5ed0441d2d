// SPDX-License-Identifier: Apache-2.0
// One way to run y = -f(-x) over a dense array: a fused group of three operators around the
// function under test, which changes no bit of it.
#ifndef KILN_BENCH_ULP_EXECUTOR_H_
#define KILN_BENCH_ULP_EXECUTOR_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "kernel/scalar_expr.h"

namespace kiln::ulp {

struct Executor {
  std::string name;  // "AVX2", "AVX-512", "VM"
  // Reads n elements of `type` at `x` (and at `y`, for a function of two), writes n at `out`.
  std::function<absl::Status(void* x, void* y, void* out, int64_t n)> run;
};

// Compiled for every level this machine has, and the VM: the public API for functions that have an
// operator, else the VM on a kernel's text. A function of two is tried as y = -f(-x, y).
absl::StatusOr<std::vector<Executor>> Executors(ScalarOp op, DType type, bool has_operator);

}  // namespace kiln::ulp

#endif  // KILN_BENCH_ULP_EXECUTOR_H_
