// SPDX-License-Identifier: Apache-2.0
#include "kiln/exec/validate/validator.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "kiln/base/status_macros.h"
#include "kiln/exec/validate/build_id.h"
#include "kiln/kernel/kernel.h"

namespace kiln {
namespace {

constexpr int kHelloTimeoutMs = 20'000;
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

Validator::Validator(std::string executable, int threads)
    : executable_(std::move(executable)), threads_wanted_(threads) {}

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

absl::Status Validator::Greet(Process& process) {
  if (process.greeted) return absl::OkStatus();
  const absl::StatusOr<std::string> hello = process.child->Read(kHelloTimeoutMs);
  if (!hello.ok() || *hello != ValidatorHello()) {
    return absl::NotFoundError(absl::StrCat(
        "\"", process.path, "\": ", hello.ok() ? "is of another build" : hello.status().message(),
        "; install the program of this build, or set KILN_VALIDATE"));
  }
  process.greeted = true;
  return absl::OkStatus();
}

void Validator::Prepare(int processes) {
  {
    absl::MutexLock lock(&mutex_);
    if (processes_ >= processes) return;
    ++processes_;
  }
  absl::StatusOr<Process> process = Start();
  if (process.ok()) return PutIdle(*std::move(process));
  absl::MutexLock lock(&mutex_);
  --processes_;
}

Validator::Process Validator::TakeIdle() {
  absl::MutexLock lock(&mutex_);
  if (idle_.empty()) return {};
  Process process = std::move(idle_.back());
  idle_.pop_back();
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
    Process process = attempt == 0 ? TakeIdle() : Process{};
    const bool fresh = process.child == nullptr;
    if (fresh) {
      absl::StatusOr<Process> started = Start();
      KILN_RETURN_IF_ERROR(started.status());
      process = *std::move(started);
      absl::MutexLock lock(&mutex_);
      ++processes_;
    }
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
    }
    if (fresh) KILN_RETURN_IF_ERROR(greeted);
    failed = answer.status();
    if (absl::IsDeadlineExceeded(failed)) break;
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
