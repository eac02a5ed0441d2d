// SPDX-License-Identifier: Apache-2.0
#include "kiln/runtime.h"

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "c_api/handles.h"
#include "kiln/cache.h"
#include "persistent_cache/signature.h"

namespace kiln::c_api {
namespace {

class HostAllocator : public Allocator {
 public:
  explicit HostAllocator(const kiln_runtime_options& options) : options_(options) {}
  void* Allocate(size_t bytes, size_t alignment) override {
    return options_.allocate(options_.user, bytes, alignment);
  }
  void Free(void* memory, size_t bytes) override {
    options_.deallocate(options_.user, memory, bytes);
  }

 private:
  const kiln_runtime_options options_;
};

class HostExecutor : public Executor {
 public:
  explicit HostExecutor(const kiln_runtime_options& options) : options_(options) {}
  bool Start(int members, void (*task)(void* data, int member), void* data) override {
    return options_.start(options_.user, members, task, data) != 0;
  }

 private:
  const kiln_runtime_options options_;
};

absl::StatusOr<RuntimeOptions> OptionsOf(const kiln_runtime_options& given) {
  RuntimeOptions options;
  options.threads = given.threads;
  options.spin_time = std::chrono::microseconds(given.spin_us);
  options.memory_budget = given.memory_budget;
  options.idle_budget = given.idle_budget;
  options.build_jobs = given.build_jobs;
  if (given.device != nullptr) options.device = given.device;
  options.require_device = given.require_device != 0;
  if (given.cache != nullptr) options.cache.open = given.cache->cache;
  options.cache.enabled = given.no_cache == 0;
  if ((given.allocate == nullptr) != (given.deallocate == nullptr)) {
    return absl::InvalidArgumentError(
        "runtime: allocate and deallocate belong together; set both or none");
  }
  if (given.allocate != nullptr) options.allocator = std::make_shared<HostAllocator>(given);
  if (given.start != nullptr) options.executor = std::make_shared<HostExecutor>(given);
  if (given.on_thread_start != nullptr) {
    options.on_thread_start = [call = given.on_thread_start, user = given.user](int member) {
      call(user, member);
    };
  }
  return options;
}

}  // namespace
}  // namespace kiln::c_api

using kiln::c_api::Call;
using kiln::c_api::CheckPointer;

extern "C" {

kiln_status* kiln_cache_open(const kiln_cache_settings* settings, kiln_cache** out) {
  return Call("cache", [&]() -> absl::Status {
    KILN_RETURN_IF_ERROR(CheckPointer(out, "out"));
    const kiln_cache_settings given = kiln::c_api::Read(settings, kiln_cache_settings_default());
    kiln::CacheSettings opened;
    opened.directory = kiln::c_api::TextOf(given.directory);
    opened.read_only = given.read_only != 0;
    opened.max_bytes = given.max_bytes;
    KILN_ASSIGN_OR_RETURN(opened.packs, kiln::c_api::Names(given.packs, given.num_packs, "packs"));
    opened.shared_directory = kiln::c_api::TextOf(given.shared_directory);
    opened.trust.unsigned_too = given.trust_unsigned != 0;
    KILN_ASSIGN_OR_RETURN(opened.trust.signers,
                          kiln::ParseTrustFile(kiln::c_api::TextOf(given.trusted_signers)));
    auto made = std::make_unique<kiln_cache>();
    KILN_ASSIGN_OR_RETURN(made->cache, kiln::Cache::Open(std::move(opened)));
    *out = made.release();
    return absl::OkStatus();
  });
}

void kiln_cache_count(const kiln_cache* cache, kiln_cache_counters* out) {
  const kiln::CacheCounters now = cache->cache->Snapshot();
  kiln::c_api::Write(
      kiln_cache_counters{0, now.hits, now.misses, now.published, now.failures,
                          now.publish_failures, now.damaged, now.evictions, now.saved_ms},
      out);
}

const char* kiln_cache_directory(const kiln_cache* cache) {
  return cache->cache->directory().c_str();
}

void kiln_cache_free(kiln_cache* cache) { delete cache; }

kiln_status* kiln_runtime_create(const kiln_runtime_options* options, kiln_runtime** out) {
  return Call("runtime", [&]() -> absl::Status {
    KILN_RETURN_IF_ERROR(CheckPointer(out, "out"));
    const kiln_runtime_options given = kiln::c_api::Read(options, kiln_runtime_options_default());
    KILN_ASSIGN_OR_RETURN(kiln::RuntimeOptions made, kiln::c_api::OptionsOf(given));
    auto runtime = std::make_unique<kiln_runtime>();
    KILN_ASSIGN_OR_RETURN(runtime->runtime, kiln::Runtime::Create(std::move(made)));
    *out = runtime.release();
    return absl::OkStatus();
  });
}

kiln_status* kiln_runtime_default(kiln_runtime** out) {
  return Call("runtime", [&]() -> absl::Status {
    KILN_RETURN_IF_ERROR(CheckPointer(out, "out"));
    auto runtime = std::make_unique<kiln_runtime>();
    runtime->runtime = kiln::Runtime::Default();
    *out = runtime.release();
    return absl::OkStatus();
  });
}

int32_t kiln_runtime_threads(const kiln_runtime* runtime) { return runtime->runtime->threads(); }

void kiln_runtime_metrics(const kiln_runtime* runtime, kiln_metrics* out) {
  const kiln::RuntimeMetrics now = runtime->runtime->metrics();
  kiln::c_api::Write(
      kiln_metrics{0, now.runs, now.failed_runs, now.vm_runs, now.plans, now.variants,
                   now.kernels_built, now.kernels_cached, now.kernels_failed, now.memory_bytes,
                   now.memory_peak, now.idle_bytes},
      out);
}

void kiln_runtime_maintain(kiln_runtime* runtime) { runtime->runtime->Maintain(); }

void kiln_runtime_free(kiln_runtime* runtime) { delete runtime; }

}  // extern "C"
