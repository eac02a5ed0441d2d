// SPDX-License-Identifier: Apache-2.0
// The compiler's side of kiln-validate: validations (validation.h) made in processes of their own,
// while the kernels in question are in use already.
//
//   Validator validator("", 2);
//   validator.Add(request, [](const absl::StatusOr<std::string>& validation) { ... });   // returns
//   at once validator.Finish();                                                             // all
//   are called
//
// Processes start with the first validation, run at low priority and end with the Validator. A
// kernel that crashes or hangs costs a forked child of kiln-validate.
#ifndef KILN_COMPILER_VALIDATOR_H_
#define KILN_COMPILER_VALIDATOR_H_

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
#include "kiln/compiler/child_process.h"
#include "kiln/compiler/validation.h"

namespace kiln {

class Validator {
 public:
  using Done = std::function<void(const absl::StatusOr<std::string>& validation)>;

  // `executable` as for FindProgram (empty: looked for, KILN_VALIDATE). Starts nothing yet.
  Validator(std::string executable, int processes);
  // Finishes what was added.
  ~Validator();

  // Validates one kernel. Errors as ValidateKernel, also for code that crashes or never ends
  // (kDataLoss); kNotFound: no kiln-validate; kUnavailable: it cannot tell, try again later.
  // Thread-safe.
  absl::StatusOr<std::string> Validate(const ValidationRequest& request);

  // The same on another thread, which calls `done`. Thread-safe.
  void Add(ValidationRequest request, Done done);

  // Waits until nothing that was added is left.
  void Finish();

 private:
  struct Job {
    ValidationRequest request;
    Done done;
  };
  absl::StatusOr<std::unique_ptr<ChildProcess>> Acquire();
  void Work();

  const std::string executable_;
  const int processes_;
  absl::Mutex mutex_;
  std::vector<std::unique_ptr<ChildProcess>> idle_ ABSL_GUARDED_BY(mutex_);
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
  int pending_ ABSL_GUARDED_BY(mutex_) = 0;  // added and not done
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;  // threads without a job
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
};

// What kiln-validate answers, as bytes and back.
std::string EncodeValidation(const absl::StatusOr<std::string>& validation);
absl::StatusOr<std::string> DecodeValidation(absl::string_view bytes);
// What it says first.
std::string ValidatorHello();

}  // namespace kiln

#endif  // KILN_COMPILER_VALIDATOR_H_
