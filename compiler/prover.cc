// SPDX-License-Identifier: Apache-2.0
#include "kiln/compiler/prover.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "kiln/base/status_macros.h"
#include "kiln/halide_gen/build_id.h"
#include "kiln/kernel/kernel.h"
#include "kiln/persistent_cache/key.h"

namespace kiln {
namespace {

constexpr int kHelloTimeoutMs = 20'000;
constexpr int kAnswerTimeoutMs = 60'000;  // kiln-prove limits the processor time by itself

}  // namespace

std::string EncodeProof(const absl::StatusOr<std::string>& proof) {
  return Preimage()
      .Add("code", absl::StrCat(static_cast<int>(proof.status().code())))
      .Add("text", proof.ok() ? absl::string_view(*proof) : proof.status().message())
      .bytes();
}

absl::StatusOr<std::string> DecodeProof(absl::string_view bytes) {
  int code = 0;
  if (!absl::SimpleAtoi(FieldOf(bytes, "code"), &code))
    return absl::UnavailableError("kiln-prove: its answer cannot be read");
  if (code == 0) return FieldOf(bytes, "text");
  return absl::Status(static_cast<absl::StatusCode>(code), FieldOf(bytes, "text"));
}

std::string ProverHello() {
  return absl::StrCat("kiln-prove ", kProofVersion, " math ", kMathVersion, " codegen ",
                      kCodegenBuildId);
}

Prover::Prover(std::string executable, int processes)
    : executable_(std::move(executable)), processes_(processes) {}

Prover::~Prover() {
  Finish();
  std::vector<std::thread> threads;
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
    threads = std::move(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

absl::StatusOr<std::unique_ptr<ChildProcess>> Prover::Acquire() {
  {
    absl::MutexLock lock(&mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<ChildProcess> process = std::move(idle_.back());
      idle_.pop_back();
      return process;
    }
  }
  KILN_ASSIGN_OR_RETURN(const std::string path,
                        FindProgram("kiln-prove", executable_, "KILN_PROVE"));
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<ChildProcess> process, ChildProcess::Start(path));
  const absl::StatusOr<std::string> hello = process->Read(kHelloTimeoutMs);
  if (!hello.ok() || *hello != ProverHello()) {
    return absl::NotFoundError(absl::StrCat(
        "\"", path, "\": ", hello.ok() ? "is of another build" : hello.status().message(),
        "; install the program of this build, or set KILN_PROVE"));
  }
  return process;
}

absl::StatusOr<std::string> Prover::Prove(const ProofRequest& request) {
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<ChildProcess> process, Acquire());
  absl::Status failed = process->Write(Encode(request));
  if (failed.ok()) {
    const absl::StatusOr<std::string> answer = process->Read(kAnswerTimeoutMs);
    if (answer.ok()) {
      absl::MutexLock lock(&mutex_);
      idle_.push_back(std::move(process));
      return DecodeProof(*answer);
    }
    failed = answer.status();
  }
  return absl::UnavailableError(absl::StrCat("kiln-prove: ", failed.message()));
}

void Prover::Add(ProofRequest request, Done done) {
  absl::MutexLock lock(&mutex_);
  jobs_.push_back({std::move(request), std::move(done)});
  ++pending_;
  if (waiting_ < static_cast<int>(jobs_.size()) && static_cast<int>(threads_.size()) < processes_)
    threads_.emplace_back([this] { Work(); });
}

void Prover::Finish() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(
      +[](Prover* prover) ABSL_NO_THREAD_SAFETY_ANALYSIS { return prover->pending_ == 0; }, this));
}

void Prover::Work() {
  const auto something = +[](Prover* prover) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return prover->stop_ || !prover->jobs_.empty();
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
    job.done(Prove(job.request));
    job = {};  // what `done` holds goes before Finish returns
    absl::MutexLock lock(&mutex_);
    --pending_;
  }
}

}  // namespace kiln
