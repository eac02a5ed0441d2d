// SPDX-License-Identifier: Apache-2.0
#include "exec/support/pool.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "base/catch_exceptions.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "exec/support/admission_queue.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;

// How long a caller stays awake for the others. To sleep and be woken costs some 100 us on a
// virtual processor: it sleeps only where the others' shares last much longer than its own.
constexpr std::chrono::milliseconds kCallerSpin(2);  // speed
// From then on they offer their processor to others at every look: the system likes to put a woken
// thread on the waker's, and who spins there keeps it from the thread that it waits for.
constexpr int kSpinsAlone = 64;  // speed
// Who asks for awake threads within this time of the last question will ask again.
constexpr std::chrono::microseconds kAMoment(200);  // speed
// Workers that keep a caller waiting for longer than uneven shares of a small plan do share their
// processor with others. If that comes twice in a few regions they are not Ready for a time, which
// doubles as often as that comes again soon.
constexpr std::chrono::microseconds kLate(20);                            // speed
constexpr int kFewRegions = 16;                                           // speed
constexpr std::chrono::milliseconds kShortestRest(4), kLongestRest(128);  // speed

struct ThreadPlace {
  int depth = 0;
  int member = 0;
};
thread_local ThreadPlace place;

void FutexWait(std::atomic<uint32_t>& word, uint32_t value) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, value, nullptr,
          nullptr, 0);
}

void FutexWake(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr,
          0);
}

// A word that one thread waits on and others change. The waiter spins, then says that it sleeps; a
// change that sees it asleep wakes it. Both sides are sequentially consistent: either the waiter
// sees the change or the changer sees the sleeper. Woken without a change, it spins anew.
struct alignas(64) Mailbox {
  std::atomic<uint32_t> word{0};
  std::atomic<bool> asleep{false};

  void Wake() {
    if (asleep.load()) FutexWake(word);
  }

  template <typename Done>
  void WaitUntil(Done done, std::chrono::microseconds spin) {
    if (done(word.load())) return;
    for (int i = 0; i < kSpinsAlone && spin.count() > 0; ++i) {
      if (done(word.load(std::memory_order_acquire))) return;
      __builtin_ia32_pause();
    }
    for (;;) {
      const Clock::time_point give_up = Clock::now() + spin;
      while (spin.count() > 0 && Clock::now() < give_up) {
        if (done(word.load(std::memory_order_acquire))) return;
        sched_yield();
      }
      asleep.store(true);
      const uint32_t seen = word.load();
      const bool ends = done(seen);
      if (!ends) FutexWait(word, seen);
      asleep.store(false);
      if (ends) return;
    }
  }
};

// Moves the calling thread to another processor than `cpu`, if it may run on others. The system
// leaves two threads that take turns on one processor where they are, even beside an idle one.
void LeaveProcessor(int cpu) {
  cpu_set_t allowed, others;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || cpu < 0 || cpu >= CPU_SETSIZE) return;
  others = allowed;
  CPU_CLR(cpu, &others);
  if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof others, &others) != 0) return;
  sched_setaffinity(0, sizeof allowed, &allowed);
}

}  // namespace

struct Pool::Team {
  struct Worker {
    Mailbox mail;  // counts the regions this worker was called to
    Thread thread;
  };

  Team(int threads, const PoolSettings& s, uint32_t forks)
      : settings(s),
        fork_count(forks),
        admission_queue(threads),
        workers(new Worker[static_cast<size_t>(threads - 1)]) {}

  // Stops and joins the first `started` workers, or sees the host's threads leave.
  void Stop(int started) {
    while (hosted.load() != 0) sched_yield();
    stop = true;
    for (int w = 0; w < started; ++w) {
      workers[w].mail.word.fetch_add(1);
      workers[w].mail.Wake();
      workers[w].thread.Join();
    }
  }

  // Starts workers up to `count`; returns how many there are.
  int Start(int count) {
    while (started < count) {
      absl::StatusOr<Thread> thread = Thread::Start([this, w = started.load()] { WorkerLoop(w); });
      if (!thread.ok()) break;
      workers[started].thread = *std::move(thread);
      ++started;
    }
    return std::min(started.load(), count);
  }

  // What the host does on a thread that starts: one that is not what it wished works as well.
  void Greet(int member) const {
    if (!settings.on_thread_start) return;
    const absl::Status status = CatchExceptions("on_thread_start", [&] {
      settings.on_thread_start(member);
      return absl::OkStatus();
    });
    if (!status.ok()) LogWarning(status.message());
  }

  void WorkerLoop(int w) {
    Greet(w + 1);
    Mailbox& mail = workers[w].mail;
    for (uint32_t seen = 0;;) {
      mail.WaitUntil([&](uint32_t word) { return word != seen; }, settings.spin);
      ++seen;
      if (stop) return;
      if (sched_getcpu() == caller_cpu) LeaveProcessor(caller_cpu);
      RunMember(w + 1);
      if (pending.word.fetch_sub(1) == 1) pending.Wake();
    }
  }

  void RunMember(int member) {
    const ThreadPlace outer = std::exchange(place, ThreadPlace{place.depth + 1, member});
    task(data, member);
    place = outer;
  }

  // Has the host's threads, or else workers, begin a region as members 1 .. helpers, unless there
  // are fewer workers than `least`; returns how many began. Under `running`.
  int Call(int helpers, int least, MemberFn fn, void* argument) {
    task = fn;
    data = argument;
    if (CallHost(helpers)) return helpers;
    helpers = Start(helpers);
    if (helpers < least) return 0;
    pending.word.store(static_cast<uint32_t>(helpers));
    caller_cpu = sched_getcpu();
    for (int w = 0; w < helpers; ++w) {
      workers[w].mail.word.fetch_add(1);
      workers[w].mail.Wake();
    }
    return helpers;
  }

  bool CallHost(int helpers) {
    if (settings.start == nullptr) return false;
    const auto run = [](void* team, int member) { static_cast<Team*>(team)->RunHosted(member); };
    pending.word.store(static_cast<uint32_t>(helpers));
    hosted.fetch_add(helpers);
    bool begins = false;
    const absl::Status status = CatchExceptions("executor", [&] {
      begins = settings.start(helpers + 1, run, this);
      return absl::OkStatus();
    });
    if (begins) return true;
    if (!status.ok()) LogWarning(status.message());
    hosted.fetch_sub(helpers);
    return false;
  }

  // A member on a thread of the host, which has nothing to do with this after `hosted`.
  void RunHosted(int member) {
    RunMember(member);
    if (pending.word.fetch_sub(1) == 1) pending.Wake();
    hosted.fetch_sub(1);
  }

  bool Awake(int count) const {
    if (started.load(std::memory_order_acquire) < count) return false;
    for (int w = 0; w < count; ++w)
      if (workers[w].mail.asleep.load(std::memory_order_relaxed)) return false;
    return true;
  }

  void Wait() {
    const auto none = [](uint32_t left) { return left == 0; };
    lateness = std::max(0, lateness - 1);
    if (none(pending.word.load())) return;
    const Clock::time_point since = Clock::now();
    pending.WaitUntil(none, kCallerSpin);
    const Clock::time_point now = Clock::now();
    if (now - since < kLate) return;
    lateness += kFewRegions;
    if (lateness > kFewRegions) Rest(now.time_since_epoch());
  }

  void Rest(Clock::duration now) {
    const Clock::duration longer = std::min<Clock::duration>(2 * rest, kLongestRest);
    rest = now - rested_until.load() < longer ? longer : kShortestRest;
    rested_until = now + rest;
    lateness = 0;
  }

  // Workers 1 .. members-1 take a member each; the caller is member 0 and runs what has no worker.
  void Run(int members, MemberFn fn, void* argument) {
    const MutexLock lock(running);
    const int helpers = Call(members - 1, 0, fn, argument);
    RunMember(0);
    for (int member = helpers + 1; member < members; ++member) RunMember(member);
    Wait();
  }

  const PoolSettings settings;
  const uint32_t fork_count;
  AdmissionQueue admission_queue;
  Mutex running{AtFork::kForget};
  std::unique_ptr<Worker[]> workers;
  std::atomic<int> started{0};  // changed under `running`
  std::atomic<bool> stop{false};
  std::atomic<Clock::duration> asked{};         // when Ready was called last
  std::atomic<Clock::duration> rested_until{};  // from when on workers may be Ready
  Clock::duration rest = kShortestRest;         // the last one; under `running`
  int lateness = 0;  // kFewRegions for each late region, less one for every region; under `running`
  // The region that runs; written under `running` before the workers are called.
  MemberFn task = nullptr;
  void* data = nullptr;
  int caller_cpu = -1;
  Mailbox pending;             // workers that have not finished
  std::atomic<int> hosted{0};  // of the host's threads, those that have not left
};

Pool::Pool(int threads, PoolSettings settings)
    : threads_(std::max(threads, 1)), settings_(std::move(settings)) {}

Pool::~Pool() {
  Team* team = team_.load();
  // A team from before a fork is left as it is: its threads and whoever held its lock do not exist
  // here.
  if (team == nullptr || team->fork_count != ForkGeneration()) return;
  team->Stop(team->started);
  delete team;
}

Pool::Team* Pool::GetTeam() {
  const uint32_t forks = ForkGeneration();
  Team* team = team_.load(std::memory_order_acquire);
  if (team != nullptr && team->fork_count == forks) return team;
  auto fresh = std::make_unique<Team>(threads_, settings_, forks);
  if (team_.compare_exchange_strong(team, fresh.get())) return fresh.release();
  return team;
}

int Pool::ParallelFor(int64_t n, RangeFn fn, int limit) {
  if (n <= 0) return 0;
  const int64_t members = std::min<int64_t>({n, threads_, std::max(limit, 1)});
  if (members == 1 || place.depth > 0) {
    ++place.depth;
    const int result = fn(0, n);
    --place.depth;
    return result;
  }
  struct Loop {
    int64_t n, members;
    RangeFn fn;
    std::atomic<int> error{0};
  } loop{n, members, fn};
  const MemberFn part = [](void* data, int member) {
    Loop& l = *static_cast<Loop*>(data);
    const int result = l.fn(l.n * member / l.members, l.n * (member + 1) / l.members);
    int none = 0;
    if (result != 0) l.error.compare_exchange_strong(none, result);
  };
  GetTeam()->Run(static_cast<int>(members), part, &loop);
  return loop.error;
}

bool Pool::Begin(int members, MemberFn task, void* data) {
  if (place.depth > 0) return false;
  Team& team = *GetTeam();
  team.running.Lock();
  if (team.Call(members - 1, members - 1, task, data) == 0) {
    team.running.Unlock();
    return false;
  }
  place = {1, 0};
  return true;
}

void Pool::End() {
  Team& team = *GetTeam();
  team.Wait();
  place = {0, 0};
  team.running.Unlock();
}

bool Pool::StartThreads() {
  if (threads_ == 1 || settings_.start != nullptr) return true;
  Team& team = *GetTeam();
  if (team.started.load(std::memory_order_acquire) == threads_ - 1) return true;
  const MutexLock lock(team.running);
  return team.Start(threads_ - 1) == threads_ - 1;
}

bool Pool::Ready() {
  if (threads_ == 1 || settings_.start != nullptr) return false;
  Team& team = *GetTeam();
  const Clock::duration now = Clock::now().time_since_epoch();
  const Clock::duration since = now - team.asked.exchange(now);
  if (now < team.rested_until.load()) return false;
  if (team.Awake(threads_ - 1)) return true;
  if (since > kAMoment || !StartThreads()) return false;
  for (int w = 0; w < threads_ - 1; ++w) team.workers[w].mail.Wake();
  return false;
}

AdmissionQueue& Pool::admission_queue() { return GetTeam()->admission_queue; }

bool Pool::InRegion() { return place.depth > 0; }

int Pool::Member() { return place.member; }

}  // namespace kiln
