// SPDX-License-Identifier: Apache-2.0
#include "kiln/exec/validate/validator.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "kiln/base/status_macros.h"
#include "kiln/exec/validate/build_id.h"
#include "kiln/kernel/kernel.h"

namespace kiln {
namespace {

constexpr int kAnswerTimeoutMs = 30'000;  // kiln-validate limits the time of one by itself

// The environment variable that names the executable; its older name where only that is set.
const char* Variable() {
  return std::getenv("KILN_VALIDATE") == nullptr && std::getenv("KILN_PROVE") != nullptr
             ? "KILN_PROVE"
             : "KILN_VALIDATE";
}

}  // namespace

std::string ValidatorHello() {
  return absl::StrCat("kiln-validate ", kValidationVersion, " math ", kMathVersion, " build ",
                      kValidatorBuildId);
}

Validator::Validator(std::string executable, int threads, int hello_timeout_ms)
    : executable_(std::move(executable)),
      threads_wanted_(threads),
      hello_timeout_ms_(hello_timeout_ms) {}

Validator::~Validator() {
  Finish();
  std::vector<std::thread> threads;
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
    threads = std::move(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

absl::StatusOr<Validator::Process> Validator::Start() {
  Process process;
  KILN_ASSIGN_OR_RETURN(process.path, FindProgram("kiln-validate", executable_, Variable()));
  KILN_ASSIGN_OR_RETURN(process.child, ChildProcess::Start(process.path));
  return process;
}

absl::Status Validator::ReadGreeting(Process& process) const {
  const absl::StatusOr<std::string> hello = process.child->Read(hello_timeout_ms_);
  if (hello.ok() && *hello == ValidatorHello()) {
    process.greeted = true;
    return absl::OkStatus();
  }
  const bool late = absl::IsDeadlineExceeded(hello.status());
  const std::string why = hello.ok() ? "is of another build"
                          : late ? absl::StrCat("says nothing within ", hello_timeout_ms_, " ms")
                                 : std::string(hello.status().message());
  const std::string text = absl::StrCat(
      "\"", process.path, "\": ", why, "; install the program of this build, or set KILN_VALIDATE");
  return late ? absl::DeadlineExceededError(text) : absl::NotFoundError(text);
}

absl::Status Validator::Greet(Process& process) {
  if (process.greeted) return absl::OkStatus();
  const auto may_read = +[](Validator* validator) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return validator->greeted_ || !validator->greeting_;
  };
  bool first = false;
  {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(may_read, this));
    KILN_RETURN_IF_ERROR(absent_);
    first = !greeted_;
    greeting_ = first;
  }
  absl::Status read = ReadGreeting(process);
  if (absl::IsDeadlineExceeded(read)) read = SetAbsent(read.message());
  if (!first) return read;
  absl::MutexLock lock(&mutex_);
  greeting_ = false;
  greeted_ = read.ok();
  return read;
}

absl::Status Validator::SetAbsent(absl::string_view why) {
  std::vector<Process> gone;  // ended without the lock
  absl::MutexLock lock(&mutex_);
  if (absent_.ok()) absent_ = absl::NotFoundError(why);
  processes_ -= static_cast<int>(idle_.size());
  gone.swap(idle_);
  return absent_;
}

void Validator::Prepare(int processes) {
  {
    absl::MutexLock lock(&mutex_);
    if (processes_ >= processes || !absent_.ok()) return;
    ++processes_;
  }
  absl::StatusOr<Process> process = Start();
  if (process.ok()) return PutIdle(*std::move(process));
  absl::MutexLock lock(&mutex_);
  --processes_;
}

absl::StatusOr<Validator::Process> Validator::Take(bool take_idle) {
  {
    absl::MutexLock lock(&mutex_);
    KILN_RETURN_IF_ERROR(absent_);
    if (take_idle && !idle_.empty()) {
      Process process = std::move(idle_.back());
      idle_.pop_back();
      return process;
    }
  }
  absl::StatusOr<Process> process = Start();
  if (absl::IsNotFound(process.status())) return SetAbsent(process.status().message());
  KILN_RETURN_IF_ERROR(process.status());
  process->fresh = true;
  absl::MutexLock lock(&mutex_);
  ++processes_;
  return process;
}

void Validator::PutIdle(Process process) {
  absl::MutexLock lock(&mutex_);
  idle_.push_back(std::move(process));
}

absl::StatusOr<std::string> Validator::Ask(Process& process, const std::string& frame) {
  KILN_RETURN_IF_ERROR(process.child->Write(frame));
  return process.child->Read(kAnswerTimeoutMs);
}

absl::StatusOr<Validation> Validator::Validate(const ValidationRequest& request) {
  const std::string frame = Encode(request);
  absl::Status failed;
  // One that was ended by somebody is replaced, once: the kernel is not to blame for it, as
  // kiln-validate answers for children that crash.
  for (int attempt = 0; attempt < 2; ++attempt) {
    KILN_ASSIGN_OR_RETURN(Process process, Take(/*take_idle=*/attempt == 0));
    const bool fresh = std::exchange(process.fresh, false);
    const absl::Status greeted = Greet(process);
    const absl::StatusOr<std::string> answer =
        greeted.ok() ? Ask(process, frame) : absl::StatusOr<std::string>(greeted);
    if (answer.ok()) {
      PutIdle(std::move(process));
      return DecodeValidation(*answer);
    }
    {
      absl::MutexLock lock(&mutex_);
      --processes_;
      KILN_RETURN_IF_ERROR(absent_);
    }
    failed = answer.status();
    // It limits the time of a kernel itself: without an answer, it hangs.
    if (absl::IsDeadlineExceeded(failed) || (!greeted.ok() && fresh))
      return SetAbsent(greeted.ok()
                           ? absl::StrCat("\"", process.path, "\": gives no answer within ",
                                          kAnswerTimeoutMs / 1000, " s")
                           : std::string(failed.message()));
  }
  return absl::UnavailableError(absl::StrCat("kiln-validate: ", failed.message()));
}

void Validator::Add(ValidationRequest request, Done done) {
  absl::MutexLock lock(&mutex_);
  jobs_.push_back({std::move(request), std::move(done)});
  ++pending_;
  if (waiting_ < static_cast<int>(jobs_.size()) &&
      static_cast<int>(threads_.size()) < threads_wanted_)
    threads_.emplace_back([this] { Work(); });
}

void Validator::Finish() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(
      +[](Validator* validator) ABSL_NO_THREAD_SAFETY_ANALYSIS { return validator->pending_ == 0; },
      this));
}

void Validator::Work() {
  const auto something = +[](Validator* validator) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return validator->stop_ || !validator->jobs_.empty();
  };
  for (;;) {
    Job job;
    {
      absl::MutexLock lock(&mutex_);
      ++waiting_;
      mutex_.Await(absl::Condition(something, this));
      --waiting_;
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job.done(Validate(job.request));
    job = {};  // what `done` holds goes before Finish returns
    absl::MutexLock lock(&mutex_);
    --pending_;
  }
}

}  // namespace kiln
