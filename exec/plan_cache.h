// SPDX-License-Identifier: Apache-2.0
// PlanCache: the plans of a model, by what they are right for: shapes of inputs, some values of
// inputs, the outputs that are wanted, and which of both lie on a device.
//
//   KILN_ASSIGN_OR_RETURN(auto prepared,
//                         cache.Get(inputs, wanted, places, [&] { return Make(...); }));
//
// While a plan is made nobody waits but those who ask for the same shapes. What is made is shared
// by all contexts. The plans used last are kept, kMaxPlans of them; a plan that a context still
// holds lives on with it. The code of library primitives goes with the last plan that has it.
#ifndef KILN_EXEC_PLAN_CACHE_H_
#define KILN_EXEC_PLAN_CACHE_H_

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/keyed_mutex.h"
#include "base/mutex.h"
#include "base/tensor.h"
#include "exec/memory/layouts.h"
#include "exec/plan.h"
#include "exec/port_places.h"
#include "exec/provider.h"
#include "kiln/dim.h"

namespace kiln {

using BoundTensors = std::vector<std::optional<Tensor>>;  // per port; none: absent, or not bound

// What runs for inputs of these shapes and values. Immutable.
struct PreparedRun {
  struct Value {
    size_t input;
    std::string bytes;
  };
  std::vector<std::optional<std::vector<int64_t>>> shapes;  // absent inputs have none
  std::vector<Value> values;                                // of inputs on which the plan depends
  std::vector<bool> wanted;                                 // per output
  PortPlaces places;
  std::shared_ptr<const Variant> variant;
  std::shared_ptr<const ExecutionPlan> plan;  // null: the variant's script
  SymbolValues symbols;                       // of a script
  // RunOptions::check_first_run: whether the plan has been checked, or somebody is about it.
  mutable std::atomic<bool> checked{false};

  // Whether it is right for these inputs.
  bool Holds(const BoundTensors& inputs, const std::vector<bool>& wanted_now,
             const PortPlaces& places_now) const;
};

// Thread-safe.
class PlanCache {
 public:
  // `store`, which outlives this, keeps memory plans; null: nobody does.
  explicit PlanCache(MemoryPlanStore* store = nullptr) : layouts_(store) {}

  using Made = absl::StatusOr<std::shared_ptr<const PreparedRun>>;
  using MakeFn = absl::FunctionRef<Made()>;

  // What holds for these inputs: kept, or else of `make`, which is called without a lock.
  Made Get(const BoundTensors& inputs, const std::vector<bool>& wanted, const PortPlaces& places,
           MakeFn make);
  // `made` takes the place of `refused`, which runs no more.
  void Replace(const std::shared_ptr<const PreparedRun>& refused,
               std::shared_ptr<const PreparedRun> made);
  // Forgets all but the one used last.
  void Trim();

  struct Counts {
    int64_t kept = 0;
    int64_t bytes = 0;             // of those that are kept
    int64_t constants = 0;         // bytes that the newest reads, packed ones included
    int64_t device_constants = 0;  // and of those on the device
  };
  Counts counts() const;
  MemoryLayouts& layouts() { return layouts_; }

 private:
  std::shared_ptr<const PreparedRun> Find(const BoundTensors& inputs,
                                          const std::vector<bool>& wanted,
                                          const PortPlaces& places);
  void Add(std::shared_ptr<const PreparedRun> made,
           const std::shared_ptr<const PreparedRun>& refused = nullptr);

  MemoryLayouts layouts_;
  KeyedMutex<std::string> making_;  // by the text of shapes
  mutable Mutex mutex_;
  std::list<std::shared_ptr<const PreparedRun>> kept_ ABSL_GUARDED_BY(mutex_);  // newest use first
};

inline constexpr size_t kMaxPlans = 16;  // correctness: of a model, and of a context

}  // namespace kiln

#endif  // KILN_EXEC_PLAN_CACHE_H_
