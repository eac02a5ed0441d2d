// SPDX-License-Identifier: Apache-2.0
#include "kiln/model.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/catch_exceptions.h"
#include "base/log.h"
#include "base/processors.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "base/task_queue.h"
#include "exec/model_state.h"
#include "exec/recorded_provider.h"
#include "exec/script.h"

namespace kiln {
namespace {

constexpr char kRunning[] = "running";

absl::Status Empty() {
  return absl::FailedPreconditionError(
      "model: it is empty, or was moved from; assign what Compile or LoadPackage returns");
}

const std::vector<PortInfo>& NoPorts() {
  static const auto* const none = new std::vector<PortInfo>();
  return *none;
}

absl::Status CheckPorts(const std::vector<PortInfo>& ports, absl::string_view what) {
  std::set<std::string> names;
  for (size_t i = 0; i < ports.size(); ++i) {
    if (ports[i].name.empty())
      return absl::InvalidArgumentError(absl::StrCat("model: ", what, " ", i, " has no name"));
    if (!names.insert(ports[i].name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("model: two ", what, "s are named \"", ports[i].name, "\""));
    }
  }
  return absl::OkStatus();
}

std::map<std::string, size_t, std::less<>> IndexOf(const std::vector<PortInfo>& ports) {
  std::map<std::string, size_t, std::less<>> index;
  for (size_t i = 0; i < ports.size(); ++i) index.emplace(ports[i].name, i);
  return index;
}

absl::Status NoPort(absl::string_view what, absl::string_view name,
                    const std::vector<PortInfo>& ports) {
  return absl::NotFoundError(
      absl::StrCat(what, " \"", name, "\": the model has no such ", what, "; it has ",
                   absl::StrJoin(ports, ", ", [](std::string* out, const PortInfo& port) {
                     absl::StrAppend(out, "\"", port.name, "\"");
                   })));
}

// Those that callers bind.
std::vector<PortInfo> OwnInputs(const VariantProvider& provider) {
  const std::vector<PortInfo>& all = provider.inputs();
  const size_t own = all.size() - std::min(all.size(), provider.updatable().size());
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(own)};
}

// Plans that are made otherwise, or whose making somebody watches, are the model's own.
std::shared_ptr<PlanCache> PlansOf(VariantProvider& provider, const Pool& pool,
                                   const RunOptions& options) {
  if (options.on_plan || options.temporaries != Temporaries::kPlanned || options.check_first_run ||
      options.on_thunk || options.batch_invariant || options.record_level > 0)
    return std::make_shared<PlanCache>();
  return provider.plans(pool, options.workspace_limit);
}

// Of a part of a script: its outputs are the script's, whose shapes any run may change.
RunOptions PartOptions(RunOptions options) {
  options.output_memory = OutputMemory::kReused;
  options.record_level = 0;
  return options;
}

absl::Status CheckNumbers(const RunOptions& options) {
  KILN_RETURN_IF_ERROR(CheckThreads(options.threads));
  if (options.record_level < 0 || options.record_level > 2)
    return absl::InvalidArgumentError(
        absl::StrCat("record_level: is ", options.record_level, ", expected 0, 1 or 2"));
  if (options.workspace_limit < 0)
    return absl::InvalidArgumentError(absl::StrCat("workspace_limit: is ", options.workspace_limit,
                                                   " bytes, expected 0 (no limit) or more"));
  return absl::OkStatus();
}

}  // namespace

Model::State::State(std::shared_ptr<VariantProvider> p, const RunOptions& o)
    : State(std::move(p), o, o.runtime->state().PoolFor(o.threads)) {}

Model::State::State(std::shared_ptr<VariantProvider> p, const State& whole)
    : State(std::move(p), PartOptions(whole.options), whole.shared_pool) {
  session = whole.session;
  choosing = whole.choosing;
  told_of_cpu = whole.told_of_cpu;
}

Model::State::State(std::shared_ptr<VariantProvider> p, RunOptions o, std::shared_ptr<Pool> its)
    : provider(std::move(p)),
      options(std::move(o)),
      runtime(options.runtime),
      shared_pool(std::move(its)),
      pool(*shared_pool),
      device(runtime->state().device),
      input_index(IndexOf(provider->inputs())),
      output_index(IndexOf(provider->outputs())),
      own_inputs(OwnInputs(*provider)),
      updatable(provider->inputs().begin() + static_cast<std::ptrdiff_t>(own_inputs.size()),
                provider->inputs().end()),
      updated(provider->updatable()),
      plans(PlansOf(*provider, pool, options)) {}

absl::StatusOr<size_t> Model::State::InputIndex(absl::string_view name) const {
  const auto it = input_index.find(name);
  if (it != input_index.end() && it->second < own_inputs.size()) return it->second;
  return NoPort("input", name, own_inputs);
}

absl::StatusOr<size_t> Model::State::OutputIndex(absl::string_view name) const {
  const auto it = output_index.find(name);
  if (it != output_index.end()) return it->second;
  return NoPort("output", name, provider->outputs());
}

Model::State::~State() {
  for (const std::unique_ptr<Context::Impl>& context : idle)
    runtime->state().idle_bytes -= context->kept_bytes();
}

std::unique_ptr<Context::Impl> Model::State::Take() {
  {
    const MutexLock lock(mutex);
    if (!idle.empty()) {
      std::unique_ptr<Context::Impl> context = std::move(idle.back());
      idle.pop_back();
      runtime->state().idle_bytes -= context->kept_bytes();
      return context;
    }
  }
  return std::make_unique<Context::Impl>(this);
}

void Model::State::GiveBack(std::unique_ptr<Context::Impl> context) {
  context->Unbind();
  std::atomic<int64_t>& idle_bytes = runtime->state().idle_bytes;
  const int64_t budget = runtime->state().options.idle_budget;
  if (budget > 0 && idle_bytes + context->kept_bytes() > budget) context->Trim();
  idle_bytes += context->kept_bytes();
  const MutexLock lock(mutex);
  idle.push_back(std::move(context));
}

std::shared_ptr<SharedArena> NewSharedArena() { return std::make_shared<SharedArena>(); }

absl::StatusOr<Model> Model::Create(std::shared_ptr<VariantProvider> provider,
                                    const RunOptions& options) {
  return CatchExceptions("model", [&]() -> absl::StatusOr<Model> {
    if (provider == nullptr) return absl::InvalidArgumentError("model: no provider");
    KILN_RETURN_IF_ERROR(CheckNumbers(options));
    KILN_RETURN_IF_ERROR(CheckPorts(provider->inputs(), "input"));
    KILN_RETURN_IF_ERROR(CheckPorts(provider->outputs(), "output"));
    RunOptions own = options;
    if (own.runtime == nullptr) own.runtime = Runtime::Default();
    KILN_ASSIGN_OR_RETURN(std::vector<StatePorts> states,
                          FindStatePorts(own.states, OwnInputs(*provider), provider->outputs()));
    // Of the provider itself: what it shares with other models outlasts this one's giving it up.
    const std::shared_ptr<library::PackedStore> store = provider->packed_store();
    std::shared_ptr<RecordedProvider> recorder;
    if (options.record_level == 2)
      provider = recorder = std::make_shared<RecordedProvider>(std::move(provider));
    Model model;
    model.state_ = std::make_shared<State>(std::move(provider), own);
    model.state_->states = std::move(states);
    model.state_->recorder = std::move(recorder);
    KILN_ASSIGN_OR_RETURN(model.state_->session,
                          library::Session::Create(&model.state_->pool, store));
    model.state_->choosing = {model.state_->provider->measured_choices(), options.workspace_limit,
                              &model.state_->pool};
    return model;
  });
}

const std::vector<PortInfo>& Model::inputs() const {
  if (state_ == nullptr) return NoPorts();
  return state_->updatable.empty() ? state_->provider->inputs() : state_->own_inputs;
}
const std::vector<PortInfo>& Model::outputs() const {
  return state_ != nullptr ? state_->provider->outputs() : NoPorts();
}
int Model::threads() const { return state_ != nullptr ? state_->pool.threads() : 0; }

absl::StatusOr<size_t> Model::InputIndex(absl::string_view name) const {
  if (state_ == nullptr) return Empty();
  return CatchExceptions("input", [&] { return state_->InputIndex(name); });
}
absl::StatusOr<size_t> Model::OutputIndex(absl::string_view name) const {
  if (state_ == nullptr) return Empty();
  return CatchExceptions("output", [&] { return state_->OutputIndex(name); });
}

absl::StatusOr<std::vector<Tensor>> Model::State::Run(const NamedTensors& inputs,
                                                      const RunControl& control) {
  if (options.output_memory == OutputMemory::kBound) {
    return absl::FailedPreconditionError(
        "Model::Run: outputs are to be bound (OutputMemory::kBound), and it binds none; run a "
        "context");
  }
  std::unique_ptr<Context::Impl> context = Take();
  const auto run = [&]() -> absl::Status {
    if (!states.empty()) KILN_RETURN_IF_ERROR(context->ResetStates());
    for (auto input = inputs.begin(); input != inputs.end(); ++input) {
      const auto same = [&](const auto& other) { return other.first == input->first; };
      if (std::any_of(inputs.begin(), input, same))
        return Invalid("input \"", input->first, "\": given twice");
      KILN_ASSIGN_OR_RETURN(const size_t index, InputIndex(input->first));
      KILN_RETURN_IF_ERROR(context->Bind(index, input->second));
    }
    return context->Run(control, nullptr);
  };
  const absl::Status status = run();
  std::vector<Tensor> outputs = context->TakeOutputs();
  GiveBack(std::move(context));
  if (!status.ok()) return status;
  return outputs;
}

absl::StatusOr<std::vector<Tensor>> Model::Run(const NamedTensors& inputs,
                                               const RunControl& control) {
  const std::shared_ptr<State> state = state_;
  if (state == nullptr) return Empty();
  return CatchExceptions(kRunning, [&] { return state->Run(inputs, control); });
}

namespace {

// Threads for runs that nobody waits for, where the host has none. They outlive all models.
TaskQueue& AsyncRuns() {
  static auto* const queue = new TaskQueue(Processors());
  return *queue;
}

// A run that is done once, by whom it is given to first.
class AsyncRun {
 public:
  AsyncRun(std::shared_ptr<Model::State> state, NamedTensors inputs, Model::DoneFn done,
           const RunControl& control)
      : state_(std::move(state)),
        inputs_(std::move(inputs)),
        done_(std::move(done)),
        control_(control) {}

  void Do() {
    if (begun_.exchange(true)) return;
    absl::StatusOr<std::vector<Tensor>> result = Empty();
    if (state_ != nullptr)
      result = CatchExceptions(kRunning, [&] { return state_->Run(inputs_, control_); });
    // What `done` sees is over: model, runtime and inputs are the host's to destroy.
    inputs_.clear();
    control_ = RunControl();
    state_.reset();
    const Model::DoneFn done = std::exchange(done_, nullptr);
    const absl::Status called = CatchExceptions("done", [&] {
      if (done) done(std::move(result));
      return absl::OkStatus();
    });
    if (!called.ok()) LogWarning(called.message());
  }

 private:
  std::atomic<bool> begun_{false};
  std::shared_ptr<Model::State> state_;
  NamedTensors inputs_;
  Model::DoneFn done_;
  RunControl control_;
};

// Runs that an executor has been given, by the number that it has in their place: one that is
// called twice finds nothing any more.
class HostedRuns {
 public:
  static HostedRuns& Get() {
    static auto* const runs = new HostedRuns();
    return *runs;
  }
  void* Add(std::shared_ptr<AsyncRun> run) {
    const MutexLock lock(mutex_);
    runs_.emplace(++last_, std::move(run));
    return reinterpret_cast<void*>(last_);
  }
  std::shared_ptr<AsyncRun> Take(void* number) {
    const MutexLock lock(mutex_);
    const auto found = runs_.extract(reinterpret_cast<uintptr_t>(number));
    return found.empty() ? nullptr : std::move(found.mapped());
  }

 private:
  Mutex mutex_;
  uintptr_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uintptr_t, std::shared_ptr<AsyncRun>> runs_ ABSL_GUARDED_BY(mutex_);
};

// Whether the executor does it.
bool StartHosted(Executor& executor, const std::shared_ptr<AsyncRun>& run) {
  void* const number = HostedRuns::Get().Add(run);
  const auto call = [](void* data, int) {
    if (const std::shared_ptr<AsyncRun> hosted = HostedRuns::Get().Take(data)) hosted->Do();
  };
  bool starts = false;
  const absl::Status status = CatchExceptions("executor", [&] {
    starts = executor.Start(2, call, number);
    return absl::OkStatus();
  });
  if (!status.ok()) LogWarning(status.message());
  if (!starts) HostedRuns::Get().Take(number);
  return starts;
}

}  // namespace

void Model::RunAsync(NamedTensors inputs, DoneFn done, const RunControl& control) {
  std::shared_ptr<AsyncRun> run;
  const absl::Status started = CatchExceptions(kRunning, [&] {
    run = std::make_shared<AsyncRun>(state_, std::move(inputs), std::move(done), control);
    const std::shared_ptr<Executor> executor =
        state_ != nullptr ? state_->runtime->state().options.executor : nullptr;
    if (executor == nullptr || !StartHosted(*executor, run)) AsyncRuns().Add([run] { run->Do(); });
    return absl::OkStatus();
  });
  if (started.ok()) return;
  if (run != nullptr) return run->Do();  // here, unless a thread has begun
  CatchExceptions("done", [&] {
    if (done) done(started);
    return absl::OkStatus();
  }).IgnoreError();
}

absl::Status Model::Prepare(const NamedShapes& shapes) {
  if (state_ == nullptr) return Empty();
  return CatchExceptions("preparing", [&] { return state_->Prepare(shapes); });
}

absl::StatusOr<std::vector<std::vector<int64_t>>> Model::OutputShapes(const NamedShapes& shapes) {
  if (state_ == nullptr) return Empty();
  return CatchExceptions("shapes", [&] { return state_->OutputShapes(shapes); });
}

MemoryReport Model::memory() const {
  MemoryReport report;
  if (state_ == nullptr) return report;
  const MemoryCounts& counts = *state_->counts;
  report.arenas = counts.arenas;
  report.copies = counts.copies;
  report.outputs = counts.outputs;
  report.states = counts.states;
  report.device_arenas = counts.device;
  const PlanCache::Counts plans = state_->plans->counts();
  report.plans = plans.kept;
  report.plan_bytes = plans.bytes;
  report.device_constants = plans.device_constants;
  report.constants = plans.constants + state_->updated.bytes();
  const MutexLock lock(state_->mutex);
  report.idle_contexts = static_cast<int64_t>(state_->idle.size());
  for (const std::unique_ptr<Context::Impl>& context : state_->idle)
    report.idle_bytes += context->kept_bytes();
  return report;
}

void Model::Trim() {
  if (state_ == nullptr) return;
  std::vector<std::unique_ptr<Context::Impl>> idle;
  {
    const MutexLock lock(state_->mutex);
    idle.swap(state_->idle);
  }
  for (const std::unique_ptr<Context::Impl>& context : idle)
    state_->runtime->state().idle_bytes -= context->kept_bytes();
  idle.clear();
  state_->plans->Trim();
}

Context Model::NewContext() {
  if (state_ == nullptr) return Context(nullptr);
  std::unique_ptr<Context::Impl> context;
  CatchExceptions("context", [&] {
    context = std::make_unique<Context::Impl>(state_.get());
    context->keep = state_;
    return absl::OkStatus();
  }).IgnoreError();
  return Context(std::move(context));
}

}  // namespace kiln
