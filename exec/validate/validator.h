// SPDX-License-Identifier: Apache-2.0
// Validations (validation.h) in processes of their own, kiln-validate.
//
//   Validator validator("", 2);
//   validator.Prepare(1);                                               // returns at once
//   absl::StatusOr<Validation> done = validator.Validate(request);      // waits
//
// A process serves any number of kernels, one at a time. A kernel that crashes or hangs costs a
// forked child of kiln-validate.
#ifndef KILN_EXEC_VALIDATE_VALIDATOR_H_
#define KILN_EXEC_VALIDATE_VALIDATOR_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/helper_pool.h"
#include "exec/validate/validation.h"

namespace kiln {

class Validator {
 public:
  // A greeting takes some milliseconds, and more where all processors are busy.
  static constexpr int kHelloTimeoutMs = 10'000;  // correctness

  // `executable` as for FindProgram (empty: looked for, KILN_VALIDATE). `most` processes at once.
  // Starts nothing yet.
  Validator(std::string executable, int most, int hello_timeout_ms = kHelloTimeoutMs);

  // Validates one kernel. Errors as ValidateKernel, also for code that crashes or never ends
  // (kDataLoss); kNotFound: no kiln-validate, for this kernel and those of a while to come
  // (helper_pool.h); kUnavailable: it cannot tell, try again later; kCancelled: stopped.
  // Thread-safe.
  absl::StatusOr<Validation> Validate(const ValidationRequest& request);

  // As HelperPool. Thread-safe.
  void Prepare(int processes) { pool_.Prepare(processes); }
  HelperPool::Keeping Keep() { return HelperPool::Keeping(pool_); }
  void Stop() { pool_.Stop(); }

 private:
  HelperPool pool_;
};

// What kiln-validate says first.
std::string ValidatorHello();

}  // namespace kiln

#endif  // KILN_EXEC_VALIDATE_VALIDATOR_H_
