// SPDX-License-Identifier: Apache-2.0
#include "compiler/shared_models.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "compiler/machine_of.h"
#include "compiler/warm_model.h"
#include "persistent_cache/directory.h"

namespace kiln {
namespace {

// Everything that a service looks at when it is made, but for the environment of its processes.
std::string TextOf(const CompileOptions& options) {
  const CacheOptions& cache = options.cache;
  std::string directory = cache.directory;
  if (cache.enabled && cache.open == nullptr && directory.empty())
    directory = DefaultCacheDirectory().value_or("");
  return absl::StrCat(cache.enabled, "\n", directory, "\n", cache.read_only, "\n",
                      reinterpret_cast<uintptr_t>(cache.open.get()), "\n", options.codegen, "\n",
                      options.validator, "\n", options.prover, "\n", TargetOf(options).name(), "\n",
                      static_cast<int>(options.math), static_cast<int>(options.compile_mode), "\n",
                      options.build_jobs, " ", options.kernel_timeout_ms, " ",
                      options.kernel_cpu_ms);
}

}  // namespace

std::shared_ptr<SharedModels> SharedModels::Of(Runtime& runtime) {
  return std::static_pointer_cast<SharedModels>(
      runtime.state().Extension([] { return std::make_shared<SharedModels>(); }));
}

std::shared_ptr<KernelService> SharedModels::ServiceOf(const CompileOptions& options) {
  const std::string text = TextOf(options);
  {
    const MutexLock lock(mutex_);
    std::erase_if(services_, [](const auto& entry) { return entry.second.expired(); });
    const auto found = services_.find(text);
    if (found != services_.end()) {
      if (auto service = found->second.lock()) return service;
    }
  }
  auto made = std::make_shared<KernelService>(options, totals_);
  const MutexLock lock(mutex_);
  std::weak_ptr<KernelService>& kept = services_[text];
  if (auto found = kept.lock()) return found;
  kept = made;
  return made;
}

std::shared_ptr<WarmModel> SharedModels::Share(std::shared_ptr<WarmModel> opened) {
  const std::optional<CacheKey> program = opened->key();
  if (!program) return opened;
  const ModelKey key(*program, opened->kernels());
  const MutexLock lock(mutex_);
  std::erase_if(models_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<WarmModel>& kept = models_[key];
  if (auto found = kept.lock()) return found;
  kept = opened;
  return opened;
}

std::vector<std::shared_ptr<KernelService>> SharedModels::Services() const {
  std::vector<std::shared_ptr<KernelService>> services;
  const MutexLock lock(mutex_);
  for (const auto& [text, kept] : services_)
    if (auto service = kept.lock()) services.push_back(std::move(service));
  return services;
}

void SharedModels::AddMetrics(RuntimeMetrics& metrics) const {
  metrics.kernels_built += totals_->built;
  metrics.kernels_cached += totals_->cached;
  metrics.kernels_failed += totals_->failed;
}

void SharedModels::Maintain() {
  for (const std::shared_ptr<KernelService>& service : Services()) service->Maintain();
  std::vector<std::shared_ptr<WarmModel>> models;
  {
    const MutexLock lock(mutex_);
    for (const auto& [key, kept] : models_)
      if (auto model = kept.lock()) models.push_back(std::move(model));
  }
  for (const std::shared_ptr<WarmModel>& model : models) model->ImproveMemoryPlans();
}

}  // namespace kiln
