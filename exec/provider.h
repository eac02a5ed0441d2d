// SPDX-License-Identifier: Apache-2.0
// What the executor asks of the compiler half, and all it knows of it: kernels by key, and Programs
// for given inputs.
//
// With a compiler the providers build what is missing; in a package they hand out what is stored.
// The executor works the same.
#ifndef KILN_EXEC_PROVIDER_H_
#define KILN_EXEC_PROVIDER_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/guard.h"
#include "base/mutex.h"
#include "base/tensor.h"
#include "exec/kernel_function.h"
#include "exec/measured_choices.h"
#include "exec/packed_constants.h"
#include "exec/program.pb.h"
#include "kiln/model.h"

namespace kiln {

namespace library {
struct PackedStore;  // exec/library/primitive.h
}
class MemoryPlanStore;  // exec/memory/plan_store.h
class PlanCache;        // exec/plan_cache.h
class Pool;             // exec/support/pool.h
struct MemoryRange;     // exec/binding.h
struct Script;          // exec/script.h

// A kernel that may get better while a Model runs: `background` mode swaps the VM for compiled
// code. A run takes one snapshot per launch at its start, so one run never mixes two generations of
// a kernel.
class KernelHandle {
 public:
  explicit KernelHandle(std::shared_ptr<const KernelFunction> first) : current_(std::move(first)) {}
  std::shared_ptr<const KernelFunction> Get() const { return std::atomic_load(&current_); }
  void Swap(std::shared_ptr<const KernelFunction> next) {
    std::atomic_store(&current_, std::move(next));
    generation_.fetch_add(1, std::memory_order_release);
  }
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

 private:
  std::shared_ptr<const KernelFunction> current_;
  std::atomic<uint64_t> generation_{0};
};

class KernelProvider {
 public:
  virtual ~KernelProvider() = default;
  // The kernel `choice` of `def`; never fails for want of a compiler (then it is the VM).
  // Thread-safe.
  virtual absl::StatusOr<std::shared_ptr<KernelHandle>> Get(
      const program::KernelDef& def, const program::KernelChoice& choice) = 0;
};

// A Program with the assumptions under which it is right, its constants and its kernels
// (kernels[i][j] = choice j of kernel i).
// Where the course or the extents depend on data, `script` says what runs, and of the program only
// the ports count.
struct Variant {
  std::vector<Guard> guards;
  program::Program program;
  std::vector<Tensor> constants;
  std::vector<std::vector<std::shared_ptr<KernelHandle>>> kernels;
  std::shared_ptr<const Script> script;
};

// One bound input as a VariantProvider sees it. data is null where only the shape is known.
struct InputInfo {
  std::string name;
  bool present = true;
  Tensor tensor;
};

class VariantProvider {
 public:
  virtual ~VariantProvider() = default;
  virtual const std::vector<PortInfo>& inputs() const = 0;
  virtual const std::vector<PortInfo>& outputs() const = 0;
  // The last of inputs() are constants that Model::Update may replace, as many as there are values
  // here: what they are until then.
  virtual const std::vector<Tensor>& updatable() const { return no_tensors_; }
  // A variant whose guards hold for these inputs (one per port, in order). kInvalidArgument names
  // input, dim and both values; in a package, kNotFound names the guard that fails. Thread-safe;
  // the variant is immutable.
  virtual absl::StatusOr<std::shared_ptr<const Variant>> Get(
      const std::vector<InputInfo>& inputs) = 0;
  // A variant in place of `refused`, one of Get's for these inputs of which no plan can be made, or
  // whose run fails: it comes from a cache, and its Program is malformed or needs more than there
  // is. kNotFound: there is no other. Thread-safe.
  virtual absl::StatusOr<std::shared_ptr<const Variant>> Instead(
      const std::shared_ptr<const Variant>& /*refused*/, const std::vector<InputInfo>& /*inputs*/) {
    return absl::NotFoundError("no other variant");
  }
  // Before each run: in a child of a fork goes on with what its parent was making. Thread-safe.
  virtual void ResumeAfterFork() {}
  // The name of a constant in memory of the caller's that the range overlaps: no output may be
  // written there. Empty: there is none. Thread-safe.
  virtual std::string ConstantIn(const MemoryRange& /*range*/) const { return ""; }
  // Null: nothing is kept. Lives as long as the provider.
  virtual PackedConstants* packed_constants() { return nullptr; }
  // Memory plans that are kept. Null: none are. Lives as long as the provider.
  virtual MemoryPlanStore* memory_plans() { return nullptr; }
  // Searches on for memory plans that may be better; takes seconds. Thread-safe.
  void ImproveMemoryPlans();
  // For all models that have this provider: what library operators have packed of it, and plans
  // that were made for a pool and a limit of scratch (RunOptions::workspace_limit). Thread-safe.
  std::shared_ptr<library::PackedStore> packed_store();
  std::shared_ptr<PlanCache> plans(const Pool& pool, int64_t workspace_limit);
  // Null: library operators are chosen without measurements. Lives as long as the provider.
  virtual MeasuredChoices* measured_choices() { return nullptr; }

 private:
  const std::vector<Tensor> no_tensors_ = {};
  Mutex shared_mutex_;
  std::shared_ptr<library::PackedStore> packed_store_ ABSL_GUARDED_BY(shared_mutex_);
  std::map<std::pair<const Pool*, int64_t>, std::weak_ptr<PlanCache>> plans_
      ABSL_GUARDED_BY(shared_mutex_);
};

}  // namespace kiln

#endif  // KILN_EXEC_PROVIDER_H_
