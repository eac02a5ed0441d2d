// SPDX-License-Identifier: Apache-2.0
#include "exec/plan_cache.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/thread_scope.h"
#include "exec/library/library.h"

namespace kiln {
namespace {

std::string KeyOf(const BoundTensors& inputs, const std::vector<bool>& wanted,
                  const PortPlaces& places) {
  std::string key;
  for (const std::optional<Tensor>& input : inputs) {
    if (input) absl::StrAppend(&key, absl::StrJoin(input->shape(), ","));
    key += input ? ";" : "-;";
  }
  for (const bool one : wanted) key += one ? '1' : '0';
  for (const bool one : places.inputs) key += one ? 'd' : 'h';
  for (const bool one : places.outputs) key += one ? 'D' : 'H';
  return key;
}

}  // namespace

bool PreparedRun::Holds(const BoundTensors& inputs, const std::vector<bool>& wanted_now,
                        const PortPlaces& places_now) const {
  if (wanted != wanted_now || places != places_now) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].has_value() != shapes[i].has_value()) return false;
    if (inputs[i] && inputs[i]->shape() != *shapes[i]) return false;
  }
  return std::all_of(values.begin(), values.end(), [&](const Value& value) {
    // A value guard of an input that is not dense is left to the provider.
    const std::optional<Tensor>& bound = inputs[value.input];
    return bound && bound->data() != nullptr && bound->is_dense() &&
           static_cast<size_t>(bound->size_bytes()) == value.bytes.size() &&
           std::memcmp(bound->data(), value.bytes.data(), value.bytes.size()) == 0;
  });
}

std::shared_ptr<const PreparedRun> PlanCache::Find(const BoundTensors& inputs,
                                                   const std::vector<bool>& wanted,
                                                   const PortPlaces& places) {
  const MutexLock lock(mutex_);
  const auto it = std::find_if(kept_.begin(), kept_.end(), [&](const auto& prepared) {
    return prepared->Holds(inputs, wanted, places);
  });
  if (it == kept_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, it);
  return kept_.front();
}

PlanCache::Made PlanCache::Get(const BoundTensors& inputs, const std::vector<bool>& wanted,
                               const PortPlaces& places, MakeFn make) {
  if (auto found = Find(inputs, wanted, places)) return found;
  // What is called while a plan is made would wait for itself.
  if (ThreadScope::Within(this)) {
    return absl::FailedPreconditionError(
        "plan: a function that is called while a plan of the model is made, as on_plan, runs or "
        "prepares the model; do that when it has returned");
  }
  const KeyedMutexLock<std::string> making(making_, KeyOf(inputs, wanted, places));
  if (auto found = Find(inputs, wanted, places)) return found;
  const ThreadScope within(this);
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<const PreparedRun> made, make());
  Add(made);
  return made;
}

void PlanCache::Add(std::shared_ptr<const PreparedRun> made,
                    const std::shared_ptr<const PreparedRun>& refused) {
  std::list<std::shared_ptr<const PreparedRun>> dropped;  // they end without the lock
  {
    const MutexLock lock(mutex_);
    kept_.remove(refused);
    kept_.push_front(std::move(made));
    if (kept_.size() > kMaxPlans) dropped.splice(dropped.end(), kept_, std::prev(kept_.end()));
  }
  if (!dropped.empty()) library::ForgetUnusedCode();
}

void PlanCache::Replace(const std::shared_ptr<const PreparedRun>& refused,
                        std::shared_ptr<const PreparedRun> made) {
  Add(std::move(made), refused);
}

void PlanCache::Trim() {
  std::list<std::shared_ptr<const PreparedRun>> dropped;
  {
    const MutexLock lock(mutex_);
    if (kept_.size() > 1)
      dropped.splice(dropped.end(), kept_, std::next(kept_.begin()), kept_.end());
  }
  library::ForgetUnusedCode();
}

PlanCache::Counts PlanCache::counts() const {
  const MutexLock lock(mutex_);
  Counts counts{static_cast<int64_t>(kept_.size())};
  for (const auto& prepared : kept_) {
    if (prepared->plan == nullptr) continue;
    counts.bytes += prepared->plan->bytes();
    if (counts.constants != 0) continue;
    counts.constants = prepared->plan->report().constants;
    counts.device_constants = prepared->plan->device_constant_bytes();
  }
  return counts;
}

}  // namespace kiln
