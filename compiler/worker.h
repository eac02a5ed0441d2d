// SPDX-License-Identifier: Apache-2.0
// The compiler's side of the worker processes `kiln-codegen` that turn Kernels into machine code.
//
// Code generation lives in its own process because an LLVM failure aborts it.
#ifndef KILN_COMPILER_WORKER_H_
#define KILN_COMPILER_WORKER_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/helper_pool.h"
#include "halide_gen/common/protocol.h"

namespace kiln {

// `executable` as for FindProgram (empty: looked for, KILN_CODEGEN).
absl::StatusOr<std::string> FindCodegen(const std::string& executable);

class WorkerPool {
 public:
  // `executable` as for FindCodegen. `size` processes at once. Starts nothing yet.
  WorkerPool(std::string executable, int size);

  // Builds one kernel, waiting for a free worker. kNotFound: there is no kiln-codegen, for this
  // kernel and those of a while to come (helper_pool.h); kUnavailable: it gave no answer to this
  // request twice; kFailedPrecondition: it is of another build than this library;
  // kDeadlineExceeded; kCancelled: stopped. What the worker itself says (also that the kernel
  // cannot be compiled) is in the answer. Thread-safe.
  absl::StatusOr<CodegenAnswer> Compile(const CodegenRequest& request);

  // As HelperPool. Thread-safe.
  void PrepareAll(int processes) { pool_.PrepareAll(processes); }
  HelperPool::Keeping Keep() { return HelperPool::Keeping(pool_); }
  void Stop() { pool_.Stop(); }

 private:
  HelperPool pool_;
};

}  // namespace kiln

#endif  // KILN_COMPILER_WORKER_H_
