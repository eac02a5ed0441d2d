// SPDX-License-Identifier: Apache-2.0
// Runtime: what models share inside a program: threads, memory, the cache, compiled kernels.
//
//   kiln::RuntimeOptions options;
//   options.threads = 8;
//   options.spin_time = std::chrono::microseconds(0);  // threads sleep as soon as they are idle
//   options.memory_budget = int64_t{2} << 30;
//   absl::StatusOr<std::shared_ptr<kiln::Runtime>> runtime = kiln::Runtime::Create(options);
//   kiln::CompileOptions compile;
//   compile.runtime = *runtime;                        // any number of models
//
// A model without a runtime of its own uses Runtime::Default(). Models with the same number of
// threads run on one pool and take turns there; the threads start with the first run that wants
// them. With one thread no thread is started at all. Two models of the same file and options share
// weights, packed weights, kernels and plans. All functions are thread-safe.
#ifndef KILN_RUNTIME_H_
#define KILN_RUNTIME_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kiln/status.h"

namespace kiln {

class Cache;  // kiln/cache.h

struct CacheOptions {
  bool enabled = true;
  std::string directory;   // empty: KILN_CACHE_DIR, XDG_CACHE_HOME/kiln or HOME/.cache/kiln
  bool read_only = false;  // look up, never write
  // A cache that is open already and may be shared; the two above are then not looked at.
  std::shared_ptr<Cache> open = nullptr;

  friend bool operator==(const CacheOptions&, const CacheOptions&) = default;
};

// Gives memory for arenas, copies of inputs, and outputs. Thread-safe; must not throw.
class KILN_API Allocator {
 public:
  virtual ~Allocator() = default;
  // `bytes` > 0 bytes at a multiple of `alignment`, a power of two from 64 on. Null: there is no
  // more.
  virtual void* Allocate(size_t bytes, size_t alignment) = 0;
  // What Allocate has given, with the same `bytes`.
  virtual void Free(void* memory, size_t bytes) = 0;
};

// Threads of the host in place of Kiln's own. Thread-safe; must not throw. May be given up last on
// one of them: its destructor must not wait for the thread that it is called on.
class KILN_API Executor {
 public:
  virtual ~Executor() = default;
  // Calls task(data, 1) ... task(data, members - 1), each at once and on a thread of its own, and
  // returns true without waiting for them; or returns false and calls nothing: threads of Kiln's
  // own are then started and do it. Who asks is member 0, but for Model::RunAsync: it asks with
  // `members` = 2, and the one thread has the whole run. Members may wait for each other, so one
  // that only begins when another has ended would wait forever: refuse where there are not enough
  // idle threads.
  virtual bool Start(int members, void (*task)(void* data, int member), void* data) = 0;
};

struct RuntimeOptions {
  // Of the pool, for models that ask for no number of their own; 0: the CPUs this process may use.
  int threads = 0;
  // How long a thread of the pool that has nothing to do stays awake, which saves the next region
  // some 50 us. 0: it sleeps at once.
  std::chrono::microseconds spin_time{1000};
  // Called first on each thread of the pool that starts, with its number from 1 on: for affinity,
  // priority or a name.
  std::function<void(int member)> on_thread_start = nullptr;
  std::shared_ptr<Executor> executor = nullptr;    // null: threads of Kiln's own
  std::shared_ptr<Allocator> allocator = nullptr;  // null: the system's, in huge pages where large
  // Bytes that the allocator has given out at most: a run that needs more fails with
  // kResourceExhausted. 0: no limit.
  int64_t memory_budget = 0;
  // Bytes of that which contexts may keep that do not run, so that the next run finds them. 0: no
  // limit.
  int64_t idle_budget = 0;
  // Where kernels run, beside the CPU: "cuda" or "cuda:0", "cuda:1" for a GPU; "cuda-emulated"
  // for one that the CPU plays, slowly and with checks ("cuda-emulated:1" for a second). Empty:
  // nowhere else.
  std::string device = "";
  // A model, or a kernel of one, that has no code for `device` is kFailedPrecondition when it is
  // compiled, loaded or first run; else it runs on the CPU, and the log says so. Library operators
  // that the device has not run on the CPU all the same (kiln explain).
  bool require_device = false;
  CacheOptions cache = {};  // of models whose own CacheOptions are those that they begin with
  int build_jobs = 0;       // kernels built at once, up to 1024; 0: as many as there are processors
};

// Counts since the runtime was made, and bytes now.
struct RuntimeMetrics {
  int64_t runs = 0, failed_runs = 0;
  int64_t vm_runs = 0;   // runs in which a kernel ran on the VM
  int64_t plans = 0;     // made; those that took over the offsets of an earlier one do not count
  int64_t variants = 0;  // compiled, or fetched from the cache
  // Of models that are gone, too. A kernel that failed and was built later counts as both.
  int64_t kernels_built = 0, kernels_cached = 0, kernels_failed = 0;
  int64_t memory_bytes = 0, memory_peak = 0;  // that the allocator has given out
  int64_t idle_bytes = 0;                     // of those, kept by contexts that do not run
};

class KILN_API Runtime {
 public:
  // kInvalidArgument: a number is out of its range, or a device has no such name; kUnavailable:
  // there is no such device, and why.
  static absl::StatusOr<std::shared_ptr<Runtime>> Create(RuntimeOptions options);
  // One for the process, with default options; made when it is first asked for, and again when it
  // was given up by all.
  static std::shared_ptr<Runtime> Default();
  ~Runtime();

  int threads() const;
  RuntimeMetrics metrics() const;
  // What is never done on a caller's thread: removes old entries from the cache, validates again
  // what was built on another model of CPU, and searches for better memory plans where a plan of
  // the open models is above its bound, for later processes. Gives back code that models which are
  // closed had. Returns when it is done.
  void Maintain();

  struct State;
  State& state() const { return *state_; }

 private:
  explicit Runtime(RuntimeOptions options);
  const std::unique_ptr<State> state_;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_H_
