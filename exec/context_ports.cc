// SPDX-License-Identifier: Apache-2.0
// What a context knows of its ports: what is bound to them, wanted of them, and kept for them.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/checked.h"
#include "base/dlpack.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "exec/model_state.h"
#include "exec/script.h"
#include "exec/symbols.h"
#include "kiln/model.h"

namespace kiln {
namespace {

absl::Status NoHandle(absl::string_view what, size_t handle, const std::vector<PortInfo>& ports) {
  return Invalid(what, " ", handle, ": the model has ", ports.size(), "; handles begin with 0");
}

// Whether a tensor on a GPU lies on this device; null: the model has none.
absl::Status CheckPlace(const Tensor& tensor, ComputeDevice* device) {
  if (device == nullptr) return Invalid("the tensor is on a GPU; copy it to the CPU");
  if (tensor.device().kind != device->target().device ||
      tensor.device().index != device->ordinal()) {
    return Invalid("the tensor is on device ", tensor.device().index, " of ",
                   Name(tensor.device().kind), ", the model runs on \"", device->name(),
                   "\"; copy it there");
  }
  if (!UsableAsIs(tensor)) return Invalid("a tensor on a GPU that is not dense and aligned");
  return device->CheckMemory(tensor.data(), tensor.size_bytes());
}

// What can be said of a tensor before the program for its shape is known. `device`: where else than
// on the host it may lie.
absl::Status CheckTensor(absl::string_view what, const PortInfo& port, const Tensor& tensor,
                         ComputeDevice* device) {
  const auto subject = [&] { return absl::StrCat(what, " \"", port.name, "\""); };
  if (tensor.dtype() != port.type) {
    return Invalid(subject(), ": type is ", Name(tensor.dtype()), ", expected ", Name(port.type),
                   "; convert the tensor");
  }
  if ((!port.any_rank && tensor.shape().size() != port.shape.size()) ||
      tensor.strides().size() != tensor.shape().size()) {
    return Invalid(subject(), ": shape is ", ToString(ToShape(tensor.shape())), ", expected ",
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
    return Invalid(subject(), ": shape ", ToString(ToShape(tensor.shape())),
                   " has more than 64 bits of bytes");
  if (tensor.data() == nullptr && bytes > 0)
    return Invalid(subject(), ": no memory; give a tensor with data");
  if (tensor.device() == Device()) return absl::OkStatus();
  const absl::Status place = CheckPlace(tensor, device);
  return place.ok() ? place : Annotate(place, subject());
}

}  // namespace

Context::Impl::Impl(Model::State* m)
    : model(m),
      launcher(&m->pool),
      states(m->states, m->provider->inputs(), m->runtime, m->counts),
      arena(m->runtime, {m->counts, &m->counts->arenas}),
      device_bytes({m->counts, &m->counts->device}) {
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
  const std::vector<PortInfo>& ports = model->own_inputs;
  if (input >= ports.size()) return NoHandle("input", input, ports);
  if (states.HasInput(input)) {
    return Invalid("input \"", ports[input].name,
                   "\": it is a state of the context; call SetState");
  }
  KILN_RETURN_IF_ERROR(CheckTensor("input", ports[input], view, device()));
  std::optional<Tensor>& bound = bound_inputs[input];
  moved = moved || !bound || !SameMemory(*bound, view);
  bound = std::move(view);
  std::erase_if(parts, [&](const InputParts& one) { return one.input() == input; });
  return absl::OkStatus();
}

absl::Status Context::Impl::BindParts(size_t input, const std::vector<Tensor>& tensors) {
  const PortInfo& port = model->own_inputs[input];
  KILN_ASSIGN_OR_RETURN(InputParts made, InputParts::Of(port, input, tensors));
  parts.reserve(parts.size() + 1);
  Tensor whole = Tensor::View(nullptr, port.type, made.shape());
  char nothing = 0;  // in place of memory that is there when a run begins
  KILN_RETURN_IF_ERROR(Bind(input, Tensor::View(&nothing, port.type, made.shape())));
  bound_inputs[input] = std::move(whole);  // from here on nothing throws
  parts.push_back(std::move(made));
  moved = true;
  return absl::OkStatus();
}

absl::Status Context::Impl::BindOutput(size_t output, Tensor view) {
  const std::vector<PortInfo>& ports = model->provider->outputs();
  if (output >= ports.size()) return NoHandle("output", output, ports);
  const PortInfo& port = ports[output];
  if (states.HasOutput(output)) {
    return Invalid("output \"", port.name,
                   "\": it is a state of the context; call State after the run");
  }
  KILN_RETURN_IF_ERROR(CheckTensor("output", port, view, device()));
  if (!UsableAsIs(view))
    return Invalid("output \"", port.name,
                   "\": the memory is not dense and aligned; bind a dense tensor");
  if (IsReadOnly(view)) {
    return Invalid("output \"", port.name,
                   "\": the memory is read-only, as its DLPack producer says; bind other memory");
  }
  if (const std::string constant = model->provider->ConstantIn(RangeOf(view)); !constant.empty()) {
    return Invalid("output \"", port.name, "\": the memory overlaps that of constant \"", constant,
                   "\", which the model reads at every run; bind memory of its own");
  }
  std::optional<Tensor>& bound = bound_outputs[output];
  moved = moved || !bound || !SameMemory(*bound, view);
  bound = std::move(view);
  return absl::OkStatus();
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

absl::StatusOr<Tensor> Context::Impl::Output(size_t output) {
  const std::vector<PortInfo>& ports = model->provider->outputs();
  if (output >= ports.size()) return NoHandle("output", output, ports);
  const std::string& name = ports[output].name;
  if (has_run && !wanted[output]) {
    return absl::FailedPreconditionError(absl::StrCat(
        "output \"", name, "\": it was not computed; name it among those of SetOutputs"));
  }
  if (has_run && states.on_device()) {
    if (const std::optional<size_t> input = states.InputOf(output)) return State(*input, name);
  }
  if (has_run) return outputs[output];
  return absl::FailedPreconditionError(absl::StrCat("output \"", name, "\": nothing has run",
                                                    runs > 0 ? " well" : "", "; call Run first"));
}

absl::Status Context::Impl::SetState(size_t input, const Tensor& value) {
  const PortInfo& port = model->provider->inputs()[input];
  KILN_RETURN_IF_ERROR(CheckTensor("state", port, value, nullptr));
  KILN_ASSIGN_OR_RETURN(DeviceQueue* const used, QueueOfStates());
  return states.Set(input, port.name, value, used);
}

absl::StatusOr<Tensor> Context::Impl::State(size_t input, absl::string_view name) {
  KILN_ASSIGN_OR_RETURN(DeviceQueue* const used, QueueOfStates());
  return states.Get(input, name, used);
}

absl::Status Context::Impl::ResetStates() {
  KILN_ASSIGN_OR_RETURN(DeviceQueue* const used, QueueOfStates());
  return states.Reset(used);
}

absl::StatusOr<DeviceQueue*> Context::Impl::QueueOfStates() {
  if (!states.on_device()) return nullptr;
  KILN_RETURN_IF_ERROR(NeedQueue());
  return queue.get();
}

std::vector<Tensor> Context::Impl::TakeOutputs() {
  std::vector<Tensor> taken = outputs;
  for (const StatePorts& state : model->states) {
    Tensor& output = taken[state.output];
    const absl::StatusOr<Tensor> host =
        output.device() == Device() ? output : State(state.input, "");
    output = host.ok() ? host->Clone() : Tensor();
  }
  for (std::vector<Tensor>& owned : owned_outputs) owned.clear();
  DropOutputs();
  return taken;
}

void Context::Impl::DropOutputs() {
  for (Tensor& output : outputs) output = Tensor();
  moved = true;
  has_run = false;
}

void Context::Impl::Unbind() {
  for (std::optional<Tensor>& input : bound_inputs) input.reset();
  for (std::optional<Tensor>& output : bound_outputs) output.reset();
  parts.clear();
  updated = nullptr;
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
  DropOutputs();
  bounds.clear();
  queue = nullptr;  // with its memory on the device
  device_bytes.Set(0);
  scripts.clear();
  current = nullptr;
  placed = nullptr;
}

}  // namespace kiln
