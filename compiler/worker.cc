// SPDX-License-Identifier: Apache-2.0
#include "kiln/compiler/worker.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "kiln/base/status_macros.h"
#include "kiln/halide_gen/build_id.h"

namespace kiln {
namespace {

constexpr int kHelloTimeoutMs = 20'000;
constexpr int kGraceMs =
    5'000;  // on top of a request's own time limit, which the worker keeps itself

}  // namespace

absl::StatusOr<std::string> FindCodegen(const std::string& wanted) {
  absl::StatusOr<std::string> found = FindProgram("kiln-codegen", wanted, "KILN_CODEGEN");
  if (found.ok()) return found;
  return absl::NotFoundError(absl::StrCat("kernel compiler: ", found.status().message(),
                                          ", or run with --compile-mode never"));
}

WorkerPool::WorkerPool(std::string executable, int size)
    : executable_(std::move(executable)), size_(size) {}
WorkerPool::~WorkerPool() = default;

namespace {

absl::StatusOr<CodegenHello> ReadHello(ChildProcess& worker) {
  KILN_ASSIGN_OR_RETURN(const std::string frame, worker.Read(kHelloTimeoutMs));
  return DecodeHello(frame);
}

absl::StatusOr<CodegenAnswer> Ask(ChildProcess& worker, const CodegenRequest& request) {
  KILN_RETURN_IF_ERROR(worker.Write(Encode(request)));
  KILN_ASSIGN_OR_RETURN(const std::string frame,
                        worker.Read(static_cast<int>(request.timeout_ms) + kGraceMs));
  return DecodeAnswer(frame);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> WorkerPool::Start() {
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<ChildProcess> worker, ChildProcess::Start(executable_));
  {
    absl::MutexLock lock(&mutex_);
    if (stopped_) return absl::CancelledError("kiln-codegen: stopped");
    busy_.insert(worker.get());
  }
  absl::Cleanup forget = [&] {
    absl::MutexLock lock(&mutex_);
    busy_.erase(worker.get());
  };
  const absl::StatusOr<CodegenHello> hello = ReadHello(*worker);
  // One that cannot be read says nothing of the kernel: kDataLoss is for code that is refused.
  if (absl::IsDataLoss(hello.status()))
    return absl::UnavailableError(absl::StrCat("kiln-codegen: ", hello.status().message()));
  KILN_RETURN_IF_ERROR(hello.status());
  if (hello->build_id != kCodegenBuildId) {
    return absl::FailedPreconditionError(
        absl::StrCat("kiln-codegen \"", executable_, "\": is build ", hello->build_id,
                     ", this library needs ", kCodegenBuildId, "; install both from one build"));
  }
  std::move(forget).Cancel();
  return worker;
}

absl::StatusOr<std::unique_ptr<ChildProcess>> WorkerPool::Acquire() {
  {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](WorkerPool* pool) ABSL_NO_THREAD_SAFETY_ANALYSIS {
          return !pool->idle_.empty() || pool->running_ < pool->size_;
        },
        this));
    if (stopped_) return absl::CancelledError("kiln-codegen: stopped");
    KILN_RETURN_IF_ERROR(broken_);
    ++running_;
    if (!idle_.empty()) {
      std::unique_ptr<ChildProcess> worker = std::move(idle_.back());
      idle_.pop_back();
      busy_.insert(worker.get());
      return worker;
    }
  }
  absl::StatusOr<std::unique_ptr<ChildProcess>> worker = Start();
  {
    absl::MutexLock lock(&mutex_);
    if (worker.ok()) started_ = true;
    if (!worker.ok() && !started_) broken_ = worker.status();
    if (!worker.ok()) --running_;
  }
  return worker;
}

void WorkerPool::Release(std::unique_ptr<ChildProcess> worker, bool usable) {
  std::unique_ptr<ChildProcess> gone;  // ended without the lock
  absl::MutexLock lock(&mutex_);
  --running_;
  busy_.erase(worker.get());
  if (usable && !stopped_) {
    idle_.push_back(std::move(worker));
  } else {
    gone = std::move(worker);
  }
}

void WorkerPool::Stop() {
  std::vector<std::unique_ptr<ChildProcess>> idle;  // ended without the lock
  absl::MutexLock lock(&mutex_);
  stopped_ = true;
  idle.swap(idle_);
  for (ChildProcess* worker : busy_) worker->Kill();  // their callers read an end
}

absl::StatusOr<CodegenAnswer> WorkerPool::Compile(const CodegenRequest& request) {
  absl::Status last;
  for (int attempt = 0; attempt < 2; ++attempt) {
    KILN_ASSIGN_OR_RETURN(std::unique_ptr<ChildProcess> worker, Acquire());
    absl::StatusOr<CodegenAnswer> answer = Ask(*worker, request);
    Release(std::move(worker), /*usable=*/answer.ok());  // else it is dead or out of step
    if (answer.ok() || absl::IsDeadlineExceeded(answer.status())) return answer;
    last = answer.status();
  }
  return absl::UnavailableError(
      absl::StrCat("kiln-codegen: gave no answer twice on one kernel: ", last.message()));
}

}  // namespace kiln
