// SPDX-License-Identifier: Apache-2.0
#include "base/helper_pool.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/catch_exceptions.h"
#include "base/fork.h"
#include "base/frames.h"
#include "base/little_endian.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

using std::chrono::seconds;

constexpr seconds kFirstPause{1}, kLongestPause{60};

}  // namespace

HelperPool::HelperPool(HelperProgram program, int most)
    : program_(std::move(program)), most_(std::max(most, 1)), generation_(ForkGeneration()) {
  idle_.reserve(static_cast<size_t>(most_));
}

HelperPool::~HelperPool() { Stop(); }

void HelperPool::Stop() {
  std::vector<Process> idle;  // ended without the lock
  const MutexLock lock(mutex_);
  StartAnewAfterFork();
  stopped_ = true;
  idle.swap(idle_);
  for (ChildProcess* process : busy_) process->HangUp();
  changed_.NotifyAll();
}

// Processes and threads are the parent's. Where others waited for a greeting, nobody does.
void HelperPool::StartAnewAfterFork() {
  if (std::exchange(generation_, ForkGeneration()) == ForkGeneration()) return;
  idle_.clear();
  busy_.clear();
  processes_ = keeping_ = 0;
  greeting_ = ending_ = false;
  ender_ = Thread();
}

bool HelperPool::IsUnusable() const { return !unusable_.ok() && Clock::now() < unusable_until_; }

void HelperPool::SetUnusable(const absl::Status& why, Clock::time_point since) {
  const Clock::time_point now = Clock::now();
  unusable_ = why;
  unusable_until_ = now + std::max(pause_, 4 * (now - since));
  pause_ = std::min<Clock::duration>(2 * pause_, kLongestPause);
  changed_.NotifyAll();
}

bool HelperPool::MayTake() const {
  if (greeting_) return false;
  return processes_ < most_ || !idle_.empty();
}

absl::StatusOr<HelperPool::Process> HelperPool::Start() {
  const Clock::time_point since = Clock::now();
  absl::StatusOr<Process> started =
      CatchExceptions(program_.name, [&]() -> absl::StatusOr<Process> {
        Process process;
        KILN_ASSIGN_OR_RETURN(process.path, program_.find());
        KILN_ASSIGN_OR_RETURN(process.child, ChildProcess::Start(process.path));
        const MutexLock lock(mutex_);
        if (stopped_) return absl::CancelledError(absl::StrCat(program_.name, ": stopped"));
        busy_.insert(process.child.get());
        return process;
      });
  if (started.ok()) return started;
  const MutexLock lock(mutex_);
  --processes_;
  greeting_ = false;
  if (!stopped_) SetUnusable(started.status(), since);
  return started.status();
}

absl::StatusOr<HelperPool::Process> HelperPool::Take(bool fresh) {
  Process gone;  // ended without the lock
  {
    const MutexLock lock(mutex_);
    StartAnewAfterFork();
    while (!stopped_ && !IsUnusable() && !MayTake()) changed_.Wait(mutex_);
    if (stopped_) return absl::CancelledError(absl::StrCat(program_.name, ": stopped"));
    if (IsUnusable()) return unusable_;
    if (!fresh && !idle_.empty()) {
      busy_.insert(idle_.back().child.get());
      Process process = std::move(idle_.back());
      idle_.pop_back();
      greeting_ = !greeted_;
      return process;
    }
    if (processes_ >= most_) {
      gone = std::move(idle_.front());
      idle_.erase(idle_.begin());
      --processes_;
    }
    ++processes_;
    greeting_ = !greeted_;
  }
  return Start();
}

void HelperPool::Return(Process process, bool usable) {
  Process gone;  // ended without the lock
  const MutexLock lock(mutex_);
  busy_.erase(process.child.get());
  if (usable && !stopped_ && (StartEnding() || keeping_ > 0)) {
    process.idle_since = Clock::now();
    idle_.push_back(std::move(process));  // there is room: it is one of most_
  } else {
    gone = std::move(process);
    --processes_;
  }
  changed_.NotifyAll();
}

HelperPool::Keeping::Keeping(HelperPool& pool) : pool_(pool) {
  const MutexLock lock(pool_.mutex_);
  pool_.StartAnewAfterFork();
  generation_ = pool_.generation_;
  ++pool_.keeping_;
}

HelperPool::Keeping::~Keeping() {
  std::vector<Process> idle;  // ended without the lock
  const MutexLock lock(pool_.mutex_);
  pool_.StartAnewAfterFork();
  if (generation_ != pool_.generation_ || --pool_.keeping_ > 0 || pool_.ending_) return;
  idle.swap(pool_.idle_);
  pool_.processes_ -= static_cast<int>(idle.size());
  pool_.changed_.NotifyAll();
}

void HelperPool::Prepare(int processes) {
  {
    const MutexLock lock(mutex_);
    StartAnewAfterFork();
    const int most = greeted_ ? std::min(processes, most_) : 1;
    if (processes_ >= most || stopped_ || IsUnusable()) return;
    ++processes_;
  }
  absl::StatusOr<Process> process = Start();
  if (process.ok()) Return(*std::move(process), /*usable=*/true);
}

void HelperPool::PrepareAll(int processes) {
  Prepare(1);
  bool greets = false;
  {
    const MutexLock lock(mutex_);
    greets = !greeted_ && !stopped_ && !IsUnusable();
  }
  if (greets) {
    absl::StatusOr<Process> first = Take(/*fresh=*/false);
    if (!first.ok()) return;
    const bool usable = Greet(*first).ok();
    Return(*std::move(first), usable);
  }
  for (int more = 1; more < processes; ++more) Prepare(processes);
}

// What went wrong with a message, in the code that Ask gives for a process that is gone.
absl::Status HelperPool::Gone(const Process& process, const absl::Status& why) const {
  if (absl::IsDeadlineExceeded(why)) return why;
  const absl::string_view what =
      absl::IsNotFound(why) ? "it has ended" : absl::StripPrefix(why.message(), "message: ");
  return absl::UnavailableError(absl::StrCat("\"", process.path, "\": ", what));
}

absl::Status HelperPool::Greet(Process& process) {
  if (process.greeted) return absl::OkStatus();
  const absl::Cleanup others_may_go_on = [&] {
    const MutexLock lock(mutex_);
    greeting_ = false;
    changed_.NotifyAll();
  };
  const Clock::time_point since = Clock::now();
  const absl::StatusOr<std::string> hello = process.child->Read(program_.hello_timeout_ms);
  absl::Status status = hello.ok() ? program_.check_hello(*hello) : Gone(process, hello.status());
  if (absl::IsDeadlineExceeded(status)) {
    status = absl::NotFoundError(absl::StrCat("\"", process.path, "\": says nothing within ",
                                              program_.hello_timeout_ms, " ms; install the ",
                                              program_.name, " of this build"));
  }
  const MutexLock lock(mutex_);
  process.greeted = status.ok();
  if (absl::IsUnavailable(status) && !greeted_ && ++silent_deaths_ >= 2) {
    status = absl::NotFoundError(
        absl::StrCat(status.message(), " before it says hello, more than once"));
  }
  if (status.ok()) {
    greeted_ = true;
    unusable_ = absl::OkStatus();
    pause_ = kFirstPause;
  } else if (!absl::IsUnavailable(status) && !stopped_) {
    SetUnusable(status, since);
  }
  return status;
}

absl::StatusOr<std::string> HelperPool::Exchange(Process& process, absl::string_view frame,
                                                 int timeout_ms) {
  KILN_RETURN_IF_ERROR(Greet(process));
  const Clock::time_point since = Clock::now();
  const absl::Status written = process.child->Write(frame, timeout_ms);
  absl::StatusOr<std::string> answer =
      written.ok() ? process.child->Read(timeout_ms) : absl::StatusOr<std::string>(written);
  if (absl::IsDeadlineExceeded(answer.status())) {
    const absl::Status hangs = absl::NotFoundError(
        absl::StrCat("\"", process.path, "\": has given no answer within ", timeout_ms, " ms"));
    const MutexLock lock(mutex_);
    if (!stopped_) SetUnusable(hangs, since);
  }
  if (!answer.ok()) return Gone(process, answer.status());
  if (answer->size() < kNumberBytes || LoadU64(*answer) != LoadU64(frame))
    return Gone(process, absl::DataLossError("it answers what it was not asked"));
  answer->erase(0, kNumberBytes);
  return answer;
}

absl::StatusOr<std::string> HelperPool::AskOne(absl::string_view frame, int timeout_ms, bool fresh,
                                               bool& died) {
  KILN_ASSIGN_OR_RETURN(Process process, Take(fresh));
  bool usable = false;
  const absl::Cleanup give_back = [&] { Return(std::move(process), usable); };
  absl::StatusOr<std::string> answer = Exchange(process, frame, timeout_ms);
  usable = answer.ok();
  died = !usable && process.fresh;
  process.fresh = false;
  return answer;
}

absl::StatusOr<std::string> HelperPool::Ask(absl::string_view request, int timeout_ms) {
  std::string frame;
  {
    const MutexLock lock(mutex_);
    AppendU64(frame, ++requests_);
  }
  absl::StrAppend(&frame, request);
  bool fresh = false;
  for (int deaths = 0;; fresh = true) {
    bool died = false;
    absl::StatusOr<std::string> answer = AskOne(frame, timeout_ms, fresh, died);
    deaths += died ? 1 : 0;
    if (answer.ok()) return answer;
    const MutexLock lock(mutex_);
    if (stopped_) return absl::CancelledError(absl::StrCat(program_.name, ": stopped"));
    if (!absl::IsUnavailable(answer.status()) || deaths >= 2 || (fresh && !died)) return answer;
  }
}

bool HelperPool::StartEnding() {
  if (ending_) return true;
  absl::StatusOr<Thread> ender = Thread::Start([this] { EndIdle(); });
  if (!ender.ok()) return false;
  ender_ = *std::move(ender);  // the one before, if any, has nothing left to do
  ending_ = true;
  return true;
}

void HelperPool::EndIdle() {
  mutex_.Lock();
  while (!idle_.empty()) {
    const Clock::time_point due = idle_.front().idle_since + kIdle;
    if (Clock::now() < due) {
      changed_.WaitUntil(mutex_, due);
      continue;
    }
    Process gone = std::move(idle_.front());
    idle_.erase(idle_.begin());
    --processes_;
    changed_.NotifyAll();
    mutex_.Unlock();
    gone = Process();
    mutex_.Lock();
  }
  ending_ = false;
  mutex_.Unlock();
}

}  // namespace kiln
