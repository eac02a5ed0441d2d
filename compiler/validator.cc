// SPDX-License-Identifier: Apache-2.0
#include "kiln/compiler/validator.h"

#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "kiln/base/status_macros.h"
#include "kiln/halide_gen/build_id.h"
#include "kiln/kernel/kernel.h"
#include "kiln/persistent_cache/key.h"

namespace kiln {
namespace {

constexpr int kHelloTimeoutMs = 20'000;
constexpr int kAnswerTimeoutMs = 60'000;  // kiln-validate limits the processor time by itself

// The environment variable that names the executable; its older name where only that is set.
const char* Variable() {
  return std::getenv("KILN_VALIDATE") == nullptr && std::getenv("KILN_PROVE") != nullptr
             ? "KILN_PROVE"
             : "KILN_VALIDATE";
}

}  // namespace

std::string EncodeValidation(const absl::StatusOr<std::string>& validation) {
  return Preimage()
      .Add("code", absl::StrCat(static_cast<int>(validation.status().code())))
      .Add("text", validation.ok() ? absl::string_view(*validation) : validation.status().message())
      .bytes();
}

absl::StatusOr<std::string> DecodeValidation(absl::string_view bytes) {
  int code = 0;
  if (!absl::SimpleAtoi(FieldOf(bytes, "code"), &code))
    return absl::UnavailableError("kiln-validate: its answer cannot be read");
  if (code == 0) return FieldOf(bytes, "text");
  return absl::Status(static_cast<absl::StatusCode>(code), FieldOf(bytes, "text"));
}

std::string ValidatorHello() {
  return absl::StrCat("kiln-validate ", kValidationVersion, " math ", kMathVersion, " codegen ",
                      kCodegenBuildId);
}

Validator::Validator(std::string executable, int processes)
    : executable_(std::move(executable)), processes_(processes) {}

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

absl::StatusOr<std::unique_ptr<ChildProcess>> Validator::Acquire() {
  {
    absl::MutexLock lock(&mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<ChildProcess> process = std::move(idle_.back());
      idle_.pop_back();
      return process;
    }
  }
  KILN_ASSIGN_OR_RETURN(const std::string path,
                        FindProgram("kiln-validate", executable_, Variable()));
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<ChildProcess> process, ChildProcess::Start(path));
  const absl::StatusOr<std::string> hello = process->Read(kHelloTimeoutMs);
  if (!hello.ok() || *hello != ValidatorHello()) {
    return absl::NotFoundError(absl::StrCat(
        "\"", path, "\": ", hello.ok() ? "is of another build" : hello.status().message(),
        "; install the program of this build, or set KILN_VALIDATE"));
  }
  return process;
}

absl::StatusOr<std::string> Validator::Validate(const ValidationRequest& request) {
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<ChildProcess> process, Acquire());
  absl::Status failed = process->Write(Encode(request));
  if (failed.ok()) {
    const absl::StatusOr<std::string> answer = process->Read(kAnswerTimeoutMs);
    if (answer.ok()) {
      absl::MutexLock lock(&mutex_);
      idle_.push_back(std::move(process));
      return DecodeValidation(*answer);
    }
    failed = answer.status();
  }
  return absl::UnavailableError(absl::StrCat("kiln-validate: ", failed.message()));
}

void Validator::Add(ValidationRequest request, Done done) {
  absl::MutexLock lock(&mutex_);
  jobs_.push_back({std::move(request), std::move(done)});
  ++pending_;
  if (waiting_ < static_cast<int>(jobs_.size()) && static_cast<int>(threads_.size()) < processes_)
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
