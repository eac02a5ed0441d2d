// SPDX-License-Identifier: Apache-2.0
// Where the memory of a run lies: arena, inputs and copies of them, outputs.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/checked.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "exec/model_state.h"
#include "exec/script.h"
#include "kiln/model.h"

namespace kiln {

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
    if (tensor.device() != Device()) return NeedsHost(model->provider->inputs()[i].name);
    shared = shared || written.Overlaps(RangeOf(tensor));
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
                 ToString(ToShape(bound_outputs[i]->shape())), ", the result ",
                 ToString(ToShape(shape)), "; bind memory of that shape");
}

// Memory of the context's own that is not bound now: an output of an earlier run may have become an
// input, or another output.
absl::StatusOr<const Tensor*> Context::Impl::OwnOutput(size_t i,
                                                       const std::vector<int64_t>& shape) {
  std::vector<Tensor>& owned = owned_outputs[i];
  if (model->options.output_memory == OutputMemory::kFresh) owned.clear();
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

absl::Status Context::Impl::AllocateTemporaries(BoundPlan& bound, std::vector<Memory>& blocks) {
  std::vector<void*> places;
  for (const ArenaRange& range : bound.plan().arena_ranges()) {
    Memory& block = blocks.emplace_back(model->runtime, std::shared_ptr<std::atomic<int64_t>>(
                                                            model->counts, &model->counts->arenas));
    KILN_RETURN_IF_ERROR(block.ReserveExactly(range.bytes));
    places.push_back(block.data());
  }
  bound.SetTemporaries(places);
  return absl::OkStatus();
}

absl::Status Context::Impl::CheckAllBound() const {
  if (model->options.output_memory != OutputMemory::kBound) return absl::OkStatus();
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!wanted[i] || bound_outputs[i] || states.HasOutput(i)) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "output \"", model->provider->outputs()[i].name,
        "\": it is not bound, and the model has no memory for outputs (OutputMemory::kBound); bind "
        "memory, or leave it out of SetOutputs"));
  }
  return absl::OkStatus();
}

absl::Status Context::Impl::PlaceOnDevice(BoundPlan& bound) {
  if (!bound.plan().uses_device()) return absl::OkStatus();
  KILN_RETURN_IF_ERROR(NeedQueue());
  KILN_ASSIGN_OR_RETURN(void* const memory, queue->Arena(bound.plan().device_arena_bytes()));
  bound.SetDevice(queue.get(), memory);
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

}  // namespace kiln
