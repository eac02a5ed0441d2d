// SPDX-License-Identifier: Apache-2.0
// Validations (validation.h) in processes of their own, kiln-validate.
//
//   Validator validator("", 2);
//   validator.Prepare(1);                                               // returns at once
//   absl::StatusOr<Validation> done = validator.Validate(request);      // waits
//   validator.Add(request, [](const absl::StatusOr<Validation>&) {});   // returns at once
//   validator.Finish();                                                 // all of Add are called
//
// A process serves any number of kernels, one at a time, and ends with the Validator; as many run
// as threads are in Validate. A kernel that crashes or hangs costs a forked child of kiln-validate.
//
// A kiln-validate that is missing, of another build, or that does not answer in time is looked for
// once: from then on the Validator is absent, and says so of every kernel without waiting. Until
// the first greeting has come, one thread alone waits for it.
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
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "kiln/base/child_process.h"
#include "kiln/exec/validate/validation.h"

namespace kiln {

class Validator {
 public:
  using Done = std::function<void(const absl::StatusOr<Validation>& validation)>;

  // A greeting takes some milliseconds, and more where all processors are busy.
  static constexpr int kHelloTimeoutMs = 10'000;

  // `executable` as for FindProgram (empty: looked for, KILN_VALIDATE). `threads`: for Add. Starts
  // nothing yet.
  Validator(std::string executable, int threads, int hello_timeout_ms = kHelloTimeoutMs);
  // Finishes what was added.
  ~Validator();

  // Validates one kernel. Errors as ValidateKernel, also for code that crashes or never ends
  // (kDataLoss); kNotFound: no kiln-validate, now and for every kernel to come; kUnavailable: it
  // cannot tell, try again later. Thread-safe.
  absl::StatusOr<Validation> Validate(const ValidationRequest& request);

  // Starts processes, unless so many are there, so that they are ready when something is to be
  // validated. Does not wait for them; what goes wrong Validate says. Thread-safe.
  void Prepare(int processes);

  // The same as Validate on another thread, which calls `done`. Thread-safe.
  void Add(ValidationRequest request, Done done);

  // Waits until nothing that was added is left.
  void Finish();

 private:
  struct Job {
    ValidationRequest request;
    Done done;
  };
  // One of our processes. While it is there it counts in processes_.
  struct Process {
    std::string path;
    std::unique_ptr<ChildProcess> child;
    bool greeted = false;  // it has said hello
    bool fresh = false;    // it was started for the kernel at hand
  };
  absl::StatusOr<Process> Start();
  // `take_idle`: or one that is there already.
  absl::StatusOr<Process> Take(bool take_idle);
  // Waits for its greeting; before there was any, one thread at a time.
  absl::Status Greet(Process& process);
  absl::Status ReadGreeting(Process& process) const;
  // The status that is returned of every kernel from now on; of two, the first.
  absl::Status SetAbsent(absl::string_view why);
  void PutIdle(Process process);
  absl::StatusOr<std::string> Ask(Process& process, const std::string& frame);
  void Work();

  const std::string executable_;
  const int threads_wanted_;
  const int hello_timeout_ms_;
  absl::Mutex mutex_;
  std::vector<Process> idle_ ABSL_GUARDED_BY(mutex_);
  int processes_ ABSL_GUARDED_BY(mutex_) = 0;      // started, or about to be, and not ended
  bool greeting_ ABSL_GUARDED_BY(mutex_) = false;  // a thread waits for the first greeting
  bool greeted_ ABSL_GUARDED_BY(mutex_) = false;   // a process has said hello
  absl::Status absent_ ABSL_GUARDED_BY(mutex_);    // kNotFound: nobody is asked any more
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
