// SPDX-License-Identifier: Apache-2.0
// The one thread pool of a model: parallel loops with a fixed partition.
//
//   Pool pool(4);
//   int error = pool.ParallelFor(1000, [&](int64_t begin, int64_t end) { ...; return 0; });
//
// Rules, on which kernels and library operators rely:
//   - `threads` is a hard cap: never more threads than that work in regions of one pool, the caller
//     included. Concurrent callers take turns, region by region; exec/support/admission.h is for
//     more than a region.
//   - Member w of m = min(n, threads) runs [n*w/m, n*(w+1)/m): who runs what depends on n and
//     threads only. With n <= threads every index has a thread of its own.
//   - A region inside a region runs on its caller alone. So does everything when threads is 1.
//   - No allocation per region. Threads start with the first region that wants them, wait awake
//     for at most the spin time after their last work or after Ready, offering their processor to
//     others, and then sleep.
//   - With an executor the members beside the caller are tasks of the host's threads; nobody waits
//     awake. Where it refuses, threads of the pool's own do them.
//   - A child after fork() starts anew with no threads; forking while another thread is in a region
//     is safe for the pool.
//   - Should the system refuse a thread, its share is run by the caller: slower, same partition.
#ifndef KILN_EXEC_SUPPORT_POOL_H_
#define KILN_EXEC_SUPPORT_POOL_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"

namespace kiln {

class AdmissionQueue;

// As in RuntimeOptions (kiln/runtime.h).
struct PoolSettings {
  std::chrono::microseconds spin{1000};
  std::function<void(int member)> on_thread_start;
  // Executor::Start of the host's threads; null: there are none.
  std::function<bool(int members, void (*task)(void* data, int member), void* data)> start;
};

class Pool {
 public:
  // fn(begin, end) -> 0, or an error code. It must not throw.
  using RangeFn = absl::FunctionRef<int(int64_t begin, int64_t end)>;

  // `threads` below 1 counts as 1.
  explicit Pool(int threads, PoolSettings settings = {});
  // Waits for its threads to end. No region may be running.
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int threads() const { return threads_; }

  // Calls fn for all of [0, n) as written above and returns when all calls have; the result is the
  // first non-zero one, in time, else 0. At most `limit` members take part. Thread-safe.
  int ParallelFor(int64_t n, RangeFn fn, int limit = INT32_MAX);

  // A region in two halves, for callers that cannot wait in a function of ours (OpenMP's entry
  // points): has task(data, member) run on members 1 .. members-1, with 2 <= members <= threads(),
  // and returns true; the caller is member 0 until it calls End on the same thread, which waits for
  // the others. Returns false and does nothing inside a region or if the system refuses a thread.
  using MemberFn = void (*)(void* data, int member);
  bool Begin(int members, MemberFn task, void* data) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void End() ABSL_NO_THREAD_SAFETY_ANALYSIS;

  // Starts the threads that have not started yet. False if the system refuses one.
  bool StartThreads();

  // Whether all threads wait awake, so that a region begins at once. Else they are woken for the
  // next who asks, if the last one asked a moment ago: who asks again and again has threads that
  // are awake, and who does so now and then leaves them asleep. Not for some milliseconds after a
  // region waited long for them: others have the processors. Thread-safe.
  bool Ready();

  // Where callers wait for their Admission (exec/support/admission.h).
  AdmissionQueue& admission_queue();

  // True inside fn, also when the region ran on its caller alone.
  static bool InRegion();

  // The member that the calling thread is in the innermost region with several members, in [0,
  // threads); 0 outside.
  static int Member();

 private:
  struct Team;
  Team* GetTeam();

  const int threads_;
  const PoolSettings settings_;
  std::atomic<Team*> team_{nullptr};
};

}  // namespace kiln

#endif  // KILN_EXEC_SUPPORT_POOL_H_
