// SPDX-License-Identifier: Apache-2.0
// Validations (validation.h) in processes of their own, kiln-validate.
//
//   Validator validator("", 2);
//   absl::StatusOr<Validation> done = validator.Validate(request);      // waits
//   validator.Add(request, [](const absl::StatusOr<Validation>&) {});   // returns at once
//   validator.Finish();                                                 // all of Add are called
//
// A process serves any number of kernels, one at a time, and ends with the Validator; as many run
// as threads are in Validate. A kernel that crashes or hangs costs a forked child of kiln-validate.
#ifndef KILN_EXEC_VALIDATE_VALIDATOR_H_
#define KILN_EXEC_VALIDATE_VALIDATOR_H_

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "kiln/base/child_process.h"
#include "kiln/exec/validate/validation.h"

namespace kiln {

class Validator {
 public:
  using Done = std::function<void(const absl::StatusOr<Validation>& validation)>;

  // `executable` as for FindProgram (empty: looked for, KILN_VALIDATE). `threads`: for Add. Starts
  // nothing yet.
  Validator(std::string executable, int threads);
  // Finishes what was added.
  ~Validator();

  // Validates one kernel. Errors as ValidateKernel, also for code that crashes or never ends
  // (kDataLoss); kNotFound: no kiln-validate; kUnavailable: it cannot tell, try again later.
  // Thread-safe.
  absl::StatusOr<Validation> Validate(const ValidationRequest& request);

  // The same on another thread, which calls `done`. Thread-safe.
  void Add(ValidationRequest request, Done done);

  // Waits until nothing that was added is left.
  void Finish();

 private:
  struct Job {
    ValidationRequest request;
    Done done;
  };
  absl::StatusOr<std::unique_ptr<ChildProcess>> Start() const;
  std::unique_ptr<ChildProcess> TakeIdle();  // null: none
  void Work();

  const std::string executable_;
  const int threads_wanted_;
  absl::Mutex mutex_;
  std::vector<std::unique_ptr<ChildProcess>> idle_ ABSL_GUARDED_BY(mutex_);
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
  int pending_ ABSL_GUARDED_BY(mutex_) = 0;  // added and not done
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;  // threads without a job
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
};

// What kiln-validate says first.
std::string ValidatorHello();

}  // namespace kiln

#endif  // KILN_EXEC_VALIDATE_VALIDATOR_H_
