// SPDX-License-Identifier: Apache-2.0
#include "exec/state_buffers.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "exec/binding.h"
#include "exec/strided_copy.h"

namespace kiln {
namespace {

template <typename Named>
std::string Names(const std::vector<Named>& all) {
  return absl::StrJoin(all, ", ", [](std::string* out, const Named& one) {
    absl::StrAppend(out, "\"", one.name, "\"");
  });
}

absl::StatusOr<size_t> PlaceOf(const std::string& name, const std::vector<PortInfo>& ports,
                               absl::string_view what) {
  const auto it = std::find_if(ports.begin(), ports.end(),
                               [&](const PortInfo& port) { return port.name == name; });
  if (it != ports.end()) return static_cast<size_t>(it - ports.begin());
  return absl::NotFoundError(
      absl::StrCat("state: the model has no ", what, " \"", name, "\"; it has ", Names(ports)));
}

// The bytes that a state of this size gets.
int64_t Capacity(int64_t bytes) {
  constexpr int64_t kLargestPower = int64_t{1} << 62;  // correctness: the next one is no int64_t
  if (bytes > kLargestPower) return bytes;
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(bytes, 1))));
}

}  // namespace

absl::StatusOr<std::vector<StatePorts>> FindStatePorts(const std::vector<StateBuffer>& states,
                                                       const std::vector<PortInfo>& inputs,
                                                       const std::vector<PortInfo>& outputs) {
  std::vector<StatePorts> found;
  std::set<size_t> used_inputs, used_outputs;
  for (const StateBuffer& state : states) {
    StatePorts ports;
    KILN_ASSIGN_OR_RETURN(ports.input, PlaceOf(state.input, inputs, "input"));
    KILN_ASSIGN_OR_RETURN(ports.output, PlaceOf(state.output, outputs, "output"));
    const PortInfo &from = inputs[ports.input], &to = outputs[ports.output];
    if (from.type != to.type || (!to.any_rank && from.shape.size() != to.shape.size())) {
      return Invalid("state \"", state.input, "\": it is ", Name(from.type), " ",
                     ToString(from.shape), ", its output \"", state.output, "\" ", Name(to.type),
                     " ", ToString(to.shape), "; name an output of the same type and rank");
    }
    if (!used_inputs.insert(ports.input).second || !used_outputs.insert(ports.output).second)
      return Invalid("state \"", state.input, "\": a port belongs to one state only");
    found.push_back(ports);
  }
  return found;
}

StateBuffers::StateBuffers(const std::vector<StatePorts>& ports,
                           const std::vector<PortInfo>& inputs, std::shared_ptr<Runtime> runtime,
                           const std::shared_ptr<MemoryCounts>& counts)
    : runtime_(std::move(runtime)),
      count_(counts, &counts->states),
      device_bytes_({counts, &counts->device}) {
  for (const StatePorts& port : ports) {
    Slot& slot = slots_.emplace_back();
    slot.ports = port;
    slot.name = inputs[port.input].name;
    slot.type = inputs[port.input].type;
    slot.shape = Constant(inputs[port.input].shape);
    for (std::shared_ptr<Memory>& memory : slot.memory)
      memory = std::make_shared<Memory>(runtime_, count_);
  }
}

bool StateBuffers::HasInput(size_t input) const { return Find(input) != nullptr; }
bool StateBuffers::HasOutput(size_t output) const {
  return std::any_of(slots_.begin(), slots_.end(),
                     [&](const Slot& slot) { return slot.ports.output == output; });
}

const StateBuffers::Slot* StateBuffers::Find(size_t input) const {
  const auto it = std::find_if(slots_.begin(), slots_.end(),
                               [&](const Slot& slot) { return slot.ports.input == input; });
  return it == slots_.end() ? nullptr : &*it;
}

std::optional<size_t> StateBuffers::InputOf(size_t output) const {
  for (const Slot& slot : slots_)
    if (slot.ports.output == output) return slot.ports.input;
  return std::nullopt;
}

void StateBuffers::AddPlaces(PortPlaces& places) const {
  const auto add = [](std::vector<bool>& on_device, size_t port) {
    on_device.resize(std::max(on_device.size(), port + 1));
    on_device[port] = true;
  };
  for (const Slot& slot : slots_) {
    if (!on_device_) return;
    add(places.inputs, slot.ports.input);
    add(places.outputs, slot.ports.output);
  }
}

void StateBuffers::CountDeviceBytes() {
  int64_t bytes = 0;
  for (const Slot& slot : slots_)
    for (const DeviceBlock& block : slot.on_device) bytes += block.bytes;
  device_bytes_.Set(bytes);
}

absl::StatusOr<Tensor> StateBuffers::DeviceBufferFor(Slot& slot, int which,
                                                     const std::vector<int64_t>& shape) {
  ComputeDevice& device = runtime_->state().device->device();
  DeviceBlock& block = slot.on_device[static_cast<size_t>(which)];
  const int64_t bytes = CheckedBytes(slot.type, shape);
  if (bytes < 0) return Invalid("state \"", slot.name, "\": its shape has no size");
  if (block.memory == nullptr || block.bytes < bytes) {
    const int64_t capacity = Capacity(bytes);
    const std::vector<char> zeros(static_cast<size_t>(capacity));
    KILN_ASSIGN_OR_RETURN(block.memory, device.Upload(zeros.data(), capacity));
    block.bytes = capacity;
    CountDeviceBytes();
  }
  return Tensor::View(block.memory.get(), slot.type, shape, {}, block.memory,
                      Device{device.target().device, device.ordinal()});
}

absl::Status StateBuffers::Move(bool to_device, DeviceQueue& queue) {
  KILN_RETURN_IF_ERROR(queue.Begin(nullptr, /*alone=*/true));
  absl::Cleanup abandon = [&] { queue.Abandon(); };
  std::vector<std::optional<Tensor>> values;
  for (Slot& slot : slots_) {
    std::optional<Tensor>& made = values.emplace_back();
    if (!slot.value || slot.lost) continue;
    const auto bytes = static_cast<size_t>(slot.value->size_bytes());
    const std::vector<int64_t>& shape = slot.value->shape();
    if (to_device) {
      KILN_ASSIGN_OR_RETURN(made, DeviceBufferFor(slot, slot.at, shape));
      KILN_RETURN_IF_ERROR(queue.CopyIn(made->data(), slot.value->data(), bytes));
    } else {
      KILN_ASSIGN_OR_RETURN(made, BufferFor(slot, slot.at, shape));
      KILN_RETURN_IF_ERROR(queue.CopyOut(made->data(), slot.value->data(), bytes));
    }
  }
  std::move(abandon).Cancel();
  KILN_RETURN_IF_ERROR(queue.End());
  on_device_ = to_device;
  for (size_t k = 0; k < slots_.size(); ++k) {
    Slot& slot = slots_[k];
    slot.value = std::move(values[k]);
    slot.host.reset();
    slot.next = Tensor();
    if (!to_device) slot.on_device = {};
    if (!to_device) continue;
    for (std::shared_ptr<Memory>& memory : slot.memory)
      memory = std::make_shared<Memory>(runtime_, count_);
  }
  CountDeviceBytes();
  return absl::OkStatus();
}

absl::Status StateBuffers::MoveToDevice(DeviceQueue& queue) {
  return on_device_ ? absl::OkStatus() : Move(true, queue);
}
absl::Status StateBuffers::MoveToHost(DeviceQueue& queue) {
  return on_device_ ? Move(false, queue) : absl::OkStatus();
}

absl::StatusOr<Tensor> StateBuffers::BufferFor(Slot& slot, int which,
                                               const std::vector<int64_t>& shape) {
  std::shared_ptr<Memory>& memory = slot.memory[static_cast<size_t>(which)];
  const int64_t bytes = CheckedBytes(slot.type, shape);
  if (bytes < 0) return Invalid("state \"", slot.name, "\": its shape has no size");
  if (memory->size() < bytes) {
    auto larger = std::make_shared<Memory>(runtime_, count_);
    KILN_RETURN_IF_ERROR(larger->Reserve(Capacity(bytes)));
    memory = std::move(larger);
  }
  if (memory->data() == nullptr) KILN_RETURN_IF_ERROR(memory->Reserve(1));
  return Tensor::View(memory->data(), slot.type, shape, {}, memory);
}

absl::Status StateBuffers::Zero(Slot& slot, DeviceQueue* queue) {
  if (on_device_) {
    const Tensor zeros = Tensor::Allocate(slot.type, *slot.shape);
    if (zeros.size_bytes() > 0)
      std::memset(zeros.data(), 0, static_cast<size_t>(zeros.size_bytes()));
    return Set(slot.ports.input, slot.name, zeros, queue);
  }
  KILN_ASSIGN_OR_RETURN(Tensor zeros, BufferFor(slot, slot.at, *slot.shape));
  if (zeros.size_bytes() > 0) std::memset(zeros.data(), 0, static_cast<size_t>(zeros.size_bytes()));
  slot.value = std::move(zeros);
  return absl::OkStatus();
}

absl::Status StateBuffers::Begin(BoundTensors& inputs, DeviceQueue* queue) {
  moved_ = false;
  for (Slot& slot : slots_) {
    if (slot.lost) {
      return absl::FailedPreconditionError(
          absl::StrCat("state \"", slot.name,
                       "\": a run failed while it was written; call SetState or ResetStates"));
    }
    if (!slot.value && slot.shape) KILN_RETURN_IF_ERROR(Zero(slot, queue));
    slot.host.reset();
    if (!slot.value) {
      return absl::FailedPreconditionError(absl::StrCat(
          "state \"", slot.name, "\": its shape is not known before the first run; call SetState"));
    }
    std::optional<Tensor>& bound = inputs[slot.ports.input];
    if (bound && SameMemory(*bound, *slot.value)) continue;
    bound = slot.value;
    moved_ = true;
  }
  return absl::OkStatus();
}

absl::Status StateBuffers::Place(const ExecutionPlan* plan, BoundTensors& outputs) {
  for (Slot& slot : slots_) {
    std::optional<Tensor>& bound = outputs[slot.ports.output];
    if (plan == nullptr) {
      bound.reset();
      slot.in_place = false;
      continue;
    }
    const std::vector<int64_t>& shape = plan->output_shapes()[slot.ports.output];
    slot.in_place = shape == slot.value->shape() &&
                    (plan->ReadsEndBeforeWrites(slot.ports.input, slot.ports.output) ||
                     plan->WritesInPlace(slot.ports.input, slot.ports.output));
    if (slot.in_place) {
      slot.next = *slot.value;
    } else {
      KILN_ASSIGN_OR_RETURN(slot.next, on_device_ ? DeviceBufferFor(slot, 1 - slot.at, shape)
                                                  : BufferFor(slot, 1 - slot.at, shape));
    }
    if (bound && SameMemory(*bound, slot.next)) continue;
    bound = slot.next;
    moved_ = true;
  }
  return absl::OkStatus();
}

void StateBuffers::BeginWriting() {
  for (Slot& slot : slots_) slot.lost = slot.in_place;
}

void StateBuffers::End(const absl::Status& status, const std::vector<Tensor>& outputs) {
  for (Slot& slot : slots_) {
    if (!status.ok()) continue;
    slot.lost = false;
    const Tensor& output = outputs[slot.ports.output];
    if (output.data() == slot.next.data() && !slot.in_place) slot.at = 1 - slot.at;
    slot.value = output;
  }
}

absl::Status StateBuffers::NoState(absl::string_view name) const {
  return absl::NotFoundError(absl::StrCat(
      "state \"", name, "\": the input is none; ",
      slots_.empty() ? "the model has none" : absl::StrCat("states are ", Names(slots_)),
      "; name it in RunOptions::states"));
}

absl::StatusOr<Tensor> StateBuffers::Get(size_t input, absl::string_view name, DeviceQueue* queue) {
  auto* const slot = const_cast<Slot*>(Find(input));
  if (slot == nullptr) return NoState(name);
  if (!slot->value || slot->lost) {
    return absl::FailedPreconditionError(
        absl::StrCat("state \"", slot->name, "\": it has no value; call SetState or Run first"));
  }
  if (!on_device_) return *slot->value;
  if (slot->host) return *slot->host;
  Tensor copy = Tensor::Allocate(slot->type, slot->value->shape());
  KILN_RETURN_IF_ERROR(queue->Begin(nullptr, /*alone=*/true));
  absl::Cleanup abandon = [&] { queue->Abandon(); };
  KILN_RETURN_IF_ERROR(
      queue->CopyOut(copy.data(), slot->value->data(), static_cast<size_t>(copy.size_bytes())));
  std::move(abandon).Cancel();
  KILN_RETURN_IF_ERROR(queue->End());
  slot->host = copy;
  return copy;
}

absl::Status StateBuffers::Set(size_t input, absl::string_view name, const Tensor& value,
                               DeviceQueue* queue) {
  auto* const slot = const_cast<Slot*>(Find(input));
  if (slot == nullptr) return NoState(name);
  if (on_device_) {
    KILN_ASSIGN_OR_RETURN(Tensor there, DeviceBufferFor(*slot, slot->at, value.shape()));
    const Tensor dense = value.is_dense() ? value : value.Clone();
    KILN_RETURN_IF_ERROR(queue->Begin(nullptr, /*alone=*/true));
    absl::Cleanup abandon = [&] { queue->Abandon(); };
    // A part of it may be written over.
    slot->lost = slot->lost || (slot->value && slot->value->data() == there.data());
    KILN_RETURN_IF_ERROR(
        queue->CopyIn(there.data(), dense.data(), static_cast<size_t>(dense.size_bytes())));
    std::move(abandon).Cancel();
    KILN_RETURN_IF_ERROR(queue->End());
    slot->host.reset();
    slot->value = std::move(there);
    slot->lost = false;
    return absl::OkStatus();
  }
  KILN_ASSIGN_OR_RETURN(Tensor buffer, BufferFor(*slot, slot->at, value.shape()));
  if (value.num_elements() > 0) {
    const Tensor kept = Overlap(value, buffer) ? value.Clone() : value;  // a view of this state
    StridedCopy(kept.shape(), kept.strides(), DenseStrides(kept.shape()), SizeOf(kept.dtype()))
        .Run(kept.data(), buffer.data());
  }
  slot->value = std::move(buffer);
  slot->lost = false;
  return absl::OkStatus();
}

absl::Status StateBuffers::Reset(DeviceQueue* queue) {
  for (Slot& slot : slots_) {
    slot.lost = false;
    slot.value.reset();
    slot.host.reset();
    if (slot.shape) KILN_RETURN_IF_ERROR(Zero(slot, queue));
  }
  return absl::OkStatus();
}

}  // namespace kiln
