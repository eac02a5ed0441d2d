// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <cstdlib>
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

// Memory from here on is given in huge pages where the system has them.
constexpr int64_t kHugeFrom = int64_t{4} << 20;  // speed
constexpr int64_t kHugePage = int64_t{2} << 20;  // correctness

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

std::string Names(const std::vector<PortInfo>& ports) {
  return absl::StrJoin(ports, ", ", [](std::string* out, const PortInfo& p) {
    absl::StrAppend(out, "\"", p.name, "\"");
  });
}

absl::Status Empty() {
  return absl::FailedPreconditionError(
      "context: it is empty, was moved from, or there was no memory for it; make one with "
      "Model::NewContext");
}

bool SameMemory(const Tensor& a, const Tensor& b) {
  return a.data() == b.data() && a.shape() == b.shape() && a.strides() == b.strides();
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

void Memory::Free::operator()(void* p) const { std::free(p); }

absl::Status Memory::Reserve(int64_t bytes) {
  if (bytes <= size_ && data_ != nullptr) return absl::OkStatus();
  data_.reset();
  size_ = 0;
  const int64_t unit = bytes >= kHugeFrom ? kHugePage : kArenaAlignment;
  const std::optional<int64_t> padded = CheckedRoundUp(std::max<int64_t>(bytes, 1), unit);
  if (padded) {
    data_.reset(std::aligned_alloc(static_cast<size_t>(unit), static_cast<size_t>(*padded)));
  }
  if (data_ == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("memory: ", bytes, " bytes are not available; use smaller inputs"));
  }
  size_ = *padded;
  // A wish: without huge pages it is slower and as right.
  if (unit == kHugePage) madvise(data_.get(), static_cast<size_t>(size_), MADV_HUGEPAGE);
  return absl::OkStatus();
}

Context::State::State(Model::State* m) : model(m), launcher(&m->pool) {
  const size_t inputs = m->provider->inputs().size(), outs = m->provider->outputs().size();
  bound_inputs.resize(inputs);
  input_copies.resize(inputs);
  bound_outputs.resize(outs);
  outputs.resize(outs);
  owned_outputs.resize(outs);
}

absl::Status Context::State::Bind(absl::string_view input, Tensor view) {
  const auto it = model->input_index.find(input);
  const std::vector<PortInfo>& ports = model->provider->inputs();
  if (it == model->input_index.end()) {
    return absl::NotFoundError(
        absl::StrCat("input \"", input, "\": the model has no such input; it has ", Names(ports)));
  }
  KILN_RETURN_IF_ERROR(CheckTensor("input", ports[it->second], view));
  std::optional<Tensor>& bound = bound_inputs[it->second];
  moved = moved || !bound || !SameMemory(*bound, view);
  bound = std::move(view);
  return absl::OkStatus();
}

absl::Status Context::State::BindOutput(absl::string_view output, Tensor view) {
  const auto it = model->output_index.find(output);
  const std::vector<PortInfo>& ports = model->provider->outputs();
  if (it == model->output_index.end()) {
    return absl::NotFoundError(absl::StrCat(
        "output \"", output, "\": the model has no such output; it has ", Names(ports)));
  }
  KILN_RETURN_IF_ERROR(CheckTensor("output", ports[it->second], view));
  if (!UsableAsIs(view))
    return Invalid("output \"", output,
                   "\": the memory is not dense and aligned; bind a dense tensor");
  if (const std::string constant = model->provider->ConstantIn(RangeOf(view)); !constant.empty()) {
    return Invalid("output \"", output, "\": the memory overlaps that of constant \"", constant,
                   "\", which the model reads at every run; bind memory of its own");
  }
  std::optional<Tensor>& bound = bound_outputs[it->second];
  moved = moved || !bound || !SameMemory(*bound, view);
  bound = std::move(view);
  return absl::OkStatus();
}

bool Context::State::Holds(const CachedPlan& cached) const {
  for (size_t i = 0; i < bound_inputs.size(); ++i) {
    if (bound_inputs[i].has_value() != cached.shapes[i].has_value()) return false;
    if (bound_inputs[i] && bound_inputs[i]->shape() != *cached.shapes[i]) return false;
  }
  for (const CachedPlan::Value& value : cached.values) {
    // A value guard of an input that is not dense is left to the provider.
    const std::optional<Tensor>& bound = bound_inputs[value.input];
    if (!bound || !bound->is_dense() ||
        static_cast<size_t>(bound->size_bytes()) != value.bytes.size() ||
        std::memcmp(bound->data(), value.bytes.data(), value.bytes.size()) != 0) {
      return false;
    }
  }
  return true;
}

absl::StatusOr<std::vector<InputInfo>> Context::State::Info() const {
  const std::vector<PortInfo>& ports = model->provider->inputs();
  std::vector<InputInfo> info;
  for (size_t i = 0; i < ports.size(); ++i) {
    const std::optional<Tensor>& bound = bound_inputs[i];
    if (!bound && !ports[i].optional) {
      return Invalid("input \"", ports[i].name, "\": not bound; give it a tensor of shape ",
                     ToString(ports[i].shape));
    }
    // Providers read values: they get them dense.
    const Tensor tensor = bound ? (UsableAsIs(*bound) ? *bound : bound->Clone()) : Tensor();
    info.push_back({ports[i].name, bound.has_value(), tensor});
  }
  return info;
}

absl::StatusOr<Context::State::CachedPlan> Context::State::MakePlan() {
  KILN_ASSIGN_OR_RETURN(const std::vector<InputInfo> info, Info());
  KILN_ASSIGN_OR_RETURN(const std::shared_ptr<const Variant> variant, model->provider->Get(info));
  absl::StatusOr<CachedPlan> made = MakePlanOf(variant, info);
  return made.ok() ? std::move(made) : MakePlanInstead(variant, info, made.status());
}

absl::StatusOr<Context::State::CachedPlan> Context::State::MakePlanInstead(
    std::shared_ptr<const Variant> variant, const std::vector<InputInfo>& info, absl::Status why) {
  for (;;) {
    auto other = model->provider->Instead(variant, info);
    if (absl::IsNotFound(other.status())) return why;
    KILN_RETURN_IF_ERROR(other.status());
    variant = *std::move(other);
    absl::StatusOr<CachedPlan> made = MakePlanOf(variant, info);
    if (made.ok()) return made;
    why = made.status();
  }
}

absl::StatusOr<Context::State::CachedPlan> Context::State::MakePlanOf(
    const std::shared_ptr<const Variant>& variant, const std::vector<InputInfo>& info) {
  CachedPlan cached;
  for (const InputInfo& input : info) {
    cached.shapes.push_back(input.present ? std::optional(input.tensor.shape()) : std::nullopt);
  }
  for (const Guard& guard : variant->guards) {
    if (guard.kind != Guard::Kind::kValue) continue;
    const auto it = model->input_index.find(guard.input);
    if (it != model->input_index.end()) cached.values.push_back({it->second, guard.bytes});
  }
  // Elements that are symbols count as extents do.
  for (int i = 0; i < variant->program.inputs_size(); ++i) {
    if (variant->program.inputs(i).elements_size() == 0 || !info[static_cast<size_t>(i)].present)
      continue;
    const Tensor& tensor = info[static_cast<size_t>(i)].tensor;
    cached.values.push_back(
        {static_cast<size_t>(i), std::string(static_cast<const char*>(tensor.data()),
                                             static_cast<size_t>(tensor.size_bytes()))});
  }
  if (variant->script != nullptr) return MakeScript(variant, info, std::move(cached));
  KILN_ASSIGN_OR_RETURN(const std::shared_ptr<const CheckedProgram> program,
                        model->Checked(variant));
  if (program->outputs.size() != outputs.size()) {
    return Invalid("program: ", program->outputs.size(), " outputs; the model has ",
                   outputs.size());
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const PortInfo& port = model->provider->outputs()[i];
    if (program->outputs[i].type != port.type) {
      return Invalid("program: output ", i, " is ", Name(program->outputs[i].type),
                     "; the model's is ", Name(port.type));
    }
  }
  KILN_ASSIGN_OR_RETURN(const SymbolValues symbols, BindSymbols(program->inputs, info));
  std::vector<bool> present;
  for (const InputInfo& input : info) present.push_back(input.present);
  {
    const Admission admission(model->pool,
                              Admission::Share::kExclusive);  // weights are packed in regions
    KILN_ASSIGN_OR_RETURN(cached.plan, ExecutionPlan::Create(program, symbols, present,
                                                             model->session, model->choosing));
  }
  KILN_RETURN_IF_ERROR(arena.Reserve(cached.plan->arena_bytes()));
  if (model->on_plan) {
    const std::vector<PortInfo>& ports = model->provider->inputs();
    std::string text;
    for (size_t i = 0; i < ports.size(); ++i) {
      if (bound_inputs[i])
        absl::StrAppend(&text, "input \"", ports[i].name, "\" ", Text(bound_inputs[i]->shape()),
                        "\n");
    }
    model->on_plan({text + cached.plan->ToString(), cached.plan->LibraryCalls()});
  }
  return cached;
}

absl::StatusOr<Context::State::CachedPlan> Context::State::MakeScript(
    const std::shared_ptr<const Variant>& variant, const std::vector<InputInfo>& info,
    CachedPlan cached) {
  std::vector<CheckedPort> ports;
  for (const program::Port& port : variant->program.inputs()) {
    CheckedPort& made = ports.emplace_back();
    made.name = port.name();
    made.type = static_cast<DType>(port.dtype());
    for (const std::string& dim : port.shape()) {
      KILN_ASSIGN_OR_RETURN(made.shape.emplace_back(), Dim::Parse(dim));
    }
    for (const std::string& element : port.elements()) {
      KILN_ASSIGN_OR_RETURN(made.elements.emplace_back(), Dim::Parse(element));
    }
  }
  KILN_ASSIGN_OR_RETURN(cached.symbols, BindSymbols(ports, info));
  std::unique_ptr<ScriptRun>& run = scripts[variant->script];
  if (run == nullptr) run = std::make_unique<ScriptRun>(variant->script, *model);
  cached.script = run.get();
  return cached;
}

absl::StatusOr<Context::State::CachedPlan*> Context::State::FindPlan() {
  ++runs;
  for (CachedPlan& cached : plans) {
    if (!Holds(cached)) continue;
    cached.last_used = runs;
    return &cached;
  }
  placed = nullptr;  // a new plan may have the address of an old one
  KILN_ASSIGN_OR_RETURN(CachedPlan made, MakePlan());
  made.last_used = runs;
  if (plans.size() < kMaxPlans) {
    plans.push_back(std::move(made));
    return &plans.back();
  }
  const auto by_use = [](const CachedPlan& a, const CachedPlan& b) {
    return a.last_used < b.last_used;
  };
  CachedPlan& oldest = *std::min_element(plans.begin(), plans.end(), by_use);
  oldest = std::move(made);
  return &oldest;
}

// What an input is read from: the caller's memory, unless an output is written there too early.
bool Context::State::NeedsCopy(size_t i, const ExecutionPlan& plan) {
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

absl::Status Context::State::SetInputs(ExecutionPlan& plan) {
  donated.assign(outputs.size(), false);
  shared = false;
  copied.clear();
  for (size_t i = 0; i < bound_inputs.size(); ++i) {
    if (!bound_inputs[i]) continue;
    const Tensor& tensor = *bound_inputs[i];
    if (UsableAsIs(tensor) && !NeedsCopy(i, plan)) {
      plan.SetInput(i, tensor.data());
      continue;
    }
    KILN_RETURN_IF_ERROR(input_copies[i].Reserve(tensor.size_bytes()));
    plan.SetInput(i, input_copies[i].data());
    copied.push_back(i);
  }
  return absl::OkStatus();
}

void Context::State::CopyInputs() {
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

absl::Status Context::State::CheckBoundOutputs() {
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

absl::Status Context::State::CheckBoundShape(size_t i, const std::vector<int64_t>& shape) const {
  if (!bound_outputs[i] || bound_outputs[i]->shape() == shape) return absl::OkStatus();
  return Invalid("output \"", model->provider->outputs()[i].name, "\": the bound memory is ",
                 Text(bound_outputs[i]->shape()), ", the result ", Text(shape),
                 "; bind memory of that shape");
}

// Memory of the context's own that is not bound now: an output of an earlier run may have become an
// input, or another output.
absl::StatusOr<const Tensor*> Context::State::OwnOutput(size_t i,
                                                        const std::vector<int64_t>& shape) {
  std::vector<Tensor>& owned = owned_outputs[i];
  std::erase_if(owned, [&](const Tensor& tensor) { return tensor.shape() != shape; });
  for (const Tensor& tensor : owned) {
    if (!taken.Overlaps(RangeOf(tensor))) return &tensor;
  }
  const DType type = model->provider->outputs()[i].type;
  Memory memory;
  KILN_RETURN_IF_ERROR(memory.Reserve(CheckedBytes(type, shape)));
  auto owner = std::make_shared<Memory>(std::move(memory));
  owned.push_back(Tensor::View(owner->data(), type, shape, {}, owner));
  return &owned.back();
}

void Context::State::FindTaken() {
  taken.Clear();
  for (const auto* ports : {&bound_inputs, &bound_outputs}) {
    for (const std::optional<Tensor>& bound : *ports) {
      if (bound) taken.Add(RangeOf(*bound), 0);
    }
  }
  taken.SortJoined();
}

absl::Status Context::State::SetOutputs(ExecutionPlan& plan) {
  for (size_t i = 0; i < outputs.size(); ++i)
    KILN_RETURN_IF_ERROR(CheckBoundShape(i, plan.output_shapes()[i]));
  KILN_RETURN_IF_ERROR(CheckBoundOutputs());
  // Only memory of the context's own has to keep clear of what is bound.
  if (std::find(bound_outputs.begin(), bound_outputs.end(), std::nullopt) != bound_outputs.end())
    FindTaken();
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (bound_outputs[i]) {
      outputs[i] = *bound_outputs[i];
    } else {
      KILN_ASSIGN_OR_RETURN(const Tensor* own, OwnOutput(i, plan.output_shapes()[i]));
      outputs[i] = *own;  // into memory that its shape has already
    }
    plan.SetOutput(i, outputs[i].data());
  }
  return absl::OkStatus();
}

absl::Status Context::State::RunPlan(std::vector<double>* ms) {
  const Admission admission(model->pool, current->share());
  launcher.set_limit(admission.exclusive() ? model->pool.threads() : 1);
  KILN_RETURN_IF_ERROR(arena.Reserve(current->arena_bytes()));
  current->SetArena(arena.data());
  // What fails, fails before anything is written.
  if (moved || placed != current) {
    placed = nullptr;
    KILN_RETURN_IF_ERROR(SetOutputs(*current));
    KILN_RETURN_IF_ERROR(SetInputs(*current));
    if (shared) KILN_RETURN_IF_ERROR(current->VerifyPorts());
    placed = current;
    moved = false;
  }
  CopyInputs();
  KILN_RETURN_IF_ERROR(current->Run(launcher, ms));
  report = current->report();
  return absl::OkStatus();
}

absl::Status Context::State::RunPlanOrInstead(CachedPlan& plan, std::vector<double>* ms) {
  const absl::Status status = RunPlan(ms);
  // Where an output lies over an input, there may be nothing left to run again.
  if (status.ok() || (placed == current && shared)) return status;
  KILN_ASSIGN_OR_RETURN(const std::vector<InputInfo> info, Info());
  const auto variant = current->program().variant;
  KILN_ASSIGN_OR_RETURN(CachedPlan made, MakePlanInstead(variant, info, status));
  made.last_used = runs;
  plan = std::move(made);
  placed = nullptr;
  current = plan.plan.get();
  if (ms != nullptr) ms->clear();
  return current != nullptr ? RunPlan(ms) : RunScript(plan, nullptr);
}

absl::Status Context::State::RunScript(const CachedPlan& cached, std::vector<ThunkTime>* times) {
  placed = nullptr;
  KILN_RETURN_IF_ERROR(CheckBoundOutputs());
  std::vector<Tensor> inputs;
  for (const std::optional<Tensor>& bound : bound_inputs)
    inputs.push_back(!bound ? Tensor() : UsableAsIs(*bound) ? *bound : bound->Clone());
  KILN_ASSIGN_OR_RETURN(std::vector<Tensor> results,
                        cached.script->Run(inputs, cached.symbols, times));
  for (size_t i = 0; i < outputs.size(); ++i)
    KILN_RETURN_IF_ERROR(CheckBoundShape(i, results[i].shape()));
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
    outputs[i] = bound_outputs[i] ? *bound_outputs[i] : result;
    if (bound_outputs[i] && result.size_bytes() > 0)
      std::memcpy(outputs[i].data(), result.data(), static_cast<size_t>(result.size_bytes()));
  }
  report = cached.script->report();
  return absl::OkStatus();
}

absl::Status Context::State::Run(std::vector<ThunkTime>* times) {
  const DefaultFloatMode float_mode;
  model->provider->ResumeAfterFork();
  has_run = false;  // what an output holds after a run that failed is nobody's
  KILN_ASSIGN_OR_RETURN(CachedPlan* const plan, FindPlan());
  current = plan->plan.get();
  if (current == nullptr) {
    KILN_RETURN_IF_ERROR(RunScript(*plan, times));
  } else if (times == nullptr) {
    KILN_RETURN_IF_ERROR(RunPlanOrInstead(*plan, nullptr));
  } else {
    std::vector<double> ms;
    KILN_RETURN_IF_ERROR(RunPlan(&ms));
    if (current == nullptr)
      return absl::InternalError("a script ran in place of a plan; run again");
    for (const PlanStep& step : current->steps()) {
      static constexpr const char* kKinds[] = {"kernel", "library", "copy", "host"};
      times->push_back({kKinds[step.launch.index()], current->program().thunks[step.thunk].name,
                        ms[times->size()], step.bytes, current->IsVm(step)});
    }
  }
  has_run = true;
  return absl::OkStatus();
}

std::vector<Tensor> Context::State::TakeOutputs() {
  std::vector<Tensor> taken = outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i] = Tensor();
    owned_outputs[i].clear();
  }
  moved = true;
  has_run = false;
  return taken;
}

void Context::State::Unbind() {
  for (std::optional<Tensor>& input : bound_inputs) input.reset();
  for (std::optional<Tensor>& output : bound_outputs) output.reset();
  moved = true;
}

Context::Context(std::unique_ptr<State> state) : state_(std::move(state)) {}
Context::Context(Context&&) noexcept = default;
// The state before holds the model that its launcher's pool belongs to: it goes as one.
Context& Context::operator=(Context&&) noexcept = default;
Context::~Context() = default;

absl::Status Context::Bind(absl::string_view input, Tensor view) {
  if (state_ == nullptr) return Empty();
  return CatchExceptions("input", [&] { return state_->Bind(input, std::move(view)); });
}
absl::Status Context::BindOutput(absl::string_view output, Tensor view) {
  if (state_ == nullptr) return Empty();
  return CatchExceptions("output", [&] { return state_->BindOutput(output, std::move(view)); });
}
absl::Status Context::Run() {
  if (state_ == nullptr) return Empty();
  return CatchExceptions(kRunning, [&] { return state_->Run(nullptr); });
}

absl::StatusOr<Tensor> Context::Output(absl::string_view name) const {
  if (state_ == nullptr) return Empty();
  return CatchExceptions("output", [&]() -> absl::StatusOr<Tensor> {
    const auto it = state_->model->output_index.find(name);
    if (it == state_->model->output_index.end()) {
      return absl::NotFoundError(absl::StrCat("output \"", name,
                                              "\": the model has no such output; it has ",
                                              Names(state_->model->provider->outputs())));
    }
    if (state_->has_run) return state_->outputs[it->second];
    return absl::FailedPreconditionError(absl::StrCat("output \"", name, "\": nothing has run",
                                                      state_->runs > 0 ? " well" : "",
                                                      "; call Run first"));
  });
}

const PlanReport& Context::report() const {
  static const PlanReport kNothing;
  return state_ != nullptr ? state_->report : kNothing;
}

absl::StatusOr<std::vector<ThunkTime>> Context::Profile() {
  if (state_ == nullptr) return Empty();
  return CatchExceptions(kRunning, [&]() -> absl::StatusOr<std::vector<ThunkTime>> {
    std::vector<ThunkTime> times;
    KILN_RETURN_IF_ERROR(state_->Run(&times));
    return times;
  });
}

}  // namespace kiln
