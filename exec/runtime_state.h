// SPDX-License-Identifier: Apache-2.0
// What stands behind Runtime: its pools, its memory, its counts, and a place for what the compiler
// shares between models.
#ifndef KILN_EXEC_RUNTIME_STATE_H_
#define KILN_EXEC_RUNTIME_STATE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "base/long_mutex.h"
#include "base/mutex.h"
#include "exec/device_constants.h"
#include "exec/support/pool.h"
#include "kiln/runtime.h"

namespace kiln {

// What models that are compiled share; compiler/shared_models.h has the only one. Thread-safe.
class RuntimeExtension {
 public:
  virtual ~RuntimeExtension() = default;
  virtual void AddMetrics(RuntimeMetrics& metrics) const = 0;
  virtual void Maintain() = 0;
};

struct KILN_INSIDE Runtime::State {
  explicit State(RuntimeOptions o);

  // The pool of models with so many threads; 0: that of the runtime. Lives as long as a model has
  // it.
  std::shared_ptr<Pool> PoolFor(int threads);
  // The compiler's, of `make` when it is first asked for.
  std::shared_ptr<RuntimeExtension> Extension(
      absl::FunctionRef<std::shared_ptr<RuntimeExtension>()> make);

  const RuntimeOptions options;
  const int threads;
  const std::shared_ptr<Allocator> allocator;
  std::shared_ptr<DeviceConstants> device;  // of RuntimeOptions::device; null: there is none

  std::atomic<int64_t> runs{0}, failed_runs{0}, vm_runs{0}, plans{0}, variants{0};
  std::atomic<int64_t> memory_bytes{0}, memory_peak{0}, idle_bytes{0};

  mutable Mutex mutex;
  std::map<int, std::weak_ptr<Pool>> pools ABSL_GUARDED_BY(mutex);
  std::shared_ptr<RuntimeExtension> extension ABSL_GUARDED_BY(mutex);
};

// The device of a runtime; null: it has none, or there is no runtime.
inline std::shared_ptr<ComputeDevice> DeviceOf(const std::shared_ptr<Runtime>& runtime) {
  const bool has_one = runtime != nullptr && runtime->state().device != nullptr;
  return has_one ? runtime->state().device->shared() : nullptr;
}

// Bytes of a model's contexts, by what they are for. Lives as long as the last of that memory.
struct MemoryCounts {
  std::atomic<int64_t> arenas{0}, copies{0}, outputs{0}, states{0}, device{0};
};

// Bytes of one owner in a count of several.
class CountedBytes {
 public:
  explicit CountedBytes(std::shared_ptr<std::atomic<int64_t>> count) : count_(std::move(count)) {}
  ~CountedBytes() { Set(0); }
  CountedBytes(const CountedBytes&) = delete;
  CountedBytes& operator=(const CountedBytes&) = delete;
  void Set(int64_t bytes) { *count_ += bytes - std::exchange(bytes_, bytes); }

 private:
  const std::shared_ptr<std::atomic<int64_t>> count_;
  int64_t bytes_ = 0;
};

// 64-byte aligned memory of a runtime's allocator that only grows; in huge pages from 4 MiB.
class Memory {
 public:
  // `count` is kept at what this and others have.
  Memory(std::shared_ptr<Runtime> runtime, std::shared_ptr<std::atomic<int64_t>> count)
      : runtime_(std::move(runtime)), count_(std::move(count)) {}
  ~Memory() { Release(); }
  Memory(Memory&& other) noexcept
      : runtime_(std::move(other.runtime_)),
        count_(std::move(other.count_)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  Memory& operator=(Memory&&) = delete;

  // kResourceExhausted when the system has no more, or the budget; the old memory is then gone.
  absl::Status Reserve(int64_t bytes);
  // The allocator is asked for just so many bytes, so that what lies beyond them is not this.
  absl::Status ReserveExactly(int64_t bytes);
  void Release();
  void* data() const { return data_; }
  int64_t size() const { return size_; }

 private:
  absl::Status Allocate(int64_t bytes, int64_t padded, int64_t alignment);

  std::shared_ptr<Runtime> runtime_;  // alive as long as its memory
  std::shared_ptr<std::atomic<int64_t>> count_;
  void* data_ = nullptr;
  int64_t size_ = 0;
};

// See RunOptions::shared_arena.
class SharedArena {
 public:
  LongMutex running;             // held by the run that has the memory
  std::optional<Memory> memory;  // under `running`; made with the first run
};

}  // namespace kiln

#endif  // KILN_EXEC_RUNTIME_STATE_H_
