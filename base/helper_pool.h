// SPDX-License-Identifier: Apache-2.0
// Processes of one helper program that answer requests, each one at a time.
//
//   HelperPool pool({.name = "kiln-codegen", .find = ..., .check_hello = ...}, /*most=*/2);
//   absl::StatusOr<std::string> answer = pool.Ask(request, /*timeout_ms=*/30'000);
//
// A process is started when it is needed and none is free, and ends when it has been idle for two
// seconds, with the pool, or with the host; where no thread may be started that ends it, with its
// answer or the last Keeping. It says hello first: `check_hello` looks whether it is of this build.
// A request and its answer carry a number, so that no answer is taken for another's.
//
// A process that dies, of whatever cause, costs its request another try with a fresh one. A program
// that is missing, does not start, greets wrongly or hangs is not tried again for a while, which
// doubles each time, from a second to a minute; until then Ask gives the same error at once. Before
// the first greeting only one process is started.
//
// A child of a fork has a pool without processes, and leaves its parent's alone. Thread-safe.
#ifndef KILN_BASE_HELPER_POOL_H_
#define KILN_BASE_HELPER_POOL_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/child_process.h"
#include "base/mutex.h"
#include "base/thread.h"

namespace kiln {

struct HelperProgram {
  std::string name;  // for messages
  std::function<absl::StatusOr<std::string>()> find;
  std::function<absl::Status(absl::string_view hello)> check_hello;
  int hello_timeout_ms = 20'000;
};

class HelperPool {
 public:
  static constexpr std::chrono::milliseconds kIdle{2000};

  // Starts nothing yet. `most` processes at once, at least 1.
  HelperPool(HelperProgram program, int most);
  // Ends all processes. Nobody may be in Ask.
  ~HelperPool();
  HelperPool(const HelperPool&) = delete;
  HelperPool& operator=(const HelperPool&) = delete;

  // Waits for a free process, and for its answer. What `find` and `check_hello` say;
  // kUnavailable: none could be started, or two gave no answer; kDeadlineExceeded: no answer within
  // the time; kCancelled: stopped.
  absl::StatusOr<std::string> Ask(absl::string_view request, int timeout_ms);

  // Starts processes, unless so many are there, so that they are ready when something is asked.
  // Does not wait for them; what goes wrong Ask says.
  void Prepare(int processes);
  // The same, but waits for the first greeting, before which only one is started.
  void PrepareAll(int processes);

  // While one lives, processes that are idle are kept, also where no thread may be started that
  // ends them; the last one ends those.
  //
  //   const HelperPool::Keeping keeping(pool);   // a caller without threads, for several requests
  class Keeping {
   public:
    explicit Keeping(HelperPool& pool);
    ~Keeping();
    Keeping(const Keeping&) = delete;
    Keeping& operator=(const Keeping&) = delete;

   private:
    HelperPool& pool_;
    uint32_t generation_;  // of the process that it keeps for
  };

  // Hangs up on all processes; calls of Ask, those under way too, give kCancelled from now on.
  void Stop();

 private:
  using Clock = std::chrono::steady_clock;
  struct Process {
    std::unique_ptr<ChildProcess> child;
    std::string path;
    bool greeted = false;
    bool fresh = true;  // it has answered nothing yet
    Clock::time_point idle_since;
  };

  // Asks one process, which is idle, unless `fresh`, or new. `died`: a fresh one gave no answer.
  absl::StatusOr<std::string> AskOne(absl::string_view frame, int timeout_ms, bool fresh,
                                     bool& died);
  absl::StatusOr<Process> Take(bool fresh);
  // The place that it takes is counted already.
  absl::StatusOr<Process> Start();
  absl::Status Greet(Process& process);
  absl::StatusOr<std::string> Exchange(Process& process, absl::string_view frame, int timeout_ms);
  absl::Status Gone(const Process& process, const absl::Status& why) const;
  // Takes back one that may be asked again, or is to be ended.
  void Return(Process process, bool usable);
  // Says it of all requests for a while.
  void SetUnusable(const absl::Status& why, Clock::time_point since)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsUnusable() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayTake() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndIdle();
  // False: there is no thread to do it.
  bool StartEnding() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartAnewAfterFork() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const HelperProgram program_;
  const int most_;
  Mutex mutex_;
  CondVar changed_;
  uint32_t generation_ ABSL_GUARDED_BY(mutex_);  // of the process that the rest is about
  uint64_t requests_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Process> idle_ ABSL_GUARDED_BY(mutex_);  // the longest idle first
  std::set<ChildProcess*> busy_ ABSL_GUARDED_BY(mutex_);
  int processes_ ABSL_GUARDED_BY(mutex_) = 0;  // idle, busy or about to be started
  bool greeted_ ABSL_GUARDED_BY(mutex_) = false;
  bool greeting_ ABSL_GUARDED_BY(mutex_) = false;  // the first greeting is waited for
  int silent_deaths_ ABSL_GUARDED_BY(mutex_) = 0;  // of processes, before the first greeting
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status unusable_ ABSL_GUARDED_BY(mutex_);  // until:
  Clock::time_point unusable_until_ ABSL_GUARDED_BY(mutex_);
  Clock::duration pause_ ABSL_GUARDED_BY(mutex_) = std::chrono::seconds(1);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;  // ender_ runs
  int keeping_ ABSL_GUARDED_BY(mutex_) = 0;      // Keepings
  Thread ender_;                                 // ends processes that are idle for long
};

}  // namespace kiln

#endif  // KILN_BASE_HELPER_POOL_H_
