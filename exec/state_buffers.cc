// SPDX-License-Identifier: Apache-2.0
#include "exec/state_buffers.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <string>
#include <utility>

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
    : runtime_(std::move(runtime)), count_(counts, &counts->states) {
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

absl::Status StateBuffers::Zero(Slot& slot) {
  KILN_ASSIGN_OR_RETURN(Tensor zeros, BufferFor(slot, slot.at, *slot.shape));
  if (zeros.size_bytes() > 0) std::memset(zeros.data(), 0, static_cast<size_t>(zeros.size_bytes()));
  slot.value = std::move(zeros);
  return absl::OkStatus();
}

absl::Status StateBuffers::Begin(BoundTensors& inputs) {
  moved_ = false;
  for (Slot& slot : slots_) {
    if (slot.lost) {
      return absl::FailedPreconditionError(
          absl::StrCat("state \"", slot.name,
                       "\": a run failed while it was written; call SetState or ResetStates"));
    }
    if (!slot.value && slot.shape) KILN_RETURN_IF_ERROR(Zero(slot));
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
      KILN_ASSIGN_OR_RETURN(slot.next, BufferFor(slot, 1 - slot.at, shape));
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

absl::StatusOr<Tensor> StateBuffers::Get(size_t input, absl::string_view name) const {
  const Slot* const slot = Find(input);
  if (slot == nullptr) return NoState(name);
  if (slot->value && !slot->lost) return *slot->value;
  return absl::FailedPreconditionError(
      absl::StrCat("state \"", slot->name, "\": it has no value; call SetState or Run first"));
}

absl::Status StateBuffers::Set(size_t input, absl::string_view name, const Tensor& value) {
  auto* const slot = const_cast<Slot*>(Find(input));
  if (slot == nullptr) return NoState(name);
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

absl::Status StateBuffers::Reset() {
  for (Slot& slot : slots_) {
    slot.lost = false;
    slot.value.reset();
    if (slot.shape) KILN_RETURN_IF_ERROR(Zero(slot));
  }
  return absl::OkStatus();
}

}  // namespace kiln
