// SPDX-License-Identifier: Apache-2.0
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/catch_exceptions.h"
#include "base/checked.h"
#include "base/status_macros.h"
#include "exec/model_state.h"
#include "exec/script.h"
#include "exec/support/admission.h"
#include "exec/symbols.h"
#include "kiln/model.h"

namespace kiln {
namespace {

constexpr char kRunning[] = "running";

// Kernels mean IEEE arithmetic; a caller may have set flush-to-zero or another rounding.
class DefaultFloatMode {
 public:
#if defined(__SSE__)
  DefaultFloatMode() { _mm_setcsr(0x1f80); }
  ~DefaultFloatMode() { _mm_setcsr(saved_); }

 private:
  unsigned saved_ = _mm_getcsr();
#endif
};

template <typename... T>
absl::Status Invalid(const T&... text) {
  return absl::InvalidArgumentError(absl::StrCat(text...));
}

std::string Text(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

absl::Status Empty() {
  return absl::FailedPreconditionError(
      "context: it is empty, was moved from, or there was no memory for it; make one with "
      "Model::NewContext");
}

// What can be said of a tensor before the program for its shape is known.
absl::Status CheckTensor(absl::string_view what, const PortInfo& port, const Tensor& tensor) {
  const auto subject = [&] { return absl::StrCat(what, " \"", port.name, "\""); };
  if (tensor.dtype() != port.type) {
    return Invalid(subject(), ": type is ", Name(tensor.dtype()), ", expected ", Name(port.type),
                   "; convert the tensor");
  }
  if (tensor.device() != Device())
    return Invalid(subject(), ": the tensor is on a GPU; copy it to the CPU");
  if ((!port.any_rank && tensor.shape().size() != port.shape.size()) ||
      tensor.strides().size() != tensor.shape().size()) {
    return Invalid(subject(), ": shape is ", Text(tensor.shape()), ", expected ",
                   ToString(port.shape), "; give a tensor of this rank");
  }
  for (size_t i = 0; i < port.shape.size(); ++i) {
    const std::optional<int64_t> extent = port.shape[i].constant();
    if (tensor.shape()[i] < 0 || (extent && *extent != tensor.shape()[i])) {
      return Invalid(subject(), ": dim ", i, " is ", tensor.shape()[i], ", expected ",
                     port.shape[i].ToString(), "; give a tensor of shape ", ToString(port.shape));
    }
  }
  const int64_t bytes = CheckedBytes(tensor.dtype(), tensor.shape());
  if (bytes < 0)
    return Invalid(subject(), ": shape ", Text(tensor.shape()), " has more than 64 bits of bytes");
  if (tensor.data() == nullptr && bytes > 0)
    return Invalid(subject(), ": no memory; give a tensor with data");
  return absl::OkStatus();
}

// Which tensors overlap an earlier one, by address; of those the first may stay.
std::vector<bool> SharedResults(const std::vector<Tensor>& results) {
  std::vector<std::pair<MemoryRange, size_t>> ranges;
  for (size_t i = 0; i < results.size(); ++i) {
    if (const MemoryRange range = RangeOf(results[i]); !range.empty())
      ranges.emplace_back(range, i);
  }
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first.begin, a.second) < std::pair(b.first.begin, b.second);
  });
  std::vector<bool> shared(results.size());
  uintptr_t end = 0;
  for (const auto& [range, i] : ranges) {
    shared[i] = range.begin < end;
    end = std::max(end, range.end);
  }
  return shared;
}

}  // namespace

Context::Impl::Impl(Model::State* m)
    : model(m),
      launcher(&m->pool),
      states(m->states, m->provider->inputs(), m->runtime, m->counts),
      arena(m->runtime, {m->counts, &m->counts->arenas}) {
  const size_t inputs = m->provider->inputs().size(), outs = m->provider->outputs().size();
  bound_inputs.resize(inputs);
  for (size_t i = 0; i < inputs; ++i)
    input_copies.emplace_back(m->runtime,
                              std::shared_ptr<std::atomic<int64_t>>(m->counts, &m->counts->copies));
  bound_outputs.resize(outs);
  wanted.assign(outs, true);
  outputs.resize(outs);
  owned_outputs.resize(outs);
}

absl::Status Context::Impl::Bind(size_t input, Tensor view) {
  const std::vector<PortInfo>& ports = model->provider->inputs();
  if (input >= ports.size()) return Invalid("input ", input, ": the model has ", ports.size());
  if (states.HasInput(input)) {
    return Invalid("input \"", ports[input].name,
                   "\": it is a state of the context; call SetState");
  }
  KILN_RETURN_IF_ERROR(CheckTensor("input", ports[input], view));
  std::optional<Tensor>& bound = bound_inputs[input];
  moved = moved || !bound || !SameMemory(*bound, view);
  bound = std::move(view);
  return absl::OkStatus();
}

absl::Status Context::Impl::BindOutput(size_t output, Tensor view) {
  const std::vector<PortInfo>& ports = model->provider->outputs();
  if (output >= ports.size()) return Invalid("output ", output, ": the model has ", ports.size());
  const PortInfo& port = ports[output];
  if (states.HasOutput(output)) {
    return Invalid("output \"", port.name,
                   "\": it is a state of the context; call State after the run");
  }
  KILN_RETURN_IF_ERROR(CheckTensor("output", port, view));
  if (!UsableAsIs(view))
    return Invalid("output \"", port.name,
                   "\": the memory is not dense and aligned; bind a dense tensor");
  if (const std::string constant = model->provider->ConstantIn(RangeOf(view)); !constant.empty()) {
    return Invalid("output \"", port.name, "\": the memory overlaps that of constant \"", constant,
                   "\", which the model reads at every run; bind memory of its own");
  }
  std::optional<Tensor>& bound = bound_outputs[output];
  moved = moved || !bound || !SameMemory(*bound, view);
  bound = std::move(view);
  return absl::OkStatus();
}

Context::Impl::Bound Context::Impl::MakeBound(std::shared_ptr<const PreparedRun> prepared) {
  Bound bound;
  if (prepared->plan != nullptr) {
    bound.plan = std::make_unique<BoundPlan>(prepared->plan);
  } else {
    const std::shared_ptr<const Script>& script = prepared->variant->script;
    std::unique_ptr<ScriptRun>& run = scripts[script];
    if (run == nullptr) run = std::make_unique<ScriptRun>(script, *model);
    bound.script = run.get();
  }
  bound.prepared = std::move(prepared);
  return bound;
}

absl::StatusOr<Context::Impl::Bound*> Context::Impl::FindBound() {
  ++runs;
  for (Bound& bound : bounds) {
    if (!bound.prepared->Holds(bound_inputs, wanted)) continue;
    bound.last_used = runs;
    return &bound;
  }
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<const PreparedRun> prepared,
                        model->Prepared(bound_inputs, wanted));
  placed = nullptr;  // a new plan may have the address of an old one
  Bound made = MakeBound(std::move(prepared));
  made.last_used = runs;
  if (bounds.size() < kMaxPlans) {
    bounds.push_back(std::move(made));
    return &bounds.back();
  }
  const auto by_use = [](const Bound& a, const Bound& b) { return a.last_used < b.last_used; };
  Bound& oldest = *std::min_element(bounds.begin(), bounds.end(), by_use);
  oldest = std::move(made);
  return &oldest;
}

// What an input is read from: the caller's memory, unless an output is written there too early.
bool Context::Impl::NeedsCopy(size_t i, const ExecutionPlan& plan) {
  const MemoryRange range = RangeOf(*bound_inputs[i]);
  for (auto it = written.From(range.begin); it != written.end() && it->range.begin < range.end;
       ++it) {
    shared = true;
    if (plan.ReadsEndBeforeWrites(i, it->port)) continue;
    const bool same = it->range.begin == range.begin && it->range.end == range.end;
    if (!same || donated[it->port] || !plan.WritesInPlace(i, it->port)) return true;
    donated[it->port] = true;
  }
  return false;
}

absl::Status Context::Impl::PlaceInputs(BoundPlan& bound) {
  donated.assign(outputs.size(), false);
  shared = false;
  copied.clear();
  for (size_t i = 0; i < bound_inputs.size(); ++i) {
    if (!bound_inputs[i]) continue;
    const Tensor& tensor = *bound_inputs[i];
    if (UsableAsIs(tensor) && !NeedsCopy(i, bound.plan())) {
      bound.SetInput(i, tensor.data());
      continue;
    }
    KILN_RETURN_IF_ERROR(input_copies[i].Reserve(tensor.size_bytes()));
    bound.SetInput(i, input_copies[i].data());
    copied.push_back(i);
  }
  return absl::OkStatus();
}

void Context::Impl::CopyInputs() {
  for (const size_t i : copied) {
    const Tensor& tensor = *bound_inputs[i];
    void* const copy = input_copies[i].data();
    if (UsableAsIs(tensor)) {
      if (tensor.size_bytes() > 0)
        std::memcpy(copy, tensor.data(), static_cast<size_t>(tensor.size_bytes()));
    } else {
      StridedCopy(tensor.shape(), tensor.strides(), DenseStrides(tensor.shape()),
                  SizeOf(tensor.dtype()))
          .Run(tensor.data(), copy);
    }
  }
}

absl::Status Context::Impl::CheckBoundOutputs() {
  written.Clear();
  for (size_t i = 0; i < bound_outputs.size(); ++i) {
    if (bound_outputs[i]) written.Add(RangeOf(*bound_outputs[i]), i);
  }
  if (const auto both = written.SortApart()) {
    const std::vector<PortInfo>& ports = model->provider->outputs();
    return Invalid("outputs \"", ports[both->first].name, "\" and \"", ports[both->second].name,
                   "\": bound to memory that overlaps; bind each to memory of its own");
  }
  return absl::OkStatus();
}

absl::Status Context::Impl::CheckBoundShape(size_t i, const std::vector<int64_t>& shape) const {
  if (!bound_outputs[i] || bound_outputs[i]->shape() == shape) return absl::OkStatus();
  return Invalid("output \"", model->provider->outputs()[i].name, "\": the bound memory is ",
                 Text(bound_outputs[i]->shape()), ", the result ", Text(shape),
                 "; bind memory of that shape");
}

// Memory of the context's own that is not bound now: an output of an earlier run may have become an
// input, or another output.
absl::StatusOr<const Tensor*> Context::Impl::OwnOutput(size_t i,
                                                       const std::vector<int64_t>& shape) {
  std::vector<Tensor>& owned = owned_outputs[i];
  std::erase_if(owned, [&](const Tensor& tensor) { return tensor.shape() != shape; });
  for (const Tensor& tensor : owned) {
    if (!taken.Overlaps(RangeOf(tensor))) return &tensor;
  }
  const DType type = model->provider->outputs()[i].type;
  auto owner = std::make_shared<Memory>(
      model->runtime,
      std::shared_ptr<std::atomic<int64_t>>(model->counts, &model->counts->outputs));
  KILN_RETURN_IF_ERROR(owner->Reserve(CheckedBytes(type, shape)));
  owned.push_back(Tensor::View(owner->data(), type, shape, {}, owner));
  return &owned.back();
}

void Context::Impl::FindTaken() {
  taken.Clear();
  for (const auto* ports : {&bound_inputs, &bound_outputs}) {
    for (const std::optional<Tensor>& bound : *ports) {
      if (bound) taken.Add(RangeOf(*bound), 0);
    }
  }
  taken.SortJoined();
}

absl::Status Context::Impl::PlaceOutputs(BoundPlan& bound) {
  const std::vector<std::vector<int64_t>>& shapes = bound.plan().output_shapes();
  for (size_t i = 0; i < outputs.size(); ++i)
    if (wanted[i]) KILN_RETURN_IF_ERROR(CheckBoundShape(i, shapes[i]));
  KILN_RETURN_IF_ERROR(CheckBoundOutputs());
  // Only memory of the context's own has to keep clear of what is bound.
  if (std::find(bound_outputs.begin(), bound_outputs.end(), std::nullopt) != bound_outputs.end())
    FindTaken();
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!wanted[i]) {
      outputs[i] = Tensor();
      continue;
    }
    if (bound_outputs[i]) {
      outputs[i] = *bound_outputs[i];
    } else {
      KILN_ASSIGN_OR_RETURN(const Tensor* own, OwnOutput(i, shapes[i]));
      outputs[i] = *own;  // into memory that its shape has already
    }
    bound.SetOutput(i, outputs[i].data());
  }
  return absl::OkStatus();
}

absl::Status Context::Impl::PlaceArena(BoundPlan& bound) {
  const int64_t bytes = bound.plan().arena_bytes();
  if (model->options.shared_arena != nullptr) {
    std::optional<Memory>& memory = model->options.shared_arena->memory;
    if (!memory) memory.emplace(model->runtime, std::make_shared<std::atomic<int64_t>>(0));
    KILN_RETURN_IF_ERROR(memory->Reserve(bytes));
    bound.SetArena(memory->data());
    return absl::OkStatus();
  }
  if (callers_arena == nullptr) {
    KILN_RETURN_IF_ERROR(arena.Reserve(bytes));
    bound.SetArena(arena.data());
    return absl::OkStatus();
  }
  if (callers_arena_bytes < bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("arena: the caller's has ",
                                                     callers_arena_bytes, " bytes, the plan needs ",
                                                     bytes, "; give a larger one to SetArena"));
  }
  bound.SetArena(callers_arena);
  return absl::OkStatus();
}

absl::Status Context::Impl::RunPlan(const RunControl& control, std::vector<double>* ms) {
  const ExecutionPlan& plan = current->plan();
  std::optional<LongMutexLock> alone;  // before the admission, in all models that share the arena
  if (model->options.shared_arena != nullptr) alone.emplace(model->options.shared_arena->running);
  const Admission admission(model->pool, plan.share());
  launcher.set_limit(admission.exclusive() ? model->pool.threads() : 1);
  KILN_RETURN_IF_ERROR(PlaceArena(*current));
  // What fails, fails before anything is written.
  if (moved || placed != current) {
    placed = nullptr;
    KILN_RETURN_IF_ERROR(PlaceOutputs(*current));
    KILN_RETURN_IF_ERROR(PlaceInputs(*current));
    if (shared) KILN_RETURN_IF_ERROR(current->VerifyPorts());
    placed = current;
    moved = false;
  }
  CopyInputs();
  KILN_RETURN_IF_ERROR(current->Run(launcher, control, ms));
  report = current->report();
  return absl::OkStatus();
}

absl::Status Context::Impl::RunPlanOrInstead(Bound& bound, const RunControl& control) {
  const absl::Status status = RunPlan(control, nullptr);
  if (status.ok() || absl::IsCancelled(status) || absl::IsDeadlineExceeded(status)) return status;
  // Where an output lies over an input, there may be nothing left to run again.
  if (placed == current && shared) return status;
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<const PreparedRun> prepared,
                        model->PreparedInstead(bound.prepared, bound_inputs, status));
  placed = nullptr;
  const uint64_t last_used = bound.last_used;
  bound = MakeBound(std::move(prepared));
  bound.last_used = last_used;
  current = bound.plan.get();
  return current != nullptr ? RunPlan(control, nullptr) : RunScript(bound, control, nullptr);
}

absl::Status Context::Impl::RunScript(const Bound& bound, const RunControl& control,
                                      std::vector<ThunkTime>* times) {
  placed = nullptr;
  KILN_RETURN_IF_ERROR(CheckBoundOutputs());
  std::vector<Tensor> inputs;
  for (const std::optional<Tensor>& bound : bound_inputs)
    inputs.push_back(!bound ? Tensor() : UsableAsIs(*bound) ? *bound : bound->Clone());
  KILN_ASSIGN_OR_RETURN(std::vector<Tensor> results,
                        bound.script->Run(inputs, bound.prepared->symbols, control, times));
  for (size_t i = 0; i < outputs.size(); ++i)
    if (wanted[i]) KILN_RETURN_IF_ERROR(CheckBoundShape(i, results[i].shape()));
  // A result may be an input's memory: it is not overwritten with another result, and what the
  // caller owns is not handed out as the context's. Nor is one memory handed out twice.
  taken.Clear();
  for (const Tensor& input : inputs) taken.Add(RangeOf(input), 0);
  taken.SortJoined();
  std::vector<bool> cloned = SharedResults(results);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const MemoryRange range = RangeOf(results[i]);
    if (cloned[i] || taken.Overlaps(range) || written.Overlaps(range))
      results[i] = results[i].Clone();
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& result = results[i];
    if (!wanted[i]) {
      outputs[i] = Tensor();
      continue;
    }
    outputs[i] = bound_outputs[i] ? *bound_outputs[i] : result;
    if (bound_outputs[i] && result.size_bytes() > 0)
      std::memcpy(outputs[i].data(), result.data(), static_cast<size_t>(result.size_bytes()));
  }
  report = bound.script->report();
  return absl::OkStatus();
}

absl::Status Context::Impl::RunProfiled(const RunControl& control, std::vector<ThunkTime>& times) {
  std::vector<double> ms;
  KILN_RETURN_IF_ERROR(RunPlan(control, &ms));
  const ExecutionPlan& plan = current->plan();
  for (const PlanStep& step : plan.steps()) {
    static constexpr const char* kKinds[] = {"kernel", "library", "copy", "host"};
    times.push_back({kKinds[step.launch.index()], plan.program().thunks[step.thunk].name,
                     ms[times.size()], step.bytes, current->IsVm(step)});
  }
  return absl::OkStatus();
}

absl::Status Context::Impl::RunOnce(const RunControl& control, std::vector<ThunkTime>* times) {
  KILN_RETURN_IF_ERROR(control.Check());
  KILN_RETURN_IF_ERROR(states.Begin(bound_inputs));
  KILN_ASSIGN_OR_RETURN(Bound* const bound, FindBound());
  current = bound->plan.get();
  KILN_RETURN_IF_ERROR(states.Place(bound->prepared->plan.get(), bound_outputs));
  moved = moved || states.moved();
  const absl::Status status = current == nullptr ? RunScript(*bound, control, times)
                              : times == nullptr ? RunPlanOrInstead(*bound, control)
                                                 : RunProfiled(control, *times);
  states.End(status, outputs);
  return status;
}

absl::Status Context::Impl::Run(const RunControl& control, std::vector<ThunkTime>* times) {
  const DefaultFloatMode float_mode;
  const RunOptions& options = model->options;
  Runtime::State& runtime = model->runtime->state();
  model->provider->ResumeAfterFork();
  has_run = false;  // what an output holds after a run that failed is nobody's
  if (options.on_start) options.on_start();
  const absl::Status status = RunOnce(control, times);
  has_run = status.ok();
  ++(status.ok() ? runtime.runs : runtime.failed_runs);
  if (status.ok() && report.vm_launches > 0) ++runtime.vm_runs;
  if (options.on_finish) options.on_finish(status);
  return status;
}

absl::Status Context::Impl::SetOutputs(const std::vector<std::string>& names) {
  std::vector<bool> chosen(outputs.size(), names.empty());
  for (const std::string& name : names) {
    KILN_ASSIGN_OR_RETURN(const size_t index, model->OutputIndex(name));
    chosen[index] = true;
  }
  for (const StatePorts& state : model->states) chosen[state.output] = true;
  moved = moved || chosen != wanted;
  wanted = std::move(chosen);
  return absl::OkStatus();
}

absl::StatusOr<Tensor> Context::Impl::Output(size_t output) const {
  const std::vector<PortInfo>& ports = model->provider->outputs();
  if (output >= ports.size()) return Invalid("output ", output, ": the model has ", ports.size());
  const std::string& name = ports[output].name;
  if (has_run && !wanted[output]) {
    return absl::FailedPreconditionError(absl::StrCat(
        "output \"", name, "\": it was not computed; name it among those of SetOutputs"));
  }
  if (has_run) return outputs[output];
  return absl::FailedPreconditionError(absl::StrCat("output \"", name, "\": nothing has run",
                                                    runs > 0 ? " well" : "", "; call Run first"));
}

absl::Status Context::Impl::SetState(size_t input, const Tensor& value) {
  KILN_RETURN_IF_ERROR(CheckTensor("state", model->provider->inputs()[input], value));
  return states.Set(input, value);
}

std::vector<Tensor> Context::Impl::TakeOutputs() {
  std::vector<Tensor> taken = outputs;
  for (const StatePorts& state : model->states) taken[state.output] = taken[state.output].Clone();
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i] = Tensor();
    owned_outputs[i].clear();
  }
  moved = true;
  has_run = false;
  return taken;
}

void Context::Impl::Unbind() {
  for (std::optional<Tensor>& input : bound_inputs) input.reset();
  for (std::optional<Tensor>& output : bound_outputs) output.reset();
  moved = true;
}

int64_t Context::Impl::kept_bytes() const {
  int64_t bytes = arena.size();
  for (const Memory& copy : input_copies) bytes += copy.size();
  for (const std::vector<Tensor>& owned : owned_outputs)
    for (const Tensor& tensor : owned) bytes += tensor.size_bytes();
  return bytes;
}

void Context::Impl::Trim() {
  arena.Release();
  for (Memory& copy : input_copies) copy.Release();
  for (std::vector<Tensor>& owned : owned_outputs) owned.clear();
  for (Tensor& output : outputs) output = Tensor();
  has_run = false;
  bounds.clear();
  scripts.clear();
  current = nullptr;
  placed = nullptr;
  moved = true;
}

Context::Context(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Context::Context(Context&&) noexcept = default;
// The state before holds the model that its launcher's pool belongs to: it goes as one.
Context& Context::operator=(Context&&) noexcept = default;
Context::~Context() = default;

absl::Status Context::Bind(absl::string_view input, Tensor view) {
  if (impl_ == nullptr) return Empty();
  return CatchExceptions("input", [&]() -> absl::Status {
    KILN_ASSIGN_OR_RETURN(const size_t index, impl_->model->InputIndex(input));
    return impl_->Bind(index, std::move(view));
  });
}
absl::Status Context::Bind(size_t input, Tensor view) {
  if (impl_ == nullptr) return Empty();
  return CatchExceptions("input", [&] { return impl_->Bind(input, std::move(view)); });
}
absl::Status Context::BindOutput(absl::string_view output, Tensor view) {
  if (impl_ == nullptr) return Empty();
  return CatchExceptions("output", [&]() -> absl::Status {
    KILN_ASSIGN_OR_RETURN(const size_t index, impl_->model->OutputIndex(output));
    return impl_->BindOutput(index, std::move(view));
  });
}
absl::Status Context::BindOutput(size_t output, Tensor view) {
  if (impl_ == nullptr) return Empty();
  return CatchExceptions("output", [&] { return impl_->BindOutput(output, std::move(view)); });
}
absl::Status Context::SetOutputs(const std::vector<std::string>& names) {
  if (impl_ == nullptr) return Empty();
  return CatchExceptions("outputs", [&] { return impl_->SetOutputs(names); });
}

absl::Status Context::SetArena(void* memory, int64_t bytes) {
  if (impl_ == nullptr) return Empty();
  if (reinterpret_cast<uintptr_t>(memory) % kArenaAlignment != 0 || bytes < 0) {
    return Invalid("arena: ", bytes, " bytes at an address that is ",
                   reinterpret_cast<uintptr_t>(memory) % kArenaAlignment, " beyond a multiple of ",
                   kArenaAlignment, "; give aligned memory");
  }
  impl_->callers_arena = memory;
  impl_->callers_arena_bytes = bytes;
  return absl::OkStatus();
}

absl::Status Context::Run(const RunControl& control) {
  if (impl_ == nullptr) return Empty();
  return CatchExceptions(kRunning, [&] { return impl_->Run(control, nullptr); });
}

absl::StatusOr<Tensor> Context::Output(absl::string_view name) const {
  if (impl_ == nullptr) return Empty();
  return CatchExceptions("output", [&]() -> absl::StatusOr<Tensor> {
    KILN_ASSIGN_OR_RETURN(const size_t index, impl_->model->OutputIndex(name));
    return impl_->Output(index);
  });
}
absl::StatusOr<Tensor> Context::Output(size_t output) const {
  if (impl_ == nullptr) return Empty();
  return CatchExceptions("output", [&] { return impl_->Output(output); });
}

absl::StatusOr<Tensor> Context::State(absl::string_view input) const {
  if (impl_ == nullptr) return Empty();
  return CatchExceptions("state", [&]() -> absl::StatusOr<Tensor> {
    KILN_ASSIGN_OR_RETURN(const size_t index, impl_->model->InputIndex(input));
    return impl_->states.Get(index);
  });
}
absl::Status Context::SetState(absl::string_view input, const Tensor& value) {
  if (impl_ == nullptr) return Empty();
  return CatchExceptions("state", [&]() -> absl::Status {
    KILN_ASSIGN_OR_RETURN(const size_t index, impl_->model->InputIndex(input));
    return impl_->SetState(index, value);
  });
}
absl::Status Context::ResetStates() {
  if (impl_ == nullptr) return Empty();
  return CatchExceptions("state", [&] { return impl_->states.Reset(); });
}

void Context::Trim() {
  if (impl_ != nullptr) impl_->Trim();
}

const PlanReport& Context::report() const {
  static const PlanReport kNothing;
  return impl_ != nullptr ? impl_->report : kNothing;
}

absl::StatusOr<std::vector<ThunkTime>> Context::Profile() {
  if (impl_ == nullptr) return Empty();
  return CatchExceptions(kRunning, [&]() -> absl::StatusOr<std::vector<ThunkTime>> {
    std::vector<ThunkTime> times;
    KILN_RETURN_IF_ERROR(impl_->Run({}, &times));
    return times;
  });
}

}  // namespace kiln
