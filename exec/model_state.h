// SPDX-License-Identifier: Apache-2.0
// What stands behind Model and Context.
#ifndef KILN_EXEC_MODEL_STATE_H_
#define KILN_EXEC_MODEL_STATE_H_

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/long_mutex.h"
#include "base/mutex.h"
#include "exec/binding.h"
#include "exec/bound_plan.h"
#include "exec/checked_program.h"
#include "exec/input_parts.h"
#include "exec/library/library.h"
#include "exec/library/measured.h"
#include "exec/plan_cache.h"
#include "exec/port_places.h"
#include "exec/runtime_state.h"
#include "exec/state_buffers.h"
#include "exec/support/launch.h"
#include "exec/support/pool.h"
#include "exec/updated_constants.h"
#include "kiln/model.h"

namespace kiln {

class RecordedProvider;  // exec/recorded_provider.h
class ScriptRun;         // exec/script.h; who destroys states includes it

struct KILN_INSIDE Model::State {
  // `options` are checked, and name a runtime.
  State(std::shared_ptr<VariantProvider> p, const RunOptions& o);
  // A part of another model, which outlives it: it has the same threads.
  State(std::shared_ptr<VariantProvider> p, const State& whole);
  ~State();

  // The place of a port; kNotFound lists those there are.
  absl::StatusOr<size_t> InputIndex(absl::string_view name) const;
  absl::StatusOr<size_t> OutputIndex(absl::string_view name) const;

  // The checked form of a variant, shared by all contexts that have a plan of it.
  absl::StatusOr<std::shared_ptr<const CheckedProgram>> Checked(
      const std::shared_ptr<const Variant>& variant);
  // What runs for these inputs and wanted outputs: kept, or made now. Nobody waits for it but who
  // asks for the same shapes.
  PlanCache::Made Prepared(const BoundTensors& inputs, const std::vector<bool>& wanted,
                           const PortPlaces& places);
  // What the provider has in place of a variant whose run failed for `why`; that if it is nothing.
  PlanCache::Made PreparedInstead(const std::shared_ptr<const PreparedRun>& refused,
                                  const BoundTensors& inputs, const absl::Status& why);
  // The plan of a run in another form, for the same inputs.
  absl::StatusOr<std::shared_ptr<const ExecutionPlan>> PlanAgain(const PreparedRun& prepared,
                                                                 const BoundTensors& inputs,
                                                                 const PlanOptions& how);
  // As RunOptions::record_level says, after a run of `prepared` that went well.
  void Record(const PreparedRun& prepared);
  // The model of a part of a script, with plans that all contexts share.
  std::shared_ptr<State> PartOf(const std::shared_ptr<VariantProvider>& part);

  absl::StatusOr<std::vector<Tensor>> Run(const NamedTensors& inputs, const RunControl& control);
  absl::Status Prepare(const NamedShapes& shapes);
  absl::Status Update(absl::string_view name, const Tensor& value);
  absl::StatusOr<std::vector<std::vector<int64_t>>> OutputShapes(const NamedShapes& shapes);

  std::unique_ptr<Context::Impl> Take();
  void GiveBack(std::unique_ptr<Context::Impl> context);

  const std::shared_ptr<VariantProvider> provider;
  const RunOptions options;
  const std::shared_ptr<Runtime> runtime;
  const std::shared_ptr<Pool> shared_pool;
  Pool& pool;
  std::shared_ptr<library::Session> session;
  library::Choosing choosing;                     // of implementations of library operators
  const std::shared_ptr<DeviceConstants> device;  // the runtime's; null: it has no device
  // Whether the log has that kernels run on the CPU; of a script's parts too.
  std::shared_ptr<std::atomic<bool>> told_of_cpu = std::make_shared<std::atomic<bool>>(false);
  std::map<std::string, size_t, std::less<>> input_index, output_index;
  std::vector<StatePorts> states;
  // provider->inputs() in two: those of callers, and the constants that Update replaces.
  const std::vector<PortInfo> own_inputs, updatable;
  UpdatedConstants updated;
  const std::shared_ptr<PlanCache> plans;  // of all models alike, where their options allow
  const std::shared_ptr<MemoryCounts> counts = std::make_shared<MemoryCounts>();

  Mutex mutex;
  std::map<const Variant*, std::weak_ptr<const CheckedProgram>> checked ABSL_GUARDED_BY(mutex);
  std::map<const VariantProvider*, std::weak_ptr<State>> parts ABSL_GUARDED_BY(mutex);
  std::vector<std::unique_ptr<Context::Impl>> idle
      ABSL_GUARDED_BY(mutex);  // last in, first out: its memory is warm

  // Of record_level: held while plans are made. The shapes that all inputs have.
  LongMutex recording;
  std::optional<std::vector<std::optional<std::vector<int64_t>>>> recorded
      ABSL_GUARDED_BY(recording);
  std::shared_ptr<RecordedProvider> recorder;  // at level 2: `provider`
  std::atomic<bool> given_up{false};

 private:
  State(std::shared_ptr<VariantProvider> p, RunOptions o, std::shared_ptr<Pool> its);
  absl::StatusOr<std::vector<InputInfo>> Info(const BoundTensors& inputs,
                                              const PortPlaces& places) const;
  // Inputs of these shapes, without elements.
  absl::StatusOr<BoundTensors> WithShapes(const NamedShapes& shapes) const;
  // Whether a state has an open extent, and may become larger from run to run.
  bool grows() const;
  PlanCache::Made Make(const BoundTensors& inputs, const std::vector<bool>& wanted,
                       const PortPlaces& places);
  PlanCache::Made MakeOf(const std::shared_ptr<const Variant>& variant,
                         const std::vector<InputInfo>& info, const std::vector<bool>& wanted,
                         const PortPlaces& places);
  PlanCache::Made MakeInstead(std::shared_ptr<const Variant> variant,
                              const std::vector<InputInfo>& info, const std::vector<bool>& wanted,
                              const PortPlaces& places, absl::Status why);
  PlanCache::Made MakeRecorded(const BoundTensors& inputs, const std::vector<bool>& wanted,
                               const PortPlaces& places);
  PlanOptions HowToPlan() const;
  absl::StatusOr<std::shared_ptr<const ExecutionPlan>> PlanOf(
      const std::shared_ptr<const Variant>& variant, const std::vector<InputInfo>& info,
      const std::vector<bool>& wanted, const PlanOptions& how);
  absl::Status MakePlan(const std::vector<InputInfo>& info, PreparedRun& prepared);
  absl::Status BindScript(const std::vector<InputInfo>& info, PreparedRun& prepared) const;
};

struct KILN_INSIDE Context::Impl {
  explicit Impl(Model::State* m);

  absl::Status Bind(size_t input, Tensor view);
  absl::Status BindParts(size_t input, const std::vector<Tensor>& parts);
  absl::Status BindOutput(size_t output, Tensor view);
  absl::Status SetOutputs(const std::vector<std::string>& names);
  absl::StatusOr<Tensor> Output(size_t output);
  absl::Status SetState(size_t input, const Tensor& value);
  absl::StatusOr<Tensor> State(size_t input, absl::string_view name);
  absl::Status ResetStates();
  // Null unless states lie on the device.
  absl::StatusOr<DeviceQueue*> QueueOfStates();
  // With `times`, runs with a clock around every thunk.
  absl::Status Run(const RunControl& control, std::vector<ThunkTime>* times);
  // The outputs of the last run; owned ones leave the context.
  std::vector<Tensor> TakeOutputs();
  // Forgets the outputs of the last run; owned ones serve the next.
  void DropOutputs();
  void Unbind();
  // Bytes of the memory that it keeps.
  int64_t kept_bytes() const;
  // Gives back all memory that the next run can have again.
  void Trim();

  // A prepared run made this context's own.
  struct Bound {
    std::shared_ptr<const PreparedRun> prepared;
    std::unique_ptr<BoundPlan> plan;  // null: a script
    ScriptRun* script = nullptr;
    uint64_t last_used = 0;
  };

  absl::Status RunOnce(const RunControl& control, std::vector<ThunkTime>* times);
  // With what is bound where it lies.
  absl::Status RunBound(const RunControl& control, std::vector<ThunkTime>* times,
                        const PortPlaces& places);
  // With copies, in memory of the host, of what is bound on the device (landed_run.cc).
  absl::Status RunLanded(const RunControl& control, std::vector<ThunkTime>* times);
  ComputeDevice* device() const {
    return model->device != nullptr ? &model->device->device() : nullptr;
  }
  PortPlaces Places() const;
  absl::Status NeedQueue();
  // Tensors on the device become copies in memory of the host; and back.
  absl::Status CopyOutInputs(BoundTensors& inputs, void* stream = nullptr);
  absl::Status CopyInOutputs(const BoundTensors& results, void* stream);
  // RunOptions::check_first_run of a plan that has not run.
  absl::Status CheckFirst(const PreparedRun& prepared);
  // OutputMemory::kBound.
  absl::Status CheckAllBound() const;
  absl::StatusOr<Bound*> FindBound(const PortPlaces& places);
  Bound MakeBound(std::shared_ptr<const PreparedRun> prepared);
  absl::Status RunScript(const Bound& bound, const RunControl& control,
                         std::vector<ThunkTime>* times);
  absl::Status RunPlan(const RunControl& control, std::vector<double>* ms);
  // A run that fails before it has written over an input is run again with what is there instead.
  absl::Status RunPlanOrInstead(Bound& bound, const RunControl& control);
  absl::Status RunProfiled(const RunControl& control, std::vector<ThunkTime>& times);
  // Before PlaceInputs. Fails if bound outputs do not have the plan's shapes, or overlap.
  absl::Status PlaceOutputs(BoundPlan& bound);
  absl::Status PlaceInputs(BoundPlan& bound);
  absl::Status PlaceArena(BoundPlan& bound);
  absl::Status PlaceOnDevice(BoundPlan& bound);
  // Temporaries::kAllocated: new memory for each, until `blocks` goes.
  absl::Status AllocateTemporaries(BoundPlan& bound, std::vector<Memory>& blocks);
  void CopyInputs();
  // Before a run looks at its inputs: puts parts together, and binds the constants as they are now.
  absl::Status CompleteInputs();
  absl::Status CheckBoundOutputs();
  absl::Status CheckBoundShape(size_t output, const std::vector<int64_t>& shape) const;
  absl::StatusOr<const Tensor*> OwnOutput(size_t output, const std::vector<int64_t>& shape);
  void FindTaken();
  bool NeedsCopy(size_t input, const ExecutionPlan& plan);

  Model::State* const model;
  std::shared_ptr<Model::State> keep;  // set for contexts that a user holds
  Launcher launcher;
  BoundTensors bound_inputs, bound_outputs;
  std::vector<InputParts> parts;     // per input that has some
  UpdatedConstants::Values updated;  // that bound_inputs has; null: none yet
  std::vector<bool> wanted;          // per output: computed by the next run
  std::vector<Tensor> outputs;       // of the last run
  // Memory of unbound outputs, kept while the shape stays; more than one where an earlier output is
  // bound.
  std::vector<std::vector<Tensor>> owned_outputs;
  std::deque<Memory> input_copies;  // of inputs that are not dense, or overwritten too early
  BoundMemory written, taken;       // by bound outputs; by all that is bound
  std::vector<bool> donated;        // outputs that are written in place of an input
  bool shared = false;              // an output is written where an input lies
  std::vector<size_t> copied;       // inputs that a run reads from input_copies
  bool lands = false;               // a program has needed on the host what is bound on the device
  bool states_land = false;         // or a state, which then stays on the host
  // Where everything lies is looked into when something has moved, or for another plan.
  bool moved = true;
  const BoundPlan* placed = nullptr;
  StateBuffers states;
  Memory arena;
  std::unique_ptr<DeviceQueue> queue;  // made with the first plan that uses a device
  CountedBytes device_bytes;           // that it has
  void* callers_arena = nullptr;       // in place of it, of callers_arena_bytes
  int64_t callers_arena_bytes = 0;
  std::vector<Bound> bounds;  // at most kMaxPlans
  // Scripts of variants in use, with the plans and memory of their callees.
  std::map<std::shared_ptr<const Script>, std::unique_ptr<ScriptRun>> scripts;
  uint64_t runs = 0;
  BoundPlan* current = nullptr;  // of the last run, unless that was a script
  bool has_run = false;
  PlanReport report;
};

}  // namespace kiln

#endif  // KILN_EXEC_MODEL_STATE_H_
