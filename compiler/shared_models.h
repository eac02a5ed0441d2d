// SPDX-License-Identifier: Apache-2.0
// What the models of a Runtime share beside its threads and memory: kernel services, and models
// that are read from files.
//
//   SharedModels& shared = SharedModels::Of(*runtime);
//   shared.ServiceOf(options);           // one for each cache, target, mode and compiler
//   shared.Share(opened);                // the same model that is open already, or this
//
// Two models of one file (by the digests of all its files) and with options that make the same
// Programs are one: its weights, packed weights, variants and kernels are there once. Nothing is
// kept alive here. Thread-safe.
#ifndef KILN_COMPILER_SHARED_MODELS_H_
#define KILN_COMPILER_SHARED_MODELS_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "compiler/kernel_service.h"
#include "exec/runtime_state.h"
#include "kiln/options.h"
#include "persistent_cache/key.h"

namespace kiln {

class WarmModel;

class SharedModels : public RuntimeExtension {
 public:
  // Lives as long as the runtime.
  static std::shared_ptr<SharedModels> Of(Runtime& runtime);

  std::shared_ptr<KernelService> ServiceOf(const CompileOptions& options);

  // A model that was shared before, is open still, and is the same as `opened`; else `opened`.
  // Without a cache nothing tells that two models are the same.
  std::shared_ptr<WarmModel> Share(std::shared_ptr<WarmModel> opened);

  void AddMetrics(RuntimeMetrics& metrics) const override;
  void Maintain() override;

 private:
  using ModelKey = std::pair<CacheKey, const KernelService*>;
  std::vector<std::shared_ptr<KernelService>> Services() const;

  const std::shared_ptr<KernelTotals> totals_ = std::make_shared<KernelTotals>();
  mutable Mutex mutex_;
  std::map<std::string, std::weak_ptr<KernelService>> services_ ABSL_GUARDED_BY(mutex_);
  std::map<ModelKey, std::weak_ptr<WarmModel>> models_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln

#endif  // KILN_COMPILER_SHARED_MODELS_H_
