// SPDX-License-Identifier: Apache-2.0
#include "kiln/runtime.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/catch_exceptions.h"
#include "base/checked.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/processors.h"
#include "base/status_macros.h"
#include "exec/library/library.h"
#include "exec/placement.h"
#include "exec/runtime_state.h"
#include "kiln/model.h"

namespace kiln {
namespace {

// Memory from here on is given in huge pages where the system has them.
constexpr int64_t kHugeFrom = int64_t{4} << 20;  // speed
constexpr int64_t kHugePage = int64_t{2} << 20;  // correctness

class SystemAllocator final : public Allocator {
 public:
  void* Allocate(size_t bytes, size_t alignment) override {
    void* memory = nullptr;  // of just so many bytes: what checks memory sees one that is beyond
    if (posix_memalign(&memory, alignment, bytes) != 0) return nullptr;
    // A wish: without huge pages it is slower and as right.
    if (alignment == kHugePage) madvise(memory, bytes, MADV_HUGEPAGE);
    return memory;
  }
  void Free(void* memory, size_t /*bytes*/) override { std::free(memory); }
};

absl::Status Check(const RuntimeOptions& options) {
  KILN_RETURN_IF_ERROR(CheckThreads(options.threads));
  const auto check = [](const char* what, int64_t value) {
    if (value >= 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("runtime: ", what, " is ", value, ", expected 0 or more"));
  };
  KILN_RETURN_IF_ERROR(check("spin_time", options.spin_time.count()));
  KILN_RETURN_IF_ERROR(check("memory_budget", options.memory_budget));
  KILN_RETURN_IF_ERROR(check("idle_budget", options.idle_budget));
  if (options.build_jobs > kMaxThreads) {
    return absl::InvalidArgumentError(absl::StrCat("runtime: build_jobs is ", options.build_jobs,
                                                   ", expected 0 to ", kMaxThreads));
  }
  return check("build_jobs", options.build_jobs);
}

}  // namespace

absl::Status CheckThreads(int threads) {
  if (threads >= 0 && threads <= kMaxThreads) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("threads: is ", threads, ", expected 0 (all) to ", kMaxThreads));
}

Runtime::State::State(RuntimeOptions o)
    : options(std::move(o)),
      threads(options.threads == 0 ? Processors() : options.threads),
      allocator(options.allocator != nullptr ? options.allocator
                                             : std::make_shared<SystemAllocator>()) {}

std::shared_ptr<Pool> Runtime::State::PoolFor(int count) {
  if (count == 0) count = threads;
  const MutexLock lock(mutex);
  std::weak_ptr<Pool>& kept = pools[count];
  if (std::shared_ptr<Pool> pool = kept.lock()) return pool;
  PoolSettings settings{options.spin_time, options.on_thread_start, nullptr};
  if (options.executor != nullptr) {
    settings.start = [executor = options.executor](int members, void (*task)(void*, int),
                                                   void* data) {
      return executor->Start(members, task, data);
    };
  }
  auto made = std::make_shared<Pool>(count, std::move(settings));
  kept = made;
  return made;
}

std::shared_ptr<RuntimeExtension> Runtime::State::Extension(
    absl::FunctionRef<std::shared_ptr<RuntimeExtension>()> make) {
  const MutexLock lock(mutex);
  if (extension == nullptr) extension = make();
  return extension;
}

namespace {

absl::Status NotAvailable(int64_t bytes) {
  return absl::ResourceExhaustedError(
      absl::StrCat("memory: ", bytes, " bytes are not available; use smaller inputs"));
}

// What an allocator of the host does besides is an error.
absl::Status Ask(Allocator& allocator, int64_t bytes, int64_t alignment, void*& data) {
  const auto size = static_cast<size_t>(bytes);
  KILN_RETURN_IF_ERROR(CatchExceptions("allocator", [&] {
    data = allocator.Allocate(size, static_cast<size_t>(alignment));
    return absl::OkStatus();
  }));
  const uintptr_t beyond = reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(alignment);
  if (beyond == 0) return absl::OkStatus();
  allocator.Free(std::exchange(data, nullptr), size);
  return absl::InvalidArgumentError(
      absl::StrCat("allocator: gave ", bytes, " bytes at an address that is ", beyond,
                   " beyond a multiple of ", alignment, "; give aligned memory"));
}

}  // namespace

absl::Status Memory::Reserve(int64_t bytes) {
  if (bytes <= size_ && data_ != nullptr) return absl::OkStatus();
  Release();
  const int64_t unit = bytes >= kHugeFrom ? kHugePage : kArenaAlignment;
  const std::optional<int64_t> padded = CheckedRoundUp(std::max<int64_t>(bytes, 1), unit);
  return padded ? Allocate(bytes, *padded, unit) : NotAvailable(bytes);
}

absl::Status Memory::ReserveExactly(int64_t bytes) {
  Release();
  return Allocate(bytes, std::max<int64_t>(bytes, 1), kArenaAlignment);
}

absl::Status Memory::Allocate(int64_t bytes, int64_t padded, int64_t alignment) {
  Runtime::State& runtime = runtime_->state();
  const int64_t used = CheckedAdd(runtime.memory_bytes.fetch_add(padded), padded)
                           .value_or(std::numeric_limits<int64_t>::max());
  const int64_t budget = runtime.options.memory_budget;
  const bool allowed = budget == 0 || used <= budget;
  absl::Status status;
  if (allowed) status = Ask(*runtime.allocator, padded, alignment, data_);
  if (data_ == nullptr) {
    runtime.memory_bytes.fetch_sub(padded);
    if (!status.ok()) return status;
    if (allowed) return NotAvailable(bytes);
    return absl::ResourceExhaustedError(
        absl::StrCat("memory: ", bytes, " bytes more than the ", used - padded,
                     " in use exceed the runtime's memory_budget of ", budget,
                     "; raise it, or call Model::Trim"));
  }
  size_ = padded;
  count_->fetch_add(size_);
  int64_t peak = runtime.memory_peak.load();
  while (peak < used && !runtime.memory_peak.compare_exchange_weak(peak, used)) {
  }
  return absl::OkStatus();
}

void Memory::Release() {
  if (data_ == nullptr) return;
  Runtime::State& runtime = runtime_->state();
  const absl::Status freed = CatchExceptions("allocator", [&] {
    runtime.allocator->Free(data_, static_cast<size_t>(size_));
    return absl::OkStatus();
  });
  if (!freed.ok()) LogWarning(freed.message());
  runtime.memory_bytes.fetch_sub(size_);
  count_->fetch_sub(size_);
  data_ = nullptr;
  size_ = 0;
}

Runtime::Runtime(RuntimeOptions options) : state_(std::make_unique<State>(std::move(options))) {}
Runtime::~Runtime() = default;

absl::StatusOr<std::shared_ptr<Runtime>> Runtime::Create(RuntimeOptions options) {
  return CatchExceptions("runtime", [&]() -> absl::StatusOr<std::shared_ptr<Runtime>> {
    KILN_RETURN_IF_ERROR(Check(options));
    std::shared_ptr<Runtime> made(new Runtime(std::move(options)));
    if (const std::string& device = made->state().options.device; !device.empty()) {
      KILN_ASSIGN_OR_RETURN(std::shared_ptr<ComputeDevice> opened, OpenComputeDevice(device));
      made->state().device = std::make_shared<DeviceConstants>(std::move(opened));
    }
    return made;
  });
}

std::shared_ptr<Runtime> Runtime::Default() {
  struct Kept {
    Mutex mutex;
    std::weak_ptr<Runtime> runtime;
  };
  static auto* const kept = new Kept();  // models of static duration may outlive all else
  {
    const MutexLock lock(kept->mutex);
    if (std::shared_ptr<Runtime> runtime = kept->runtime.lock()) return runtime;
  }
  std::shared_ptr<Runtime> made(new Runtime(RuntimeOptions()));
  const MutexLock lock(kept->mutex);
  if (std::shared_ptr<Runtime> runtime = kept->runtime.lock()) return runtime;
  kept->runtime = made;
  return made;
}

int Runtime::threads() const { return state_->threads; }

RuntimeMetrics Runtime::metrics() const {
  RuntimeMetrics metrics;
  metrics.runs = state_->runs;
  metrics.failed_runs = state_->failed_runs;
  metrics.vm_runs = state_->vm_runs;
  metrics.plans = state_->plans;
  metrics.variants = state_->variants;
  metrics.memory_bytes = state_->memory_bytes;
  metrics.memory_peak = state_->memory_peak;
  metrics.idle_bytes = state_->idle_bytes;
  std::shared_ptr<RuntimeExtension> extension;
  {
    const MutexLock lock(state_->mutex);
    extension = state_->extension;
  }
  if (extension != nullptr) extension->AddMetrics(metrics);
  return metrics;
}

void Runtime::Maintain() {
  std::shared_ptr<RuntimeExtension> extension;
  {
    const MutexLock lock(state_->mutex);
    extension = state_->extension;
  }
  if (extension != nullptr) extension->Maintain();
  library::ForgetUnusedCode();
}

}  // namespace kiln
