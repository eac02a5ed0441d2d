// SPDX-License-Identifier: Apache-2.0
// The compiler's side of the worker processes `kiln-codegen` that turn Kernels into machine code.
//
// Code generation lives in its own process because an LLVM failure aborts it. A WorkerPool starts
// up to `size` of them when they are needed, gives each one request at a time, replaces one that
// died or took too long, and ends them with itself.
#ifndef KILN_COMPILER_WORKER_H_
#define KILN_COMPILER_WORKER_H_

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "kiln/base/child_process.h"
#include "kiln/halide_gen/protocol.h"

namespace kiln {

// The worker executable, as FindProgram with $KILN_CODEGEN.
absl::StatusOr<std::string> FindCodegen(const std::string& wanted);

class WorkerPool {
 public:
  // Starts nothing yet.
  WorkerPool(std::string executable, int size);
  ~WorkerPool();

  // Builds one kernel, waiting for a free worker. kUnavailable: no worker could be started, or it
  // gave no answer to this request twice; kFailedPrecondition: the worker is of another build than
  // this library; kDeadlineExceeded. What the worker itself says (also that the kernel cannot be
  // compiled) is in the answer. Thread-safe.
  absl::StatusOr<CodegenAnswer> Compile(const CodegenRequest& request);

  // Ends all workers; calls of Compile, those under way too, give kCancelled from now on.
  void Stop();

 private:
  absl::StatusOr<std::unique_ptr<ChildProcess>> Start();
  absl::StatusOr<std::unique_ptr<ChildProcess>> Acquire();
  void Release(std::unique_ptr<ChildProcess> worker, bool usable);

  const std::string executable_;
  const int size_;
  absl::Mutex mutex_;
  int running_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<ChildProcess*> busy_ ABSL_GUARDED_BY(mutex_);  // started and not idle
  std::vector<std::unique_ptr<ChildProcess>> idle_ ABSL_GUARDED_BY(mutex_);
  bool started_ ABSL_GUARDED_BY(mutex_) = false;  // at least one worker has said hello
  absl::Status broken_ ABSL_GUARDED_BY(mutex_);   // why the first did not: nobody tries again
};

}  // namespace kiln

#endif  // KILN_COMPILER_WORKER_H_
