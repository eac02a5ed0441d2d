// SPDX-License-Identifier: Apache-2.0
#include "exec/provider.h"

#include "exec/library/primitive.h"
#include "exec/plan_cache.h"

namespace kiln {

std::shared_ptr<library::PackedStore> VariantProvider::packed_store() {
  const MutexLock lock(shared_mutex_);
  if (packed_store_ == nullptr) packed_store_ = library::NewPackedStore(packed_constants());
  return packed_store_;
}

std::shared_ptr<PlanCache> VariantProvider::plans(const Pool& pool, int64_t workspace_limit) {
  const MutexLock lock(shared_mutex_);
  // A pool that has gone may have left its address to another: with it went who had its plans.
  std::weak_ptr<PlanCache>& kept = plans_[{&pool, workspace_limit}];
  if (auto plans = kept.lock()) return plans;
  auto made = std::make_shared<PlanCache>(memory_plans());
  kept = made;
  return made;
}

void VariantProvider::ImproveMemoryPlans() {
  std::vector<std::shared_ptr<PlanCache>> kept;
  {
    const MutexLock lock(shared_mutex_);
    for (const auto& [key, weak] : plans_)
      if (auto plans = weak.lock()) kept.push_back(std::move(plans));
  }
  for (const std::shared_ptr<PlanCache>& plans : kept) plans->layouts().Improve(kMaintenanceVisits);
}

}  // namespace kiln
