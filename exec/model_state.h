// SPDX-License-Identifier: Apache-2.0
// What stands behind Model and Context.
#ifndef KILN_EXEC_MODEL_STATE_H_
#define KILN_EXEC_MODEL_STATE_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "exec/binding.h"
#include "exec/checked_program.h"
#include "exec/library/library.h"
#include "exec/library/measured.h"
#include "exec/plan.h"
#include "exec/support/launch.h"
#include "exec/support/pool.h"
#include "kiln/model.h"

namespace kiln {

class ScriptRun;  // exec/script.h; who destroys states includes it

struct Model::State {
  State(std::shared_ptr<VariantProvider> p, int threads, PlanFn f)
      : provider(std::move(p)),
        on_plan(std::move(f)),
        own_pool(std::make_unique<Pool>(threads)),
        pool(*own_pool) {}
  // A part of another model, which outlives it: it has the same threads.
  State(std::shared_ptr<VariantProvider> p, const State& whole)
      : provider(std::move(p)),
        on_plan(whole.on_plan),
        pool(whole.pool),
        session(whole.session),
        choosing(whole.choosing) {}

  // The checked form of a variant, shared by all contexts that have a plan of it.
  absl::StatusOr<std::shared_ptr<const CheckedProgram>> Checked(
      const std::shared_ptr<const Variant>& variant);
  std::unique_ptr<Context::State> Take();
  void GiveBack(std::unique_ptr<Context::State> context);

  const std::shared_ptr<VariantProvider> provider;
  const PlanFn on_plan;
  const std::unique_ptr<Pool> own_pool;  // null: that of the whole
  Pool& pool;
  std::shared_ptr<library::Session> session;
  library::Choosing choosing;  // of implementations of library operators
  std::map<std::string, size_t, std::less<>> input_index, output_index;

  Mutex mutex;
  std::map<const Variant*, std::weak_ptr<const CheckedProgram>> checked ABSL_GUARDED_BY(mutex);
  std::vector<std::unique_ptr<Context::State>> idle
      ABSL_GUARDED_BY(mutex);  // last in, first out: its memory is warm
};

// 64-byte aligned memory that only grows; in huge pages from 4 MiB.
class Memory {
 public:
  // kResourceExhausted when the system has no more; the old memory is then gone.
  absl::Status Reserve(int64_t bytes);
  void* data() const { return data_.get(); }
  int64_t size() const { return size_; }

 private:
  struct Free {
    void operator()(void* p) const;
  };
  std::unique_ptr<void, Free> data_;
  int64_t size_ = 0;
};

struct Context::State {
  explicit State(Model::State* m);

  absl::Status Bind(absl::string_view input, Tensor view);
  absl::Status BindOutput(absl::string_view output, Tensor view);
  // With `times`, runs with a clock around every thunk.
  absl::Status Run(std::vector<ThunkTime>* times);
  // The outputs of the last run; owned ones leave the context.
  std::vector<Tensor> TakeOutputs();
  void Unbind();

  // A plan, and when it is right: for inputs of these shapes and these values.
  struct CachedPlan {
    struct Value {
      size_t input;
      std::string bytes;
    };
    std::vector<std::optional<std::vector<int64_t>>> shapes;  // absent inputs have none
    std::vector<Value> values;
    std::unique_ptr<ExecutionPlan> plan;  // null: a script
    ScriptRun* script = nullptr;
    SymbolValues symbols;  // of a script
    uint64_t last_used = 0;
  };

  absl::StatusOr<CachedPlan*> FindPlan();
  absl::StatusOr<CachedPlan> MakeScript(const std::shared_ptr<const Variant>& variant,
                                        const std::vector<InputInfo>& info, CachedPlan cached);
  absl::Status RunScript(const CachedPlan& cached, std::vector<ThunkTime>* times);
  absl::Status RunPlan(std::vector<double>* ms);
  bool Holds(const CachedPlan& cached) const;
  absl::StatusOr<std::vector<InputInfo>> Info() const;
  absl::StatusOr<CachedPlan> MakePlan();
  // Of what the provider has in place of `variant`, with which nothing can be done; `why` if that
  // is nothing.
  absl::StatusOr<CachedPlan> MakePlanInstead(std::shared_ptr<const Variant> variant,
                                             const std::vector<InputInfo>& info, absl::Status why);
  // A run that fails before it has written over an input is run again with what is there instead.
  absl::Status RunPlanOrInstead(CachedPlan& plan, std::vector<double>* ms);
  absl::StatusOr<CachedPlan> MakePlanOf(const std::shared_ptr<const Variant>& variant,
                                        const std::vector<InputInfo>& info);
  // Before SetInputs. Fails if bound outputs do not have the plan's shapes, or overlap.
  absl::Status SetOutputs(ExecutionPlan& plan);
  absl::Status SetInputs(ExecutionPlan& plan);
  void CopyInputs();
  absl::Status CheckBoundOutputs();
  absl::Status CheckBoundShape(size_t output, const std::vector<int64_t>& shape) const;
  absl::StatusOr<const Tensor*> OwnOutput(size_t output, const std::vector<int64_t>& shape);
  void FindTaken();
  bool NeedsCopy(size_t input, const ExecutionPlan& plan);

  Model::State* const model;
  std::shared_ptr<Model::State> keep;  // set for contexts that a user holds
  Launcher launcher;
  std::vector<std::optional<Tensor>> bound_inputs, bound_outputs;
  std::vector<Tensor> outputs;  // of the last run
  // Memory of unbound outputs, kept while the shape stays; more than one where an earlier output is
  // bound.
  std::vector<std::vector<Tensor>> owned_outputs;
  std::vector<Memory> input_copies;  // of inputs that are not dense, or overwritten too early
  BoundMemory written, taken;        // by bound outputs; by all that is bound
  std::vector<bool> donated;         // outputs that are written in place of an input
  bool shared = false;               // an output is written where an input lies
  std::vector<size_t> copied;        // inputs that a run reads from input_copies
  // Where everything lies is looked into when something has moved, or for another plan.
  bool moved = true;
  const ExecutionPlan* placed = nullptr;
  Memory arena;
  std::vector<CachedPlan> plans;  // at most kMaxPlans
  // Scripts of variants in use, with the plans and memory of their callees.
  std::map<std::shared_ptr<const Script>, std::unique_ptr<ScriptRun>> scripts;
  uint64_t runs = 0;
  ExecutionPlan* current = nullptr;  // of the last run, unless that was a script
  bool has_run = false;
  PlanReport report;
};

inline constexpr size_t kMaxPlans = 16;  // correctness

}  // namespace kiln

#endif  // KILN_EXEC_MODEL_STATE_H_
